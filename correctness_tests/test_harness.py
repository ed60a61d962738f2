"""The harness itself: what it must catch, planted; ids, inputs and counters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perf_tests.suite import asv_cases
from perf_tests.suite.case import DriftError, NotWaitedError, Prepared
from perf_tests.suite.cases import load, variants
from perf_tests.suite.counters import count
from rl_impls import backends


def planted(op, backend="numpy", varying=(), like="pirl.act[full-numpy]", **changed):
    """Prepare an op that no workload has."""
    variant = variants()[like]
    variant = replace(variant, case=replace(variant.case, **{"calls": lambda *_: 3, "io": "device", **changed}))
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

    assert planted(Counting()).settle()[0] == 3.0


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
    planted(op, "jax").reset()
    assert op.state.is_ready()


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
    fewer = replace(case, calls=lambda *_: 1)
    other = replace(case, inputs=lambda rng, **axes: case.inputs(np.random.default_rng(1), **axes))
    untouched = replace(case, tolerance=1e-3, unit="states")

    def version(changed):
        return asv_cases.version(changed, [replace(variant, case=changed) for variant in gate])

    assert version(case) == version(untouched)
    assert len({version(case), version(replace(case, version=2)), version(fewer), version(other)}) == 4


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
