"""Nets one after the other: given arguments as such a program holds them, an array of each agent, not one of all."""

from __future__ import annotations

import numpy as np
import pytest

from correctness_tests.treasurehunt.problem import AGENTS, acting, build, problem
from rl_impls import backends

OPS = ("forward", "act", "train_step")

pytestmark = pytest.mark.usefixtures("one_thread")


def prepare(op, backend, form="one_by_one"):
    """Return an op and its arguments [N, ...] on the device."""
    everything, [batch] = problem(0)
    states, *_, taus, noise = batch
    args = {
        "forward": (states, taus[:, 0], noise[:, 0]),
        "act": acting(np.random.default_rng(1), everything["params"]),
        "train_step": batch,
    }[op]
    return build(op, backend, everything, args, form), tuple(map(backends.get(backend).to_device, args))


@pytest.fixture
def cuts(monkeypatch):
    """The number of times that an array was asked for the part of an agent."""
    import jax.numpy as jnp
    import torch

    seen = []
    for kind in (torch.Tensor, type(jnp.zeros(1))):

        def counted(array, index, take=kind.__getitem__):
            if isinstance(index, int):
                seen.append(index)
            return take(array, index)

        monkeypatch.setattr(kind, "__getitem__", counted)
    return seen


@pytest.mark.parametrize("backend", ["torch", "jax"])
@pytest.mark.parametrize("op", OPS)
def test_held_arguments_give_the_same_answer_and_are_not_cut_by_the_call(op, backend, cuts):
    made = backends.get(backend)
    built, args = prepare(op, backend)
    wanted = made.to_host(built(*args))
    getattr(built, "reset", int)()
    assert len(cuts) >= AGENTS * len(args)
    held = built.held(*args)
    cuts.clear()
    got = made.to_host(built(*held))
    assert cuts == []
    np.testing.assert_array_equal(got, wanted)
    assert got.shape[0] == AGENTS


@pytest.mark.parametrize("backend", ["torch", "jax"])
@pytest.mark.parametrize("op", OPS)
def test_held_arguments_are_an_array_of_each_agent(op, backend):
    made = backends.get(backend)
    built, args = prepare(op, backend)
    held = built.held(*args)
    assert all(isinstance(parts, tuple) and len(parts) == AGENTS for parts in held)
    for parts, whole in zip(held, args, strict=True):
        assert {type(part) for part in parts} == {type(whole)}
        np.testing.assert_array_equal([made.to_host(part) for part in parts], made.to_host(whole))


@pytest.mark.parametrize("backend", ["torch", "jax"])
@pytest.mark.parametrize("op", OPS)
def test_all_at_once_holds_its_arguments_as_they_come(op, backend):
    built, args = prepare(op, backend, "full")
    held = getattr(built, "held", lambda *args: args)(*args)
    assert all(kept is whole for kept, whole in zip(held, args, strict=True))
