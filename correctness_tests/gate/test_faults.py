"""Mistakes that are built in to see whether they are found: each does what its name says, and answers the same."""

from __future__ import annotations

import numpy as np
import pytest

from perf_tests.gate.selfcheck.faults import FAULTS
from perf_tests.suite.cases import variants
from perf_tests.suite.prepared import prepare


def forward(backend, fault=None):
    """Prepare a forward pass of 32 rows, with a mistake built in."""
    prepared = prepare(variants()[f"pirl.forward[full-{backend}-batch32-iohost-hidden32]"], 0)
    if fault:
        FAULTS[fault](prepared)
    return prepared


@pytest.mark.parametrize(
    ("backend", "fault"), [("torch", "copy"), ("jax", "trace"), ("numpy", "float64"), ("torch", "rows")]
)
def test_a_mistake_answers_the_same(backend, fault):
    np.testing.assert_allclose(forward(backend, fault).call(), forward(backend).call(), rtol=1e-5)


def seen(prepared):
    """Record the arguments that reach an op."""
    found, op = [], prepared.op

    def recording(*args):
        found.append(args)
        return op(*args)

    prepared.op = recording
    return found


def test_the_copy_is_one():
    prepared = forward("numpy")
    found = seen(prepared)
    FAULTS["copy"](prepared)
    prepared.call()
    assert found[0][0] is not prepared.args[0]
    assert np.array_equal(found[0][0], prepared.args[0])


def test_the_batch_comes_row_by_row():
    prepared = forward("numpy")
    found = seen(prepared)
    FAULTS["rows"](prepared)
    prepared.call()
    assert [args[0].shape for args in found] == [(1, 16)] * 32


def test_float64_creeps_in():
    assert forward("numpy").settle()[0].dtype == np.float32
    assert forward("numpy", "float64").settle()[0].dtype == np.float64


def test_every_call_traces_again(monkeypatch):
    import jax

    prepared, compiled, jit = forward("jax", "trace"), [], jax.jit
    monkeypatch.setattr(jax, "jit", lambda function: compiled.append(function) or jit(function))
    prepared.call()
    prepared.call()
    assert len(compiled) == len(set(compiled)) == 2
