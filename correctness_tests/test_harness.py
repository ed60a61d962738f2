"""The harness itself: what it must catch, planted; ids, inputs and counters."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest

from perf_tests.suite import asv_cases
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


def test_asv_fails_where_an_op_fails(monkeypatch):
    from rl_impls.pirl import _numpy

    def fails(*args, **how):
        raise ValueError("rate: got 0")

    monkeypatch.setattr(_numpy, "sync_target", fails)
    with pytest.raises(ValueError, match="rate: got 0"):
        asv_cases.ready("pirl.sync_target[full-numpy-hidden512]")


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
