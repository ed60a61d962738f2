"""The harness itself: what it must catch, planted; ids, inputs and counters."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from perf_tests.suite import asv_cases
from perf_tests.suite import case as case_module
from perf_tests.suite.case import DriftError, NotWaitedError, Prepared
from perf_tests.suite.cases import load, variants
from perf_tests.suite.counters import count
from rl_impls import backends


def planted(op, backend="numpy", varying=(), like="pirl.act[full-numpy]", **changed):
    """Prepare an op that no workload has."""
    variant = variants()[like]
    variant = replace(variant, case=replace(variant.case, **{"io": "device", **changed}))
    made = backends.get(backend)
    return Prepared(variant, made, op, varying, made.lowering_here(), 0)


def test_state_that_drifts_between_samples_is_caught():
    class Drifting:
        total = 0.0

        def __call__(self):
            self.total += 1.0
            return np.array(self.total)

    with pytest.raises(DriftError, match=r"pirl.act\[full-numpy\]"):
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

    with pytest.raises(NotWaitedError):
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
    assert np.array_equal(torch.inputs(0).varying[0], jax.inputs(0).varying[0])
    assert not np.array_equal(torch.inputs(0).varying[0], torch.inputs(1).varying[0])
    assert not np.array_equal(torch.inputs(0).varying[0], other.inputs(0).varying[0][:32])


def test_asv_classes_cover_the_gate_and_nothing_else():
    classes = {
        name: made for name, made in vars(asv_cases).items() if isinstance(made, type) and "params" in vars(made)
    }
    covered = {identity for made in classes.values() for identity in made.identities.values()}
    assert covered == {variant.id for variant in variants().values() if variant.tier == "gate"}
    for made in classes.values():
        assert made.params == [list(made.identities)]


def test_asv_version_follows_what_is_measured():
    case = next(case for case in load() if case.name == "pirl.forward")
    gate = [variant for variant in case.variants() if variant.tier == "gate"]
    other = replace(case, inputs=lambda rng, **axes: case.inputs(np.random.default_rng(1), **axes))
    untouched = replace(case, tolerance=1e-3, unit="states", most_calls=1)

    def version(changed):
        return asv_cases.version([replace(variant, case=changed) for variant in gate])

    assert version(case) == version(untouched)
    assert len({version(case), version(replace(case, version=2)), version(other)}) == 3


def test_asv_reports_seconds_per_call(monkeypatch):
    now = itertools.count(start=5)
    monkeypatch.setattr(asv_cases.time, "perf_counter", lambda: float(next(now)))
    benchmark = asv_cases.CaseBenchmark()
    benchmark.prepared = SimpleNamespace(calls=4)
    start = benchmark.timer()
    assert benchmark.timer() - start == 1 / 4


def test_asv_has_one_class_for_an_op_of_several_cases(monkeypatch):
    case = next(case for case in load() if case.name == "pirl.sync_target")
    cases = replace(case, forms=("full",), gate=[{}]), replace(case, forms=("naive",), gate=[{}], version=7)
    monkeypatch.setattr(asv_cases, "variants", lambda: {v.id: v for case in cases for v in case.variants()})
    ((name, found),) = asv_cases.gated().items()
    made = asv_cases.benchmark_class(name, found)
    assert made.__name__ == "PirlSyncTarget"
    assert len(made.identities) == sum(len(list(case.variants())) for case in cases)
    assert made.time_sample.version.startswith("7-")


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

    monkeypatch.setattr(case_module.time, "perf_counter", lambda: now[0])
    return planted(Counting(), **changed)


def test_arguments_are_held_as_the_op_says():
    variant = variants()["treasurehunt.act[one_by_one-jax-agents5-worlds1]"]
    with variant.prepare(0) as prepared:
        assert all(isinstance(argument, tuple) and len(argument) == 5 for argument in prepared.varying)
    with variants()["treasurehunt.act[full-jax-agents5-worlds1]"].prepare(0) as prepared:
        assert all(hasattr(argument, "shape") for argument in prepared.varying)


def test_asv_shows_not_available_for_an_op_that_a_commit_lacks(monkeypatch):
    from rl_impls.pirl import _numpy

    monkeypatch.delattr(_numpy, "sync_target")
    with pytest.raises(NotImplementedError, match="no op 'sync_target' on numpy"):
        asv_cases.ready("pirl.sync_target[full-numpy-hidden32]")
    with pytest.raises(backends.OpUnavailable):
        variants()["pirl.sync_target[full-numpy-hidden32]"].prepare(0)


@pytest.mark.parametrize(
    ("identity", "names"),
    [
        ("pirl.forward[full-numpy-batch32-iohost-hidden32]", {"allocated_bytes"}),
        ("pirl.forward[full-torch-batch32-iohost-hidden32]", {"aten_ops", "allocated_bytes"}),
        ("pirl.train_step[full-torch-compile-batch256-order2]", {"graphs"}),
        ("pirl.train_step[full-jax-batch256-order2]", {"graphs", "hlo_flops", "hlo_bytes"}),
    ],
)
def test_counters_are_exact(identity, names):
    counted = []
    for _ in range(2):
        with variants()[identity].prepare(0) as prepared:
            prepared.settle()
            counted.append(count(prepared))
    assert counted[0] == counted[1]
    assert counted[0].keys() == names
    assert all(value > 0 for value in counted[0].values())
    assert counted[0].get("graphs", 1) == 1


def test_declared_flops_are_what_the_compiler_counts():
    identity = "pirl.forward[full-jax-batch2048-iohost-hidden32]"
    with variants()[identity].prepare(0) as prepared:
        prepared.settle()
        counted = count(prepared)["hlo_flops"]
        declared = prepared.variant.case.flops(**prepared.variant.axes)
    assert declared <= counted <= 1.1 * declared


def test_ten_prepared_shapes_stay_compiled():
    from perf_tests.suite.case import graphs_compiled

    sizes = (1, 8, 16, 32, 64, 128, 512, 1024, 2048)
    ready = [variants()[f"pirl.forward[full-torch-compile-batch{n}-iodevice-hidden32]"].prepare(0) for n in sizes]
    before = graphs_compiled()
    for prepared in ready:
        prepared.run()
    assert graphs_compiled() - before == len(sizes)
    for prepared in ready:
        prepared.run()
    assert graphs_compiled() - before == len(sizes)
