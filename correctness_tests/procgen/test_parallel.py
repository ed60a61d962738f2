"""PPO and IMPALA with actor processes: equal to the sequential loop without lag, and with older weights with lag."""

import contextlib
import os
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from correctness_tests.procgen.loops import ENV, ENVS, act, config_of, made, numbers, plain, played
from correctness_tests.quick import quick
from correctness_tests.updates import apart, assert_same
from rl_impls import backends
from rl_impls.common.procgen_env import ProcgenVectorEnv
from rl_impls.procgen.actors import actor_config, env_slice, slice_state
from rl_impls.procgen.options import FORMS
from rl_impls.procgen.parallel import ParallelLoop
from rl_impls.procgen.rollouts import Rollout

pytestmark = pytest.mark.usefixtures("installed")


def assert_alike(got, wanted):
    """Assert equal rewards and ends, and similar losses: batches of other sizes round differently."""
    for one, other in zip(got[:2], wanted[:2], strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    np.testing.assert_allclose(got[2], wanted[2], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("algorithm", "backend", "form"),
    quick(
        [("ppo", "torch", "full")],
        [(algorithm, *form) for algorithm in ("ppo", "impala")
         for form in (("torch", "full"), ("torch", "naive"), ("jax", "full"))],
    ),
)  # fmt: skip
def test_parallel_loop_without_lag_matches_the_sequential_one(algorithm, backend, form):
    config, start = config_of(algorithm), played()[1]
    with made(algorithm, config, backend, form) as loop:
        wanted = [loop(numbers(0, 1)), loop(numbers(2))]
        state, weights = loop.state(), loop.params
        other = loop(numbers(7))
        last = loop.params
    with made(f"parallel_{algorithm}", config, backend, form) as loop:
        assert_same(loop.params, start)
        first = loop(numbers(0, 1))
        kept = [array.copy() for array in first]
        second = loop(numbers(2))
        assert_same(first, kept)
        assert_alike(first, wanted[0])
        assert_alike(second, wanted[1])
        assert apart(loop.params, weights, start) < 5e-3
        assert loop.stats() == {"policy_lag": 0, "most_policy_lag": 0, "replaced_actors": 0}
        niceness = {os.getpriority(os.PRIO_PROCESS, process.pid) for _, process in loop.pool.members}
        assert niceness == {os.getpriority(os.PRIO_PROCESS, 0)}

        found = loop.state()
        assert found.keys() == state.keys()
        assert_alike(loop(numbers(7)), other)
        loop.reset()
        assert_alike(loop(numbers(0, 1)), wanted[0])
        loop.load_state(state)
        assert_same(loop.state(), state)
        assert_alike(loop(numbers(7)), other)
        assert apart(loop.params, last, start) < 5e-3
    with made(algorithm, config, backend, form) as loop:
        loop.load_state(found)
        assert_alike(loop(numbers(7)), other)
        assert apart(loop.params, last, start) < 5e-3


def assert_played_by(config, rollouts, weights):
    for index in range(config["actors"]):
        share = env_slice(config, index)
        envs = ProcgenVectorEnv(**actor_config(config)["env"], threads=1)
        envs.set_state(slice_state(config["env_state"], share))
        for number, (rollout, params) in enumerate(zip(rollouts, weights, strict=True)):
            wanted = act(envs, params, config, number, share)
            for got, array in zip(rollout, wanted):
                np.testing.assert_allclose(got[:, share], array, atol=1e-3)
        envs.close()


class Recording(ParallelLoop):
    """A loop that learns from a rollout only after its actors have played the next one, and records the rollouts."""

    def __init__(self, *args):
        self.rollouts = []
        super().__init__(*args)

    def learn(self, rollout, number):
        for pipe, _ in self.pool.members:
            assert pipe.poll(60)
        self.rollouts.append(Rollout(*(array.copy() for array in rollout)))
        return super().learn(rollout, number)


@pytest.mark.parametrize(("algorithm", "actors"), quick([("impala", 1)], [("impala", 1), ("impala", 2), ("ppo", 2)]))
def test_lag_of_one_plays_the_next_rollout_with_the_weights_before_the_update(algorithm, actors):
    config = config_of(algorithm, lag=1, learning_rate=3e-3, actors=actors)
    with contextlib.closing(Recording(algorithm, config, FORMS["full"], backends.get("torch"))) as loop:
        weights = [loop.params]
        for number in range(4):
            loop(numbers(number))
            weights.append(loop.params)
        assert loop.stats() == {"policy_lag": 0.75, "most_policy_lag": 1, "replaced_actors": 0}
        niceness = {os.getpriority(os.PRIO_PROCESS, process.pid) for _, process in loop.pool.members}
        assert niceness == {19}  # actors that play ahead give way to the learner
        assert_played_by(config, loop.rollouts, [weights[k] for k in (0, 0, 1, 2)])
        with pytest.raises(AssertionError):
            assert_played_by(config, loop.rollouts, [weights[k] for k in (0, 1, 1, 2)])
        loop.reset()
        loop(numbers(0))  # by the initial weights
        assert loop.stats() == {"policy_lag": 0, "most_policy_lag": 0, "replaced_actors": 0}


def test_lag_of_a_rollout_is_that_of_the_actor_with_the_oldest_weights():
    def ignore(*args):
        return None

    pool = SimpleNamespace(behind=lambda number: np.array([4, 3]), publish=ignore)
    learner, trained = SimpleNamespace(learn=ignore), SimpleNamespace(params={})
    loop = SimpleNamespace(version=5, lags=Counter(), pool=pool, learner=learner, trained=trained, clock=ignore)
    ParallelLoop.learn(loop, None, 0)
    assert loop.lags == {2: 1}


@pytest.mark.slow
def test_state_with_lag_includes_rollouts_played_ahead():
    config = config_of("impala", lag=1)
    [first], _, _ = plain("impala", config, (0,))
    with made("parallel_impala", config) as loop:
        loop(numbers(0))
        state = loop.state()
        asked = loop(numbers(1))
        loop.load_state(state)
        assert_same(loop.state(), state)
        assert_same(loop(numbers(1))[:2], asked[:2])
        assert loop.stats()["most_policy_lag"] <= 1
        loop.reset()
        assert loop.stats()["policy_lag"] == 0
        assert_same(loop(numbers(0))[:2], [first.rewards[None], first.ended[None]])


def test_replacement_actor_gets_another_level_seed():
    config = config_of("ppo")
    envs = [actor_config(config, life)["env"] for life in (0, 1, 2)]
    assert [env["seed"] for env in envs] == [ENV["seed"] + life for life in (0, 1, 2)]
    assert actor_config({**config, "env": {**ENV, "seed": 2**31 - 1}}, 1)["env"]["seed"] == 0
    assert all(env == {**ENV, "num_envs": ENVS // 2, "seed": env["seed"]} for env in envs)
