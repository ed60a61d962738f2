"""The DQN as a whole: it draws, learns, evaluates, saves and loads."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from correctness_tests.draws import assert_as_often, assert_distributed, assert_each_for_itself
from correctness_tests.quick import quick
from correctness_tests.waiting import limit
from rl_impls import params
from rl_impls.params import CheckpointError
from rl_impls.snake.agent import Config, SnakeAgent, play
from rl_impls.snake.env import DRAWS

limited = limit("training or playing")

SMALL = {"hidden": 16, "batch": 32, "warm_up": 64, "capacity": 500, "target_every": 256}
TIMES = 300  # chunks that are drawn where shares are counted


def make(backend="torch", form="full", **config):
    return SnakeAgent(backend, form, seed=3, **{**SMALL, **config})


def same(got, wanted):
    assert got.keys() == wanted.keys()
    return all(np.array_equal(got[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize(
    ("backend", "form", "envs"),
    quick(
        [("torch", "threaded", 16)],
        [("torch", "vectorised", 16), ("torch", "threaded", 16), ("jax", "compiled", 1), ("jax", "compiled", 16)],
    ),
)
def test_a_loaded_agent_goes_on_bit_for_bit(tmp_path, backend, form, envs):
    agent = make(backend, form, envs=envs)
    for _ in range(2):
        agent.learn()
    agent.save(tmp_path / "agent")
    resumed = SnakeAgent.load(tmp_path / "agent")
    for _ in range(2):
        assert agent.learn() == resumed.learn()
    assert resumed.step == agent.step == 4 * agent.chunk
    assert same(resumed.loop.state(), agent.loop.state())
    for one in (agent, resumed):
        one.close()


@pytest.mark.parametrize(
    ("backend", "form"),
    quick(
        [("torch", "naive"), ("jax", "compiled")],
        [("torch-compile", "full"), ("torch", "naive"), ("jax", "full"), ("jax", "compiled")],
    ),
)
def test_a_checkpoint_loads_with_another_backend_and_form(tmp_path, backend, form):
    agent = make()
    agent.learn()
    agent.save(tmp_path / "agent")
    other = SnakeAgent.load(tmp_path / "agent", backend=backend, form=form)
    assert same(other.loop.state(), agent.loop.state())
    assert other.config == replace(agent.config, backend=backend, form=form)
    played, wanted = other.evaluate(5, seed=1), agent.evaluate(5, seed=1)
    assert same(played, wanted)


OPTIONS = {
    "learning_rate": 3e-4, "gamma": 0.5, "gradient_norm": 0.01, "capacity": 100, "target_every": 32, "max_steps": 5,
    "every": 8, "batch": 64, "envs": 2, "hidden": 8, "warm_up": 80,
}  # fmt: skip


@pytest.fixture(scope="module")
def trained():
    """Return an agent that has learned from one chunk."""
    agent = make()
    agent.learn()
    return agent


@pytest.mark.parametrize(("option", "value"), OPTIONS.items())
def test_every_option_changes_what_is_learned(trained, option, value):
    other = make(**{option: value})
    other.learn()
    got, wanted = other.params["w1"], trained.params["w1"]
    assert got.shape != wanted.shape or not np.allclose(got, wanted, atol=1e-6)


@pytest.mark.parametrize(("envs", "warm_up"), [(1, 200), (5, 202)])
def test_the_warm_up_stores_random_play(envs, warm_up):
    state = make(envs=envs, warm_up=warm_up, every=1, max_steps=12).loop.state()
    count = -(-warm_up // envs) * envs
    stored = {name: state[f"memory.{name}"].reshape(count // envs, envs, -1) for name in ("obs", "next_obs", "reward")}
    assert len(state["memory.obs"]) == count
    ended = state["memory.terminated"].reshape(-1, envs)
    goes_on = (stored["next_obs"][:-1] == stored["obs"][1:]).all(axis=2)
    assert not goes_on[ended[:-1] == 1].any()
    assert goes_on.mean() > 0.7
    assert (~goes_on & (ended[:-1] == 0)).any()  # truncated after 12 steps
    np.testing.assert_array_equal(stored["reward"][:, :, 0] == -1, ended)
    np.testing.assert_array_equal((stored["next_obs"] == stored["obs"]).all(axis=2), ended)
    assert state["loop.step"] == 0


def test_random_play_draws_for_each_game_and_step_anew():
    state = make(envs=64, warm_up=2048, capacity=2048).loop.state()
    moves = state["memory.action"].reshape(-1, 64)
    assert_as_often(moves, 4)
    assert_each_for_itself(moves, 1 / 4)
    assert len(np.unique(state["memory.obs"][:64], axis=0)) > 24


def test_learn_counts_what_was_played():
    agent = make(envs=1)
    before = agent.loop.state()
    seen = agent.learn()
    after = agent.loop.state()
    assert agent.step == after["loop.step"] == 256
    rewards, ended = after["memory.reward"][-256:], after["memory.terminated"][-256:]
    assert seen["foods"] == (rewards == 1).sum()
    assert seen["episodes"] >= ended.sum() > 0
    assert after["train.step"] - before["train.step"] == 64


class Recorded:
    """A loop that records its arguments and returns what it is given."""

    def __init__(self, **outcome):
        self.outcome, self.calls = outcome, []

    def __call__(self, explore, moves, draws, rows):
        self.calls.append((explore, moves, draws, rows))
        zeros = {"rewards": np.zeros(moves.shape, np.float32), "ended": np.zeros(moves.shape, bool)}
        return moves, *((zeros | self.outcome)[name] for name in zeros), self.outcome.get("losses", np.zeros(len(rows)))


def drawn(agent, step, times=TIMES):
    """Return everything that is drawn for the chunk at this step, drawn again and again, each [times, ...]."""
    agent.loop = loop = Recorded()
    for _ in range(times):
        agent.step = step
        agent.learn()
        assert agent.step == step + agent.chunk
    return [np.array(column) for column in zip(*loop.calls)]


@pytest.mark.parametrize("envs", [16, 512])
def test_exploration_falls_from_1_to_a_twentieth_over_20_000_steps(envs):
    agent = make(envs=envs, every=16)
    for start, share in ((0, 1.0), (10_240, 0.5136), (20_480, 0.05), (10**6, 0.05)):
        explore, *_ = drawn(agent, start)
        assert explore.shape[1:] == (max(1, 256 // envs), envs)
        first = explore[:, 0]
        assert abs(first.mean() - share) < 2.5 / np.sqrt(TIMES * envs)
        alike = share**2 + (1 - share) ** 2
        for axis in (0, 1):
            assert (first == np.roll(first, 1, axis)).mean() == pytest.approx(alike, abs=0.03)


@pytest.mark.parametrize(("envs", "every"), [(2, 16), (64, 16)])
@pytest.mark.parametrize("chunk", [0, 1])
def test_a_batch_is_drawn_without_replacement_from_all_that_is_stored_then(envs, every, chunk):
    agent = make(envs=envs, every=every, capacity=300)
    stored, step, counts = SMALL["warm_up"] + chunk * agent.chunk, chunk * agent.chunk, []
    *_, rows = drawn(agent, step)
    for _ in range(agent.chunk // envs):
        due = [k for k in range(step + 1, step + envs + 1) if k % every == 0]
        stored, step = stored + envs, step + envs
        counts += [min(stored, 300)] * len(due)
    assert rows.shape == (TIMES, len(counts), 32)
    assert np.diff(np.sort(rows), axis=-1).min() > 0
    for k, count in enumerate(counts):
        assert_as_often(rows[:, k], count)


def test_moves_and_draws_are_drawn_anew_for_each_game_step_and_chunk():
    _, moves, draws, _ = drawn(make(envs=16, every=16), 0)
    assert_as_often(moves, 4)
    assert_each_for_itself(moves, 1 / 4)
    assert_distributed(draws / DRAWS, "uniform")


def test_a_chunk_is_summed_up_in_foods_episodes_and_mean_loss():
    agent = make(envs=128)  # so that a chunk is two steps
    rewards, ended = np.full((2, 128), -0.01, np.float32), np.zeros((2, 128), bool)
    rewards[1, 0], ended[1, 0] = 1, True  # two steps, return 0.99
    rewards[0, 1], ended[0, 1] = -1, True  # one step, return -1
    agent.loop = Recorded(rewards=rewards, ended=ended, losses=np.arange(64.0))
    assert agent.learn() == {
        "return": pytest.approx(-0.005), "length": 1.5, "foods": 1, "episodes": 2, "loss": 31.5,
    }  # fmt: skip
    seen = agent.learn()  # the second game has played a step more, of reward -0.01
    assert (seen["length"], seen["return"]) == (2.0, pytest.approx((0.99 - 1.01) / 2))


def straight_up(sizes=(100, 16, 16, 4)):
    """Return weights of a net that always values the move up highest."""
    net = {}
    for k, shape in enumerate(itertools.pairwise(sizes)):
        net |= {f"w{k}": np.zeros(shape, np.float32), f"b{k}": np.zeros(shape[1], np.float32)}
    net["b2"][0] = 1
    return net


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_an_evaluation_plays_greedily_to_the_first_end_of_each_game(backend):
    seen = play(Config(backend, hidden=16), straight_up(), 200, seed=5)
    assert set(seen["lengths"]) == {4, 5, 6, 7}  # heads start in rows 3 to 6, and go straight up or down
    assert seen["foods"].sum() > 0
    wanted = seen["foods"] - 0.01 * (seen["lengths"] - seen["foods"] - 1) - 1
    np.testing.assert_allclose(seen["returns"], wanted, rtol=1e-6)


def test_an_evaluation_ends_where_games_are_truncated():
    seen = play(Config("torch", hidden=16, max_steps=3), straight_up(), 200, seed=5)
    assert set(seen["lengths"]) == {3}
    assert seen["foods"].sum() > 0
    np.testing.assert_allclose(seen["returns"], seen["foods"] - 0.01 * (3 - seen["foods"]), rtol=1e-6)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"form": "fastest"}, "unknown form 'fastest'; known: naive"),
        ({"every": 3}, "unknown value of option every '3'; known: 1, 4, 8, 16"),
        ({"envs": 6}, "envs: got 6 with an update every 4 steps"),
        ({"gamma": 1.5}, "gamma: got 1.5, wanted a number from 0 to 1"),
        ({"warm_up": 10}, "warm_up: got 10, wanted an integer from 32 to 500, the batch and the capacity"),
        ({"capacity": 10}, "capacity: got 10, wanted an integer from 32 to"),
        ({"form": "compiled"}, "loop: got 'scan' on torch, wanted jax"),
    ],
)
def test_an_impossible_configuration_is_refused(config, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        make(**config)


def damage_architecture(arrays, metadata):
    arrays["train.online.w1"] = np.zeros((16, 17), np.float32)


def damage_configuration(arrays, metadata):
    metadata["config"] = metadata["config"].replace('"hidden": 16', '"hidden": 32')


def damage_memory(arrays, metadata):
    del arrays["memory.action"]


@pytest.mark.parametrize("damage", [damage_architecture, damage_configuration, damage_memory])
def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path, damage):
    path = tmp_path / "agent"
    make().save(path)
    arrays, metadata = params.load_with_metadata(path)
    metadata.pop(params.DIGEST, None)
    damage(arrays, metadata)
    params.save(path, arrays, **metadata)
    with pytest.raises(CheckpointError, match="agent: "):
        SnakeAgent.load(path)
