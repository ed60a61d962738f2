"""What processes measured becomes rows of the ledger: intervals, words, and what is still open."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from perf_tests.claims import ledger
from perf_tests.suite.claim import Figure, Side, between
from rl_impls import backends

from .toy import ACT, ACTING, NUMPY, OBSERVE, claim, row, said


@pytest.mark.parametrize(
    ("low", "high", "least", "word"),
    [
        (2.0, 3.0, 2.0, "holds"), (1.99, 3.0, 2.0, "unclear"), (1.99, 2.0, 2.0, "unclear"),
        (1.03, 1.99, 2.0, "partly"), (1.02, 1.99, 2.0, "unclear"), (0.5, 1.02, 2.0, "refuted"),
        (0.9, 1.03, 2.0, "unclear"), (0.3, 0.5, None, "measured"), (0.36, 0.4, 0.35, "holds"),
        (0.2, 0.3, 0.35, "refuted"),
    ],
)  # fmt: skip
def test_an_interval_becomes_a_word(low, high, least, word):
    assert ledger.verdict(low, high, least) == word


@pytest.mark.parametrize(("same", "word"), [(True, "holds"), (False, "refuted"), (None, "unclear")])
def test_what_was_to_stay_the_same_decides_too(same, word):
    assert ledger.verdict(3.0, 4.0, 2.0, same, promised=True) == word


def test_a_comparison_has_the_median_and_the_interval_of_its_processes():
    found = ledger.told(claim(), "alone", said(2.5, 2.2, 2.25, 2.3, 2.55, 2.4), None)
    assert (found["verdict"], found["n"], found["low"], found["high"], found["wide"]) == ("holds", 6, 2.2, 2.55, False)
    assert found["ratio"] == pytest.approx(2.35)


def test_one_process_whose_answers_differ_refutes():
    processes = said(2.1, 2.2, 2.3, 2.4, 2.5, same=True) + said(2.6, same=False)
    assert ledger.told(claim(same="close"), "alone", processes, None)["verdict"] == "refuted"


def test_without_evidence_a_claim_about_returns_is_unclear():
    about = claim(same="returns", evidence="snake-every-4")
    words = [ledger.told(about, "alone", said(*[2.5] * 6), known)["verdict"] for known in (None, True, False)]
    assert words == ["unclear", "holds", "refuted"]


def test_what_nothing_was_promised_of_is_unclear_where_its_interval_is_wide():
    narrow, wide = ([1.0, 1.01, 1.02, 1.03, 1.04, 1.05], [0.5, 0.8, 1.0, 1.2, 1.4, 2.0])
    words = [ledger.told(claim(None), "alone", said(*ratios), None)["verdict"] for ratios in (narrow, wide)]
    assert words == ["measured", "unclear"]


def test_what_fewer_than_six_processes_say_counts_as_wide():
    found = [ledger.told(claim(None), "alone", said(*[1.5] * n), None) for n in (5, 6)]
    assert [(each["wide"], each["verdict"]) for each in found] == [(True, "unclear"), (False, "measured")]


def test_a_side_that_cannot_run_here_is_never_guessed(monkeypatch):
    monkeypatch.setattr(backends.Backend, "missing", lambda self: "no GPU" if self.device == "cuda" else None)
    on_gpu = claim(contexts={"alone": between(ACT, "snake.act[full-torch-cuda-envs1]")})
    found = ledger.told(on_gpu, "alone", [], None)
    assert (found["verdict"], found["ratio"], found["n"]) == ("needs CUDA", None, 0)


def test_a_base_that_cannot_run_here_is_never_guessed(monkeypatch):
    monkeypatch.setattr(backends.Backend, "missing", lambda self: "no GPU" if self.device == "cuda" else None)
    on_gpu = claim(contexts={"alone": between("snake.act[full-torch-cuda-envs1]", ACT)})
    assert ledger.told(on_gpu, "alone", [], None)["verdict"] == "needs CUDA"


def test_an_error_of_a_side_is_told():
    processes = [{"claims": {"toy": {"alone": {"error": "ValueError: no"}}}, "sides": {}}]
    assert ledger.told(claim(), "alone", processes, None)["error"] == "ValueError: no"


def test_the_most_gain_is_over_the_best_of_the_others():
    most = claim(1.0, most_of=("a", "b"))
    gains = {"toy": 3.0, "a": 1.5, "b": 2.0}
    process = {"claims": {name: {"alone": {"ratio": gain}} for name, gain in gains.items()}, "sides": {}}
    assert ledger.gains(most, "alone", [process]) == [1.5]
    del process["claims"]["b"]
    assert ledger.gains(most, "alone", [process]) == []


def test_figures_of_others_stand_beside_ours():
    side = Side(NUMPY.format("full"))
    processes = [{"claims": {}, "sides": {side.label: {"seconds": seconds}}} for seconds in (1.0, 2.0, 4.0)]
    for number, process in enumerate(processes):
        process["sides"][side.label]["peak"] = 100.0 + number
    found = [ledger.beside(Figure("f", side, "9", of), processes)["ours"] for of in ("rate", "seconds", "peak")]
    assert found == [2.5, 2.0, 101.0]  # five observations a call
    units = [ledger.beside(Figure("f", side, "9", unit=unit), processes)["unit"] for unit in ("", "batches")]
    assert units == [f"{side.unit}/s", "batches/s"]


def test_new_rows_take_the_place_of_old_ones_and_claims_that_are_gone_go():
    old, gone, new = row(), row("snake-gone"), row(ratio=3.0)
    assert ledger.joined([old, gone], [new]) == [new]
    assert ledger.joined([old], [row("pirl-batching")]) == [row("pirl-batching"), old]


def test_the_report_reads_what_the_ledger_writes(tmp_path):
    from perf_tests.report.html import claims

    path, needs = tmp_path / "claims.json", row("snake-gpu", "needs CUDA", None)
    about = {"commit": "abc", "dirty": False, "date": "2026-11-23", "machine": {}, "threads": 2}
    figure = {"what": "rate", "side": "x", "unit": "samples/s", "theirs": "18K", "ours": None, "needs": "Neuron"}
    rows = [row(), needs | {"figures": [figure]}]
    path.write_text(json.dumps({"format": ledger.FORMAT, "version": ledger.VERSION, **about, "claims": rows}))
    assert [each.id for each in claims.read(path).claims] == ["snake-overall", "snake-gpu"]


@pytest.mark.parametrize(("low", "high", "wide"), [(9.0, 11.0, False), (8.9, 10.0, True), (10.0, 11.1, True)])
def test_an_interval_is_wide_beyond_a_tenth_to_either_side(low, high, wide):
    assert ledger.is_wide(10.0, low, high) is wide


def of_several(**ratios):
    """Return what six processes say of claims by their names: of each a ratio a process, on ``alone``."""
    return [
        {"claims": {name: {"alone": {"ratio": each[i]}} for name, each in ratios.items()}, "sides": {}}
        for i in range(6)
    ]


def open_of(claims, processes):
    return {each.name: [*each.contexts] for each in ledger.still_open(claims, processes)}


UNCLEAR, WIDE, SURE = [1.95, 1.97, 1.99, 2.0, 2.02, 2.04], [2.1, 2.3, 2.5, 2.7, 2.9, 3.1], [2.4, 2.41] * 3


def test_what_is_unclear_is_open_and_what_is_wide_where_nothing_is_unclear():
    toy, other = claim(), replace(claim(contexts={"alone": ACTING}), name="other")
    assert open_of([toy, other], of_several(toy=UNCLEAR, other=WIDE)) == {"toy": ["alone"]}
    assert open_of([toy, other], of_several(toy=SURE, other=WIDE)) == {"other": ["alone"]}
    assert open_of([toy, other], of_several(toy=SURE, other=SURE)) == {}
    assert open_of([toy, other], []) == {}
    unpromised = replace(other, least=None)
    assert open_of([toy, unpromised], of_several(toy=WIDE, other=WIDE)) == {"other": ["alone"]}
    assert open_of([toy, unpromised], of_several(toy=WIDE, other=SURE)) == {"toy": ["alone"]}


def test_the_other_contexts_and_figures_of_what_is_open_are_not_measured_again():
    both = claim(contexts={"alone": OBSERVE, "from full": ACTING}, figures=[Figure("f", OBSERVE.base, "9")])
    processes = [
        {"claims": {"toy": {"alone": {"ratio": a}, "from full": {"ratio": b}}}, "sides": {}}
        for a, b in zip(SURE, UNCLEAR)
    ]
    (found,) = ledger.still_open([both], processes)
    assert (found.contexts, found.figures) == ({"from full": ACTING}, ())


def test_with_what_is_open_come_the_same_comparison_and_what_it_is_compared_with():
    toy, same = claim(), replace(claim(least=1.5), name="same")
    assert open_of([toy, same], of_several(toy=UNCLEAR, same=UNCLEAR)) == {"toy": ["alone"], "same": ["alone"]}
    unlike = replace(same, contexts={"alone": replace(OBSERVE, measure="spread")})
    assert open_of([toy, unlike], of_several(toy=UNCLEAR, same=UNCLEAR)) == {"toy": ["alone"]}
    most = replace(claim(1.0, contexts={"alone": ACTING}), name="most", most_of=["toy"])
    found = of_several(toy=SURE, most=[ratio * gain for ratio, gain in zip(SURE, (0.9, 0.95, 1.0, 1.0, 1.05, 1.1))])
    assert open_of([toy, most], found) == {"most": ["alone"], "toy": ["alone"]}


def test_what_no_process_told_is_unclear_and_one_error_is_an_error():
    found = ledger.told(claim(), "alone", [{"claims": {}, "sides": {}}], None)
    assert found == {
        "context": "alone", "base": OBSERVE.base.label, "change": OBSERVE.change.label, "measure": "seconds",
        "ratio": None, "low": None, "high": None, "n": 0, "same_holds": None, "verdict": "unclear",
    }  # fmt: skip
    failed = {"claims": {"toy": {"alone": {"error": "E: no"}}}, "sides": {}}
    found = ledger.told(claim(), "alone", [*said(2.0, 2.1), failed], None)
    assert (found["verdict"], found["error"], found["ratio"]) == ("error", "E: no", None)
    assert ledger.gains(claim(), "alone", [*said(2.0), failed, *said(3.0, name="other")]) == [2.0]


def test_what_must_not_change_is_told_by_all_answers_or_by_the_evidence():
    kept = {same: ledger.told(claim(same=same), "alone", said(*[2.5] * 6, same=True), known)["same_holds"]
            for same, known in ((None, None), ("bits", False), ("close", None), ("returns", False))}  # fmt: skip
    assert kept == {None: None, "bits": True, "close": True, "returns": False}


def test_a_figure_needs_what_its_side_does_and_is_nothing_where_no_process_has_it(monkeypatch):
    from rl_impls import backends

    side = Side(NUMPY.format("full"))
    kept = {"what": "f", "side": side.label, "theirs": "9"}
    units = {"rate": f"{side.unit}/s", "seconds": "s", "peak": "bytes"}
    for of, unit in units.items():
        assert ledger.beside(Figure("f", side, "9", of), [{"sides": {}}]) == {**kept, "unit": unit, "ours": None}
    monkeypatch.setattr(backends.Backend, "missing", lambda self: f"no {self.device}")
    for device, word in (("cuda", "CUDA"), ("neuron", "Neuron"), ("cpu", "no cpu")):
        monkeypatch.setattr(Side, "device", lambda self, device=device: device)
        found = ledger.beside(Figure("f", side, "9"), [{"sides": {side.label: {"seconds": 1.0}}}])
        assert (found["ours"], found["needs"]) == (None, word)


def test_a_row_says_all_of_its_claim():
    about = claim(same="close", note="a note", figures=[Figure("rate", OBSERVE.change, "9")])
    found = ledger.row(about, said(2.5, same=True), None)
    contexts, figures = found.pop("contexts"), found.pop("figures")
    assert found == {
        "id": "toy", "workload": "treasurehunt", "words": "words", "source": "source.md", "promised": "2 x",
        "least": 2.0, "same": "close", "note": "a note",
    }  # fmt: skip
    assert [(each["context"], each["ratio"]) for each in contexts] == [("alone", 2.5)]
    assert [each["what"] for each in figures] == ["rate"]
