"""Loops resume from a state: bit for bit, and with another form or backend."""

from contextlib import closing

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.snake.loops import LOOPS, Inputs, assert_played_alike, follow, fresh, full_ring, timed
from correctness_tests.snake.problem import assert_trained_alike, build
from correctness_tests.updates import assert_same


def split(inputs):
    """Return the arguments of two calls that make half of the steps and updates each."""
    halves = zip(*(np.split(np.asarray(array), 2) for array in inputs.args))
    return [tuple(half) for half in halves]


def restored(state):
    """Return a copy of a state, as if loaded from a checkpoint."""
    return {name: np.array(value) for name, value in state.items()}


@pytest.mark.parametrize(
    ("form", "backend", "num_envs"),
    quick(
        [("naive", "torch", 1), ("vectorised", "torch", 64)],
        [loop for loop in LOOPS if loop[0] != "threaded"],
    ),
)
def test_two_halves_with_a_checkpoint_in_between_equal_one_run(form, backend, num_envs):
    whole, inputs = fresh(form, backend, num_envs)
    first, second = split(inputs)
    wanted = whole(*inputs.args)
    loop = build("collect_and_learn", backend, inputs.config, first, form, train_frequency=4)
    start = loop(*first)
    state = loop.state()
    kept = restored(state)
    for _ in range(2):
        end = loop(*second)
        for one, *two in zip(wanted, start, end, strict=True):
            np.testing.assert_array_equal(np.concatenate(two), one)
        assert_same(loop.state(), whole.state())
        assert_same(state, kept)
        loop(*first)  # moves on to another state
        loop.load_state(state)
        assert_same(loop.state(), kept)


def unlike(config):
    games = config["env_state"] | {"food": np.roll(config["env_state"]["food"], 1, axis=-1)}
    nets = {"params": config["target"], "target": config["params"]}
    return config | nets | {"env_state": games, "step": 0, "stored": tuple(c[::-1].copy() for c in config["stored"])}


@pytest.mark.parametrize(
    ("before", "after"),
    quick(
        [(("naive", "torch"), ("compiled", "jax")), (("full", "torch"), ("threaded", "torch"))],
        [
            (("naive", "torch"), ("compiled", "jax")),
            (("compiled", "jax"), ("full", "torch")),
            (("full", "jax"), ("compiled", "jax")),
            (("full", "torch"), ("threaded", "torch")),
        ],
    ),
)
def test_another_form_goes_on_from_a_checkpoint(before, after):
    inputs = full_ring(timed("full", 1))
    _, *rest = inputs.args
    inputs = Inputs(inputs.config, (np.ones_like(inputs.args[0]), *rest))  # random moves, which rounding cannot change
    first, second = split(inputs)
    one = build("collect_and_learn", before[1], inputs.config, first, before[0], train_frequency=4)
    other = build("collect_and_learn", after[1], unlike(inputs.config), second, after[0], train_frequency=4)
    with closing(one), closing(other):
        start = one(*first)
        other.load_state(one.state())
        end = other(*second)
        actions, rewards, ended, losses = (np.concatenate(two) for two in zip(start, end, strict=True))
        wanted = follow(inputs, actions, 4, threaded=False)
        np.testing.assert_array_equal(rewards, wanted.rewards)
        np.testing.assert_array_equal(ended, wanted.ended)
        np.testing.assert_allclose(losses, wanted.losses, rtol=1e-3)
        assert_trained_alike(other.params, wanted.params, inputs.config["learning_rate"], len(losses))
        assert_played_alike(other.state(), wanted.state)
