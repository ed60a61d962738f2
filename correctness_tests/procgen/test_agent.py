"""The agent of Procgen around its loop: its configuration, the figures of its learning, and its checkpoints."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

import numpy as np
import pytest

from correctness_tests.procgen.agent_sizes import SMALL
from correctness_tests.procgen.loops import made, numbers
from correctness_tests.quick import quick
from correctness_tests.waiting import limit
from rl_impls import params
from rl_impls.backends import resolve
from rl_impls.params import CheckpointError
from rl_impls.procgen.agent import ALGORITHMS, Config, ProcgenAgent
from rl_impls.procgen.spec import RESIDUAL

pytestmark = pytest.mark.usefixtures("one_thread", "installed")

limited = limit("training")


@pytest.fixture
def make():
    """Return a function that makes a small agent, which is closed afterwards."""
    agents = []

    def small(**config):
        agents.append(ProcgenAgent(**{"seed": 3, **SMALL, **config}))
        return agents[-1]

    yield small
    for agent in agents:
        agent.close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"algorithm": "dqn"}, "algorithm: got 'dqn', wanted one of ppo, a2c, a3c, impala"),
        ({"backend": "fortran"}, "unknown backend 'fortran'; known: "),
        ({"envs": 2**16 + 1}, "envs: got 65537, wanted an integer from 1 to 65536"),
        ({"lag": -1}, "lag: got -1, wanted an integer from 0 to"),
        ({"gamma": 1.1}, "gamma: got 1.1, wanted a number from 0 to 1"),
        ({"c_bar": float("nan")}, "c_bar: got nan, wanted a number of 0 or more"),
        ({"algorithm": "a3c"}, "actors: got 0 with a3c, wanted 1 or more"),
        ({"algorithm": "a2c", "actors": 2}, "actors: got 2 with a2c, wanted 0 (its parallel form is a3c)"),
        ({"actors": 3}, "actors: got 3, wanted a divisor of 32 envs"),
        ({"lag": 1}, "lag: got 1, wanted 0 but for ppo and impala with actors"),
        ({"algorithm": "a3c", "actors": 2, "lag": 1}, "lag: got 1, wanted 0 but for ppo and impala with actors"),
        ({"batch": 1000}, "batch: got 1000, wanted a divisor of unroll times envs, 128 x 32"),
    ],
)
def test_invalid_configuration_is_a_one_line_error(given, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as caught:
        Config(**given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"algorithm": "impala", "batch": 1000},
        {"actors": 4, "lag": 2},
        {"algorithm": "a3c", "actors": 1},
        {"backend": "auto"},
    ],
)
def test_valid_configuration_is_accepted_unchanged(given):
    config = Config(**given)
    assert asdict(config) == asdict(Config()) | given | {"backend": resolve(given.get("backend", "torch"))}


@pytest.mark.parametrize("seed", [-1, 1.5])
def test_seed_must_be_a_nonnegative_integer(seed):
    with pytest.raises(ValueError, match=r"^seed: got"):
        ProcgenAgent(seed=seed, **SMALL)


DEFAULTS = {
    "ppo": (128, 5e-4, 1e-5, 0.95, 0, 0.5),
    "a2c": (5, 7e-4, 1e-5, 1.0, 0, 0.5),
    "a3c": (20, 1e-4, 1e-5, 1.0, 2, 0.5),
    "impala": (20, 3e-4, 0.01, 0.95, 0, 40.0),
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_has_its_own_defaults_which_arguments_override(algorithm):
    names = "unroll", "learning_rate", "epsilon", "lam", "actors", "gradient_norm"
    config = ProcgenAgent.configure(algorithm=algorithm, envs=8)
    assert tuple(getattr(config, name) for name in names) == DEFAULTS[algorithm]
    given = {"unroll": 16, "learning_rate": 0.5, "lam": 0.25, "gradient_norm": 3.0, "batch": 8}
    found = asdict(ProcgenAgent.configure(algorithm=algorithm, envs=8, **given))
    assert {name: found[name] for name in given} == given


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "impala"])
def test_agent_trains_its_algorithm_with_its_configuration(algorithm, make):
    given = {"learning_rate": 0.002, "gamma": 0.5, "entropy_weight": 0.125, "rho_bar": 0.5, "clip": 0.1, "unroll": 6,
             "batch": 4, "epochs": 2}  # fmt: skip
    agent = make(algorithm=algorithm, mode="hard", game="maze", levels=9, start_level=4, **given)
    spec = agent.loop.spec
    assert {name: spec[name] for name in given} == given
    env = {"game": "maze", "mode": "hard", "num_levels": 9, "start_level": 4, "num_envs": 2, "seed": agent.seed}
    assert spec["env"] == env
    with made(algorithm, spec) as loop:
        *_, losses = loop(numbers(0))
    assert agent.learn()["loss"] == losses.mean()
    assert agent.step == agent.chunk == 12


def test_figures_are_means_over_the_episodes_that_ended_in_a_rollout(make):
    agent = make(algorithm="a2c", envs=2, unroll=2)
    rewards = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[1, 1], [1, 1]]], np.float32)
    ended = np.array([[[0, 0], [0, 0]], [[0, 1], [0, 0]], [[1, 0], [0, 1]]], bool)

    def play(asked):
        return rewards[asked], ended[asked], np.array([[1.0, 2.0, 6.0]], np.float32) + asked[0]

    play.stats, play.begun_anew, play.close = lambda: {"policy_lag": 0.5}, lambda: np.zeros(0, np.int64), lambda: None
    agent.close()
    agent.loop = play
    figures = [agent.learn() for _ in range(3)]
    columns = {name: [each[name] for each in figures] for name in ("return", "length", "episodes", "loss")}
    np.testing.assert_equal(
        columns, {"return": [np.nan, 12, 13.5], "length": [np.nan, 3, 4], "episodes": [0, 1, 2], "loss": [3, 4, 5]}
    )
    assert figures[0]["policy_lag"] == 0.5
    assert agent.step == 12


def test_figures_leave_out_the_start_of_an_episode_whose_actor_died(make):
    ended = np.zeros((3, 1, 4, 3), bool)
    ended[1, 0, 0] = ended[2, 0, 3] = True

    def play(asked):
        return np.ones((1, 4, 3), np.float32), ended[asked[0]], np.zeros((1, 1), np.float32)

    restarted = iter([[], [1, 2], []])
    play.stats, play.begun_anew, play.close = dict, lambda: np.array(next(restarted), np.int64), lambda: None
    agent = make(algorithm="a2c", envs=3)
    agent.close()
    agent.loop = play
    assert agent.learn()["episodes"] == 0
    figures = agent.learn()
    assert (figures["return"], figures["length"], figures["episodes"]) == (7 / 3, 7 / 3, 3)  # 5, 1 and 1 steps
    figures = agent.learn()
    assert (figures["return"], figures["length"], figures["episodes"]) == (7.0, 7.0, 3)


def test_running_returns_and_lengths_are_those_of_the_games(make):
    agent = make(algorithm="impala", game="bossfight", envs=4, unroll=40, learning_rate=0.0)
    figures = [agent.learn() for _ in range(2)]
    assert sum(each["episodes"] for each in figures) > 0
    np.testing.assert_allclose(agent.playing[0], agent.loop.envs.returns)
    np.testing.assert_array_equal(agent.playing[1], agent.loop.envs.lengths)


@pytest.mark.parametrize("algorithm", quick(["impala"], ["ppo", "a2c", "impala"]))
def test_loaded_agent_continues_its_episodes(algorithm, make, tmp_path):
    agent = make(algorithm=algorithm, game="bossfight", unroll=20)
    agent.learn()
    agent.save(tmp_path / "agent")
    resumed = ProcgenAgent.load(tmp_path / "agent")
    try:
        assert (resumed.config, resumed.step, resumed.seed) == (agent.config, agent.step, agent.seed)
        assert agent.playing[1].any()
        np.testing.assert_array_equal(resumed.playing, agent.playing)
        found, wanted = [], []
        for _ in range(3):
            found.append(resumed.learn())
            wanted.append(agent.learn())
        np.testing.assert_equal(found, wanted)
        assert sum(each["episodes"] for each in wanted) > 0
        for name, value in agent.params.items():
            np.testing.assert_array_equal(resumed.params[name], value)
    finally:
        resumed.close()


@pytest.mark.parametrize(("before", "after"), [("ppo", "a2c"), ("impala", "ppo")])
def test_checkpoint_of_another_algorithm_is_rejected(before, after, make, tmp_path):
    agent = make(algorithm=before)
    agent.config = replace(agent.config, algorithm=after)
    agent.save(tmp_path / "agent")
    with pytest.raises(CheckpointError) as caught:
        ProcgenAgent.load(tmp_path / "agent")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", ["no games", "too many bytes", "another game", "other levels"])
def test_checkpoint_with_the_wrong_games_is_rejected(change, make, tmp_path):
    agent, path = make(algorithm="a2c"), tmp_path / "agent"
    agent.save(path)
    arrays, metadata = params.load_with_metadata(path)
    if change == "no games":
        del arrays["env.games"]
    elif change == "too many bytes":
        arrays["env.sizes"] = arrays["env.sizes"] + 1
    else:
        before, after = {"another game": (SMALL["game"], "maze"), "other levels": ('"levels": 10', '"levels": 9')}[
            change
        ]
        assert before in metadata["config"]
        metadata["config"] = metadata["config"].replace(before, after)
    params.save(path, arrays, **{name: metadata[name] for name in ("config", "rng", "step")})
    with pytest.raises(CheckpointError, match=f"^{re.escape(str(path))}: not a checkpoint of this agent"):
        ProcgenAgent.load(path)


def test_residual_net_learns_and_resumes_bit_for_bit(make, tmp_path):
    agent, path = make(net="residual"), tmp_path / "agent"
    assert agent.params.keys() == RESIDUAL.keys()
    start = agent.params
    agent.learn()
    agent.save(path)
    other = ProcgenAgent.load(path)
    try:
        np.testing.assert_equal(other.learn(), agent.learn())
        for name, value in agent.params.items():
            np.testing.assert_array_equal(other.params[name], value)
            assert (value != start[name]).any()
    finally:
        other.close()
    agent.config = replace(agent.config, net="nature")
    agent.save(path)
    with pytest.raises(CheckpointError, match="of another architecture"):
        ProcgenAgent.load(path)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
def test_number_of_actors_may_change_on_resume_without_changing_the_training(before, after, make, tmp_path):
    agent, path = make(envs=4, actors=before), tmp_path / "agent"
    agent.learn()
    agent.save(path)
    other = ProcgenAgent.load(path, actors=after)
    try:
        assert other.config == replace(agent.config, actors=after)
        for _ in range(2):
            found, wanted = other.learn(), agent.learn()
            np.testing.assert_equal(
                *([figures[name] for name in ("return", "length", "episodes")] for figures in (found, wanted))
            )
            assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-3)  # batches of other sizes round differently
            np.testing.assert_array_equal(other.playing, agent.playing)
        first = make(envs=4).params
        for name, value in agent.params.items():
            moved = np.linalg.norm(value - first[name])
            assert np.linalg.norm(other.params[name] - value) <= 0.01 * moved
            assert moved > 0
    finally:
        other.close()


def test_checkpoint_of_an_unreachable_cluster_can_be_evaluated_and_resumed_elsewhere(make, tmp_path):
    agent, path = make(), tmp_path / "agent"
    agent.learn()
    sequential, agent.config = agent.config, replace(agent.config, actors=2, lag=1, cluster="127.0.0.1:1")
    agent.save(path)
    other = ProcgenAgent.load_to_evaluate(path, form="full")
    assert (other.config, other.step, other.seed) == (agent.config, agent.step, agent.seed)
    np.testing.assert_equal(other.evaluate(2, seed=5), agent.evaluate(2, seed=5))
    other.close()
    with pytest.raises(ValueError, match=r"^actors: got a change, wanted what the checkpoint says: backend and form a"):
        ProcgenAgent.load_to_evaluate(path, actors=0)

    other = ProcgenAgent.load(path, actors=0, lag=0, cluster="")
    try:
        assert other.config == sequential
        np.testing.assert_equal(other.learn(), agent.learn())
    finally:
        other.close()
