"""Every backend of every case against the float64 reference, on the very inputs that are timed."""

from __future__ import annotations

import numpy as np

from rl_impls.backends import BackendUnavailable, tree_map

from .reference import largest_difference, reference_answer


def test_answers_on_the_timed_inputs_match_the_reference(referenced_variant, seed, unavailable):
    variant = referenced_variant
    try:
        prepared = variant.prepare(seed)
    except BackendUnavailable as error:
        unavailable(error)
    with prepared:
        out, params = prepared.settle()
    inputs = variant.inputs(seed)
    wanted_out, wanted_params = reference_answer(variant, inputs)
    given = {np.asarray(leaf).dtype for leaf in leaves(inputs.varying)}
    for got, wanted in zip(leaves(out), leaves(wanted_out), strict=True):
        assert largest_difference(got, wanted) <= variant.case.tolerance
        assert np.dtype(np.float64) in given or got.dtype == in_float32(np.asarray(wanted)).dtype
    assert params.keys() == wanted_params.keys()
    assert {value.dtype for value in params.values()} <= {np.dtype(np.float32)}
    if not params:
        return
    # Adam turns a gradient of rounding noise into a whole step: nearly all weights agree closely, the rest within steps
    start = variant.inputs(seed).fixed["params"]
    agents = int(variant.axes.get("agents", 1))  # each with weights of its own
    steps = variant.case.answered_calls * variant.case.items(**variant.axes) // agents
    rate = variant.inputs(seed).fixed["learning_rate"]
    difference = np.concatenate([np.abs(params[name] - wanted_params[name]).ravel() for name in params])
    moved = np.concatenate([np.abs(wanted_params[name] - start[name]).ravel() for name in params])
    assert np.median(moved) > 0.1 * rate
    assert np.quantile(difference, 0.99) <= 0.001 * rate * steps
    assert np.mean(difference > 0.5 * rate * steps) <= 1e-4
    assert difference.max() <= 2 * rate * steps


def in_float32(array):
    return array.astype(np.float32) if array.dtype == np.float64 else array


def leaves(tree):
    if isinstance(tree, dict):
        return [tree[name] for name in sorted(tree)]
    found = []
    tree_map(found.append, tree)
    return found
