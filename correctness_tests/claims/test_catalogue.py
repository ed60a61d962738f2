"""The claims catalogue: each claim compares two existing tests, and an invalid one is a one-line error."""

import re

import pytest

from perf_tests.claims.catalogue import ClaimsError, by_name, checked, claims_of, workloads
from perf_tests.claims.returns import TRIALS
from perf_tests.recorded import problem_of

TOY = {
    "id": "toy", "words": "it is faster", "source": "s.md, 1", "promised": "2 x",
    "contexts": {"alone": ["test_act[naive-torch-1]", "test_act[full-torch-1]"]},
}  # fmt: skip
SHIPPED = "naive-torch-original", "optimised-torch-optimised"
SETTINGS = "collectors", "batch_size", "capacity", "publish_every", "norm"
RENAMED = {"publish": "publish_every"}  # fields of the agent, by axis of the benchmark
NAMES = {
    "pirl": "neuron-b1 neuron-b32 neuron-b128 neuron-b512 neuron-b1024 neuron-b2048 batching grad-dominates latency-b1 "
    "throughput-b32 throughput-peak throughput-table latency-forward precision-neuron precision-jax",
    "snake": "overall overall-equal-work batched-tensors memory-time memory-bytes inference-mode train-every-4 "
    "threads batch-gpu gpu amp vectorised async bf16-cpu int8 ddp batch-128-256 every-8-16 max-steps tensors-on-device "
    "compile tf32 cudnn",
    "mario": "lock-wait-local lock-wait-ring lock-contention collection-local collection-ring amp-forward amp-backward "
    "compile sync accumulate uint8 prealloc threads batchnorm gpu-utilisation batches epoch overall lockfree-most "
    "amp-memory batchnorm-convergence threads-variance overall-cpu",
    "procgen": "ppo-fps impala-fps parallel-ppo parallel-impala memory threads a3c-a2c",
    "treasure": "forward train infer eager-10x first-call steady-call grad vmap-act vmap-train batch-agents buffer "
    "loss stack observe rng phase1 phase2 phase3 all multiprocess multiprocess-many conservative-train "
    "conservative-infer optimistic-train optimistic-infer vmap-observe",
}


def test_every_published_claim_is_there():
    wanted = {f"{prefix}-{name}" for prefix, names in NAMES.items() for name in names.split()}
    assert wanted <= {claim.id for workload in workloads() for claim in claims_of(workload)}


@pytest.mark.parametrize("workload", workloads())
def test_every_claim_compares_two_existing_tests(workload):
    assert claims_of(workload)
    for claim in claims_of(workload):
        for first, second in claim.contexts.values():
            assert first != second or claim.threads_a, claim.id
            assert {first, second} <= by_name(workload).keys(), claim.id


@pytest.mark.parametrize("workload", workloads())
def test_precision_differs_only_where_the_claim_is_about_it(workload):
    about = ("amp", "bf16", "int8", "precision", "batches", "epoch", "overall")
    for claim in claims_of(workload):
        for pair in claim.contexts.values():
            if sum("bfloat16" in test or "int8" in test for test in pair) == 1:
                assert any(word in claim.id for word in about), claim.id


def test_published_figures_of_a_gpu_are_judged_on_a_gpu_alone():
    names = "mario-amp-forward mario-amp-backward mario-amp-memory mario-compile mario-gpu-utilisation snake-batch-gpu"
    claims = {claim.id: claim for workload in ("mario", "snake") for claim in claims_of(workload)}
    pipelines = "mario-batches mario-epoch mario-overall"
    for name in f"{names} {pipelines} snake-amp snake-batch-128-256".split():
        for pair in claims[name].contexts.values():
            assert all("cuda" in test for test in pair), name
    for name in pipelines.split():  # the source compiles its nets on a GPU
        assert any("-torch-compile-cuda-" in change for _, change in claims[name].contexts.values()), name


def test_every_treasurehunt_claim_has_the_same_comparisons_on_cpu_and_gpu():
    for claim in claims_of("treasurehunt"):
        assert any("jax-cuda" in test for test in claim.tests), claim.id
        for pair in claim.contexts.values():
            assert tuple(test.replace("-cuda", "") for test in pair) in claim.contexts.values(), claim.id
        for figure in claim.figures:
            assert "cuda" in figure.test or figure.test.replace("-jax-", "-jax-cuda-") in claim.tests, claim.id


@pytest.mark.parametrize("workload", workloads())
def test_the_lower_end_of_a_promised_ratio_decides(workload):
    for claim in claims_of(workload):
        if found := re.search(r"([\d.]+)(?: to [\d.]+)? x\b", claim.promised):
            assert claim.least == float(found[1]), claim.id


@pytest.mark.parametrize("workload", workloads())
def test_evidence_trains_with_the_change_that_is_timed(workload):
    for claim in claims_of(workload):
        for context, name in claim.evidence.items():
            base, change = (by_name(workload)[test].params for test in claim.contexts[context])
            differing = {field: value for field, value in change.items() if value != base[field]}
            trained = {RENAMED.get(field, field): value for field, value in differing.items()}
            assert trained == TRIALS[name].change, f"{claim.id}, {context}"
            for field in differing:
                assert TRIALS[name].base[RENAMED.get(field, field)] == base[field], f"{claim.id}, {context}"


def test_mario_sync_publishes_exactly_a_fifth_as_often():
    (sync,) = [claim for claim in claims_of("mario") if claim.id == "mario-sync"]
    items = [problem_of(by_name("mario")[test], 0).items for test in sync.contexts["alone"]]
    assert (1 / items[0]) / (1 / items[1]) == sync.least == 5.0  # each side publishes once


def test_shipped_pipelines_are_the_sources_configurations():
    problems = [problem_of(by_name("mario")[f"test_pipeline_shipped[{name}]"], 0) for name in SHIPPED]
    found = [tuple(problem.config[name] for name in SETTINGS) for problem in problems]
    assert found == [(2, 256, 10_000, 3, "none"), (4, 512, 50_000, 5, "batch")]
    assert [(problem.items, len(problem.args[0])) for problem in problems] == [(256, 1), (512, 1)]
    for problem in problems:  # no epoch publishes weights
        assert ((problem.args[0] + 1) % problem.config["publish_every"]).all()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"contexts": {"alone": ["test_act[naive-torch-1]", "test_act[ful-torch-1]"]}}, "unknown test 'test_act[ful-"),
        ({"same": "returns", "evidence": {"alone": "snake"}}, "unknown trial 'snake'; did you mean 'snake-"),
        ({"same": "returns"}, "Value error, evidence: name a trial for each context if same is 'returns', and none "),
        ({"contexts": {}}, "Value error, the claim compares nothing; add contexts or figures"),
        ({"lest": 2.0}, "lest: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_claim_is_one_line(wrong, words):
    with pytest.raises(ClaimsError) as error:
        checked("snake.toml", "snake", [TOY | wrong])
    assert str(error.value).startswith(f"snake.toml: toy: {words}")
    assert "\n" not in str(error.value)


def test_two_claims_of_one_id_are_refused():
    with pytest.raises(ClaimsError, match=r"^snake.toml: toy: two claims have this id; rename one$"):
        checked("snake.toml", "snake", [TOY, TOY])


def test_claims_of_the_same_two_tests_share_a_comparison():
    first, second = checked("snake.toml", "snake", [TOY, TOY | {"id": "other", "least": 2.0}])
    assert first.comparison("alone") == second.comparison("alone")
    per_item, close = checked("snake.toml", "snake", [TOY | {"items": True}, TOY | {"id": "b", "same": "close"}])
    assert len({claim.comparison("alone") for claim in (first, per_item, close)}) == 3
