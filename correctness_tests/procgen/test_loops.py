"""PPO, A2C and IMPALA in one process against a plain loop; resets, states, random draws, and steps of the games."""

import functools
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests.procgen.loops import ALGORITHMS, ENVS, STEPS, config_of, made, numbers, plain, played
from correctness_tests.procgen.problem import build
from correctness_tests.quick import quick
from correctness_tests.strategies import SEEDS
from correctness_tests.updates import apart, assert_same
from rl_impls.common.procgen_env import FRAME, ProcgenVectorEnv
from rl_impls.procgen._numpy import logits_and_values
from rl_impls.procgen.rollouts import draw_uniforms, minibatches

pytestmark = pytest.mark.usefixtures("installed")
FORMS = [("torch", "naive"), ("torch", "full"), ("jax", "full")]


@functools.cache
def wanted(algorithm):
    return plain(algorithm, config_of(algorithm), (0, 1))


@pytest.mark.parametrize(
    ("algorithm", "backend", "form"),
    quick(
        [(algorithm, *FORMS[k]) for algorithm, k in (("ppo", 0), ("ppo", 1), ("ppo", 2), ("a2c", 1), ("impala", 1))],
        [(algorithm, *form) for algorithm in ALGORITHMS for form in FORMS],
    ),
)
def test_loop_matches_a_plain_loop(algorithm, backend, form):
    rollouts, losses, weights = wanted(algorithm)
    assert any(rollout.rewards.any() for rollout in rollouts)
    assert any(rollout.ended[:-1].any() for rollout in rollouts)
    assert apart(weights[0], weights[1], played()[1]) > 0.1
    with made(algorithm, config_of(algorithm), backend, form) as loop:
        assert not any(loop.phases().values())
        rewards, ended, found = loop(numbers(0, 1))
        unused = {"advantages"} if algorithm == "impala" else set()
        assert {phase for phase, seconds in loop.phases().items() if not seconds} == unused
        assert rewards.dtype == found.dtype == np.float32
        assert ended.dtype == bool
        np.testing.assert_array_equal(rewards, [rollout.rewards for rollout in rollouts])
        np.testing.assert_array_equal(ended, [rollout.ended for rollout in rollouts])
        np.testing.assert_allclose(found, losses, rtol=1e-3, atol=1e-4)
        total = loop.parts @ [1, loop.config["value_weight"], -loop.config["entropy_weight"]]
        steps = STEPS * ENVS if algorithm == "impala" else 1  # over which the loss is summed
        np.testing.assert_allclose(found, steps * total, rtol=1e-4, atol=1e-5)
        assert apart(loop.params, weights[1], played()[1]) < 5e-3


def test_bfloat16_acts_with_the_weights_of_the_last_update():
    with made("a2c", config_of("a2c"), form="bfloat16") as loop:
        loop(numbers(0))
        weights = loop.params
        loop(numbers(1))
        rollout = loop.storage.read()
    obs = rollout.obs[:-1].reshape(-1, *FRAME)
    now, before = (logits_and_values(params, obs)[1] for params in (weights, played()[1]))
    rounding, update = (np.abs(rollout.values.ravel() - values).max() for values in (now, before))
    assert 4 * rounding < update


@pytest.mark.parametrize(("backend", "form"), quick([("torch", "full")], FORMS))
@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
def test_loop_resumes_bit_for_bit(algorithm, backend, form):
    with made(algorithm, config_of(algorithm), backend, form) as loop:
        loop(numbers(0))
        state = loop.state()
        kept = {name: value.copy() for name, value in state.items()}
        following, ended = loop(numbers(1)), loop.state()
        assert_same(state, kept)
    other = config_of(algorithm, env_state=None, params={name: 0 * array for name, array in played()[1].items()})
    with made(algorithm, other, backend, form) as loop:
        loop(numbers(5))
        loop.load_state(state)
        assert_same(loop.state(), kept)
        assert_same(loop(numbers(1)), following)
        assert_same(loop.state(), ended)


@pytest.mark.parametrize("changed", [{"seed": 4}, {"number": 1}])
def test_another_seed_or_rollout_draws_other_actions_and_minibatches(changed):
    given = {"seed": 3, "number": 0}
    drawn = [draw_uniforms(**each, num_steps=STEPS, num_envs=ENVS) for each in (given, given | changed)]
    assert drawn[0].shape == (STEPS, ENVS)
    assert drawn[0].dtype == np.float32
    assert not np.isin(*drawn).any()
    picked = [minibatches(**each, num_images=64, batch_size=16, epochs=2) for each in (given, given | changed)]
    assert (picked[0] != picked[1]).any(axis=1).all()
    epochs = picked[0].reshape(2, 64)
    assert (epochs[0] != epochs[1]).any()


@given(seed=SEEDS, number=st.integers(0, 10**6), batches=st.integers(1, 5), batch_size=st.integers(1, 9))
@settings(max_examples=10)
def test_each_epoch_takes_every_image_once(seed, number, batches, batch_size):
    rows = minibatches(seed, number, batches * batch_size, batch_size, 3)
    assert rows.shape == (3 * batches, batch_size)
    for epoch in rows.reshape(3, -1):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(batches * batch_size))


@pytest.mark.parametrize("form", ["naive", "full"])
def test_env_step_takes_the_steps_of_the_environment(form):
    config = {"game": "chaser", "num_envs": 3, "seed": 5, "mode": "easy", "num_levels": 20, "start_level": 4}
    drawn = [np.random.default_rng(seed).integers(15, size=(60, 3)).astype(np.int32) for seed in (0, 1)]
    op, env, results = build("env_step", "numpy", {"env": config}, drawn[:1], form), ProcgenVectorEnv(**config), []
    with closing(op), closing(env):
        for actions in drawn:
            found = list(op(actions))
            frames, *wanted = (np.array(column) for column in zip(*map(env.advance, actions)))
            np.testing.assert_array_equal(op.rows, frames, strict=True)
            results.append((found, [frames[-1], *wanted]))
    for found, wanted in results:  # the second call leaves the results of the first alone
        assert_same(found, wanted)
    assert any(ended.any() for (*_, ended), _ in results)
