"""What a call handles and costs: worked out by hand from the shapes, and beside what torch computes."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from perf_tests.suite.cases import load, variants
from perf_tests.suite.prepared import leaves, prepare

LARGEST = 3e9  # FLOPs of a call that is quick to count


def costs(workload):
    """What a workload's tests say of the costs of its cases."""
    assert has_costs(workload), f"{file_of(workload)} is missing: COSTS, worked out by hand"
    return importlib.import_module(f"correctness_tests.{workload}.costs")


def file_of(workload):
    return f"correctness_tests/{workload}/costs.py"


def has_costs(workload):
    return (Path(__file__).parent / workload / "costs.py").exists()


def benchmark(workload, identity):
    """The variant that a workload's tests name."""
    wanted = f"python -m perf_tests list --workload {workload}"
    assert identity in variants(), f"{file_of(workload)}: no benchmark is named {identity!r}, wanted one of: {wanted}"
    return variants()[identity]


WORKLOADS = sorted({case.workload for case in load()})
MODULES = {workload: costs(workload) for workload in WORKLOADS if has_costs(workload)}
KNOWN = list(MODULES.values())
COSTS = [(workload, *row) for workload, module in MODULES.items() for row in module.COSTS.items()]
MOVED = [(workload, identity) for workload, module in MODULES.items() for identity in getattr(module, "MOVED", ())]
MORE = [known for module in KNOWN for known in getattr(module, "MORE", ())]
UNSTATED = {op: why for module in KNOWN for op, why in getattr(module, "UNSTATED", {}).items()}


@pytest.mark.parametrize(("workload", "identity", "wanted"), COSTS, ids=[identity for _, identity, _ in COSTS])
def test_a_call_handles_and_costs_what_its_shapes_say(workload, identity, wanted):
    variant = benchmark(workload, identity)
    case, axes = variant.case, variant.axes
    assert (case.items(**axes), case.flops(**axes), case.bytes(**axes)) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_case_is_among_them(workload):
    worked_out = {id(benchmark(workload, identity).case) for identity in costs(workload).COSTS}
    cases = [case for case in load() if case.workload == workload and id(case) not in worked_out]
    lacking = [f"{case.name} ({next(case.variants()).id})" for case in cases]
    assert not lacking, f"{file_of(workload)}: COSTS lacks one or more benchmarks of each of: {', '.join(lacking)}"


def test_a_case_that_costs_lack_and_a_name_that_no_benchmark_has_are_told_with_the_file(monkeypatch):
    found = costs("snake").COSTS
    fewer = {identity: wanted for identity, wanted in found.items() if not identity.startswith("snake.sample")}
    monkeypatch.setattr(costs("snake"), "COSTS", fewer)
    with pytest.raises(AssertionError, match=r"^correctness_tests/snake/costs.py: COSTS lacks .*: snake.sample \("):
        test_every_case_is_among_them("snake")
    monkeypatch.setattr(costs("snake"), "COSTS", found | {"snake.saving[full]": (1, 0, 0)})
    with pytest.raises(AssertionError, match=r"^correctness_tests/snake/costs.py: no benchmark is named 'snake.saving"):
        test_every_case_is_among_them("snake")


@pytest.mark.parametrize(("workload", "identity"), MOVED, ids=[identity for _, identity in MOVED])
def test_bytes_are_those_of_the_arrays_that_are_taken_and_returned(workload, identity):
    variant = benchmark(workload, identity)
    with prepare(variant, 0) as prepared:
        prepared.reset()
        arrays = leaves([list(variant.inputs(0).args), prepared.backend.to_host(prepared.call())])
    assert sum(array.nbytes for array in arrays) == variant.case.bytes(**variant.axes)


def make_counter():
    """Return a context that adds up, in ``flops``, what the matrix products that torch dispatches cost.

    Work element by element it does not know. As ``FlopCounterMode``, whose record of modules fails on nested
    differentiation.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class Counter(TorchDispatchMode):
        flops = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            cost = flop_registry.get(func._overloadpacket)
            if cost is None:
                with self:  # a composite operation, as ``linear`` in inference mode, is made of others
                    out = func.decompose(*args, **kwargs)
                if out is not NotImplemented:
                    return out
            out = func(*args, **kwargs)
            if cost:
                self.flops += cost(*args, **kwargs, out_val=out)
            return out

    return Counter()


def counted(function, counts):
    """Return the function, which also appends the FLOPs of each call to ``counts``; a counter sees its thread alone."""

    def call(*args):
        with make_counter() as counter:
            out = function(*args)
        counts.append(counter.flops)
        return out

    return call


def dispatched(variant):
    """Count the FLOPs of one call."""
    counts = []
    with prepare(variant, 0) as prepared:
        prepared.reset()
        counted(prepared.call, counts)()
    return sum(counts)


def counted_variants():
    """Return torch's variants that are counted: the cheapest, the next and the dearest quick one of each case and form.

    Processes and threads cannot be counted from here. Forms that are naive but for one knob cost what naive does.
    """
    found = {}
    for variant in variants().values():
        if variant.backend == "torch" and variant.case.cores != "own" and not variant.form.startswith("only_"):
            flops = variant.case.flops(**variant.axes)
            found.setdefault((id(variant.case), variant.form), {}).setdefault(flops, variant)
    chosen = []
    for costs in found.values():
        cheapest, *others = sorted(costs)
        quick = [flops for flops in others if flops <= LARGEST]
        chosen += [costs[flops] for flops in dict.fromkeys([cheapest, *quick[:1], *quick[-1:]])]
    return [pytest.param(variant, id=variant.id) for variant in chosen]


def beside_torch(variant):
    """Return the FLOPs of a call that a program of torch does elsewhere, where they cannot be counted."""
    return getattr(costs(variant.case.workload), "beside_torch", lambda variant: 0.0)(variant)


def computes_more(variant):
    """Return whether a variant is named as one that computes more than its op needs."""
    has = {"form": variant.form, **variant.axes}
    return any(name == variant.case.name and wanted.items() <= has.items() for name, wanted, _ in MORE)


@pytest.mark.parametrize("counted_variant", counted_variants())
def test_flops_are_those_that_torch_dispatches(counted_variant, one_thread):
    stated, count = counted_variant.case.flops(**counted_variant.axes), dispatched(counted_variant)
    count += beside_torch(counted_variant)
    if counted_variant.case.name in UNSTATED:
        assert stated == 0 < count
    elif computes_more(counted_variant):
        assert stated < count
    else:
        assert 0.98 * count <= stated <= 1.02 * count
