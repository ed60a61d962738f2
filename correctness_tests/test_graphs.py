"""The count of JAX's graphs: one for a function of any arguments, more for one that is traced again."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from perf_tests.counters import count
from rl_impls.lowering import Target, jit

SETTLING = 4  # calls before the count


def counted(op, target):
    """Count one call of an op that was called before."""
    built = SimpleNamespace(
        backend=SimpleNamespace(lowering="jit"), target=target, call=op, args=(), reset=None, programs_before=0
    )
    for _ in range(SETTLING):
        op()
    return count(built)


def ones():
    import jax.numpy as jnp

    return jnp.ones(8, jnp.float32)


@dataclass(frozen=True)
class Settings:
    factor: int = 3


def functions():
    """Functions with arguments of every kind. -> by what they are given: function, arguments, options of jit"""
    import jax.numpy as jnp

    return {
        "static by number": (lambda x, n: x * n, (ones(), 3), {"static_argnums": 1}),
        "static by name": (lambda x, n: x * n, (ones(), 3), {"static_argnames": "n"}),
        "a static string": (lambda x, how: getattr(jnp, how)(x, x), (ones(), "multiply"), {"static_argnums": (1,)}),
        "static settings": (lambda x, s: x * s.factor, (ones(), Settings()), {"static_argnums": 1}),
        "a static tuple": (lambda x, shape: x.reshape(shape) * 3, (ones(), (2, 4)), {"static_argnums": 1}),
        "a NumPy number that is static": (lambda x, n: x * n, (ones(), np.int32(3)), {"static_argnums": 1}),
        "a number": (lambda x, y: x * y, (ones(), 3.0), {}),
        "an array of NumPy": (lambda x, y: x * y, (ones(), np.ones(8, np.float32)), {}),
        "a tree with nothing in it": (lambda tree, no: tree["x"][0] * 3, ({"x": [ones()], "none": None}, None), {}),
    }


def test_a_function_is_one_graph_whatever_its_arguments_are():
    for name, (function, example, options) in functions().items():
        target = Target("jax", jit, "cpu", "jax")
        call = target.lower(function, example, **options)
        found = counted(lambda call=call, example=example: call(*example), target)
        assert (found["graphs"], found["hlo_flops"]) == (1, 8), name


def test_arguments_may_be_gone():
    target, example = Target("jax", jit, "cpu", "jax"), (ones(),)
    call = target.lower(lambda x: x * 3, example, donate_argnums=0)
    call(*example)
    assert example[0].is_deleted()
    assert counted(lambda: call(ones()), target)["graphs"] == 1


def test_a_static_number_that_changes_at_every_call_is_as_many_graphs():
    target, numbers = Target("jax", jit, "cpu", "jax"), itertools.count()
    call = target.lower(lambda x, n: x * n, (ones(), 0), static_argnums=1)
    assert counted(lambda: call(ones(), next(numbers)), target)["graphs"] > SETTLING


def test_a_function_that_is_compiled_anew_at_every_call_is_one_graph_more():
    import jax

    target, example = Target("jax", jit, "cpu", "jax"), (ones(),)
    call = target.lower(lambda x: x * 3, example)

    def op():
        return call(jax.jit(lambda x: x + 1)(*example))

    assert counted(op, target)["graphs"] == 2


def test_what_lowers_again_at_every_call_is_as_many_graphs():
    target = Target("jax", jit, "cpu", "jax")
    assert counted(lambda: target.lower(lambda x: x * 3, (ones(),))(ones()), target)["graphs"] > SETTLING


def test_of_an_op_that_lowers_nothing_itself_nothing_is_counted():
    import jax

    assert counted(lambda: jax.jit(lambda x: x + 1)(ones()), Target("jax", jit, "cpu", "jax")) == {}
