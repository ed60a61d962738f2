"""Every backend of every benchmark against the float64 reference, on the very inputs that are timed."""

from __future__ import annotations

import re

import numpy as np
import pytest

from perf_tests.bench import close_to, leaves
from perf_tests.counters import graphs_compiled
from perf_tests.grid import TIERS
from perf_tests.recorded import Benchmark, benchmarks, problem_of, record
from rl_impls.backends import get
from rl_impls.common.problem import Problem

from .names import unlike
from .reference import largest_difference, reference_output


def quick(chosen: list[Benchmark]) -> set[str]:
    """Ids of the first benchmark of each op, form, backend and order; of each op that torch compiles, of one form."""
    found = {}
    for one in sorted(chosen, key=lambda one: one.params.get("order", 0)):
        op, backend = (one.workload, one.test.__name__), one.params["backend"]
        rest = () if "compile" in backend else (one.params["form"], one.params.get("order"))
        found.setdefault((*op, backend, *rest), one.id)
    return set(found.values())


def pytest_generate_tests(metafunc):
    """The benchmarks of a plain run, or of the tier asked for, but those that time compiling; most of them are slow."""
    if "timed" in metafunc.fixturenames:
        last = TIERS.index(metafunc.config.getoption("tier") or "bench")
        chosen = [one for one in benchmarks() if TIERS.index(one.tier) <= last and one.op != "first_call"]
        fast = quick(chosen)
        marked = [pytest.param(one, id=one.id, marks=() if one.id in fast else pytest.mark.slow) for one in chosen]
        metafunc.parametrize("timed", marked)


def test_outputs_on_the_timed_inputs_match_the_reference(timed, seed):
    problem = problem_of(timed, seed)
    if problem.unreferenced:
        pytest.skip(problem.unreferenced)
    recorded = record(timed, seed)
    op = recorded.op
    try:
        if op.precision != "float32":
            pytest.skip(
                f"{op.precision} rounds more coarsely than float32; the workload's own tests bound the difference"
            )
        start = {name: value.copy() for name, value in op.params.items()}
        out, params = output = after_two_calls(recorded)
        for first, second in zip(*map(leaves, (output, after_two_calls(recorded))), strict=True):
            assert close_to(first, second, op.rtol), "two samples after a reset differ"
        before = programs(op)
        recorded.function(*recorded.args)
        assert programs(op) == before, "a call after the first ones lowers, traces or compiles again"
    finally:
        if op.close:
            op.close()
    wanted_out, wanted_params = reference_output(problem)
    given = {np.asarray(leaf).dtype for leaf in named(problem.args).values()}
    assert_same_output(problem, out, wanted_out, any_precision=np.dtype(np.float64) in given)
    assert_same_names(problem, start.keys() & params.keys(), wanted_params)
    if params:
        assert_moved_alike(problem, start, params, wanted_params)


def after_two_calls(recorded):
    """What the benchmark compares: the output of the second call after a reset, and the weights."""
    op = recorded.op
    if op.reset:
        op.reset()
    for _ in range(min(2, op.problem.max_calls or 2)):
        out = recorded.function(*recorded.args)
    return op.output(out)


def assert_same_output(problem, got, wanted, any_precision=False):
    """Each array of the output is the reference's, within the tolerance of the problem, and of the type that it has."""
    got, wanted, tolerance = named(got), named(wanted), problem.tolerance
    wrong = unlike(got, wanted)
    assert not wrong, f"{problem.op}: what is returned {wrong}, wanted what the reference returns"
    for name, value in got.items():
        what, dtype = f"{problem.op}: {name}", in_float32(np.asarray(wanted[name])).dtype
        apart = largest_difference(value, wanted[name], what)
        assert apart <= tolerance, f"{what}: {apart:.3g} off the reference, tolerance {tolerance:g}"
        assert any_precision or np.asarray(value).dtype == dtype, f"{what}: {value.dtype}, wanted {dtype}"


def assert_same_names(problem, got, wanted):
    """An op and its reference have the same .params."""
    sides = {"the op": got, f"its reference on {problem.reference}": wanted}
    every = {name for names in sides.values() for name in names}
    lacking = [f"{side} lacks {sorted(every - set(names))}" for side, names in sides.items() if every - set(names)]
    assert not lacking, f"{problem.op}: .params: {', '.join(lacking)}"


def programs(op):
    """How many functions were lowered, and how many programs torch and JAX have made of them."""
    sizes = [getattr(function, "_cache_size", int)() for function, _ in op.target.lowered]
    return len(sizes), sum(sizes), graphs_compiled()


def assert_moved_alike(problem, start, got, wanted):
    """Nearly all weights end where the reference's do, measured by the longest way that one of their array went.

    Not all: Adam turns a gradient that is nothing but rounding into a whole step, so a few may end a step or two apart.
    """
    off = {}
    for name, weights in got.items():
        what, way = f"{problem.op}: .params[{name!r}]", np.abs(wanted[name] - start[name])
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
    what = f"{problem.op}: .params, the worst is {worst!r}"
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


PROBLEM = Problem("toy", "double", {}, reference="torch")
START = {"w0": np.zeros(3, np.float32)}
MOVED = {"w0": np.ones(3, np.float32)}


@pytest.mark.parametrize(
    ("check", "arguments", "said"),
    [
        (assert_same_output, (np.float32(1.01), 1.0), "output: 0.01 off the reference, tolerance "),
        (assert_same_output, ([np.float32(1), {"loss": 2.0}], [1.0, {"loss": 1.0}]), "output[1]['loss']: 1 off "),
        (assert_same_output, ((1.0,), (1.0, 2.0)), "what is returned lacks 'output[1]', wanted "),
        (assert_same_output, (np.zeros(3), np.ones(2)), "output: shape (3,), wanted (2,)"),
        (assert_same_names, ({}, MOVED), ".params: the op lacks ['w0']"),
        (assert_same_names, (MOVED, {}), ".params: its reference on torch lacks ['w0']"),
        (assert_moved_alike, (START, START, MOVED), ".params['w0']: half of it ends 1 of the longest way off "),
        (assert_moved_alike, (START, START | {"w0": np.float32([1, 1, 4])}, MOVED), ".params, the worst is 'w0': "),
    ],
)  # fmt: skip
def test_what_differs_from_the_reference_is_named(check, arguments, said):
    with pytest.raises(AssertionError, match=f"^{re.escape(f'double: {said}')}"):
        check(PROBLEM, *arguments)


@pytest.mark.parametrize("workload", sorted({one.workload for one in benchmarks()}))
def test_a_benchmark_without_a_reference_says_why(workload, seed):
    first = {one.test: one for one in benchmarks((workload,)) if one.tier != "full"}
    assert first
    for one in first.values():
        problem = problem_of(one, seed)
        assert get(problem.reference)
        assert problem.unreferenced == "" or len(problem.unreferenced.split()) > 4, one.id
