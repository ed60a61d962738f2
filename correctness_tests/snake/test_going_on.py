"""Loops that go on from a checkpoint: as if nothing had come in between, also in another form."""

from __future__ import annotations

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.snake.loops import LOOPS, Inputs, close, follow, fresh, full_ring, timed
from correctness_tests.snake.problem import assert_state_equal, assert_trained_alike, build
from correctness_tests.waiting import limit

pytestmark = pytest.mark.usefixtures("one_thread")

limited = limit("a loop's thread")


def split(inputs):
    """The first half of the steps and updates, and the second."""
    halves = zip(*(np.split(np.asarray(array), 2) for array in inputs.args))
    return [tuple(half) for half in halves]


def restored(state):
    """A copy, as from a checkpoint."""
    return {name: np.array(value) for name, value in state.items()}


@pytest.mark.parametrize(
    ("form", "backend", "envs"),
    quick(
        [("naive", "torch", 1), ("vectorised", "torch", 64)],
        [loop for loop in LOOPS if loop[0] != "threaded"],
    ),
)
def test_two_halves_with_a_checkpoint_in_between_are_one_run(form, backend, envs):
    whole, inputs = fresh(form, backend, envs)
    first, second = split(inputs)
    wanted = whole(*inputs.args)
    loop = build("collect_and_learn", backend, inputs.spec, first, form, every=4)
    start = loop(*first)
    state = loop.state()
    kept = restored(state)
    for _ in range(2):
        end = loop(*second)
        for one, *two in zip(wanted, start, end, strict=True):
            np.testing.assert_array_equal(np.concatenate(two), one)
        assert_state_equal(loop.state(), whole.state())
        assert_state_equal(state, kept)
        loop(*first)  # and is elsewhere
        loop.load_state(state)
        assert_state_equal(loop.state(), kept)


def unlike(spec):
    """Start a loop from other weights, games and transitions."""
    games = {name: np.roll(value, 1, axis=-1) if name == "food" else value for name, value in spec["env_state"].items()}
    nets = {name: spec[other] for name, other in (("params", "target"), ("target", "params"))}
    return spec | nets | {"env_state": games, "step": 0, "stored": tuple(c[::-1].copy() for c in spec["stored"])}


@pytest.mark.parametrize(
    ("before", "after"),
    quick(
        [(("naive", "torch"), ("compiled", "jax")), (("full", "torch"), ("threaded", "torch"))],
        [
            (("full", "torch"), ("naive", "torch")),
            (("naive", "torch"), ("compiled", "jax")),
            (("compiled", "jax"), ("full", "jax")),
            (("full", "jax"), ("compiled", "jax")),
            (("compiled", "jax"), ("full", "torch")),
            (("full", "torch"), ("threaded", "torch")),
        ],
    ),
)
def test_another_form_goes_on_from_a_checkpoint(before, after):
    inputs = full_ring(timed("full", 1))
    _, *rest = inputs.args
    inputs = Inputs(inputs.spec, (np.ones_like(inputs.args[0]), *rest))  # the moves depend on no rounding
    first, second = split(inputs)
    one = build("collect_and_learn", before[1], inputs.spec, first, before[0], every=4)
    other = build("collect_and_learn", after[1], unlike(inputs.spec), second, after[0], every=4)
    try:
        start = one(*first)
        other.load_state(one.state())
        end = other(*second)
        actions, rewards, ended, losses = (np.concatenate(two) for two in zip(start, end, strict=True))
        wanted = follow(inputs, actions, 4, threaded=False)
        np.testing.assert_array_equal(rewards, wanted.rewards)
        np.testing.assert_array_equal(ended, wanted.ended)
        np.testing.assert_allclose(losses, wanted.losses, rtol=1e-3)
        assert_trained_alike(other.params, wanted.params, inputs.spec["learning_rate"], len(losses))
        state = other.state()
        for name, value in wanted.state.items():
            if name.partition(".")[0] in ("env", "memory", "loop"):
                np.testing.assert_array_equal(state[name], value, err_msg=name)
    finally:
        close(one)
        close(other)


def test_two_calls_of_a_threaded_loop_are_the_same_with_a_checkpoint_in_between():
    inputs = timed("threaded", 64)
    first, second = split(inputs)
    loops = [build("collect_and_learn", "torch", inputs.spec, inputs.args, "threaded", every=4) for _ in range(3)]
    whole, before, after = loops
    try:
        whole(*first)
        whole(*second)
        before(*first)
        after.load_state(before.state())
        after(*second)
        assert_state_equal(after.state(), whole.state())
    finally:
        for loop in loops:
            close(loop)
