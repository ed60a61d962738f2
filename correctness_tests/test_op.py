"""What an op has beside its call: a subclass of ``Op`` inherits it."""

from __future__ import annotations

import pytest

from rl_impls.common.op import Op


class Bare(Op):
    """An op that is called, and nothing else."""

    def __call__(self, *args):
        return args


def test_a_bare_op_changes_nothing_and_has_no_figures():
    op = Bare()
    assert (op.reset(), op.close(), op.stats(), op.phases()) == (None, None, {}, {})
    assert (op.held(1, 2), dict(op.params)) == ((1, 2), {})


def test_an_op_that_cannot_be_called_is_none():
    with pytest.raises(TypeError, match="__call__"):
        type("Mute", (Op,), {})()
