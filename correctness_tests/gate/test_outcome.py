"""The exit code of a run: invalid runs, failing verdicts and allowed cases."""

import functools
import json
import math
import operator
import re
from pathlib import Path

import pytest

from correctness_tests.gate.test_rule import FAST, RULE, SLOW, timed
from rlgauge.allowed import matches, parse_allowed
from rlgauge.artifact import Artifact, read
from rlgauge.exit_code import certainly_invalid
from rlgauge.rule import SAME, SAME_ON_ALL, SLOWED, SLOWED_ON_ALL, GateError, Record
from rlgauge.session import combine

RECORDED = Path(__file__).with_name("recorded")  # an artifact of format 2 and its verdicts
REPEAT = "repeat the run on an idle machine"
GOOD = {SAME: timed([0.0] * 4), SLOWED: timed(SLOW[:4], SLOW), "case": timed([0.0] * 4)}
WRONG = {
    "same slower": {SAME: GOOD[SLOWED]}, "same faster": {SAME: timed(FAST[:4], FAST)}, "same missing": {SAME: None},
    "slowed ok": {SLOWED: GOOD[SAME]}, "slowed cut short": {SLOWED: timed(SLOW[:4], SLOW[:9])},
    "slowed missing": {SLOWED: None},
}  # fmt: skip


ABOUT = {"base": "b", "head": "h", "seed": 0, "seconds": 1.0, "machine": {}, "rule": RULE}
ON_ALL = {
    SAME_ON_ALL: timed([0.0] * 4, all_cores=True),
    SLOWED_ON_ALL: timed(SLOW[:4], SLOW, all_cores=True),
    "spread": timed([0.0] * 4, all_cores=True),
}


def outcome(allowed=(), strict=False, /, shard=None, **changed):
    """Return the reasons why a run is invalid, and its exit code."""
    records = {name: record for name, record in (GOOD | changed).items() if record}
    found = Artifact(**ABOUT, records=records, allowed=list(allowed), strict=strict, shard=shard).decide()
    return found.wrong, found.code


@pytest.mark.parametrize("allowed", [[], [("*", "because")]])
@pytest.mark.parametrize("changed", WRONG.values(), ids=WRONG.keys())
def test_a_run_with_a_wrong_canary_is_invalid(changed, allowed):
    wrong, code = outcome(allowed, **changed, other=timed(SLOW[:4], SLOW))
    assert code == 2
    assert all(any(key in line for line in wrong) for key in changed)
    assert not any(line.startswith(name) for line in wrong for name in GOOD.keys() - changed.keys())


def test_each_pass_needs_its_own_canaries():
    assert outcome(**ON_ALL) == ([], 0)
    assert outcome(**dict.fromkeys(GOOD), **ON_ALL) == ([], 0)
    not_measured = [f"{name} was not measured; repeat the run" for name in (SAME_ON_ALL, SLOWED_ON_ALL)]
    assert outcome(spread=ON_ALL["spread"]) == (not_measured, 2)
    assert outcome(spread=Record(state="unchanged", all_cores=True)) == ([], 0)
    for name, record in ((SAME_ON_ALL, ON_ALL[SLOWED_ON_ALL]), (SLOWED_ON_ALL, ON_ALL[SAME_ON_ALL])):
        (line,), code = outcome(**ON_ALL | {name: record})
        assert (code, line.startswith(f"{name} is ")) == (2, True)


def test_only_slower_and_gone_fail_and_only_where_not_allowed():
    for bad in (timed(SLOW[:4], SLOW), Record(state="gone")):
        assert (outcome(other=bad), outcome([("other", "because")], other=bad)) == (([], 1), ([], 0))
        assert outcome([("other", "because")], other=bad, more=bad) == ([], 1)
    calm = {"new": Record(state="new"), "kept": Record(state="unchanged"), "fast": timed(FAST[:4], FAST)}
    assert outcome(**calm, short=timed(SLOW[:4], SLOW[:9])) == ([], 0)
    assert outcome(**{SAME: timed(SLOW[:4], SLOW[:9])}) == ([], 0)
    assert outcome(**dict.fromkeys(GOOD, None), kept=Record(state="unchanged")) == ([], 0)


def test_strict_fails_inconclusive_cases_and_changed_outputs():
    undecided = timed(SLOW[:4], SLOW[:9])
    for record in (undecided, timed([0.0] * 4, output_changed=True)):
        assert [outcome([("other", "because")], strict, other=record)[1] for strict in (False, True)] == [0, 1]
    assert outcome([], True, **{SAME: undecided}) == ([], 0)


DEAD = Record(state="error", words="head: Killed")
NOTHING = ["no test was measured, and none is unchanged; select tests that run on both sides"]


@pytest.mark.parametrize(("pattern", "code"), [("dead", 0), ("d*", 1), ("*", 1)])
def test_only_its_exact_id_allows_an_error(pattern, code):
    assert outcome([(pattern, "a server is gone")], dead=DEAD) == ([], code)


def test_a_run_with_more_errors_than_other_tests_is_invalid():
    allowed = [("dead", "why"), ("more", "why")]
    assert outcome(allowed, dead=DEAD) == ([], 0)
    assert outcome(allowed, dead=DEAD, more=DEAD) == (["2 of 3 tests could not be measured; fix the errors"], 2)


def test_an_interrupted_run_is_invalid_whatever_it_found():
    incomplete = "the run was interrupted; repeat its command with --gate-resume"
    half = Artifact(**ABOUT, records=GOOD | {"slow": timed(SLOW[:4], SLOW)}, complete=False)
    assert (half.decide().wrong, half.decide().code, half.interrupted) == ([incomplete], 2, True)
    whole = Artifact(**ABOUT, records=GOOD, anchor=half)
    assert (whole.decide().wrong, whole.decide().code, whole.interrupted) == ([], 2, True)
    assert not Artifact(**ABOUT, records=GOOD).interrupted


@pytest.mark.parametrize(
    ("changed", "is_shard", "reason"),
    [
        ({"dead": DEAD}, False, None),
        ({"dead": DEAD, "more": DEAD}, False, "2 of 3 tests could not be measured; fix the errors"),
        ({"dead": DEAD, "more": DEAD}, True, None),
        ({"case": Record(state="new")}, False, *NOTHING),
        ({SAME: DEAD}, False, f"{SAME} is error, but should be ok or inconclusive; {REPEAT}"),
        ({SLOWED: timed([0.0])}, False, None),  # its screen is not finished
        ({SLOWED: timed([0.0] * 4)}, False, f"{SLOWED} is ok, but should be slower; {REPEAT}"),
        ({SAME: timed(SLOW[:4], SLOW[:15])}, False, None),
    ],
)
def test_a_run_ends_early_only_if_no_pair_could_make_it_valid(changed, is_shard, reason):
    so_far = {name: timed([0.03]) for name in (SAME, SLOWED, "case")}
    found = certainly_invalid(so_far | changed, RULE, is_shard=is_shard)
    assert found[:1] == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("cases", "wrong", "code"),
    [
        ({}, NOTHING, 2),
        ({"a": "skipped", "b": "new"}, NOTHING, 2),
        ({"a": "skipped", "b": "unchanged"}, [], 0),
        ({"allowed": "gone"}, NOTHING, 2),
        ({"a": "gone"}, [], 1),
        ({"allowed": "error"}, ["1 of 1 test could not be measured; fix the errors"], 2),
    ],
)
def test_a_run_that_measured_nothing_never_passes(cases, wrong, code):
    records = {name: Record(state=state) for name, state in cases.items()}
    assert outcome([("allowed", "why")], **dict.fromkeys(GOOD), **records) == (wrong, code)


def test_a_shard_may_have_nothing_to_measure():
    for record in (None, Record(state="new"), Record(state="unchanged")):
        assert outcome(shard=(1, 2), **dict.fromkeys(GOOD), more=record) == ([], 0)
    assert outcome(shard=(1, 2), **dict.fromkeys(GOOD), dead=DEAD) == ([], 1)


@pytest.mark.parametrize("code", [0, 1, 2])
@pytest.mark.parametrize("older", [0, 1, 2])
def test_the_exit_code_is_the_worse_of_base_and_anchor(code, older):
    other = {0: {}, 1: {"other": timed(SLOW[:4], SLOW)}, 2: {"other": DEAD, "more": DEAD}}
    anchor = Artifact(**ABOUT, records=GOOD | other[older])
    assert Artifact(**ABOUT, records=GOOD | other[code], anchor=anchor).decide().code == max(code, older)


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [("a.b[full-torch-n1]", True), ("a.b[full-*]", True), ("?.b[full-torch-n?]", True), ("a.b", False),
     ("A.*", False), ("a.b[!x]*", False)],
)  # fmt: skip
def test_patterns_have_wildcards_and_literal_brackets(pattern, matched):
    assert matches("a.b[full-torch-n1]", pattern) is matched
    assert not matches("a.bf", "a.b[full]")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("a.py::t[x=1]", "a.py::t[x=1]"),
        ("a.py::t[x==[y]=z]", "a.py::t[x==[y]=z]"),
        ("a.py::t[x=*]", "a.py::t[x=1]"),
    ],
)
def test_an_id_may_hold_an_equals_sign(pattern, name):
    assert parse_allowed([f"{pattern}=by design, see x=y"], ["b.py::t", name]) == [(pattern, "by design, see x=y")]


@pytest.mark.parametrize("text", ["", "why", "=why", "a.b = "])
def test_a_pattern_without_a_reason_is_refused(text):
    with pytest.raises(GateError, match=r"^--gate-allow: invalid value '.*'; write ID-PATTERN=REASON$"):
        parse_allowed(["a.c=why", text])


def test_an_artifact_is_read_as_written_or_refused_in_a_line(tmp_path):
    file = tmp_path / "gate.json"
    whole = Artifact(**ABOUT, records=GOOD, allowed=[("a", "why")], strict=True, shard=(1, 2), notes=["more"])
    whole.anchor = Artifact(**ABOUT | {"base": "older"}, records=GOOD)
    file.write_text(whole.to_json())
    assert read(file) == whole
    for change, message in (
        ({"version": 1}, "format version 1 is not supported; measure again with this rlgauge"),
        ({"version": 3, "more": 1}, "format version 3 is not supported; measure again with this rlgauge"),
    ):
        file.write_text(json.dumps(json.loads(whole.to_json()) | change))
        with pytest.raises(GateError, match=f"^{re.escape(f'{file}: {message}')}$"):
            read(file)
    file.write_bytes(b"\xff{")
    with pytest.raises(GateError, match=r"gate\.json: not an artifact of the gate: .+; give a file that --gate-json"):
        read(file)
    with pytest.raises(GateError, match=r"gate\.json/no: cannot be read: Not a directory; give a file that --gate-"):
        read(file / "no")


MISSING = object()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [(["records", "case", "state_"], "timed", "records.case.state_: unknown key; did you mean 'state'?"),
     (["seed"], MISSING, "seed: the key is missing; add it"),
     (["seconds"], math.nan, "seconds: nan is not a finite number"),
     (["seed"], True, "seed: True is not an integer"),
     (["anchor", "rule", "level"], 1, "anchor.rule.level: 1 is out of range; choose a number between"),
     (["allowed", 0], ["a"], "allowed.0: the number of values is 1; give 2"),
     (["records", "case", "state"], "slower", "records.case.state: unknown value 'slower' (choose from timed, "),
     (["records", "case", "screen", 1, 0, 0], 0.0, "records.case.screen.1.0: (0.0, 1.0) are not positive"),
     (["records", "case", "screen", 2], [], "records.case.screen.2: the pair has no blocks; measure again")],
)  # fmt: skip
def test_a_refused_artifact_names_the_wrong_field(tmp_path, path, value, message):
    anchor = Artifact(**ABOUT, records=GOOD)
    content = json.loads(Artifact(**ABOUT, records=GOOD, allowed=[("a", "why")], anchor=anchor).to_json())
    *above, last = path
    inside = functools.reduce(operator.getitem, above, content)
    inside[last] = value
    if value is MISSING:
        del inside[last]
    (tmp_path / "gate.json").write_text(json.dumps(content))
    with pytest.raises(GateError) as caught:
        read(tmp_path / "gate.json")
    assert str(caught.value).startswith(f"{tmp_path / 'gate.json'}: not an artifact of the gate: {message}")


def test_a_recorded_artifact_keeps_its_verdicts():
    artifact = read(RECORDED / "artifact.json")
    assert (artifact.rule.version, artifact.anchor.rule.version) == (1, 1)  # the default
    run = artifact.decide()
    wanted = json.loads((RECORDED / "verdicts.json").read_text())
    for findings, recorded in ((run.findings, wanted["findings"]), (run.anchor.findings, wanted["anchor"])):
        assert findings.keys() == recorded.keys()
        for name, known in recorded.items():
            found = vars(findings[name])
            assert (found["verdict"], found["notes"]) == (known["verdict"], known["notes"])
            for number in ("ratio", "low", "high", "p"):
                assert (found[number] or 0) == pytest.approx(known[number] or 0, rel=1e-12)
    assert (run.code, run.failed, run.excused) == (wanted["code"], wanted["failed"], {"gone": "removed"})
    verdicts = {finding["verdict"] for finding in wanted["findings"].values()}
    assert verdicts == {"ok", "faster", "slower", "unchanged", "new", "gone", "skipped", "inconclusive", "error"}


def test_allowed_and_strict_apply_to_the_anchor_too():
    slower, found = GOOD | {"slow": timed(SLOW[:4], SLOW)}, []
    for allowed in ([("slow", "because")], []):
        base, anchor = (Artifact(**ABOUT, records=records) for records in (GOOD | {"slow": timed([0.0] * 4)}, slower))
        found.append(combine([base, anchor], allowed, True).decide().code)
        assert (anchor.allowed, anchor.strict) == (allowed, True)
    assert found == [0, 1]
