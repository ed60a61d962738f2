"""What an op may have beside its call: a subclass of ``Op`` inherits it, and the harness does without it."""

from __future__ import annotations

import pytest

from perf_tests.suite.prepared import extras
from rl_impls.common.op import Op


class Bare(Op):
    """An op that is called, and nothing else."""

    def __call__(self, *args):
        return args


class Full(Op):
    """An op that says all that can be said."""

    def __init__(self):
        self.params, self.did = {"w0": 1}, []

    def __call__(self, *args):
        return args

    def reset(self):
        self.did.append("reset")

    def close(self):
        self.did.append("close")

    def stats(self):
        return {"latency_p50_s": 1.0}

    def phases(self):
        return {"learning": 2.0}

    def held(self, *args):
        return args[::-1]


def told(op):
    """Return what the harness gets of an op."""
    has = extras(op)
    return has.reset(), has.close(), has.stats(), has.phases(), has.held(1, 2), dict(has.params())


def test_a_plain_function_and_a_bare_op_have_the_same_defaults():
    assert told(lambda *args: args) == told(Bare()) == (None, None, {}, {}, (1, 2), {})


def test_what_an_op_says_of_itself_is_heard():
    op = Full()
    assert told(op) == (None, None, {"latency_p50_s": 1.0}, {"learning": 2.0}, (2, 1), {"w0": 1})
    assert op.did == ["reset", "close"]


def test_weights_are_those_of_now():
    op = Full()
    params = extras(op).params
    op.params = {"w0": 2}
    assert params() == {"w0": 2}


def test_an_op_that_cannot_be_called_is_none():
    with pytest.raises(TypeError, match="__call__"):
        type("Mute", (Op,), {})()
