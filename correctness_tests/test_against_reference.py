"""Every backend of every case against the float64 reference, on the very inputs that are timed."""

from __future__ import annotations

import numpy as np

from perf_tests.suite.prepared import graphs_compiled, prepare
from rl_impls.backends import BackendUnavailable, tree_map

from .reference import largest_difference, reference_answer


def test_answers_on_the_timed_inputs_match_the_reference(referenced_variant, seed, unavailable):
    variant = referenced_variant
    try:
        prepared = prepare(variant, seed)
    except BackendUnavailable as error:
        unavailable(error)
    with prepared:
        prepared.reset()
        start = {name: value.copy() for name, value in prepared.extras.params().items()}
        out, params = prepared.settle()
        before = programs(prepared)
        prepared.run()
        assert programs(prepared) == before, "a call after the first ones lowers, traces or compiles again"
    inputs = variant.inputs(seed)
    wanted_out, wanted_params = reference_answer(variant, inputs)
    given = {np.asarray(leaf).dtype for leaf in leaves(inputs.args)}
    for got, wanted in zip(leaves(out), leaves(wanted_out), strict=True):
        assert largest_difference(got, wanted) <= variant.case.tolerance
        assert np.dtype(np.float64) in given or got.dtype == in_float32(np.asarray(wanted)).dtype
    assert params.keys() == wanted_params.keys() == start.keys(), "an op and its reference have the same .params"
    if params:
        assert_moved_alike(start, params, wanted_params)


def programs(prepared):
    """How many functions were lowered, and how many programs torch and JAX have made of them."""
    sizes = [getattr(function, "_cache_size", int)() for function, _ in prepared.target.lowered]
    return len(sizes), sum(sizes), graphs_compiled()


def assert_moved_alike(start, got, wanted):
    """Nearly all weights end where the reference's do, measured by the longest way that one of their array went.

    Not all: Adam turns a gradient that is nothing but rounding into a whole step, so a few may end a step or two apart.
    """
    differences = []
    for name, weights in got.items():
        longest = np.abs(wanted[name] - start[name]).max()
        assert weights.dtype == np.float32, f"{name}: {weights.dtype}, wanted float32, as every .params has"
        assert longest > 1e-5 * np.abs(start[name]).max(), f"{name}: hardly changed, so a wrong update would not show"
        differences.append(np.abs(weights - wanted[name]).ravel() / longest)
        assert np.median(differences[-1]) <= 0.001, f"{name}: half of it ends elsewhere than the reference"
    every = np.concatenate(differences)
    assert np.quantile(every, 0.99) <= 0.001, ".params: more than 1 % of the weights end elsewhere than the reference"
    assert np.mean(every > 0.5) <= 1e-4, ".params: more than 1 in 10,000 weights end half of the longest way off"
    assert every.max() <= 2, ".params: a weight ends more than twice the longest way off"


def in_float32(array):
    return array.astype(np.float32) if array.dtype == np.float64 else array


def leaves(tree):
    if isinstance(tree, dict):
        return [tree[name] for name in sorted(tree)]
    found = []
    tree_map(found.append, tree)
    return found
