"""The harness itself: what it must catch, planted; ids, inputs and counters."""

from __future__ import annotations

import importlib
import itertools
import sys
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from perf_tests.suite import prepared as prepared_module
from perf_tests.suite.cases import load, variants
from perf_tests.suite.counters import count
from perf_tests.suite.prepared import DriftError, NotWaitedError, Prepared, graphs_compiled, prepare
from rl_impls import backends


def planted(op, backend="numpy", args=(), like="pirl.act[full-numpy]", **changed):
    """Prepare an op that no workload has."""
    variant = variants()[like]
    variant = replace(variant, case=replace(variant.case, **{"io": "device", **changed}))
    made = backends.get(backend)
    return Prepared(variant, made, op, args, made.lowering_here(), 0)


def test_state_that_drifts_between_samples_is_caught():
    class Drifting:
        total = 0.0

        def __call__(self):
            self.total += 1.0
            return np.array(self.total)

    with pytest.raises(DriftError, match=r"^pirl.act\[full-numpy\]: .*: does reset\(\) put back everything\?$"):
        planted(Drifting()).settle()


def test_weights_that_drift_behind_a_constant_output_are_caught():
    class Drifting:
        def __init__(self):
            self.params = {"w0": np.zeros(2)}

        def __call__(self):
            self.params["w0"] += 1
            return np.array(0.0)

    with pytest.raises(DriftError):
        planted(Drifting()).settle()


def test_state_that_is_put_back_is_not_drift():
    class Counting:
        total = 0.0

        def reset(self):
            self.total = 0.0

        def __call__(self):
            self.total += 1.0
            return np.array(self.total)

    assert planted(Counting()).settle()[0] == 2.0


def test_a_case_that_does_not_wait_for_its_device_is_caught():
    import jax
    import jax.numpy as jnp

    product = jax.jit(lambda x: jax.lax.fori_loop(0, 60, lambda _, y: y @ x, x).sum())
    matrix = jnp.eye(500)
    product(matrix).block_until_ready()
    inflight = []

    def hasty(x):
        inflight.append(product(x))
        return np.zeros(())

    with pytest.raises(NotWaitedError, match=r"^pirl.act.*: does the op return what it computed\?$"):
        planted(hasty, "jax", (matrix,)).settle()
    jax.block_until_ready(inflight)


def test_run_waits_for_jax():
    import jax
    import jax.numpy as jnp

    product = jax.jit(lambda x: jax.lax.fori_loop(0, 60, lambda _, y: y @ x, x))
    prepared = planted(product, "jax", (jnp.eye(500),))
    assert prepared.run().is_ready()
    assert not backends.get("jax").pending()


def test_what_a_reset_starts_is_done_before_a_sample_begins():
    import jax
    import jax.numpy as jnp

    class Copying:
        product = staticmethod(jax.jit(lambda x: jax.lax.fori_loop(0, 60, lambda _, y: y @ x, x)))
        start = jnp.eye(500)

        def reset(self):
            self.state = self.product(self.start)

        def __call__(self):
            return self.state

    op = Copying()
    op.reset()
    assert not op.state.is_ready()  # or nothing is tested
    prepared = planted(op, "jax")
    prepared.reset()
    assert op.state.is_ready()
    prepared.settle()
    prepared.reset()
    assert op.state.is_ready()


def test_a_device_is_asked_no_more_where_no_reset_was_ever_late(monkeypatch):
    asked = []
    prepared = planted(lambda: np.array(0.0))
    monkeypatch.setattr(type(prepared.backend), "pending", lambda self: bool(asked.append(1)))
    prepared.settle()
    assert asked
    asked.clear()
    prepared.sample()
    assert not asked


def test_ids_are_unique_and_name_every_part():
    named = variants()
    assert "pirl.forward[full-torch-batch32-iohost-hidden32]" in named
    for identity, variant in named.items():
        assert identity == variant.id
        assert identity.startswith(f"{variant.case.workload}.{variant.case.op}[{variant.form}-{variant.backend}")


def test_the_gate_is_small():
    gate = [variant for variant in variants().values() if variant.tier == "gate"]
    assert len(gate) <= 100
    for case in load():
        compiled = [v for v in gate if v.case.workload == case.workload and v.backend == "torch-compile"]
        assert len(compiled) <= 2


def test_inputs_depend_on_the_seed_and_the_axes_alone():
    named = variants()
    torch = named["pirl.forward[full-torch-batch32-iohost-hidden32]"]
    jax = named["pirl.forward[full-jax-batch32-iodevice-hidden32]"]
    other = named["pirl.forward[full-jax-batch64-iohost-hidden32]"]
    assert np.array_equal(torch.inputs(0).args[0], jax.inputs(0).args[0])
    assert not np.array_equal(torch.inputs(0).args[0], torch.inputs(1).args[0])
    assert not np.array_equal(torch.inputs(0).args[0], other.inputs(0).args[0][:32])


@pytest.mark.parametrize(("cost", "wanted"), [(0.03, 1), (0.006, 2), (0.0006, 32)])
def test_calls_are_doubled_until_a_sample_takes_ten_milliseconds(monkeypatch, cost, wanted):
    prepared = counted_clock(monkeypatch, cost)
    assert prepared.measure_calls() == prepared.calls == wanted


def test_one_disturbed_sample_does_not_end_the_doubling(monkeypatch):
    slow = iter([True])
    prepared = counted_clock(monkeypatch, 0.006, lambda: next(slow, False))
    assert prepared.measure_calls() == 2


def test_calls_are_no_more_than_the_case_declares(monkeypatch):
    prepared = counted_clock(monkeypatch, 0.0006, most_calls=5)
    assert prepared.measure_calls() == 5
    assert counted_clock(monkeypatch, 0.0006, most_calls=1).settle()[0] == 1.0


def test_the_first_answer_is_timed_from_building_and_once(monkeypatch):
    prepared = counted_clock(monkeypatch, 0.6)
    assert prepared.first_answer is None
    prepared.settle()
    assert prepared.first_answer == pytest.approx(2 * 0.6)  # the calls of one answer
    prepared.settle()
    assert prepared.first_answer == pytest.approx(2 * 0.6)


def test_imports_come_before_the_first_answer_is_waited_for(monkeypatch):
    imported, now, bring = {}, [0.0], importlib.import_module

    def noting(name, package=None):
        imported.setdefault(name, now[0])
        return bring(name, package)

    def tick():
        now[0] += 1
        return now[0]

    monkeypatch.setattr(prepared_module.importlib, "import_module", noting)
    monkeypatch.setattr(prepared_module.time, "perf_counter", tick)
    assert prepare(variants()["pirl.act[full-torch]"], 0).start >= 1.0
    assert imported["torch"] == 0.0


def test_answers_do_not_depend_on_the_measured_calls(monkeypatch):
    prepared = counted_clock(monkeypatch, 0.0006)
    before = prepared.settle()
    prepared.measure_calls()
    assert prepared.settle() == before
    assert prepared.calls == 32


def counted_clock(monkeypatch, cost, slowed=lambda: False, **changed):
    """Prepare an op that counts its calls since the reset, each of so many seconds by the clock of the harness."""
    now = [0.0]

    class Counting:
        total = 0.0

        def reset(self):
            self.total = 0.0

        def __call__(self):
            self.total += 1
            now[0] += cost + 0.1 * slowed()
            return np.array(self.total)

    monkeypatch.setattr(prepared_module.time, "perf_counter", lambda: now[0])
    return planted(Counting(), **changed)


def test_arguments_are_held_as_the_op_says():
    variant = variants()["treasurehunt.act[one_by_one-jax-agents5-worlds1]"]
    with prepare(variant, 0) as prepared:
        assert all(isinstance(argument, tuple) and len(argument) == 5 for argument in prepared.args)
    with prepare(variants()["treasurehunt.act[full-jax-agents5-worlds1]"], 0) as prepared:
        assert all(hasattr(argument, "shape") for argument in prepared.args)


def test_the_peak_of_what_numpy_allocates_is_counted():
    numbers = np.ones(100_000)
    assert count(planted(lambda: numbers * 2))["allocated_bytes"] == pytest.approx(800_000, rel=0.01)
    twice = planted(lambda: np.concatenate([numbers, numbers])[:1].copy())
    assert count(twice)["allocated_bytes"] == pytest.approx(1_600_000, rel=0.01)


def test_operations_of_torch_are_counted_once_and_views_allocate_nothing():
    import torch

    def op(x):
        rows = x.view(8, 2)
        more = rows + 1  # 64 bytes
        more.mul_(2)
        torch.add(rows, 1, out=more)
        return more[2:] * rows[:6]  # 48 bytes

    assert count(planted(op, "torch", (torch.ones(16),))) == {"aten_ops": 7, "allocated_bytes": 64 + 48}


def test_graphs_flops_and_bytes_of_what_jax_compiles_are_counted():
    import jax.numpy as jnp

    def example(rows):
        return jnp.ones((rows, 8)), jnp.ones((8, 16))

    prepared = planted(lambda: [function(*example(rows)) for function in functions for rows in (2, 4)], "jax")
    functions = [prepared.target.lower(lambda a, b: a @ b, example(4))]
    prepared.call()
    counts = count(prepared)
    assert counts == {"graphs": 2, "hlo_flops": 2 * 4 * 8 * 16, "hlo_bytes": 4 * (4 * 8 + 8 * 16 + 4 * 16)}
    functions += [prepared.target.lower(lambda a, b: a @ b, example(2))]
    prepared.call()
    counts["hlo_flops"] += 2 * 2 * 8 * 16
    counts["hlo_bytes"] += 4 * (2 * 8 + 8 * 16 + 2 * 16)
    assert count(prepared) == counts | {"graphs": 4}


def test_graphs_that_torch_compiles_are_counted_from_when_it_was_prepared():
    import torch

    def doubled(target, size):
        compiled = target.lower(lambda x: 2 * x, (torch.ones(size),), backend="eager")
        return lambda: compiled(torch.ones(size))

    prepared = planted(None, "torch-compile")
    doubled(prepared.target, 3)()  # another's
    prepared.graphs_before = graphs_compiled()
    ops = [doubled(prepared.target, size) for size in (4, 5)]
    prepared.op = lambda: [op() for op in ops]
    for _ in range(2):
        prepared.call()
        assert count(prepared) == {"graphs": 2}


def test_what_cannot_be_counted_is_left_out():
    assert count(planted(lambda: None)) == {}
    assert count(planted(lambda: np.ones(9), "onnx")) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("identity", "names"),
    [
        ("pirl.forward[full-numpy-batch32-iohost-hidden32]", {"allocated_bytes"}),
        ("pirl.forward[full-torch-batch32-iohost-hidden32]", {"aten_ops", "allocated_bytes"}),
        ("pirl.train_step[full-torch-compile-batch256-order2]", {"graphs"}),
        ("pirl.train_step[full-jax-batch256-order2]", {"graphs", "hlo_flops", "hlo_bytes"}),
    ],
)
def test_counts_are_the_same_of_the_same_code_which_is_one_graph(identity, names):
    counted = []
    for _ in range(2):
        with prepare(variants()[identity], 0) as prepared:
            prepared.settle()
            counted.append(count(prepared))
    assert counted[0] == counted[1]
    assert counted[0].keys() == names
    assert counted[0].get("graphs", 1) == 1


def test_declared_flops_are_what_the_compiler_counts():
    identity = "pirl.forward[full-jax-batch2048-iohost-hidden32]"
    with prepare(variants()[identity], 0) as prepared:
        prepared.settle()
        counted = count(prepared)["hlo_flops"]
        declared = prepared.variant.case.flops(**prepared.variant.axes)
    assert declared <= counted <= 1.1 * declared


def test_ten_shapes_of_one_function_stay_compiled():
    import torch

    def function(x):
        return 2 * x

    target, inputs = backends.get("torch-compile").lowering_here(), [torch.ones(size) for size in range(1, 11)]
    before = graphs_compiled()
    compiled = [target.lower(function, (x,), backend="eager") for x in inputs]
    for _ in range(2):
        for call, x in zip(compiled, inputs):
            call(x)
        assert graphs_compiled() - before == len(inputs)


def test_an_op_that_is_a_plain_function_has_nothing_beside_it():
    plain = prepared_module.extras(lambda: None)
    assert (plain.reset(), plain.close(), plain.stats(), plain.phases()) == (None, None, {}, {})
    assert (plain.held(1, 2), plain.params()) == ((1, 2), {})


class Noted:
    """An op that notes what it is asked, and has all that an op may have."""

    def __init__(self):
        self.log, self.params = [], {"w": 1}

    def __call__(self, *args):
        self.log.append("call")
        return np.array(0.0)

    def reset(self):
        self.log.append("reset")

    def close(self):
        self.log.append("close")

    def stats(self):
        return {"lag": 1.0}

    def phases(self):
        return {"learn": 2.0}

    def held(self, *args):
        return (*args, "held")


def test_what_an_op_has_is_asked_of_it_when_it_is_wanted():
    op = Noted()
    prepared = planted(op, args=("given",))
    assert prepared.args == ("given", "held")
    assert (prepared.stats(), prepared.phases()) == ({"lag": 1.0}, {"learn": 2.0})
    op.params = {"w": 2}  # other weights, as a training makes them
    assert prepared.extras.params() == {"w": 2}
    prepared.calls = 3
    prepared.run()
    prepared.reset()
    assert op.log == ["call"] * 3 + ["reset"]


def test_what_is_prepared_is_closed_after_it_and_an_error_goes_on():
    op = Noted()
    with planted(op) as prepared:
        assert op.log == []
        prepared.run()
    assert op.log == ["call", "close"]
    with pytest.raises(ZeroDivisionError), planted(op):
        1 / 0  # noqa: B018
    assert op.log == ["call", "close", "close"]


def test_a_sample_makes_its_calls_from_a_reset_and_returns_the_last_output():
    op = Noted()
    prepared, numbers = planted(op), itertools.count()
    prepared.calls = 2
    prepared.sample()
    assert op.log == ["reset", "call", "call"]
    counting = planted(lambda: np.array(next(numbers)))
    counting.calls = 5
    assert counting.run() == 4


def test_the_seconds_of_a_sample_are_those_of_all_its_calls_and_not_of_its_reset(monkeypatch):
    now = [0.0]

    class Slow(Noted):
        def __call__(self, *args):
            now[0] += 0.5

        def reset(self):
            now[0] += 100.0

    monkeypatch.setattr(prepared_module.time, "perf_counter", lambda: now[0])
    prepared = planted(Slow())
    prepared.calls = 4
    assert prepared.sample() == 2.0


def test_a_sample_of_just_ten_milliseconds_is_long_enough(monkeypatch):
    assert counted_clock(monkeypatch, 0.0078125).measure_calls() == 2
    monkeypatch.setattr(prepared_module, "LEAST", 0.015625)
    assert counted_clock(monkeypatch, 0.0078125).measure_calls() == 2
    assert prepared_module.LEAST == 0.015625


def test_a_call_gets_and_returns_arrays_where_the_case_says():
    import torch

    got = []

    def op(x):
        got.append(x)
        return x + 1

    host, device = np.zeros(2), torch.zeros(2)
    for io, given, taken, returned in (
        ("host", host, torch.Tensor, np.ndarray),
        ("device", device, torch.Tensor, torch.Tensor),
        ("own", host, np.ndarray, np.ndarray),
    ):
        out = planted(op, "torch", (given,), io=io).run()
        assert (type(got[-1]), type(out)) == (taken, returned)
        assert out.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("io", "kind"), [("host", "ndarray"), ("device", "Tensor"), ("own", "ndarray")])
def test_what_is_prepared_is_called_with_its_inputs_and_built_with_those_on_the_device(monkeypatch, io, kind):
    variant, built = variants()["pirl.forward[full-torch-batch32-iohost-hidden32]"], []
    variant = replace(variant, axes={**variant.axes, "io": io})
    monkeypatch.setattr(backends.Backend, "build", lambda self, *of: built.append(of) or (lambda *args: np.array(0.0)))
    prepared = prepare(variant, 3)
    inputs = variant.inputs(3)
    ((workload, op, spec, example, knobs, target),) = built
    assert (workload, op, knobs, spec.keys()) == ("pirl", "forward", variant.knobs(), inputs.spec.keys())
    assert (prepared.target, prepared.variant, prepared.backend.name) == (target, variant, "torch")
    assert [type(x).__name__ for x in example] == ["Tensor"]
    assert [type(x).__name__ for x in prepared.args] == [kind]
    for arrays in (example, prepared.args):
        assert np.array_equal(np.asarray(arrays[0]), inputs.args[0])
    assert not np.array_equal(prepare(variant, 4).args[0], inputs.args[0])


def test_a_backend_that_cannot_run_here_is_not_prepared_and_nothing_is_imported_for_it(monkeypatch):
    monkeypatch.setattr(prepared_module.importlib, "import_module", lambda name: pytest.fail(f"{name} is imported"))
    monkeypatch.setattr(backends.Backend, "missing", lambda self: "it is elsewhere")
    with pytest.raises(backends.BackendUnavailable, match=r"^torch: it is elsewhere \("):
        prepare(variants()["pirl.act[full-torch]"], 0)


@pytest.mark.parametrize(
    ("identity", "served", "parsed"),
    [
        ("pirl.act[full-onnx]", None, 1),
        ("pirl.act[full-torch]", None, 0),
        ("pirl.act[full-torch]", "onnx", 1),
        ("pirl.act[full-torch]", "eager", 0),
    ],
)
def test_operators_are_parsed_once_where_something_is_exported(monkeypatch, identity, served, parsed):
    asked, variant = [], variants()[identity]
    inputs = variant.inputs(0)
    monkeypatch.setattr(prepared_module, "parse_once", lambda: asked.append(1))
    monkeypatch.setattr(type(variant), "inputs", lambda self, seed: inputs)
    monkeypatch.setattr(backends.Backend, "build", lambda self, *of: lambda *args: None)
    prepare(replace(variant, axes=variant.axes if served is None else {"serve": served}), 0)
    assert len(asked) == parsed


def test_graphs_are_counted_from_before_building(monkeypatch):
    made = iter([5, 9])
    monkeypatch.setattr(prepared_module, "graphs_compiled", lambda: next(made))
    monkeypatch.setattr(backends.Backend, "build", lambda self, *of: next(made) and (lambda *args: None))
    assert prepare(variants()["pirl.act[full-numpy]"], 0).graphs_before == 5


def test_without_torchs_compiler_no_graphs_were_made(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert graphs_compiled() == 0
    counters = SimpleNamespace(counters={"stats": {"unique_graphs": 7, "calls_captured": 9}})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", counters)
    assert graphs_compiled() == 7


def test_an_answer_is_a_copy_of_the_output_and_of_the_weights_after_two_calls():
    class Reusing:
        def __init__(self):
            self.out, self.params = np.zeros(2), {"w": np.zeros(1)}

        def __call__(self):
            self.out += 1
            self.params["w"] += 10
            return self.out

    op = Reusing()
    prepared = planted(op)
    prepared.calls = 7
    out, params = prepared.answer()
    op()
    assert (out.tolist(), params["w"].tolist(), prepared.calls) == ([2.0, 2.0], [20.0], 7)


def test_an_answer_begins_with_a_reset_and_its_calls_are_put_back_after_an_error():
    op = Noted()
    prepared = planted(op)
    prepared.answer()
    assert op.log == ["reset", "call", "call"]
    failing = planted(lambda: 1 / 0)
    failing.calls = 7
    with pytest.raises(ZeroDivisionError):
        failing.answer()
    assert failing.calls == 7


@pytest.mark.parametrize(
    ("first", "second", "drifts"),
    [
        ([1.0, np.nan], [1.0, np.nan], False),
        ([1.0, np.nan], [np.nan, 1.0], True),
        ([1.0], [1.0 + 5e-6], False),
        ([1.0], [1.0 + 5e-5], True),
        ([0.0], [5e-8], False),
        ([0.0], [5e-7], True),
        ([1.0], [[1.0]], True),
        ([1.0, 1.0], [1.0], True),
    ],
)
def test_samples_drift_where_they_differ_by_more_than_rounding_or_in_shape(first, second, drifts):
    outputs = iter([first, first, second, second])
    prepared = planted(lambda: np.array(next(outputs)))
    if drifts:
        with pytest.raises(DriftError):
            prepared.settle()
    else:
        np.testing.assert_array_equal(prepared.settle()[0], first)


def test_of_what_cannot_be_repeated_the_shapes_alone_are_compared():
    numbers = itertools.count()
    racing = {"repeatable": False, "reference": None}
    found, _ = planted(lambda: np.full((2, 3), next(numbers)), **racing).settle()
    assert (found.tolist(), found.dtype) == ([2, 3], np.int64)
    with pytest.raises(DriftError):
        planted(lambda: np.zeros(next(numbers)), **racing).settle()


def test_settling_ends_with_a_reset():
    op = Noted()
    planted(op).settle()
    assert op.log == ["reset", "call", "call"] * 2 + ["reset"]


def test_a_device_that_was_late_once_is_waited_for_from_then_on(monkeypatch):
    prepared, late = planted(Noted()), iter(())
    monkeypatch.setattr(prepared_module.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(type(prepared.backend), "pending", lambda self: next(late, False))
    prepared.settle()
    assert prepared.late is False
    prepared = planted(Noted())
    late = iter([True, False])
    prepared.settle()
    assert prepared.late is True
    late = iter([True, True])
    prepared.reset()
    assert next(late, None) is None


def test_leaves_are_those_of_all_parts_by_name():
    tree = [{"b": 1.0, "a": (2, [np.ones(1)])}, 3]
    assert prepared_module.flat(tree) == [2, np.ones(1), 1.0, 3]
    assert [leaf.tolist() for leaf in prepared_module.leaves(tree)] == [2, [1.0], 1.0, 3]
    assert prepared_module.flat(5) == [5]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModuleNotFoundError("x", name="rl_impls.toy.moved"), "no rl_impls.toy.moved"),
        (ModuleNotFoundError("x", name="torch"), None),
        (ModuleNotFoundError("x"), None),
        (ImportError("x", name="rl_impls.toy"), None),
        (ValueError("unknown form 'fast'; known: naive"), "unknown form 'fast'; known: naive"),
        (ValueError("an unknown form"), None),
        (KeyError("unknown form"), None),
        (backends.OpUnavailable("pirl has no op 'fly' on numpy"), "pirl has no op 'fly' on numpy"),
        (backends.BackendUnavailable("onnx", "it is not here", "install it"), None),
    ],
)
def test_what_a_revision_lacks_is_told_from_a_failure(error, reason):
    assert prepared_module.unsupported_reason(error) == reason


def test_counting_ends_with_a_reset_and_tracing_ends_even_where_the_op_fails():
    op = Noted()
    count(planted(op))
    assert op.log == ["call", "reset"]
    with pytest.raises(ZeroDivisionError):
        count(planted(lambda: 1 / 0))
    assert not tracemalloc.is_tracing()


def test_a_count_of_nothing_stands_beside_one_of_something():
    import torch

    assert count(planted(lambda x: x.view(8, 2), "torch", (torch.ones(16),))) == {"aten_ops": 1, "allocated_bytes": 0}
    assert count(planted(lambda: None, "torch")) == {}


@pytest.mark.parametrize("backend", ["torch-trace", "neuron", "onnx", "jax"])
def test_of_what_hides_its_operations_nothing_is_counted(backend):
    import torch

    assert count(planted(lambda: (torch.zeros(9) + 1).numpy(), backend)) == {}


def test_each_output_of_an_operation_is_counted_and_what_an_argument_holds_is_not():
    import torch

    def op(x):
        torch.sort(x, dim=0)  # values and places, 64 and 128 bytes
        torch.cat([x, x])  # 128 bytes
        return x

    assert count(planted(op, "torch", (torch.ones(16),))) == {"aten_ops": 2, "allocated_bytes": 64 + 128 + 128}


def test_what_one_more_call_compiles_is_counted_and_donated_arrays_are_none_the_less():
    import jax
    import jax.numpy as jnp

    doubled = planted(None, "jax")
    example = (jnp.ones(8),)
    donated = doubled.target.lower(lambda a: 2 * a, example, donate_argnums=0)
    doubled.op = lambda: donated(jnp.ones(8))
    donated(*example)
    counts = count(doubled)
    assert (counts["graphs"], counts["hlo_flops"]) == (1, 8)
    assert counts["hlo_bytes"] > 0
    sizes = itertools.count(21)

    def op():
        return jax.jit(lambda a: a)(np.ones(next(sizes)))

    doubled.op = op
    assert count(doubled)["graphs"] == 2
