"""The text reports of a run: a line per case, counts, and the Markdown table."""

import math
from dataclasses import replace

import pytest

from correctness_tests.repositories.made import rows
from rlgauge import report
from rlgauge.artifact import Artifact, Outcome
from rlgauge.rule import SAME, SLOWED, Finding, Record, Rule

from .test_outcome import GOOD
from .test_rule import SLOW, timed


def decided(records, **changed):
    machine = {"cpu_model": "abacus"}
    about = {"base": "b" * 40, "head": "a head", "seed": 0, "seconds": 90.0, "machine": machine, "rule": Rule()}
    artifact = Artifact(**about, records=GOOD | records, **changed)
    return artifact, artifact.decide()


TIMES = [(0.0012, "1.20 ms"), (2.5e-10, "0.250 ns"), (9.996e-9, "10.0 ns"), (99.96e-6, "100 µs"), (0.9996, "1.00 s")]


@pytest.mark.parametrize(("seconds", "shown"), [*TIMES, (123e-9, "123 ns"), (4567.0, "4570 s")])
def test_times_have_three_digits_and_a_fitting_unit(seconds, shown):
    assert report.duration(seconds) == shown


@pytest.mark.parametrize(("count", "shown"), [(6, "[+4.7, +5.3]"), (5, "(extremes +4.7, +5.3)")])
def test_six_pairs_have_an_interval_and_fewer_have_extremes(count, shown):
    assert report.interval_text(4.7, 5.3, count) == shown


def test_a_line_and_the_table_show_the_time_per_call_of_both_sides():
    confirm = [[(0.024, 0.024 * math.exp(value))] for value in SLOW]  # blocks of 20 calls
    record = Record(screen=[[(0.012, 0.013)]] * 4, confirm=confirm, calls=[10] * 4 + [20] * 16)
    artifact, outcome = decided({"slow": record})
    line = report.line("slow", outcome.findings["slow"])
    assert line == "slow: slower, 1.20 ms -> 1.28 ms (+7.0% [+4.6, +9.4]), n = 16 pairs, p = 3.1e-05"
    assert report.failure("slow", outcome).splitlines() == [
        "slower, 1.20 ms -> 1.28 ms, +7.0%",
        "[+4.6, +9.4], n = 16 pairs, p = 3.1e-05",
    ]
    anchored = replace(outcome, failed=[], anchor=outcome)
    assert report.failure("slow", anchored).startswith("against the anchor: slower, 1.20 ms -> 1.28 ms, +7.0%\n")
    shown = rows(report.markdown(artifact, outcome))["slow"]
    assert shown[:4] == ["slower", "1.20 ms", "1.28 ms", "+7.0% [+4.6, +9.4]"]
    record.calls = record.calls[:-1]  # an older artifact has no calls for some pairs
    _, outcome = decided({"slow": record})
    assert report.line("slow", outcome.findings["slow"]).startswith("slow: slower, +7.0% [+4.6, +9.4], n = 16 pairs")


def test_cases_are_sorted_worst_first_without_canaries():
    verdicts = "skipped", "ok", "faster", "error", "unchanged", "gone", "new", "inconclusive", "slower"
    findings = {SAME: Finding(verdict="ok"), f"{SLOWED}@2": Finding(verdict="error")}
    findings |= {f"{name} {verdict}": Finding(verdict=verdict) for name in "ba" for verdict in verdicts}
    order = "error", "slower", "gone", "inconclusive", "faster", "new", "ok", "unchanged", "skipped"
    assert list(report.cases(findings)) == [f"{name} {verdict}" for verdict in order for name in "ab"]
    findings["c"] = Finding(verdict="ok", notes=["output changed"])
    counted = report.counted(Outcome(findings, [], {}, [], 0, 0))
    assert counted.startswith("2 error, 2 slower, ")
    assert counted.endswith(", 3 ok, 2 unchanged, 2 skipped; 1 output changed")
    named = {line.partition(":")[0] for line in report.summary(Outcome(findings, [], {}, [], 0, 0))}
    assert named >= {"c", "a error", "b new"}
    assert named.isdisjoint({"a ok", "b ok", "a unchanged", "b unchanged"})


def test_markdown_of_a_run():
    records = {
        "slow": timed(SLOW[:4], SLOW, output_changed=True),
        "lost": Record(state="gone"),
        "kept": Record(state="new"),
    }
    artifact, outcome = decided(records, allowed=[("lost", "a | b")], notes=["toy: base a, head b", "more"])
    assert report.markdown(artifact, outcome).splitlines() == [
        "### Speed of a head against bbbbbbbbbbbb: failed",
        "",
        "1 slower, 1 gone, 1 new, 1 ok; 1 output changed; 1.5 min on abacus.",
        "toy: base a, head b",
        "more",
        "",
        "| benchmark | verdict | base | head | change [95% interval] (extremes if fewer than 6 pairs) "
        "| pairs | p | notes |",
        "|---|---|---:|---:|---|---:|---|---|",
        "| `slow` | slower |  |  | +7.0% [+4.6, +9.4] | 16 | 3.1e-05 | output changed |",
        "| `lost` | gone |  |  |  |  |  | allowed: a \\| b |",
        "| `case` | ok |  |  | +0.0% (extremes +0.0, +0.0) | 4 |  |  |",
        "",
        report.canaries(outcome.findings),
    ]


def test_the_heading_of_a_comparison_is_its_own_outcome():
    artifact, outcome = decided({})
    heading = report.markdown(artifact, replace(outcome, code=1)).splitlines()[0]
    assert heading.endswith(": passed"), "the comparison with an anchor failed"


def test_ids_and_notes_do_not_break_the_table():
    words = "its test failed: NameError:\nin <module> a | b"
    artifact, outcome = decided({"a[x|y]": Record(state="gone"), "b[`z`]": Record(state="error", words=words)})
    lines = report.markdown(artifact, outcome).splitlines()
    assert "| `a[x\\|y]` | gone |  |  |  |  |  |  |" in lines
    assert "| `` b[`z`] `` | error |  |  |  |  |  | its test failed: NameError: in &lt;module> a \\| b |" in lines
