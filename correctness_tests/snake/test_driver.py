"""What an agent does around its loop: random play, draws, sums and evaluation, against plain games."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from correctness_tests.draws import assert_as_often, assert_distributed, assert_each_for_itself
from correctness_tests.hearing import hear
from correctness_tests.snake.games import DRAWS, Prescribed
from rl_impls.snake import _numpy, agent
from rl_impls.snake.agent import SnakeAgent
from rl_impls.snake.memory import DTYPES
from rl_impls.snake.vector_env import PlainEnvs, VectorisedEnvs

SMALL = {"hidden": 16, "batch": 32, "warm_up": 64, "capacity": 300}
TIMES = 300  # that a chunk is drawn, where shares are counted


def silent(explore, moves, draws, rows):
    """A loop in which nothing happens."""
    return moves, np.zeros(moves.shape, np.float32), np.zeros(moves.shape, bool), np.zeros(len(rows), np.float32)


@pytest.fixture
def make(monkeypatch):
    """Return a function that makes an agent whose loop does nothing."""
    hear(monkeypatch, "collect_and_learn", silent)
    return lambda **config: SnakeAgent(seed=3, **{**SMALL, **config})


class Noted(VectorisedEnvs):
    """Games that note their start and what was done in them."""

    def __init__(self, *args):
        super().__init__(*args)
        self.steps = []

    def advance(self, actions, draws):
        if not self.steps:
            self.start = self.get_state()
        self.steps.append((actions, draws))
        return super().advance(actions, draws)

    def plainly(self):
        """The same games as plain ones, and each with the moves and draws of its steps."""
        plain = PlainEnvs(self.env.num_envs, self.env.geometry)
        plain.set_state(self.start)
        moves, draws = map(np.array, zip(*self.steps))
        return plain, zip(plain.envs, moves.T, draws.swapaxes(0, 1))


@pytest.fixture
def games(monkeypatch):
    """All games that are played from now on."""
    made = []
    monkeypatch.setattr(agent, "VectorisedEnvs", lambda *args: made.append(Noted(*args)) or made[-1])
    return made


def played(env, move, draw):
    """Step a plain game, which starts anew where it ends.  -> board, reward, board after it, terminated, truncated"""
    board, env.np_random = env.observation().ravel(), Prescribed(draw)
    after, reward, terminated, truncated, _ = env.step(move)
    if terminated or truncated:
        env.reset()
    return board, reward, after.ravel(), terminated, truncated


@pytest.mark.parametrize(("envs", "warm_up"), [(1, 200), (5, 202)])
def test_the_warm_up_stores_what_plain_games_show(make, games, envs, warm_up):
    made = make(envs=envs, warm_up=warm_up, every=1, max_steps=12)
    [noted] = games
    plain, by_game = noted.plainly()
    assert len(noted.steps) == -(-warm_up // envs)
    wanted, ends = [[] for _ in noted.steps], []
    for env, moves, draws in by_game:
        for row, move, draw in zip(wanted, moves, draws):
            board, reward, after, *end = played(env, move, draw)
            row.append((board, move, reward, after, end[0]))
            ends.append(end)
    columns = zip(*itertools.chain(*wanted))
    for got, column, dtype in zip(made.loop.spec["stored"], columns, DTYPES, strict=True):
        np.testing.assert_array_equal(got, np.array(column, dtype), strict=True)
    for name, value in plain.get_state().items():
        np.testing.assert_array_equal(made.loop.spec["env_state"][name], value)
    assert np.any(ends, axis=0).all()  # some terminated, some truncated


def test_random_play_draws_for_each_game_and_step_anew(make, games):
    make(envs=64, warm_up=2048, capacity=2048)
    [noted] = games
    moves, draws = map(np.array, zip(*noted.steps))
    assert_as_often(moves, 4)
    assert_each_for_itself(moves, 1 / 4)
    assert_distributed(draws / DRAWS, "uniform")
    assert len(np.unique(noted.start["lifetimes"], axis=0)) > 24


def test_a_loop_is_built_of_the_configuration(make):
    given = {"learning_rate": 3e-4, "gamma": 0.9, "gradient_norm": 2.0, "capacity": 400, "target_every": 96}
    made = make(**given, max_steps=77, envs=8, every=8, batch=64)
    loop = made.loop
    assert {name: loop.spec[name] for name in given} == given
    assert loop.spec["geometry"]["max_steps"] == 77
    assert (loop.knobs.every, loop.knobs.batch) == (8, 64)
    assert loop.spec["step"] == made.step == 0
    np.testing.assert_equal(loop.spec["target"], loop.spec["params"])
    assert [loop.spec["params"][f"w{k}"].shape for k in range(3)] == [(100, 16), (16, 16), (16, 4)]
    made.learn()
    [(drawn, _)] = loop.calls
    for array, example in zip(drawn, loop.example, strict=True):
        assert (array.shape, array.dtype) == (example.shape, example.dtype)


def drawn(made, step, times=TIMES):
    """Everything that is drawn for the chunk at this step, drawn again and again, each [times, ...]."""
    made.loop.calls.clear()
    for _ in range(times):
        made.step = step
        made.learn()
        assert made.step == step + made.chunk
    return [np.array(column) for column in zip(*(args for args, _ in made.loop.calls))]


@pytest.mark.parametrize("envs", [16, 512])
def test_epsilon_of_each_step_explore_and_each_for_itself(make, monkeypatch, envs):
    monkeypatch.setattr(agent, "EXPLORED", 1024)
    made = make(envs=envs, every=16)
    for chunk in (0, 1, 3, 9):
        start = chunk * made.chunk
        explore, *_ = drawn(made, start)
        assert explore.shape[1:] == (max(1, 256 // envs), envs)
        steps = start + envs * np.arange(explore.shape[1])
        wanted = np.maximum(0.05, 1 - 0.95 * steps / 1024)
        assert np.abs(explore.mean(axis=(0, 2)) - wanted).max() < 2.5 / np.sqrt(TIMES * envs)
        alike = np.mean(wanted**2 + (1 - wanted) ** 2)
        for axis in (0, 2):
            assert (explore == np.roll(explore, 1, axis)).mean() == pytest.approx(alike, abs=0.02)


@pytest.mark.parametrize(("envs", "every"), [(2, 16), (64, 16)])
@pytest.mark.parametrize("chunk", [0, 1])
def test_a_batch_is_drawn_from_all_that_is_stored_then_and_nothing_of_it_twice(make, envs, every, chunk):
    made = make(envs=envs, every=every)
    stored, step, counts = SMALL["warm_up"] + chunk * made.chunk, chunk * made.chunk, []
    *_, rows = drawn(made, step)
    for _ in range(made.chunk // envs):
        due = [k for k in range(step + 1, step + envs + 1) if k % every == 0]
        stored, step = stored + envs, step + envs
        counts += [min(stored, SMALL["capacity"])] * len(due)
    assert rows.shape == (TIMES, len(counts), 32)
    assert np.diff(np.sort(rows), axis=-1).min() > 0
    for k, count in enumerate(counts):
        assert_as_often(rows[:, k], count)


def test_a_batch_is_only_of_what_is_stored_where_the_warm_up_ends_within_a_step(make):
    made = make(envs=24, warm_up=70, every=8, capacity=400)
    assert len(made.loop.spec["stored"][0]) == 72
    *_, rows = drawn(made, 0, times=20)
    stored = 72 + 24 * np.repeat(np.arange(1, 11), 3)
    assert (rows.max(axis=(0, 2)) < stored).all()
    assert (rows.max(axis=(0, 2)) > stored - 10).all()


def test_moves_and_draws_are_drawn_anew_for_each_game_step_and_chunk(make):
    made = make(envs=16, every=16)
    _, moves, draws, _ = drawn(made, 0)
    assert_as_often(moves, 4)
    assert_each_for_itself(moves, 1 / 4)
    assert_distributed(draws / DRAWS, "uniform")


def by_episode(rewards, ended):
    """The rewards of each episode that ended, a list of lists."""
    found = []
    for column, ends in zip(rewards.T, ended.T):
        rest = []
        for reward, end in zip(column, ends):
            rest.append(reward)
            if end:
                found.append(rest)
                rest = []
    return found


def test_a_chunk_is_summed_up_in_foods_episodes_and_mean_loss(make):
    made, rng = make(envs=16), np.random.default_rng(0)
    rewards, ended = rng.choice([-1, -0.01, 1], (16, 16)), rng.random((16, 16)) < 0.3
    losses = rng.random(64)
    made.loop.op = lambda explore, moves, draws, rows: (moves, rewards, ended, losses)
    seen = made.learn()
    assert seen.pop("length") == pytest.approx(np.mean([len(each) for each in by_episode(rewards, ended)]))
    assert seen.pop("return") == pytest.approx(np.mean([sum(each) for each in by_episode(rewards, ended)]))
    assert seen == {
        "foods": sum(reward == 1 for reward in rewards.flat),
        "episodes": sum(ended.flat),
        "loss": pytest.approx(sum(losses) / 64),
    }


def test_an_evaluation_counts_what_plain_games_show_up_to_their_first_end(make, games):
    made = make(max_steps=6)
    weights = {name: 3 * value for name, value in made.loop.spec["params"].items()}
    made.loop.params, before = weights, made.rng.bit_generator.state
    seen = made.evaluate(300, seed=5)
    _, by_game = games[-1].plainly()
    wanted, later, ends = {"foods": [], "returns": [], "lengths": []}, 0, []
    for env, moves, draws in by_game:
        rewards, end = [], None
        for move, draw in zip(moves, draws):
            board, reward, _, *ended = played(env, move, draw)
            values = _numpy.q_values(weights, board[None].astype(np.float64))[0]
            assert values[move] > values.max() - 1e-5
            if end is None:
                rewards.append(reward)
                end = ended if any(ended) else None
            else:
                later += reward == 1
        ends.append(end)
        for name, value in zip(wanted, (rewards.count(1), sum(rewards), len(rewards))):
            wanted[name].append(value)
    assert seen.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_allclose(seen[name], values, rtol=1e-6, err_msg=name)
    assert np.any(ends, axis=0).all()  # some terminated, some truncated
    assert sum(wanted["foods"]) > 0 < later  # some of the food comes too late
    assert len(games[-1].steps) == max(wanted["lengths"])
    assert_distributed(np.array([draw for _, draw in games[-1].steps]) / DRAWS, "uniform")
    assert made.rng.bit_generator.state == before


def test_an_evaluation_is_seeded(make):
    made = make(max_steps=20)
    made.loop.params = made.loop.spec["params"]
    first, again, other = (made.evaluate(20, seed)["returns"].tolist() for seed in (1, 1, 2))
    assert first == again != other
