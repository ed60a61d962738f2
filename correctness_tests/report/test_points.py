"""What each point, bar, tile and caution of the report says is what was measured: directions, ends, counts."""

from __future__ import annotations

import json
from html import escape

import pytest

from correctness_tests.repositories.entries import order, over
from perf_tests.report.html import gated, knobs, over_commits, promised, threads
from perf_tests.report.html.claims import Claims
from perf_tests.report.html.facts import cautions, tiles
from perf_tests.report.html.page import outcome, verdicts
from perf_tests.report.order import Span
from rlgauge.history_table import drawn, percent

from .made_up import artifact, claims, context, ours
from .test_figures import gains, only, run_of

__all__ = ["run_of"]  # a fixture
CPU = {"cpu_model": "a CPU", "cores": 2}


def test_an_interval_has_its_low_end_below_and_its_high_end_above():
    chapters = [
        gated.chapter(artifact()),
        over_commits.chapter(drawn(over([0.0] * 3 + [0.1] * 3), order(6))),
        promised.chapter(Claims.model_validate(claims(context()))),
    ]
    for chapter in chapters:
        points = chapter.figures[0].series[0].points
        assert points
        assert all(point["low"] < point["y"] < point["high"] for point in points)


@pytest.mark.parametrize(("same", "words"), [(True, "yes (close)"), (False, "no (close)")])
def test_another_answer_is_said_to_be_one(same, words):
    figure = only(promised.chapter(Claims.model_validate(claims(context(same_holds=same)))))
    assert figure.rows[0][-1] == words


def test_a_waterfall_says_what_the_knobs_leave_and_ends_at_full(run_of):
    figure = gains(run_of)
    *_, rest, full = figure.series[0].points
    assert (rest["text"], full["start"]) == ("1.98", 1)
    assert [cells[1:] for cells in figure.rows][-2] == ["1.98", ""]
    spans = Span(1.2, 1.1, 1.3), Span(0.9, 0.8, 0.95), Span(0.9, 0.8, 1.0)
    assert [knobs.judged(span) for span in spans] == [True, False, None]


def test_tiles_count_what_was_judged_by_a_published_figure(run_of):
    words = ("holds", "partly", "refuted", "unclear", "needs CUDA", "error")
    found = Claims.model_validate(claims(*(context(verdict=word) for word in words)))
    assert verdicts(found) == {"claims hold": "1 of 4"}
    found.claims[0].least = None
    assert verdicts(found) == {"claims hold": "0 of 0"}
    assert verdicts(None) == outcome(None) == {}
    assert outcome(artifact()) == {"the gate": "failed"}
    run = run_of([ours(), ours(backend="jax"), ours("act", workload="snake")])
    assert tiles(run.rows, {}) == {"benchmarks": "3", "workloads": "2", "backends": "2"}


def test_the_gates_minutes_are_minutes_and_what_makes_it_void_is_said():
    found = artifact()
    assert "; 10.0 min." in gated.chapter(found).html
    for name in [name for name in found.records if "slowed" in name]:
        del found.records[name]
    wrong = found.decide().wrong
    assert wrong
    assert all(f"<b>{escape(words)}</b>" in gated.chapter(found).html for words in wrong)


@pytest.mark.parametrize(("ours", "words"), [(0.0, "0 s"), (None, "not measured")])
def test_a_figure_of_nothing_is_none_that_is_missing(ours, words):
    found = Claims.model_validate(claims(context()))
    found.claims[0].figures[0].ours, found.claims[0].figures[0].unit = ours, "s"
    assert f"<td>{words}</td>" in promised.chapter(found).html


def test_a_benchmark_beyond_the_machines_limit_is_named(run_of):
    for share, count in ((0.9, 0), (1.4, 1)):
        run = run_of([ours(limit_share=share)])
        said = [words for words in cautions(run, [], None) if "machine's measured peak" in words]
        assert [run.rows[0]["id"] in words for words in said] == [True] * count


def test_of_two_runs_with_as_many_threads_the_later_one_counts(run_of):
    timed = [(1, 1e-3), (2, 9e-3), (2, 5e-4)]
    runs = [run_of([ours(seconds=s, threads=n)], f"{k}.json") for k, (n, s) in enumerate(timed)]
    assert only(threads.chapter(runs)).series[0].points[1]["y"] == 5e-4


def test_what_a_history_came_to_is_its_end_and_not_its_last_commit():
    (case,) = cases = drawn(over([0.0] * 3 + [0.1] * 3), order(6))
    assert only(over_commits.chapter(cases)).words == [f"By the end: slower, {percent(case['end'])}."]


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({}, []),
        ({"cpu_model": "b CPU"}, ["b CPU, 2 cores"]),
        ({"cores": 64}, ["a CPU, 64 cores"]),
        ({"cpu_model": ""}, []),
    ],
)
def test_what_is_of_another_machine_is_said_to_be(run_of, theirs, said):
    run, other = run_of([ours()]), run_of([ours()], "b.json")
    run.machine.update(CPU)
    other.machine.update(CPU | theirs)
    own = cautions(run, [], None)
    found = Claims.model_validate(claims() | {"commit": run.commit, "machine": CPU | theirs})
    assert cautions(run, [other], found)[len(own) :] == [
        f"{what} {where}."
        for what in ("The runs at other numbers of threads are of other machines:",
                     "The claims were measured on another machine:")
        for where in said
    ]  # fmt: skip


def test_claims_of_another_commit_or_of_changes_in_none_are_said_to_be(run_of):
    run = run_of([ours()])
    own = cautions(run, [], None)
    found = Claims.model_validate(json.loads(json.dumps(claims())) | {"commit": run.commit[:1] + 11 * "0"})
    assert cautions(run, [], found)[len(own) :] == [f"The claims were measured at another commit: {found.commit}."]
    found = found.model_copy(update={"commit": run.commit, "dirty": True})
    assert cautions(run, [], found)[len(own) :] == ["The claims were measured with changes that were not committed."]
