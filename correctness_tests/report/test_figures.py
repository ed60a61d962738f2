"""Plots and texts of the report for made-up results."""

import json
import re

import pytest

from correctness_tests.repositories.entries import commit, order, over
from perf_tests.report.html import gated, limit, options, over_commits, phases, promised, scaling, threads
from perf_tests.report.html.claims import Claims
from perf_tests.report.html.facts import cautions, facts
from perf_tests.report.html.page import embedded, page
from perf_tests.report.html.runs import BadInput, read
from rlgauge.history_table import drawn
from rlgauge.rule import Record

from .made_up import KNOWN, OTHER, artifact, claims, context, foreign, foreign_result, ours, result, write


@pytest.fixture
def run_of(tmp_path):
    """Return a function that writes made-up benchmarks to a file and reads them as a run."""

    def read_run(benchmarks, name="a.json", **head):
        return read(write(tmp_path, name, result(benchmarks, **head)))

    return read_run


def only(chapter):
    (figure,) = chapter.figures
    return figure


def test_the_axis_with_most_values_is_x_and_each_combination_of_the_others_a_plot(run_of):
    rows = run_of(
        ours(backend=backend, seconds=batch * 1e-5, axes={"batch": batch, "io": io})
        for backend in ("torch", "jax")
        for batch in (1, 32, 8)
        for io in ("host", "device")
    ).rows
    figures = scaling.chapter(rows).figures
    assert [figure.title for figure in figures] == ["forward io host", "forward io device"]
    assert {figure.kind for figure in figures} == {"lines"}
    first = figures[0].series[0]
    assert (first.name, first.backend, first.form) == ("full torch", "torch", "full")
    assert [(point["x"], point["y"]) for point in first.points] == [(1, 1e-5), (8, 8e-5), (32, 32e-5)]
    assert all(point["items"] == pytest.approx(32) for point in first.points)


@pytest.mark.parametrize(("envs", "x"), [((1, 8), "batch_size"), ((1, 4, 8), "num_envs")])
def test_batch_size_is_x_unless_another_axis_has_more_values(run_of, envs, x):
    rows = run_of(ours(axes={"num_envs": count, "batch_size": size}) for count in envs for size in (32, 64)).rows
    assert {figure.labels["x"] for figure in scaling.chapter(rows).figures} == {x}


def test_equal_axes_are_sorted_by_rate(run_of):
    rows = run_of([ours(seconds=2e-3), ours(backend="jax"), ours(backend="numpy", seconds=3e-3)]).rows
    figure = only(scaling.chapter(rows))
    assert [cells[2] for cells in figure.rows] == ["jax", "torch", "numpy"]
    assert figure.labels["categories"] == ["full jax", "full torch", "full numpy"]


def test_shares_of_the_limit_stand_by_op(run_of):
    rows = run_of([ours(limit_share=0.25), ours("act", limit_share=None, bound=None), ours("loss")]).rows
    figure = only(limit.chapter(rows))
    assert figure.labels["categories"] == ["forward", "loss"]
    assert figure.series[0].points[0] == {"at": 0, "y": 0.25, "id": "pirl.forward[full-torch-batch32]"}
    assert figure.rows[0][-2:] == ["25%", "arithmetic"]


def test_a_waterfall_goes_from_naive_by_each_option_to_full(run_of):
    times = {"naive": 8e-3, "only_ring": 4e-3, "only_relu": 7.9e-3}
    found = [ours("train_step", form, seconds=seconds) for form, seconds in times.items()]
    twice = {"seconds": 4e-3, "items_per_second": 64 / 4e-3}  # as many items per call
    found += [ours("train_step", "full", **twice), ours("train_step", "only_half", precision="bfloat16")]
    figure = only(options.chapter(run_of(found).rows))
    assert figure.labels["categories"] == ["ring", "relu", "interaction", "full"]
    ring, relu, rest, full = figure.series[0].points
    assert (ring["start"], ring["y"], ring["kind"]) == (1, pytest.approx(2), "faster")
    assert (relu["start"], relu["kind"]) == (pytest.approx(2), "no significant difference")
    assert rest["start"] == relu["y"]
    assert rest["y"] == full["y"] == pytest.approx(4)
    assert ring["low"] < ring["y"] < ring["high"]


def test_an_option_is_called_slower_only_if_its_interval_is_below_1(run_of):
    times = {"naive": 8e-3, "only_ring": 16e-3, "only_relu": 8.1e-3}
    found = [ours("train_step", form, seconds=seconds) for form, seconds in times.items()]
    ring, relu = only(options.chapter(run_of(found).rows)).series[0].points
    assert (ring["kind"], relu["kind"]) == ("slower", "no significant difference")


def test_phases_are_shares_and_seconds_per_item(run_of):
    rows = run_of([ours(phases={"environment": 2e-4, "learning": 6e-4}), ours(form="naive", phases={"waiting": 1e-3})])
    figure = only(phases.chapter(rows.rows))
    assert figure.labels["parts"] == ["environment", "learning", "waiting"]
    first = figure.series[0]
    assert first.part == "environment"
    assert (first.points[0]["share"], first.points[0]["y"]) == pytest.approx((0.25, 2e-4 / 32))
    assert figure.rows[0][2:] == ["25.0%", "75.0%", "0.0%"]


@pytest.mark.parametrize(
    ("one", "two", "width", "slower"), [(1e-3, 2e-3, 0.02, 1), (2e-3, 1e-3, 0.02, 0), (1e-3, 1.1e-3, 0.1, 0)]
)
def test_a_benchmark_that_is_slower_with_more_threads_is_named(run_of, one, two, width, slower):
    times = ((2, two), (1, one))  # by threads; the larger number is given first
    runs = [run_of([ours(seconds=t, width=width, threads=n)], f"{n}.json", threads=n) for n, t in times]
    chapter = threads.chapter(runs)
    assert f"{slower} of 1 benchmarks here are slower with more threads" in chapter.lead
    words = "pirl.forward[full-torch-batch32]: 2 threads take 2.00 (1.92-2.08) times as long as 1"
    assert words in chapter.html if slower else not chapter.html
    assert [point["x"] for point in only(chapter).series[0].points] == [1, 2]


def test_claims_are_shown_as_promised_and_as_measured():
    found = claims(context(), context(None, "needs cuda", low=None, high=None, n=0, same_holds=None))
    chapter = promised.chapter(Claims.model_validate(found))
    figure = only(chapter)
    assert figure.rows[0][2:] == [
        "4.7 x", "alone: test_act[full-torch-1] against test_act[naive-torch-1]", "2.10 (1.90-2.40)", "7", "partly",
        "yes (close)",
    ]  # fmt: skip
    assert figure.rows[1][4:7] == ["not measured", "", "needs cuda"]
    assert {series.name: len(series.points) for series in figure.series} == {"partly": 1, "promised": 2}
    assert "1 partly, 1 needs cuda" in chapter.lead
    assert "812 samples/s" in chapter.html


def test_the_page_counts_the_published_figures_that_hold(run_of):
    missing = context(None, "needs cuda", low=None, high=None, n=0)
    found = claims(context(5.0, "holds"), context(), missing)
    found["claims"].append(claims(context(5.0, "holds"), least=None)["claims"][0])  # without a promised ratio
    text = page([run_of([ours()])], Claims.model_validate(found))
    assert "<b>1 of 2</b> promised ratios hold" in text


def test_the_gates_verdicts_are_shown_worst_first_with_their_workload():
    chapter = gated.chapter(artifact())
    figure = only(chapter)
    assert [cells[:2] for cells in figure.rows] == [[KNOWN, "slower"], [OTHER, "ok"]]
    assert re.fullmatch(r"\+6\.8% \[\+6\.\d, \+7\.\d\]", figure.rows[0][2])
    assert figure.rows[0][3] == "16"
    assert "failed" in chapter.html
    assert figure.workload == "pirl"
    assert re.findall('data-workload="([^"]+)"', chapter.html) == ["pirl"]


def test_a_benchmark_without_a_time_has_no_place_in_the_plot():
    found = artifact()
    found.records["perf_tests/test_pirl.py::test_gone"] = Record(state="gone")  # listed between the two others
    figure = only(gated.chapter(found))
    assert [cells[1] for cells in figure.rows] == ["slower", "gone", "ok"]
    places = [point["at"] for one in figure.series for point in one.points]
    assert [figure.labels["categories"][place] for place in places] == [KNOWN, OTHER]


def test_a_history_shows_each_commit_and_marks_its_steps():
    cases = drawn(over([0.0, 0.0, 0.0, 0.1, 0.1, 0.1]), order(6))
    figure = only(over_commits.chapter(cases))
    curve, marks = figure.series
    assert [point["x"] for point in curve.points] == [0, 1, 2, 3, 4, 5]
    assert [point["x"] for point in marks.points] == [3]
    assert marks.part == "slower"
    assert (figure.rows[3][0], figure.rows[3][2]) == (commit(4)[:12], "12")
    assert [bool(cells[3]) for cells in figure.rows] == [False, False, False, True, False, False]
    assert "slower" in figure.words[0]


def test_a_file_that_is_no_history_is_refused(tmp_path):
    path = tmp_path / "machine.jsonl"
    for text in (None, "{"):
        if text:
            path.write_text(text)
        with pytest.raises(BadInput, match=r"machine\.jsonl"):
            over_commits.read(path)


def test_a_run_of_another_suite_is_shown(tmp_path):
    found = [foreign("test_sort", n * 1e-5, n=n, how=how) for n in (10, 100) for how in ("heap", "<quick>")]
    run = read(write(tmp_path, "a.json", foreign_result(found)))
    assert facts(run)["Machine"] == "their CPU, 8 cores, Linux"
    assert "This run is not from this suite" in cautions(run, [], None)[0]
    figure = only(scaling.chapter(run.rows))
    assert [(one.name, [point["x"] for point in one.points]) for one in figure.series] == [
        ("heap", [10, 100]),
        ("<quick>", [10, 100]),
    ]
    text = page([run])
    assert "&lt;quick&gt;" in text
    assert "<quick>" not in text
    assert len(re.findall("<section", text)) == 10


def test_the_recommendation_comes_first_and_empty_cards_say_what_is_missing(run_of):
    text = page([run_of([ours()])])
    assert re.findall('<section id="([a-z]+)"', text)[:2] == ["recommended", "scaling"]
    assert re.findall('<section id="([a-z]+)" class="absent"', text) == [
        "options", "phases", "threads", "claims", "gate", "history",
    ]  # fmt: skip
    assert "No runs with other thread counts<span></span> here; <code>make bench-threads</code> makes them." in text


def test_a_run_of_single_samples_is_shown_without_intervals(run_of):
    text = page([run_of([ours(samples=1), ours(backend="jax", samples=1)])])
    assert '"low":null' in text
    assert "2 of 2 benchmarks have one sample" in text


def test_a_name_cannot_end_the_script_that_holds_the_data():
    data = {"id": "</script><script>alert(1)</script>"}
    assert "<" not in embedded(data)
    assert json.loads(embedded(data)) == data


def test_the_page_asks_for_nothing(run_of):
    text = page([run_of([ours()])], Claims.model_validate(claims()), artifact())
    own = text.partition("plotly.js v")[0] + text.rpartition("</script>\n<script>")[2]
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", own)
    assert "default-src 'none'" in own
    assert "http" not in own.replace("http-equiv", "")


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


def test_runs_and_claims_of_other_machines_or_commits_are_warnings(run_of):
    run, other = run_of([ours()]), run_of([ours()], "b.json")
    run.machine.update(CPU)
    other.machine.update(CPU)
    same = Claims.model_validate(claims() | {"commit": run.commit, "machine": CPU})
    assert cautions(run, [other], same) == []
    other.machine.update(cores=64, git="ffff")
    found = Claims.model_validate(claims() | {"commit": "eeee", "machine": CPU | {"cpu_model": "b CPU"}})
    warnings = cautions(run, [other], found)
    for words in ("other machines: a CPU, 64 cores.", "other commits: ffff.",
                  "another machine: b CPU, 2 cores.", "another commit: eeee."):  # fmt: skip
        assert any(words in line for line in warnings), warnings
    dirty = same.model_copy(update={"dirty": True})
    assert cautions(run, [], dirty) == ["The claims were measured with uncommitted changes."]
