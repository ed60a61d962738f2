"""Verdicts: what an interval, outputs and evidence amount to, and which comparisons get more pairs."""

from __future__ import annotations

import pytest

from perf_tests.claims import ledger
from perf_tests.claims.catalogue import Figure
from perf_tests.claims.measure import Measured
from rl_impls import backends

from .toy import ON_GPU, OTHER, PAIR, claim, known

SURE, WIDE, UNCLEAR = [2.4, 2.41] * 3, [2.1, 2.3, 2.5, 2.7, 2.9, 3.1], [1.95, 1.97, 1.99, 2.0, 2.02, 2.04]


def context_row(about, ratios=SURE, same=None, **others):
    claims = [about, *others.pop("claims", ())]
    found = known(claims, **{about.id: ratios}, **others)
    return ledger.context_row(about, "alone", {each.id: each for each in claims}, found, same)


@pytest.mark.parametrize(
    ("low", "high", "least", "word"),
    [
        (2.0, 3.0, 2.0, "holds"), (1.99, 3.0, 2.0, "unclear"), (1.03, 1.99, 2.0, "partly"),
        (0.5, 1.02, 2.0, "refuted"), (0.9, 1.03, 2.0, "unclear"), (0.3, 0.5, None, "measured"),
        (0.36, 0.4, 0.35, "holds"), (0.2, 0.3, 0.35, "refuted"),
    ],
)  # fmt: skip
def test_an_interval_becomes_a_verdict(low, high, least, word):
    assert ledger.verdict(low, high, least) == word


@pytest.mark.parametrize(("same", "word"), [(True, "holds"), (False, "refuted"), (None, "unclear")])
def test_evidence_of_returns_decides_the_verdict(same, word):
    assert context_row(claim(same="returns", evidence="snake-every-4"), same=same)["verdict"] == word


def test_a_comparison_has_the_median_and_the_interval_of_its_pairs():
    found = context_row(claim(), [2.5, 2.2, 2.25, 2.3, 2.55, 2.4])
    assert (found["verdict"], found["n"], found["low"], found["high"], found["wide"]) == ("holds", 6, 2.2, 2.55, False)
    assert found["ratio"] == pytest.approx(2.35)


@pytest.mark.parametrize(("ratios", "word"), [(SURE, "measured"), (WIDE, "unclear"), (SURE[:5], "unclear")])
def test_without_a_promise_a_wide_interval_and_few_pairs_are_unclear(ratios, word):
    assert context_row(claim(None), ratios)["verdict"] == word


def test_outputs_that_differ_refute_and_another_error_is_shown():
    about = claim(same="close")
    for error, word in (("it: the outputs differ; if they should", "refuted"), ("its test fails", "error")):
        found = ledger.context_row(
            about, "alone", {"toy": about}, {about.comparison("alone"): Measured(error=error)}, None
        )
        assert (found["verdict"], found["ratio"], found["n"]) == (word, None, 0)
    assert (context_row(about)["verdict"], context_row(about)["same_holds"]) == ("holds", True)


def test_a_promise_of_close_outputs_alone_holds_where_they_are():
    assert context_row(claim(None, same="close", tolerance=1e-7), WIDE)["verdict"] == "holds"


def test_a_claim_about_cuda_needs_a_gpu():
    if not backends.get("torch-cuda").missing():
        pytest.skip("there is a GPU")
    about = claim(contexts={"alone": ON_GPU}, figures=[{"what": "rate", "test": ON_GPU[1], "theirs": "9/s"}])
    found = ledger.row(about, {"toy": about}, {}, {}, None)
    assert (found["contexts"][0]["verdict"], found["contexts"][0]["ratio"]) == ("needs CUDA", None)
    assert (found["figures"][0]["needs"], found["figures"][0]["ours"]) == ("CUDA", None)


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
    ],
)
def test_figures_of_others_stand_beside_ours(figure, ours, unit):
    about = claim()
    info = {f"perf_tests/test_snake.py::{PAIR[1]}": {"seconds_per_call": 2.0, "items": 5, "unit": "actions"}}
    measured = {about.comparison("alone"): Measured(SURE, [600.0, 300.0])}
    found = ledger.beside(about, figure, measured, info)
    assert (found["ours"], found["unit"], found["theirs"]) == (ours, unit, "9")


def test_more_pairs_go_to_undecided_claims_widest_first():
    toy, other = claim(), claim(None, id="other", contexts={"alone": OTHER})
    both = [toy.comparison("alone"), other.comparison("alone")]
    assert ledger.unclear([toy, other], known([toy, other], toy=UNCLEAR, other=WIDE)) == both[::-1]
    assert ledger.unclear([toy, other], known([toy, other], toy=WIDE, other=SURE)) == []
    assert ledger.unclear([toy], known([toy], toy=UNCLEAR * 4)) == []  # as many as a comparison gets
    without_evidence = claim(same="returns", evidence="snake-every-4")
    assert ledger.unclear([without_evidence], known([without_evidence], toy=SURE)) == []
    assert ledger.unclear([toy], {}) == []


def test_other_claims_that_a_claim_depends_on_get_more_pairs_too():
    other = claim(1.0, id="other", contexts={"alone": OTHER})
    most = claim(1.0, most_of=("other",))
    found = ledger.unclear([most, other], known([most, other], toy=[2.4, 2.5, 2.3] * 2, other=[2.4] * 6))
    assert set(found) == {most.comparison("alone"), other.comparison("alone")}
