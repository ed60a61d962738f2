"""NumPy computes in float32 from end to end: float64 on the way costs up to twice the time and shows in no answer."""

from __future__ import annotations

import numpy as np
import pytest

from perf_tests.suite.cases import variants
from perf_tests.suite.prepared import extras, leaves
from rl_impls.backends import get, tree_map

SEEN = set()


class Watched(np.ndarray):
    """An array that notes in ``SEEN`` the types of all that is computed from it, and from that in turn."""

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


def first_of_each_form():
    found = {}
    for variant in variants().values():
        if variant.backend == "numpy":
            found.setdefault((variant.case.name, variant.form), variant)
    return found.values()


@pytest.mark.parametrize("watched_variant", first_of_each_form(), ids=lambda variant: variant.id)
def test_numpy_computes_in_float32_from_end_to_end(watched_variant, seed):
    case, inputs = watched_variant.case, watched_variant.inputs(seed)
    spec, args = watched(dict(inputs.spec)), watched(inputs.args)
    SEEN.clear()
    op = get("numpy").build(case.workload, case.op, spec, args, watched_variant.knobs())
    try:
        out = op(*args)
    finally:
        extras(op).close()
    # an op that copies what it is given, or computes in plain Python, can be watched by what it returns alone
    found = SEEN | {leaf.dtype for leaf in leaves(out)}
    assert np.dtype(np.float64) not in found, f"{watched_variant.id}: got {found}: something made float64 of float32"


def test_a_float64_in_between_is_seen():
    SEEN.clear()
    ones = watched(np.ones(3, np.float32))
    assert ((ones * np.arange(3.0)).sum() * ones).astype(np.float32).dtype == np.float32
    assert np.dtype(np.float64) in SEEN
