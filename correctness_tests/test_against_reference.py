"""Every backend of every benchmark against the float64 reference, on the timed inputs."""

from __future__ import annotations

import numpy as np
import pytest

from perf_tests.bench import close_to, leaves
from perf_tests.counters import graphs_compiled
from perf_tests.grid import TIERS
from perf_tests.recorded import Benchmark, benchmarks, problem_of, record

from .commands import collected
from .quick import size
from .reference import after_two_calls, largest_difference, reference_output

OWN_FILE = ("pirl",)  # its own file runs in another process, because torch takes long to compile its ops
COMPILED_ALIKE = {  # ops for which torch.compile is slow and compiles code that others of their workload share
    ("pirl", "act"), ("pirl", "loss_and_backward"), ("treasurehunt", "act"), ("treasurehunt", "quantile_huber"),
}  # fmt: skip
WITHOUT_GRID: dict[str, str] = {}  # pytest id of a benchmark without `grid` -> why it has no reference, or its test


def quick(chosen: list[Benchmark]) -> set[str]:
    """Return the ids of the smallest benchmark of each op, form, backend and order.

    Half precision is not compared, and the tests of options compare single options. If torch compiles, one form is
    enough, and the ops in ``COMPILED_ALIKE`` are left out.
    """
    found = {}
    for one in sorted(chosen, key=size):
        op, backend, form = (one.workload, one.op), one.params["backend"], one.params["form"]
        if form.startswith("only_") or "float16" in form or (backend == "torch-compile" and op in COMPILED_ALIKE):
            continue
        kind = () if "compile" in backend else (form, one.params.get("order"))
        found.setdefault((*op, backend, *kind), one.id)
    return set(found.values())


def parametrise(metafunc, timed):
    """Parametrise with those of the benchmarks that a plain run times, or the given tier; most are marked as slow."""
    if "timed" in metafunc.fixturenames:
        last = TIERS.index(metafunc.config.getoption("tier") or "bench")
        chosen = [one for one in timed if TIERS.index(one.tier) <= last and one.op != "first_call"]
        fast = quick(chosen)
        marked = [pytest.param(one, id=one.id, marks=() if one.id in fast else pytest.mark.slow) for one in chosen]
        metafunc.parametrize("timed", marked)


def pytest_generate_tests(metafunc):
    parametrise(metafunc, [one for one in benchmarks() if one.workload not in OWN_FILE])


@pytest.fixture
def optimised(timed):
    if not timed.params["backend"].startswith("jax"):
        yield
        return
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.usefixtures("optimised")
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
        assert programs(op) == before, "a call after the first ones traces or compiles again"
    finally:
        if op.close:
            op.close()
    wanted_out, wanted_params = reference_output(problem)
    given = {np.asarray(leaf).dtype for leaf in named(problem.args).values()}
    assert_same_output(problem, out, wanted_out, any_precision=np.dtype(np.float64) in given)
    assert start.keys() & params.keys() == wanted_params.keys()
    if params:
        assert_same_weights(problem, start, params, wanted_params)


def test_a_plain_run_is_collected_without_torch_and_jax_and_each_benchmark_is_compared_or_has_a_reason():
    *lines, heavy = collected("perf_tests").splitlines()
    assert heavy == "heavy: []"
    timed = {line for line in lines if line.startswith("perf_tests/") and "::" in line}
    compared = {f"perf_tests/test_{one.workload}.py::test_{one.op}[{one.name}]" for one in benchmarks()}
    assert timed & compared
    assert timed - compared == WITHOUT_GRID.keys(), "compare outputs with a reference, or add the reason"


def assert_same_output(problem, got, wanted, any_precision=False):
    """Check that each array has the reference's values, within the problem's tolerance, and its dtype."""
    got, wanted, tolerance = named(got), named(wanted), problem.tolerance
    assert got.keys() == wanted.keys(), f"{problem.op}: returns {list(got)}, the reference {list(wanted)}"
    for name, value in got.items():
        what, dtype = f"{problem.op}: {name}", in_float32(np.asarray(wanted[name])).dtype
        apart = largest_difference(value, wanted[name], what)
        assert apart <= tolerance, f"{what}: {apart:.3g} off the reference, tolerance {tolerance:g}"
        assert any_precision or np.asarray(value).dtype == dtype, f"{what}: {value.dtype}, wanted {dtype}"


def programs(op):
    """Count the functions given to the compiler, and the programs that torch and JAX compiled for them."""
    sizes = [getattr(function, "_cache_size", int)() for function, _ in op.compiler.compiled]
    return len(sizes), sum(sizes), graphs_compiled()


def assert_same_weights(problem, start, got, wanted):
    """Check that nearly all weights equal the reference's, relative to the largest change in their array.

    A few may differ by a step or two, because Adam turns a gradient of mere rounding errors into a whole step. Rounding
    may also change which of two next actions is the better one.
    """
    off = {}
    for name, weights in got.items():
        what, change = f"{problem.op}: .params[{name!r}]", np.abs(wanted[name] - start[name])
        largest = change.max()
        assert weights.dtype == np.float32, f"{what}: {weights.dtype}, wanted float32, like all .params"
        assert largest > 1e-5 * np.abs(start[name]).max(), f"{what}: hardly changed, so a wrong update would not show"
        off[name] = np.abs(weights - wanted[name]).ravel() / largest
        half = np.median(off[name])
        assert half <= 0.001, f"{what}: the median weight is off by {half:.3g} of the largest change, tolerance 0.001"
    every, worst = np.concatenate(list(off.values())), max(off, key=lambda name: off[name].max())
    most, far, farthest = np.quantile(every, 0.99), np.mean(every > 0.5), every.max()
    what = f"{problem.op}: .params, the worst is {worst!r}"
    assert most <= 0.01, f"{what}: 1% of the weights are off by {most:.3g} of the largest change, tolerance 0.01"
    assert far <= 1e-4, f"{what}: {far:.3g} of the weights are off by half of the largest change, tolerance 0.0001"
    assert farthest <= 2, f"{what}: a weight is off by {farthest:.3g} times the largest change, tolerance 2"


def in_float32(array):
    return array.astype(np.float32) if array.dtype == np.float64 else array


def named(tree, name="output"):
    """Return the leaves of nested dicts, lists and tuples by their path, such as ``output[0]['loss']``."""
    if isinstance(tree, dict | list | tuple):
        parts = sorted(tree.items()) if isinstance(tree, dict) else enumerate(tree)
        return {where: leaf for key, part in parts for where, leaf in named(part, f"{name}[{key!r}]").items()}
    return {name: tree}
