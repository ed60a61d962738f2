"""NumPy benchmarks compute in float32 throughout; intermediate float64 costs up to twice the time."""

from dataclasses import replace

import numpy as np
import pytest

from perf_tests.bench import leaves
from perf_tests.recorded import benchmarks, problem_of
from rl_impls.backends import forms, get, tree_map

from .quick import size

SEEN = set()
IN_DOUBLE = "mario.per_sample", "mario.per_update"  # their sum tree is float64, so only the output is checked


class Watched(np.ndarray):
    """An array that records the dtypes of everything computed from it in ``SEEN``."""

    def __array_ufunc__(self, function, method, *args, **kwargs):
        return watched(getattr(function, method)(*plain(args), **plain(kwargs)))

    def __array_function__(self, function, types, args, kwargs):
        return watched(function(*plain(args), **plain(kwargs)))


def watched(tree):
    def one(x):
        SEEN.add(getattr(x, "dtype", None))
        return x.view(Watched) if isinstance(x, np.ndarray) else x

    return tree_map(one, tree)


def plain(tree):
    return tree_map(lambda x: x.view(np.ndarray) if isinstance(x, Watched) else x, tree)


def smallest_of_each_form():
    found = {}
    for one in sorted(benchmarks(), key=size):
        if one.params["backend"] == "numpy":
            found.setdefault((one.workload, one.op, one.params["form"]), one)
    return [pytest.param(one, id=one.id) for one in found.values()]


@pytest.mark.parametrize("timed", smallest_of_each_form())
def test_numpy_computes_in_float32_from_end_to_end(timed, seed):
    problem = problem_of(timed, seed)
    config, args = watched(dict(problem.config)), watched(problem.args)
    options = replace(forms(timed.workload)[timed.params["form"]], **problem.options)
    SEEN.clear()
    op = get("numpy").build(timed.workload, problem.op, config, args, options)
    try:
        out = op(*args)
    finally:
        getattr(op, "close", int)()
    # if an op copies its arguments or computes in plain Python, only its output is checked
    seen = set() if f"{timed.workload}.{timed.op}" in IN_DOUBLE else SEEN
    found = seen | {leaf.dtype for leaf in leaves(out)}
    assert np.dtype(np.float64) not in found, f"{timed.id}: {found}: something converted float32 to float64"
