"""The claims that are there: all that were published, sides that can be compared, figures that are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perf_tests.claims import ledger, returns
from perf_tests.suite.cases import variants
from perf_tests.suite.claim import ClaimsError, Side, alone, removed
from perf_tests.suite.claims import claims_of

from .toy import ACT, EVERY, NUMPY, claim

NAMES = {
    "pirl": "neuron-b1 neuron-b32 neuron-b128 neuron-b512 neuron-b1024 neuron-b2048 batching grad-dominates latency-b1 "
    "throughput-b32 throughput-peak throughput-table latency-forward precision-neuron precision-jax",
    "snake": "overall overall-equal-work batched-tensors memory-time memory-bytes inference-mode train-every-4 "
    "threads batch-gpu gpu amp vectorised async bf16-cpu int8 ddp batch-128-256 every-8-16 tensors-on-device compile "
    "tf32-cudnn",
    "mario": "lock-wait-local lock-wait-ring collection-local collection-ring amp-forward amp-backward compile sync "
    "accumulate uint8 prealloc threads batchnorm gpu-utilisation batches epoch overall lockfree-most amp-memory "
    "batchnorm-convergence threads-variance",
    "procgen": "ppo-fps impala-fps parallel-ppo parallel-impala impala-vs-ppo memory threads a3c-a2c",
    "treasure": "forward train infer eager-10x first-call steady-call grad vmap-act vmap-train batch-agents buffer "
    "loss stack observe rng phase1 phase2 phase3 all multiprocess conservative-train conservative-infer "
    "optimistic-train optimistic-infer vmap-observe",
}


def test_every_published_claim_is_there():
    there = {claim.name for _, claim in EVERY}
    wanted = {f"{prefix}-{name}" for prefix, names in NAMES.items() for name in names.split()}
    assert wanted <= there


@pytest.mark.parametrize(("workload", "claim"), EVERY, ids=[claim.name for _, claim in EVERY])
def test_the_sides_of_a_claim_are_two_of_its_workload(workload, claim):
    for pair in claim.contexts.values():
        assert pair.base.label != pair.change.label
        if pair.base.make is None and pair.change.make is None and pair.base.threads == pair.change.threads:
            both = pair.base.variant, pair.change.variant
            assert (both[0].knobs(), both[0].backend, both[0].axes, pair.base.words) != (
                both[1].knobs(), both[1].backend, both[1].axes, pair.change.words,
            )  # fmt: skip
    assert {side.op.partition(".")[0] for side in claim.sides} == {workload}
    assert claim.evidence in {*returns.TRIALS, ""}


def test_precision_differs_only_where_the_claim_is_about_it():
    for _, found in EVERY:
        for pair in found.contexts.values():
            if pair.base.make is None and pair.base.variant.precision != pair.change.variant.precision:
                assert any(
                    word in found.name for word in ("amp", "bf16", "int8", "precision", "batches", "epoch", "overall")
                )


def test_batches_are_counted_as_the_source_does_with_the_experiences_beside_them():
    (batches,) = (claim for claim in claims_of("mario") if claim.name == "mario-batches")
    assert batches.least == 2.5
    process = {"claims": {}, "sides": {figure.side.label: {"seconds": 0.5} for figure in batches.figures}}
    found = [ledger.beside(figure, [process]) for figure in batches.figures]
    assert [(one["ours"], one["unit"], one["theirs"]) for one in found] == [
        (4.0, "batches/s", "4 batches/s"), (1024.0, "experiences/s", "1,000 exp/s"),
        (4.0, "batches/s", "10 batches/s"), (2048.0, "experiences/s", "1,800 exp/s"),
    ]  # fmt: skip
    for figure in batches.figures:
        spec = figure.side.variant.inputs(0).spec
        each = spec["collectors"] * spec["envs"]
        assert spec["updates"] * spec["batch"] == figure.side.items * (
            1 if figure.unit == "experiences" else spec["batch"]
        )
        assert (spec["reuse"], spec["collectors"], each) == (1.0, 2, 2 if spec["batch"] == 256 else 16)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            claim(contexts={"alone": alone("snake.act[naive-torch-envs7]", inference="no_grad")}),
            "no benchmark is called",
        ),
        (claim(contexts={"alone": alone(ACT, speed="more")}), "speed"),
        (claim(contexts={"alone": alone(ACT, inference="never")}), "inference"),
        (claim(contexts={"alone": alone(ACT, "weight", inference="no_grad")}), "measure: got 'weight'"),
        (claim(same="nearly"), "same: got 'nearly'"),
        (claim(same="returns"), "evidence: got ''"),
        (claim(contexts={}), "neither contexts nor figures"),
    ],
)
def test_a_claim_that_cannot_be_measured_is_named(wrong, message):
    with pytest.raises(ClaimsError, match="toy: ") as error:
        wrong.check()
    assert message in str(error.value)


def test_a_side_has_its_forms_knobs_but_for_those_that_are_changed():
    pair, before = removed("snake.act[full-torch-envs1]", both={"acting": "torch"}, inference="grad"), variants()
    base, change = pair.base.variant.knobs(), pair.change.variant.knobs()
    full = before["snake.act[full-torch-envs1]"].knobs()
    assert (base, change) == (replace(full, acting="torch", inference="grad"), replace(full, acting="torch"))
    assert variants()["snake.act[full-torch-envs1]"].knobs() == full


def test_other_inputs_take_the_place_of_the_cases():
    side = Side(NUMPY.format("full"), given=lambda rng: ("given", rng.integers(9)), words="others")
    assert side.variant.inputs(0)[0] == "given"
    assert side.label.endswith(", others")


@pytest.mark.slow
def test_the_memory_of_frames_as_bytes_is_a_quarter():
    from perf_tests.claims.resident import memory

    found = [claim for claim in claims_of("mario") if claim.name == "mario-uint8"]
    pair = found[0].contexts["alone"]
    found = memory("mario", [pair.base, pair.change], 0)
    assert 3.9 < found[pair.base.label]["resident"] / found[pair.change.label]["resident"] < 4.1
