"""What a run of the gate says: a line for each case, a table, and why a test fails."""

from __future__ import annotations

import math

import pytest

from rlgauge import report
from rlgauge.artifact import Artifact
from rlgauge.bisect import Step
from rlgauge.rule import Record, Rule

from .test_outcome import GOOD
from .test_rule import EVEN, SLOW, timed
from .toy import rows


def decided(records, **changed):
    """Return an artifact with these records beside those of a good run, and its outcome."""
    told = {"cpu_model": "abacus"}
    about = {"base": "b" * 40, "head": "a head", "seed": 0, "seconds": 90.0, "machine": told, "rule": Rule()}
    artifact = Artifact(**about, records=GOOD | records, **changed)
    return artifact, artifact.decide()


def test_the_extremes_of_few_pairs_are_not_called_an_interval():
    values = [math.log(1 + k / 1000) for k in (2, 4, 6, 8)]
    artifact, outcome = decided({"few": timed(values), "many": timed(SLOW[:4], SLOW)})
    assert report.line("few", outcome.findings["few"]) == "few: ok, +0.5 % (extremes +0.2, +0.8), n = 4 pairs"
    shown = rows(report.markdown(artifact, outcome))
    assert shown["few"][1] == "+0.5 % (extremes +0.2, +0.8)"
    assert shown["many"][1] == "+7.0 % [+6.5, +7.5]"
    assert [report.spread(1, 2, count) for count in (5, 6)] == ["(extremes +1.0, +2.0)", "[+1.0, +2.0]"]
    assert str(Step("c" * 40, 0.0, 0.0, 0.0, 4, 0.1)) == "cccccccccccc +0.0 % (extremes +0.0, +0.0), n = 4 pairs"


def test_a_confirmation_that_ended_early_shows_no_p():
    artifact, outcome = decided({"over": timed(SLOW[:4], EVEN[:4]), "whole": timed(SLOW[:4], SLOW)})
    assert report.line("over", outcome.findings["over"]) == (
        "over: ok, -0.6 % (extremes -0.7, -0.4), stopped for futility after 4 pairs"
    )
    shown = rows(report.markdown(artifact, outcome))
    assert shown["over"][2:] == ["4", "stopped for futility after 4 pairs", ""]
    assert shown["whole"][2:4] == ["16", "3.1e-05"]
    assert "n = 16 pairs, p = 3.1e-05" in report.line("whole", outcome.findings["whole"])


def test_other_answers_and_what_is_undecided_are_counted():
    changed = timed([0.0] * 4, answer_changed=True)
    artifact, outcome = decided({"a": changed, "b": changed, "short": timed(SLOW[:4], SLOW[:9])})
    assert report.counted(outcome.findings) == "1 inconclusive, 3 ok; 2 answer changed"
    assert "\n1 inconclusive, 3 ok; 2 answer changed; 1.5 min on abacus.\n" in report.markdown(artifact, outcome)
    assert report.counted(decided({})[1].findings) == "1 ok"


def test_each_allowed_case_has_its_reason():
    bad = {"slow": timed(SLOW[:4], SLOW), "lost": Record(state="gone"), "other": timed(SLOW[:4], SLOW)}
    artifact, outcome = decided(bad, allowed=[("s*", "a | b"), ("lost", "unused"), ("case", "fine")])
    shown = rows(report.markdown(artifact, outcome))
    notes = {name: shown[name][-1] for name in (*bad, "case")}
    assert notes == {"slow": "allowed: a \\| b", "lost": "allowed: unused", "other": "", "case": ""}
    told = report.summary(outcome)
    assert [line.rpartition(", allowed: ")[2] for line in told if "allowed" in line] == ["a | b", "unused"]
    assert [name for name in outcome.findings if report.failure(name, outcome)] == ["other"]
    assert outcome.code == 1


def test_the_summary_has_a_line_on_what_is_ok_with_notes_and_none_on_what_is_plainly_ok():
    _, outcome = decided({"changed": timed([0.0] * 4, answer_changed=True), "kept": Record(state="unchanged")})
    assert outcome.findings["changed"].verdict == outcome.findings["case"].verdict == "ok"
    line, canaries = report.summary(outcome)
    assert line == report.line("changed", outcome.findings["changed"])
    assert canaries == report.canaries(outcome.findings)


def test_in_a_void_run_no_case_passes():
    artifact, outcome = decided({"dead": Record(state="error", words="Killed"), "new": Record(state="new")})
    assert outcome.code == 2
    for name in ("case", "dead", "new"):
        assert report.failure(name, outcome).endswith("; void: dead: Killed")
    assert report.markdown(artifact, outcome).splitlines()[0].endswith(": void: nothing of it can be believed")


@pytest.mark.parametrize(("strict", "failing"), [(False, []), (True, ["changed", "short"])])
def test_a_strict_run_says_what_fails(strict, failing):
    records = {"changed": timed([0.0] * 4, answer_changed=True), "short": timed(SLOW[:4], SLOW[:9])}
    artifact, outcome = decided(records, strict=strict)
    assert [name for name in outcome.findings if report.failure(name, outcome)] == failing
    again = Artifact.model_validate_json(artifact.model_dump_json())
    assert again.decide() == outcome
