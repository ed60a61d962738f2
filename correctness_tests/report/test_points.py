"""Points, tiles and warnings of the report: the values, directions and counts that were measured."""

from __future__ import annotations

from correctness_tests.repositories.entries import order, over
from perf_tests.report.html import gated, over_commits, promised
from perf_tests.report.html.claims import Claims
from perf_tests.report.html.facts import cautions, tiles
from perf_tests.report.html.page import outcome, verdicts
from rlgauge.history_table import drawn

from .made_up import artifact, claims, context, ours
from .test_figures import run_of

__all__ = ["run_of"]  # a fixture
CPU = {"cpu_model": "a CPU", "cores": 2}


def test_intervals_have_their_low_end_below_and_their_high_end_above():
    chapters = [
        gated.chapter(artifact()),
        over_commits.chapter(drawn(over([0.0] * 3 + [0.1] * 3), order(6))),
        promised.chapter(Claims.model_validate(claims(context()))),
    ]
    for chapter in chapters:
        points = chapter.figures[0].series[0].points
        assert points
        assert all(point["low"] < point["y"] < point["high"] for point in points)


def test_tiles_count_claims_with_a_published_figure_benchmarks_and_backends(run_of):
    words = ("holds", "partly", "refuted", "unclear", "needs CUDA", "error")
    found = Claims.model_validate(claims(*(context(verdict=word) for word in words)))
    assert verdicts(found) == {"claims hold": "1 of 4"}
    found.claims[0].least = None
    assert verdicts(found) == {"claims hold": "0 of 0"}
    assert outcome(artifact()) == {"the gate": "failed"}
    run = run_of([ours(), ours(backend="jax"), ours("act", workload="snake")])
    assert tiles(run.rows, {}) == {"benchmarks": "3", "workloads": "2", "backends": "2"}


def test_runs_and_claims_of_other_machines_or_commits_are_warnings(run_of):
    run, other = run_of([ours()]), run_of([ours()], "b.json")
    run.machine.update(CPU)
    other.machine.update(CPU)
    same = Claims.model_validate(claims() | {"commit": run.commit, "machine": CPU})
    assert cautions(run, [other], same) == []
    other.machine.update(cores=64, git="ffff")
    found = Claims.model_validate(claims() | {"commit": "eeee", "machine": CPU | {"cpu_model": "b CPU"}})
    said = cautions(run, [other], found)
    for words in ("other machines: a CPU, 64 cores.", "other commits: ffff.",
                  "another machine: b CPU, 2 cores.", "another commit: eeee."):  # fmt: skip
        assert any(words in line for line in said), said
    dirty = same.model_copy(update={"dirty": True})
    assert cautions(run, [], dirty) == ["The claims were measured with uncommitted changes."]
