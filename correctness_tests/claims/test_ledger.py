"""Verdicts from intervals, outputs and evidence, and the comparisons that get more pairs."""

from pathlib import Path

import pytest

from perf_tests.claims import ledger
from perf_tests.claims.catalogue import Figure
from perf_tests.claims.measure import Measured
from rl_impls import backends

from .toy import ON_GPU, OTHER, PAIR, claim, known, trained

SURE, WIDE, UNCLEAR = [2.4, 2.41] * 3, [2.1, 2.3, 2.5, 2.7, 2.9, 3.1], [1.95, 1.97, 1.99, 2.0, 2.02, 2.04]


def context_row(about, ratios=SURE, findings=None, **others):
    claims = [about, *others.pop("claims", ())]
    found = known(claims, **{about.id: ratios}, **others)
    return ledger.context_row(about, "alone", {each.id: each for each in claims}, found, findings or {})


@pytest.mark.parametrize(
    ("low", "high", "least", "word"),
    [
        (2.0, 3.0, 2.0, "holds"), (2.5, 99.0, 2.0, "holds"), (1.99, 3.0, 2.0, "unclear"), (0.5, 2.0, 2.0, "unclear"),
        (1.03, 1.99, 2.0, "partly"), (1.021, 1.5, 2.0, "partly"), (1.02, 1.99, 2.0, "not met"),
        (0.97, 1.06, 3.0, "not met"), (0.5, 1.021, 2.0, "not met"), (0.5, 1.02, 2.0, "refuted"),
        (0.3, 0.4, 2.0, "refuted"), (1.02, 1.1, 1.02, "holds"), (1.01, 1.1, 1.02, "unclear"),
        (0.3, 0.5, None, "measured"),
    ],
)  # fmt: skip
def test_an_interval_becomes_a_verdict(low, high, least, word):
    assert ledger.verdict(low, high, least) == word


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.5, 0.5, "holds"), (0.45, 0.49, "holds"), (0.51, 0.55, "holds"), (0.3, 0.8, "holds"),
        (0.44, 0.49, "unclear"), (0.51, 0.56, "unclear"), (0.44, 0.45, "unclear"), (0.55, 0.6, "unclear"),
        (0.3, 0.449, "refuted"), (0.551, 0.6, "refuted"), (2.4, 2.6, "refuted"),
    ],
)  # fmt: skip
def test_a_ratio_above_or_below_a_promised_slowdown_refutes_it(low, high, word):
    assert ledger.verdict(low, high, 0.5) == word


def test_the_docs_define_each_word_as_the_code_does():
    docs = (Path(ledger.__file__).parents[2] / "docs" / "claims.md").read_text()
    assert " ".join(ledger.SLOWDOWN.split()) in " ".join(docs.split())
    for word, meaning in ledger.WORDS.items():
        assert f"| `{word}` | {meaning} |" in docs


@pytest.mark.parametrize(
    ("finding", "word", "why"),
    [
        ("for the claim", "holds", ""), ("against the claim", "refuted", "evidence against the claim"),
        ("undecided", "unclear", "evidence undecided"), ("missing", "unclear", "evidence missing"),
    ],
)  # fmt: skip
def test_evidence_of_returns_decides_the_verdict(finding, word, why):
    found = context_row(trained(), findings={"snake-every-4": finding})
    assert (found["verdict"], found["why"]) == (word, why)


def test_a_claim_that_promises_only_evidence_holds_with_it():
    findings = {"snake-every-4": "for the claim"}
    assert context_row(trained(None, promised="faster"), WIDE, findings)["verdict"] == "holds"
    assert context_row(trained(None, promised="no figure"), findings=findings)["verdict"] == "measured"


def test_a_comparison_has_the_median_and_the_interval_of_its_pairs():
    found = context_row(claim(), [2.5, 2.2, 2.25, 2.3, 2.55, 2.4])
    assert (found["verdict"], found["n"], found["low"], found["high"], found["wide"]) == ("holds", 6, 2.2, 2.55, False)
    assert found["ratio"] == pytest.approx(2.35)


@pytest.mark.parametrize(
    ("ratios", "word"),
    [
        (SURE, "measured"), (WIDE, "unclear"), (SURE[:5], "unclear"),
        ([2.4] * 5 + [2.7], "unclear"), ([2.1] + [2.4] * 5, "unclear"),  # wide on one side of the median
    ],
)  # fmt: skip
def test_without_a_promise_a_wide_interval_and_few_pairs_are_unclear(ratios, word):
    assert context_row(claim(None, promised="no figure"), ratios)["verdict"] == word


def test_outputs_that_differ_refute_and_another_error_is_shown():
    about = claim(same="close")
    for error, word in (("it: the outputs differ; if they should", "refuted"), ("its test fails", "error")):
        found = ledger.context_row(
            about, "alone", {"toy": about}, {about.comparison("alone"): Measured(error=error)}, {}
        )
        assert (found["verdict"], found["ratio"], found["n"]) == (word, None, 0)
    assert (context_row(about)["verdict"], context_row(about)["same_holds"]) == ("holds", True)


def test_a_promised_slowdown_needs_a_narrow_interval_around_it():
    narrow, wide = [0.49, 0.5, 0.5, 0.5, 0.5, 0.51], [0.3, 0.4, 0.5, 0.5, 0.6, 0.7]
    assert [context_row(claim(0.5), ratios)["verdict"] for ratios in (narrow, wide)] == ["holds", "unclear"]


def test_a_claim_of_close_outputs_alone_holds_if_they_are_close():
    assert context_row(claim(None, same="close", tolerance=1e-7), WIDE)["verdict"] == "holds"


def test_a_claim_about_cuda_needs_a_gpu():
    if not backends.get("torch-cuda").missing():
        pytest.skip("there is a GPU")
    about = claim(contexts={"alone": ON_GPU}, figures=[{"what": "rate", "test": ON_GPU[1], "theirs": "9/s"}])
    found = ledger.row(about, {"toy": about}, {}, {}, {})
    assert (found["contexts"][0]["verdict"], found["contexts"][0]["ratio"]) == ("needs a GPU", None)
    assert (found["figures"][0]["needs"], found["figures"][0]["ours"]) == ("a GPU", None)


def test_a_measure_may_need_another_module():
    assert claim(requires="numpy").needs(*PAIR) == ""
    assert claim(requires="gone").needs(*PAIR) == "gone"


def test_the_largest_gain_is_compared_with_the_best_other_pair_by_pair():
    a, b = claim(id="a", contexts={"alone": OTHER}), claim(id="b", contexts={"alone": OTHER[::-1]})
    most = claim(1.0, most_of=("a", "b"))
    found = context_row(most, [3.0] * 6, claims=(a, b), a=[1.5] * 6, b=[2.0] * 5 + [6.0])
    assert (found["ratio"], found["low"], found["verdict"]) == (1.5, 0.5, "unclear")


@pytest.mark.parametrize(
    ("figure", "ours", "unit"),
    [
        (Figure(what="f", test=PAIR[1], theirs="9", of="seconds"), 2.0, "s"),
        (Figure(what="f", test=PAIR[1], theirs="9", items=8, unit="batches"), 4.0, "batches/s"),
        (Figure(what="f", test=PAIR[1], theirs="9", of="peak_rss"), 300.0, "bytes"),
        (Figure(what="f", test=PAIR[1], theirs="9", of="seconds_per_put"), 3e-5, "s"),
    ],
)
def test_figures_of_others_stand_beside_ours(figure, ours, unit):
    about = claim()
    row = {"seconds_per_call": 2.0, "items": 5, "unit": "actions", "seconds_per_put": 3e-5}
    measured = {about.comparison("alone"): Measured(SURE, [600.0, 300.0])}
    found = ledger.beside(about, figure, measured, {f"perf_tests/test_snake.py::{PAIR[1]}": row})
    assert (found["ours"], found["unit"], found["theirs"]) == (ours, unit, "9")


def test_more_pairs_go_to_undecided_claims_widest_first():
    toy, other = claim(), claim(None, id="other", contexts={"alone": OTHER}, promised="no figure")
    both = [toy.comparison("alone"), other.comparison("alone")]
    assert ledger.unclear([toy, other], known([toy, other], toy=UNCLEAR, other=WIDE), {}) == both[::-1]
    assert ledger.unclear([toy, other], known([toy, other], toy=WIDE, other=SURE), {}) == []
    assert ledger.unclear([toy], known([toy], toy=UNCLEAR * 4), {}) == []  # the most that a comparison gets
    assert ledger.unclear([toy], {}, {}) == []


def test_pairs_that_cannot_decide_are_not_measured():
    not_met = known([claim()], toy=[0.97, 0.99, 1.03, 1.04, 1.05, 1.06])
    assert ledger.unclear([claim()], not_met, {}) == []
    one = trained()
    for finding, wanted in (("for the claim", 1), ("against the claim", 0), ("missing", 0)):
        assert len(ledger.unclear([one], known([one], toy=UNCLEAR), {"snake-every-4": finding})) == wanted


def test_other_claims_that_a_claim_depends_on_get_more_pairs_too():
    other = claim(1.0, id="other", contexts={"alone": OTHER})
    most = claim(1.02, most_of=("other",))
    found = ledger.unclear([most, other], known([most, other], toy=[2.4, 2.5, 2.3] * 2, other=[2.4] * 6), {})
    assert set(found) == {most.comparison("alone"), other.comparison("alone")}
