"""Every backend of every case against the float64 reference, on the very inputs that are timed."""

from __future__ import annotations

import re

import numpy as np
import pytest

from perf_tests.suite.cases import variants
from perf_tests.suite.prepared import graphs_compiled, prepare
from rl_impls.backends import BackendUnavailable

from .names import unlike
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
    given = {np.asarray(leaf).dtype for leaf in named(inputs.args).values()}
    assert_same_output(variant, out, wanted_out, any_precision=np.dtype(np.float64) in given)
    assert_same_names(variant, start.keys() & params.keys(), wanted_params)
    if params:
        assert_moved_alike(variant, start, params, wanted_params)


def assert_same_output(variant, got, wanted, any_precision=False):
    """Each array of the output is the reference's, within the tolerance of the case, and of the type that it has."""
    got, wanted, tolerance = named(got), named(wanted), variant.case.tolerance
    wrong = unlike(got, wanted)
    assert not wrong, f"{variant.id}: what is returned {wrong}, wanted what the reference returns"
    for name, value in got.items():
        what, dtype = f"{variant.id}: {name}", in_float32(np.asarray(wanted[name])).dtype
        apart = largest_difference(value, wanted[name], what)
        assert apart <= tolerance, f"{what}: {apart:.3g} off the reference, tolerance {tolerance:g}"
        assert any_precision or np.asarray(value).dtype == dtype, f"{what}: {value.dtype}, wanted {dtype}"


def assert_same_names(variant, got, wanted):
    """An op and its reference have the same .params."""
    sides = {f"the op on {variant.backend}": got, f"its reference on {variant.case.reference}": wanted}
    every = {name for names in sides.values() for name in names}
    lacking = [f"{side} lacks {sorted(every - set(names))}" for side, names in sides.items() if every - set(names)]
    assert not lacking, f"{variant.id}: .params: {', '.join(lacking)}"


def programs(prepared):
    """How many functions were lowered, and how many programs torch and JAX have made of them."""
    sizes = [getattr(function, "_cache_size", int)() for function, _ in prepared.target.lowered]
    return len(sizes), sum(sizes), graphs_compiled()


def assert_moved_alike(variant, start, got, wanted):
    """Nearly all weights end where the reference's do, measured by the longest way that one of their array went.

    Not all: Adam turns a gradient that is nothing but rounding into a whole step, so a few may end a step or two apart.
    """
    off = {}
    for name, weights in got.items():
        what, way = f"{variant.id}: .params[{name!r}]", np.abs(wanted[name] - start[name])
        longest = way.max()
        assert weights.dtype == np.float32, f"{what}: {weights.dtype}, wanted float32, as every .params has"
        assert longest > 1e-5 * np.abs(start[name]).max(), f"{what}: hardly changed, so a wrong update would not show"
        off[name] = np.abs(weights - wanted[name]).ravel() / longest
        half = np.median(off[name])
        assert half <= 0.001, (
            f"{what}: half of it ends {half:.3g} of the longest way off the reference, tolerance 0.001"
        )
    every, worst = np.concatenate(list(off.values())), max(off, key=lambda name: off[name].max())
    most, far, farthest = np.quantile(every, 0.99), np.mean(every > 0.5), every.max()
    what = f"{variant.id}: .params, the worst is {worst!r}"
    assert most <= 0.001, f"{what}: 1 % of the weights end {most:.3g} of the longest way off, tolerance 0.001"
    assert far <= 1e-4, f"{what}: {far:.3g} of the weights end half of the longest way off, tolerance 0.0001"
    assert farthest <= 2, f"{what}: a weight ends {farthest:.3g} times the longest way off, tolerance 2"


def in_float32(array):
    return array.astype(np.float32) if array.dtype == np.float64 else array


def named(tree, name="output"):
    """The leaves of nested dicts, lists and tuples, by where they are, as in ``output[0]['loss']``."""
    if isinstance(tree, dict | list | tuple):
        parts = sorted(tree.items()) if isinstance(tree, dict) else enumerate(tree)
        return {where: leaf for key, part in parts for where, leaf in named(part, f"{name}[{key!r}]").items()}
    return {name: tree}


VARIANT = variants()["pirl.train_step[full-torch-batch256-order2]"]
START = {"w0": np.zeros(3, np.float32)}
MOVED = {"w0": np.ones(3, np.float32)}


@pytest.mark.parametrize(
    ("check", "arguments", "said"),
    [
        (assert_same_output, (np.float32(1.01), 1.0), "output: 0.01 off the reference, tolerance "),
        (assert_same_output, ([np.float32(1), {"loss": 2.0}], [1.0, {"loss": 1.0}]), "output[1]['loss']: 1 off "),
        (assert_same_output, ((1.0,), (1.0, 2.0)), "what is returned lacks 'output[1]', wanted "),
        (assert_same_output, (np.zeros(3), np.ones(2)), "output: shape (3,), wanted (2,)"),
        (assert_same_names, ({}, MOVED), ".params: the op on torch lacks ['w0']"),
        (assert_same_names, (MOVED, {}), ".params: its reference on torch lacks ['w0']"),
        (assert_moved_alike, (START, START, MOVED), ".params['w0']: half of it ends 1 of the longest way off "),
        (assert_moved_alike, (START, START | {"w0": np.float32([1, 1, 4])}, MOVED), ".params, the worst is 'w0': "),
    ],
)  # fmt: skip
def test_what_differs_from_the_reference_is_named(check, arguments, said):
    with pytest.raises(AssertionError, match=f"^{re.escape(f'{VARIANT.id}: {said}')}"):
        check(VARIANT, *arguments)
