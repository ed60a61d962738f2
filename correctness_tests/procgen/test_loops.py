"""PPO, A2C and IMPALA in one process against a plain loop; what a rollout is drawn from, kept in and gone on from."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests.procgen.loops import (
    ALGORITHMS,
    ENVS,
    STEPS,
    apart,
    assert_same,
    heard,
    made,
    numbers,
    plain,
    played,
    spec_of,
)
from correctness_tests.quick import quick
from correctness_tests.strategies import SEEDS
from correctness_tests.waiting import limit
from rl_impls.backends import BackendUnavailable
from rl_impls.common.procgen_env import check_installed
from rl_impls.procgen.rollouts import minibatches, uniforms_of

pytestmark = pytest.mark.usefixtures("one_thread")

limited = limit("the threads of games")
FORMS = [("torch", "naive"), ("torch", "full"), ("jax", "full")]
PHASES = ("environment", "inference", "advantages", "gathering", "learning")


@pytest.fixture(autouse=True)
def installed(unavailable):
    """Skip, or fail, where Procgen is not installed."""
    try:
        check_installed()
    except BackendUnavailable as error:
        unavailable(error)


@functools.cache
def wanted(algorithm, **changed):
    """What a plain loop plays and learns in two rollouts."""
    return plain(algorithm, spec_of(algorithm, **changed), (0, 1))


def test_the_games_of_these_tests_have_rewards_and_ends():
    for algorithm in ALGORITHMS:
        rollouts, losses, weights = wanted(algorithm)
        assert any(rollout.rewards.any() for rollout in rollouts)
        assert any(rollout.ended[:-1].any() for rollout in rollouts)
        assert losses.shape == (2, 4 if algorithm == "ppo" else 1)
        assert apart(weights[0], weights[1], played()[1]) > 0.1


@pytest.mark.parametrize(
    ("algorithm", "backend", "form"),
    quick(
        [(algorithm, *FORMS[k]) for algorithm, k in (("ppo", 0), ("ppo", 1), ("ppo", 2), ("a2c", 1), ("impala", 1))],
        [(algorithm, *form) for algorithm in ALGORITHMS for form in FORMS],
    ),
)
def test_a_loop_does_what_a_plain_loop_does(algorithm, backend, form):
    rollouts, losses, weights = wanted(algorithm)
    with made(algorithm, spec_of(algorithm), backend, form) as loop:
        noted = heard(loop)
        rewards, ended, found = loop(numbers(0, 1))
        assert rewards.dtype == found.dtype == np.float32
        assert ended.dtype == bool
        np.testing.assert_array_equal(rewards, [rollout.rewards for rollout in rollouts])
        np.testing.assert_array_equal(ended, [rollout.ended for rollout in rollouts])
        np.testing.assert_allclose(found, losses, rtol=1e-3, atol=1e-4)
        for got, rollout in zip(noted, rollouts, strict=True):
            np.testing.assert_array_equal(got.frames, rollout.frames)
            np.testing.assert_array_equal(got.actions, rollout.actions)
            np.testing.assert_allclose(got.log_probs, rollout.log_probs, atol=1e-3)
            np.testing.assert_allclose(got.values, rollout.values, atol=1e-3)
        assert apart(loop.params, weights[1], played()[1]) < 5e-3


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_calls_are_one_call_of_both_and_leave_what_was_returned_as_it_is(algorithm):
    with made(algorithm, spec_of(algorithm)) as loop:
        both = loop(numbers(0, 1))
        weights = loop.params
        loop.reset()
        first = loop(numbers(0))
        kept = [array.copy() for array in first]
        second = loop(numbers(1))
        assert_same(first, kept)
        assert_same(map(np.concatenate, zip(first, second)), both)
        assert_same(loop.params, weights)


@pytest.mark.parametrize(("backend", "form"), quick([("torch", "full")], FORMS))
@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
def test_after_a_reset_all_is_played_and_learned_again(algorithm, backend, form):
    with made(algorithm, spec_of(algorithm), backend, form) as loop:
        start = loop.state()
        assert_same(loop.params, played()[1])
        first, state = loop(numbers(0, 1)), loop.state()
        loop.reset()
        assert set(loop.phases().values()) == {0.0}
        assert_same(loop.state(), start)
        assert_same(loop(numbers(0, 1)), first)
        assert_same(loop.state(), state)


@pytest.mark.parametrize(("backend", "form"), quick([("torch", "full")], FORMS))
@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
def test_a_loop_goes_on_from_a_state_bit_for_bit(algorithm, backend, form):
    with made(algorithm, spec_of(algorithm), backend, form) as loop:
        loop(numbers(0))
        state = loop.state()
        kept = {name: value.copy() for name, value in state.items()}
        following, ended = loop(numbers(1)), loop.state()
        assert_same(state, kept)
    other = spec_of(algorithm, env_state=None, params={name: 0 * array for name, array in played()[1].items()})
    with made(algorithm, other, backend, form) as loop:
        loop(numbers(5))
        loop.load_state(state)
        assert_same(loop.state(), kept)
        assert_same(loop(numbers(1)), following)
        assert_same(loop.state(), ended)


@pytest.mark.parametrize(
    ("algorithm", "before", "after"),
    quick(
        [("ppo", FORMS[0], FORMS[1]), ("ppo", FORMS[1], FORMS[2])],
        [(algorithm, before, after) for algorithm in ALGORITHMS for before in FORMS for after in FORMS],
    ),
)
def test_another_form_or_backend_goes_on_from_a_state_alike(algorithm, before, after):
    rollouts, losses, weights = wanted(algorithm)
    with made(algorithm, spec_of(algorithm), *before) as loop:
        loop(numbers(0))
        state = loop.state()
    with made(algorithm, spec_of(algorithm), *after) as loop:
        loop.load_state(state)
        rewards, ended, found = loop(numbers(1))
        np.testing.assert_array_equal(rewards[0], rollouts[1].rewards)
        np.testing.assert_array_equal(ended[0], rollouts[1].ended)
        np.testing.assert_allclose(found[0], losses[1], rtol=1e-3, atol=1e-4)
        assert apart(loop.params, weights[1], played()[1]) < 5e-3
        updates = 8 if algorithm == "ppo" else 2
        assert loop.state()["train.step"] == updates


def test_impala_learns_from_the_frames_before_each_step_and_after_the_last_one():
    with made("impala", spec_of("impala")) as loop:
        noted = heard(loop)
        loop(numbers(0, 1))
        first, second = noted
        assert first.frames.shape == (STEPS + 1, ENVS, 64, 64, 3)
        np.testing.assert_array_equal(second.frames[0], first.frames[-1])
        np.testing.assert_array_equal(second.frames[-1], loop.envs.observe())
        for before, after in zip(second.frames, second.frames[1:]):
            assert (before != after).any()


@pytest.mark.parametrize("changed", [{"seed": 4}, {"number": 1}])
def test_another_seed_or_number_draws_other_actions_and_minibatches(changed):
    given = {"seed": 3, "number": 0}
    drawn = [uniforms_of(**each, steps=STEPS, envs=ENVS) for each in (given, given | changed)]
    assert drawn[0].shape == (STEPS, ENVS)
    assert drawn[0].dtype == np.float32
    assert not np.isin(*drawn).any()
    picked = [minibatches(**each, frames=64, batch=16, epochs=2) for each in (given, given | changed)]
    assert (picked[0] != picked[1]).any(axis=1).all()


def test_the_numbers_of_actions_are_not_those_of_minibatches():
    uniforms = uniforms_of(3, 0, 1, 64)[0]
    assert (np.random.default_rng((3, 0, 1)).random(64, np.float32) != uniforms).any()
    [picked] = minibatches(3, 0, 64, 64, 1)
    assert (np.random.default_rng((3, 0, 0)).permutation(64) != picked).any()


def test_a_loop_plays_otherwise_by_another_seed_or_number():
    played_ = []
    for seed, number in ((3, 0), (3, 7), (4, 0), (3, 0)):
        with made("a2c", spec_of("a2c", seed=seed)) as loop:
            noted = heard(loop)
            loop(numbers(number))
            played_.append(noted[0].actions)
    assert_same(played_[:1], played_[3:])
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (played_[one] != played_[other]).any()


@given(seed=SEEDS, number=st.integers(0, 10**6), batches=st.integers(1, 5), batch=st.integers(1, 9))
@settings(max_examples=10)
def test_every_picture_is_in_one_minibatch_of_each_epoch(seed, number, batches, batch):
    rows = minibatches(seed, number, batches * batch, batch, 3)
    assert rows.shape == (3 * batches, batch)
    for epoch in rows.reshape(3, -1):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(batches * batch))


def test_every_epoch_has_an_order_of_its_own():
    epochs = minibatches(3, 0, 64, 16, 4).reshape(4, 64)
    assert len(np.unique(epochs, axis=0)) == 4
    assert (epochs != np.arange(64)).any(axis=1).all()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_phases_are_timed(algorithm):
    with made(algorithm, spec_of(algorithm)) as loop:
        assert loop.phases() == dict.fromkeys(PHASES, 0.0)
        loop(numbers(0))
        seconds = loop.phases()
        assert tuple(seconds) == PHASES
        for phase, spent in seconds.items():
            assert spent > 0 or (algorithm, phase) == ("impala", "advantages")
        loop(numbers(1))
        assert all(loop.phases()[phase] >= spent for phase, spent in seconds.items())


def test_frames_that_are_copied_and_those_in_place_are_the_same_rollout(monkeypatch):
    found = []
    for form in ("naive", "full"):
        with made("impala", spec_of("impala"), form=form) as loop:
            noted = heard(loop)
            loop(numbers(0, 1))
            found.append([array for rollout in noted for array in (rollout.frames, rollout.actions, rollout.ended)])
            assert (loop.kept.read().frames is loop.kept.read().frames) == (form == "full")
    assert_same(found[0], found[1])


def test_a_rollout_is_a_whole_number_of_minibatches():
    with (
        pytest.raises(ValueError, match=r"^batch: got 7, wanted a divisor of unroll times environments, 5 x 4$"),
        made("ppo", spec_of("ppo", batch=7)),
    ):
        pass
