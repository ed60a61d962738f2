"""The count of compiled JAX graphs: one per function, more for a function that is traced again."""

from types import SimpleNamespace

import numpy as np

from perf_tests.counters import count
from rl_impls.compilers import Compiler, jit

WARM_UP = 4  # calls before the count


def counted(op, compiler):
    built = SimpleNamespace(
        backend=SimpleNamespace(compile="jit"), compiler=compiler, call=op, args=(), reset=None, programs_before=0
    )
    for _ in range(WARM_UP):
        op()
    return count(built)


def ones():
    import jax.numpy as jnp

    return jnp.ones(8, jnp.float32)


def functions():
    """Return function, arguments and options of jit, by the kind of argument."""
    import jax.numpy as jnp

    return {
        "static by number": (lambda x, n: x * n, (ones(), 3), {"static_argnums": 1}),
        "static by name": (lambda x, n: x * n, (ones(), 3), {"static_argnames": "n"}),
        "a static string": (lambda x, how: getattr(jnp, how)(x, x), (ones(), "multiply"), {"static_argnums": (1,)}),
        "a number": (lambda x, y: x * y, (ones(), 3.0), {}),
        "an array of NumPy": (lambda x, y: x * y, (ones(), np.ones(8, np.float32)), {}),
        "a tree with nothing in it": (lambda tree, no: tree["x"][0] * 3, ({"x": [ones()], "none": None}, None), {}),
    }


def test_function_is_one_graph_whatever_its_arguments():
    for name, (function, example, options) in functions().items():
        compiler = Compiler("jax", jit, "cpu", "jax")
        call = compiler.compile(function, example, **options)
        found = counted(lambda call=call, example=example: call(*example), compiler)
        assert (found["graphs"], found["hlo_flops"]) == (1, 8), name


def test_function_compiled_at_every_call_is_counted():
    import jax

    compiler, example = Compiler("jax", jit, "cpu", "jax"), (ones(),)
    call = compiler.compile(lambda x: x * 3, example)

    def op():
        return call(jax.jit(lambda x: x + 1)(*example))

    assert counted(op, compiler)["graphs"] == 2
