"""The DQN agent end to end: random draws, training, evaluation, and checkpoints."""

import itertools
import json
import threading

import numpy as np
import pytest

from correctness_tests import workload_agents
from correctness_tests.commands import python
from correctness_tests.draws import assert_as_often, assert_distributed, assert_each_for_itself
from correctness_tests.reference import in_float64
from perf_tests.claims.catalogue import claims_of
from perf_tests.selection import Selection, selected
from rl_impls import backends, params
from rl_impls.snake import _numpy
from rl_impls.snake.agent import Config, SnakeAgent, draw_chunk, play
from rl_impls.snake.env import DRAWS
from rl_impls.snake.memory import FIELDS

SMALL = workload_agents.SMALL["snake"]
TIMES = 300  # number of chunks sampled to estimate frequencies


def make(backend="torch", form="full", **config):
    return SnakeAgent(backend, form, seed=3, **{**SMALL, **config})


def same(got, wanted):
    assert got.keys() == wanted.keys()
    return all(np.array_equal(got[name], wanted[name]) for name in wanted)


def test_a_loaded_agent_has_the_online_weights_before_it_trains(tmp_path):
    agent = make(target_frequency=100)
    agent.learn()  # 56 steps beyond the last copy to the target network
    agent.save(tmp_path / "agent")
    loaded = SnakeAgent.load(tmp_path / "agent")
    assert same(loaded.params, agent.params)
    assert not same(loaded.params, {name: loaded.state()[f"target.{name}"] for name in loaded.params})


def test_loading_and_closing_end_the_thread_of_a_loop():
    before, agent = set(threading.enumerate()), make("torch", "threaded", num_envs=16)
    for end in (lambda: agent.load_state(agent.state()), agent.close):
        agent.learn()
        assert len(set(threading.enumerate()) - before) == 1
        end()
        assert set(threading.enumerate()) <= before


def test_the_warm_up_stores_random_play():
    num_envs, warm_up = 5, 202
    state = make(num_envs=num_envs, warm_up=warm_up, train_frequency=1, max_steps=12).state()
    count = -(-warm_up // num_envs) * num_envs
    obs, next_obs, rewards = (
        state[f"replay_buffer.{name}"].reshape(count // num_envs, num_envs, -1)
        for name in ("obs", "next_obs", "reward")
    )
    ended = state["replay_buffer.terminated"].reshape(-1, num_envs)
    goes_on = (next_obs[:-1] == obs[1:]).all(axis=2)
    assert not goes_on[ended[:-1] == 1].any()
    assert goes_on.mean() > 0.7
    assert (~goes_on & (ended[:-1] == 0)).any()  # truncated after 12 steps
    np.testing.assert_array_equal(rewards[:, :, 0] == -1, ended)
    np.testing.assert_array_equal((next_obs == obs).all(axis=2), ended)
    assert state["global_step"] == 0


def test_random_play_draws_independently_for_each_game_and_step():
    state = make(num_envs=64, warm_up=2048, capacity=2048).state()
    actions = state["replay_buffer.action"].reshape(-1, 64)
    assert_as_often(actions, 4)
    assert_each_for_itself(actions, 1 / 4)
    assert len(np.unique(state["replay_buffer.obs"][:64], axis=0)) > 24


def test_learn_counts_what_was_played():
    agent = make(num_envs=1)
    before = agent.state()
    seen = agent.learn()
    after = agent.state()
    assert agent.step == after["global_step"] == 256
    rewards, ended = after["replay_buffer.reward"][-256:], after["replay_buffer.terminated"][-256:]
    assert seen["foods"] == (rewards == 1).sum()
    assert seen["episodes"] >= ended.sum() > 0
    assert after["step"] - before["step"] == 64
    assert list(seen) == ["return", "length", "episodes", "foods", "loss", "epsilon"]
    assert seen["epsilon"] == pytest.approx(1 - 0.95 * 256 / 20_000)


def test_returns_and_lengths_are_those_of_whole_episodes_even_across_chunks():
    agent = make(num_envs=16, capacity=2048)
    figures, state = [agent.learn() for _ in range(3)], agent.state()
    played = (state[f"replay_buffer.{name}"].reshape(-1, 16) for name in ("reward", "terminated"))
    episodes = []  # that ended after the warm-up; none is truncated in so few steps
    for rewards, ended in zip(*(column.T for column in played)):
        ends = np.flatnonzero(ended) + 1
        whole = zip(np.split(rewards, ends), ends)
        episodes += [one for one, end in whole if end > SMALL["warm_up"] // 16]
    assert max(map(len, episodes)) > 16
    assert sum(seen["episodes"] for seen in figures) == len(episodes)
    for name, total in (("return", np.concatenate(episodes).sum(dtype=float)), ("length", sum(map(len, episodes)))):
        assert sum(seen[name] * seen["episodes"] for seen in figures) == pytest.approx(total)


def test_the_loss_is_that_of_an_update_not_their_sum():
    all_of = dict.fromkeys(("num_envs", "capacity", "warm_up", "batch_size"), 256)
    agent = make(**all_of, learning_rate=0.0, train_frequency=16)  # 16 updates, each on all that is stored
    seen, state = agent.learn(), agent.state()
    batch = [state[f"replay_buffer.{name}"] for name in FIELDS]
    wanted = _numpy.loss(*in_float64((agent.params, agent.params, batch)), agent.config.gamma)
    assert seen["loss"] == pytest.approx(wanted, rel=1e-5)


def drawn(step, **config):
    """Return TIMES samples of each random draw for the chunk at this step, [TIMES, ...]."""
    config, rng = Config(**SMALL | config), np.random.default_rng(3)
    return [np.array(column) for column in zip(*(draw_chunk(config, rng, step) for _ in range(TIMES)))]


@pytest.mark.parametrize("num_envs", [16, 512])
def test_exploration_falls_from_1_to_a_twentieth_over_20_000_steps(num_envs):
    for start in (0, 10_240, 20_480, 10**6):
        explore, *_ = drawn(start, num_envs=num_envs, train_frequency=16)
        assert explore.shape[1:] == (max(1, 256 // num_envs), num_envs)
        for t in (0, explore.shape[1] - 1):
            at, share = explore[:, t], max(0.05, 1 - 0.95 * (start + t * num_envs) / 20_000)
            assert abs(at.mean() - share) <= 5 * np.sqrt(share * (1 - share) / at.size)
            alike = share**2 + (1 - share) ** 2
            for axis in (0, 1):
                assert (at == np.roll(at, 1, axis)).mean() == pytest.approx(alike, abs=0.03)


@pytest.mark.parametrize(("num_envs", "train_frequency"), [(2, 16), (64, 16)])
@pytest.mark.parametrize("chunk", [0, 1])
def test_batches_are_drawn_without_replacement_from_all_stored_transitions(num_envs, train_frequency, chunk):
    step, counts = 256 * chunk, []
    *_, rows = drawn(step, num_envs=num_envs, train_frequency=train_frequency, capacity=300)
    stored = SMALL["warm_up"] + step
    for _ in range(256 // num_envs):
        due = [k for k in range(step + 1, step + num_envs + 1) if k % train_frequency == 0]
        stored, step = stored + num_envs, step + num_envs
        counts += [min(stored, 300)] * len(due)
    assert rows.shape == (TIMES, len(counts), 32)
    assert np.diff(np.sort(rows), axis=-1).min() > 0
    for k, count in enumerate(counts):
        assert_as_often(rows[:, k], count)


def test_actions_and_draws_are_independent_for_each_game_step_and_chunk():
    _, actions, draws, _ = drawn(0, num_envs=16, train_frequency=16)
    assert_as_often(actions, 4)
    assert_each_for_itself(actions, 1 / 4)
    assert_distributed(draws / DRAWS, "uniform")


def straight_up(sizes=(100, 16, 16, 4)):
    net = {}
    for k, shape in enumerate(itertools.pairwise(sizes)):
        net |= {f"w{k}": np.zeros(shape, np.float32), f"b{k}": np.zeros(shape[1], np.float32)}
    net["b2"][0] = 1
    return net


@pytest.mark.parametrize("backend", ["torch", "jax", "torch-cuda", "jax-cuda"])
def test_an_evaluation_plays_greedily_to_the_first_end_of_each_game(backend, needed):
    needed(backends.get(backend).require)
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


GPU = {False: lambda: "torch finds no CUDA device", True: lambda: None}


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("gpu", "fields", "wanted"),
    [
        (False, {}, ("torch", "full", 32)),
        (True, {}, ("torch-compile-cuda", "tf32", 64)),
        (True, {"form": "full", "batch_size": 32}, ("torch-compile-cuda", "full", 32)),
        (True, {"backend": "torch"}, ("torch", "full", 32)),
    ],
)
def test_a_gpu_changes_the_defaults_unless_the_backend_is_set(monkeypatch, gpu, fields, wanted):
    monkeypatch.setitem(backends.DEVICES, ("torch", "cuda"), GPU[gpu])
    for config in (SnakeAgent.configure(**fields), SnakeAgent(seed=0, **fields).config):
        assert (config.backend, config.form, config.batch_size) == wanted


def test_the_defaults_on_a_gpu_are_timed_by_a_plain_run_and_by_a_claim(monkeypatch):
    monkeypatch.setitem(backends.DEVICES, ("torch", "cuda"), GPU[True])
    config = SnakeAgent.configure()
    axes = {name: (str(getattr(config, name)),) for name in ("num_envs", "train_frequency", "batch_size")}
    (loop,) = selected(Selection(("snake",), ("collect_and_learn",), (config.form,), (config.backend,), axes))
    assert any(f"test_collect_and_learn[{loop.name}]" in claim.tests for claim in claims_of("snake"))


def test_a_checkpoint_of_a_gpu_loads_on_a_cpu(tmp_path):
    agent = make("torch")
    agent.save(tmp_path / "agent")
    arrays, metadata = params.load_with_metadata(tmp_path / "agent")
    config = {**json.loads(metadata["config"]), "backend": "torch-compile-cuda", "form": "tf32"}
    params.save(tmp_path / "gpu", arrays, **{**metadata, "config": json.dumps(config)})
    for backend in ("auto", "torch"):
        loaded = SnakeAgent.load(tmp_path / "gpu", backend=backend)
        assert (loaded.config.backend, loaded.config.form) == ("torch", "full")


def test_choosing_a_backend_leaves_torch_to_be_imported_with_the_right_threads():
    code = """
import sys
from rl_impls.snake.agent import SnakeAgent

print(SnakeAgent.configure().backend != "torch" or "torch" not in sys.modules)
"""
    assert python("-c", code).stdout == "True\n"
