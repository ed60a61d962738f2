"""What a call handles and costs: worked out by hand from the shapes, and beside what torch computes."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from perf_tests.bench import leaves
from perf_tests.recorded import benchmarks, problem_of, record

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
    """The benchmark that a workload's tests name."""
    wanted = f"pytest perf_tests --collect-only --tier full --workload {workload}"
    assert identity in BENCHMARKS, f"{file_of(workload)}: no benchmark is named {identity!r}, see: {wanted}"
    return BENCHMARKS[identity]


BENCHMARKS = {one.id: one for one in benchmarks()}
WORKLOADS = sorted({one.workload for one in BENCHMARKS.values()})
MODULES = {workload: costs(workload) for workload in WORKLOADS if has_costs(workload)}
KNOWN = list(MODULES.values())
COSTS = [(workload, *row) for workload, module in MODULES.items() for row in module.COSTS.items()]
MOVED = [(workload, identity) for workload, module in MODULES.items() for identity in getattr(module, "MOVED", ())]
MORE = [known for module in KNOWN for known in getattr(module, "MORE", ())]
UNSTATED = {op: why for module in KNOWN for op, why in getattr(module, "UNSTATED", {}).items()}


@pytest.mark.parametrize(("workload", "identity", "wanted"), COSTS, ids=[identity for _, identity, _ in COSTS])
def test_a_call_handles_and_costs_what_its_shapes_say(workload, identity, wanted):
    problem = problem_of(benchmark(workload, identity), 0)
    assert (problem.items, problem.flops, problem.bytes) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_op_of_a_plain_run_is_among_them(workload):
    worked_out = {benchmark(workload, identity).op for identity in costs(workload).COSTS}
    shown = [one for one in BENCHMARKS.values() if one.workload == workload and one.tier != "full"]
    ops = {one.op.removesuffix("_bfloat16") for one in shown}
    lacking = sorted(ops - worked_out)
    assert not lacking, f"{file_of(workload)}: COSTS lacks one or more benchmarks of each of: {', '.join(lacking)}"


def test_an_op_that_costs_lack_and_a_name_that_no_benchmark_has_are_told_with_the_file(monkeypatch):
    found = costs("snake").COSTS
    fewer = {identity: wanted for identity, wanted in found.items() if not identity.startswith("snake.sample")}
    monkeypatch.setattr(costs("snake"), "COSTS", fewer)
    with pytest.raises(AssertionError, match=r"^correctness_tests/snake/costs.py: COSTS lacks .*: sample\n"):
        test_every_op_of_a_plain_run_is_among_them("snake")
    monkeypatch.setattr(costs("snake"), "COSTS", found | {"snake.saving[full]": (1, 0, 0)})
    with pytest.raises(AssertionError, match=r"^correctness_tests/snake/costs.py: no benchmark is named 'snake.saving"):
        test_every_op_of_a_plain_run_is_among_them("snake")


@pytest.mark.parametrize(("workload", "identity"), MOVED, ids=[identity for _, identity in MOVED])
def test_bytes_are_those_of_the_arrays_that_are_taken_and_returned(workload, identity):
    op = record(benchmark(workload, identity), 0).op
    arrays = leaves([list(op.problem.args), op.backend.to_host(op.call(*op.args))])
    assert sum(array.nbytes for array in arrays) == op.problem.bytes


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


def to_count():
    """Return torch's benchmarks that are counted: the cheapest, the next and the dearest quick one of each op and form.

    Processes and threads cannot be counted from here. Forms that are naive but for one option cost what naive does.
    """
    found = {}
    for one in BENCHMARKS.values():
        alone = not any(mark.name == "rlgauge" and mark.kwargs.get("cores") for mark in one.test.pytestmark)
        if one.params["backend"] == "torch" and alone and not one.params["form"].startswith("only_"):
            problem = problem_of(one, 0)
            found.setdefault((one.workload, problem.op, one.params["form"]), {}).setdefault(problem.flops, one)
    chosen = []
    for costs in found.values():
        cheapest, *others = sorted(costs)
        quick = [flops for flops in others if flops <= LARGEST]
        chosen += [costs[flops] for flops in dict.fromkeys([cheapest, *quick[:1], *quick[-1:]])]
    return [pytest.param(one, id=one.id) for one in chosen]


def pytest_generate_tests(metafunc):
    """The problems are made only where this test is collected."""
    if "counted_benchmark" in metafunc.fixturenames:
        metafunc.parametrize("counted_benchmark", to_count())


def computes_more(name, one):
    """Return whether a benchmark is named as one that computes more than its op needs."""
    return any(name == op and wanted.items() <= one.params.items() for op, wanted, _ in MORE)


def test_flops_are_those_that_torch_dispatches(counted_benchmark, one_thread):
    op, counts = record(counted_benchmark, 0).op, []
    name, stated = f"{op.problem.workload}.{op.problem.op}", op.problem.flops
    try:
        if op.reset:
            op.reset()
        counted(op.call, counts)(*op.args)
    finally:
        if op.close:
            op.close()
    beside_torch = getattr(costs(op.problem.workload), "beside_torch", lambda op: 0.0)  # done where it is not counted
    count = sum(counts) + beside_torch(op)
    if name in UNSTATED:
        assert stated == 0 < count
    elif computes_more(name, counted_benchmark):
        assert stated < count
    else:
        assert 0.98 * count <= stated <= 1.02 * count
