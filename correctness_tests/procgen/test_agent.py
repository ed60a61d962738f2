"""The Procgen agent: configuration, training figures, and checkpoints."""

import math
import os
import signal
from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest

from correctness_tests.procgen.loops import made, numbers
from correctness_tests.quick import quick
from correctness_tests.workload_agents import SMALL
from rl_impls import params
from rl_impls.procgen.agent import ProcgenAgent
from rl_impls.procgen.learners import PARTS

pytestmark = pytest.mark.usefixtures("installed")


@pytest.fixture
def make():
    """Return a function that makes a small agent, or loads one from a file; they are closed after the test."""
    agents = []

    def small(load=None, **config):
        made = ProcgenAgent.load(load, **config) if load else ProcgenAgent(**{"seed": 3, **SMALL["procgen"], **config})
        agents.append(made)
        return made

    yield small
    for agent in agents:
        agent.close()


def test_arguments_override_the_defaults_of_the_algorithm():
    config = ProcgenAgent.configure(algorithm="a2c", num_steps=16)
    assert (config.num_steps, config.gae_lambda) == (16, 1.0)
    with pytest.raises(ValueError, match="algorithm"):
        ProcgenAgent.configure(algorithm=["ppo"])


def episodes_of(rewards, ended):
    """Yield rollout, return and length of each episode; rewards and ends are [I, T, N]."""
    total, length = np.zeros(rewards.shape[2]), np.zeros(rewards.shape[2], int)
    for rollout, step in np.ndindex(*rewards.shape[:2]):
        total, length = total + rewards[rollout, step], length + 1
        for env in np.flatnonzero(ended[rollout, step]):
            yield rollout, total[env], length[env]
            total[env] = length[env] = 0


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "impala"])
def test_agent_trains_its_algorithm_and_reports_losses_and_finished_episodes(algorithm, make):
    given = {"learning_rate": 0.002, "gamma": 0.5, "entropy_weight": 0.125, "rho_bar": 0.5, "clip": 0.1,
             "num_steps": 20, "batch_size": 10, "epochs": 2}  # fmt: skip
    agent = make(algorithm=algorithm, mode="hard", game="bossfight", levels=9, start_level=4, **given)
    agent.prepare()
    config = agent.loop.config
    assert {name: config[name] for name in given} == given
    env = {"game": "bossfight", "mode": "hard", "num_levels": 9, "start_level": 4, "num_envs": 2, "seed": agent.seed}
    assert (config["env"], config["seed"]) == (env, agent.seed)
    with made(algorithm, config) as loop:
        rewards, ended, _ = loop(numbers(*range(4)))
        parts = loop.parts.mean(axis=1)
    assert ended.any()
    episodes = list(episodes_of(rewards, ended))
    counts = ["return", "length", "episodes", "policy_lag", "most_policy_lag", "replaced_actors"]
    for rollout in range(4):
        figures = agent.learn()
        assert list(figures) == [*counts, "policy_loss", "value_loss", "entropy"]
        assert [figures[name] for name in PARTS] == pytest.approx(parts[rollout], rel=1e-6, abs=1e-7)
        assert 0 < figures["entropy"] < math.log(15) + 1e-5
        found = [episode[1:] for episode in episodes if episode[0] == rollout]
        assert figures["episodes"] == len(found)
        wanted = np.mean(found, axis=0) if found else (np.nan, np.nan)
        np.testing.assert_allclose((figures["return"], figures["length"]), wanted, rtol=1e-6)
    assert agent.step == 4 * agent.chunk == 160


@pytest.mark.slow
def test_figures_leave_out_the_start_of_an_episode_whose_actor_died(make):
    agent = make(algorithm="impala", game="bossfight", num_envs=4, num_steps=20, actors=2)
    agent.learn()
    os.kill(agent.loop.pool.members[1][1].pid, signal.SIGKILL)
    assert agent.learn()["replaced_actors"] == 1
    assert agent.running[1, 2:].max() <= 20
    state = agent.loop.state()
    np.testing.assert_allclose(agent.running[0], state["env.returns"])
    np.testing.assert_array_equal(agent.running[1], state["env.lengths"])


@pytest.mark.parametrize(("algorithm", "lag"), quick([("a3c", 0)], [("impala", 1), ("a3c", 0)]))
def test_running_episodes_include_rollouts_that_a_checkpoint_drops(algorithm, lag, make):
    agent = make(algorithm=algorithm, game="bossfight", actors=1, lag=lag)
    agent.learn()
    state = agent.state()  # the actor has played further rollouts ahead
    assert state["env.lengths"].any()
    np.testing.assert_array_equal(agent.running, [state["env.returns"], state["env.lengths"]])


def test_ppo_makes_no_further_update_after_the_deadline_and_resumes(make, tmp_path):
    agent = make(epochs=2)  # of two minibatches
    agent.deadline = perf_counter()
    agent.learn()
    assert (agent.step, agent.state()["learner.step"]) == (agent.chunk, 1)
    agent.save(tmp_path / "agent")
    agent.deadline = math.inf
    resumed = make(tmp_path / "agent")
    np.testing.assert_equal(resumed.learn(), agent.learn())
    assert agent.state()["learner.step"] == 5


def test_evaluation_plays_another_game_or_mode(make):
    agent, bigfish = make(), make(game="bigfish")  # with equal weights
    own, other = agent.evaluate(2, seed=5), bigfish.evaluate(2, seed=5)
    found = agent.evaluate(2, seed=5, game="bigfish")
    assert list(found) == ["held_out_return", "held_out_score", "held_out_length"]  # no level was trained on
    np.testing.assert_equal(found, {name: other[name] for name in found})
    assert list(agent.evaluate(2, seed=5, mode="hard")) == list(found)
    np.testing.assert_equal(agent.evaluate(2, seed=5, game=SMALL["procgen"]["game"], mode="easy"), own)
    with pytest.raises(ValueError, match=r"^game='chess' should be "):
        agent.evaluate(2, seed=5, game="chess")


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
def test_number_of_actors_may_change_on_resume_without_changing_the_training(before, after, make, tmp_path):
    agent, path = make(num_envs=4, actors=before), tmp_path / "agent"
    first = agent.params
    agent.learn()
    agent.save(path)
    other = make(path, actors=after)
    assert other.config == replace(agent.config, actors=after)
    for _ in range(2):
        found, wanted = other.learn(), agent.learn()
        assert list(found) == list(wanted)
        np.testing.assert_equal(
            *([figures[name] for name in ("return", "length", "episodes")] for figures in (found, wanted))
        )
        for name in ("value_loss", "entropy"):  # batches of other sizes round differently
            assert found[name] == pytest.approx(wanted[name], rel=1e-3)
        np.testing.assert_array_equal(other.running, agent.running)
    for name, value in agent.params.items():
        moved = np.linalg.norm(value - first[name])
        assert np.linalg.norm(other.params[name] - value) <= 0.01 * moved
        assert moved > 0


def test_checkpoint_of_an_unreachable_cluster_can_be_evaluated_and_resumed_elsewhere(make, tmp_path):
    agent, path = make(), tmp_path / "agent"
    agent.learn()
    agent.save(path)
    arrays, metadata = params.load_with_metadata(path)
    for name, before, after in (("actors", "0", "2"), ("lag", "0", "1"), ("cluster", '""', '"127.0.0.1:1"')):
        assert f'"{name}": {before}' in metadata["config"]
        metadata["config"] = metadata["config"].replace(f'"{name}": {before}', f'"{name}": {after}')
    params.save(path, arrays, **metadata)
    other = make(path)
    assert (other.config.cluster, other.step, other.seed) == ("127.0.0.1:1", agent.step, agent.seed)
    np.testing.assert_equal(other.evaluate(2, seed=5), agent.evaluate(2, seed=5))

    other = make(path, actors=0, lag=0, cluster="")
    assert other.config == agent.config
    np.testing.assert_equal(other.learn(), agent.learn())
