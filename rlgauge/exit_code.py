"""The exit code of a run, a merge or a replay, determined from the verdicts by one function.

- 0, passed: no test fails, and at least one was measured or is unchanged.
- 1, failed: a test is slower, gone or an error, and not allowed; with ``--gate-strict``, also if one is inconclusive
  or its output changed.
- 2, invalid: the verdicts cannot be trusted, or there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .allowed import allowed_reasons
from .progress import number_of
from .rule import (
    CHANGED,
    EXPECTED,
    FAILING,
    INVALID,
    Finding,
    Record,
    Rule,
    decide,
    is_canary,
    open_suspects,
    unscreened,
    without_shard,
)

PASSED, FAILED = 0, 1
UNMEASURED = ("new", "error", "skipped")
INTERRUPTED = "the run was interrupted; repeat its command with --gate-resume"
REPEAT = "repeat the run on an idle machine"


@dataclass(frozen=True)
class Judgement:
    """The exit code of a comparison, why its verdicts are invalid, which tests fail, and why failures are allowed."""

    code: int
    invalid: Sequence[str]
    failed: Sequence[str]
    allowed: Mapping[str, str]


def judge(
    records: Mapping[str, Record],
    findings: Mapping[str, Finding],
    allowed: Sequence[tuple[str, str]] = (),
    *,
    strict: bool = False,
    is_shard: bool = False,
    complete: bool = True,
) -> Judgement:
    """Return the exit code of a comparison, with reasons. Records and findings include canaries.

    Args:
        records: measurements by name.
        findings: verdicts by name.
        allowed: pattern and reason of each test that may be slower or gone; an exact id also allows an error.
        strict: whether inconclusive tests and changed outputs fail too.
        is_shard: whether this is one of several shards, which need not have a measurable test.
        complete: whether the run was completed.
    """
    tests = {name: finding for name, finding in findings.items() if not is_canary(name)}
    reasons = allowed_reasons(tests, allowed)
    failed = [
        name
        for name, finding in tests.items()
        if (finding.verdict in FAILING and name not in reasons)
        or (strict and (finding.verdict == "inconclusive" or CHANGED in finding.notes))
    ]
    invalid = [] if complete else [INTERRUPTED]
    errors = [finding for finding in tests.values() if finding.verdict == "error"]
    if not is_shard and 2 * len(errors) > len(tests):
        invalid.append(f"{len(errors)} of {number_of(len(tests), 'test')} could not be measured; fix the errors")
    elif not is_shard and all(
        each.verdict in UNMEASURED or (each.verdict == "gone" and name in reasons) for name, each in tests.items()
    ):
        invalid.append("no test was measured, and none is unchanged; select tests that run on both sides")
    invalid = invalid or wrong_canaries(records, findings)
    code = INVALID if invalid else FAILED if failed else PASSED
    return Judgement(code, invalid, failed, reasons)


def certainly_invalid(records: Mapping[str, Record], rule: Rule, *, is_shard: bool = False) -> Sequence[str]:
    """Return why a run is invalid regardless of further pairs; empty while it may still be valid.

    `is_shard` says whether this is one of several shards.
    """
    findings = decide(records, rule)
    for name in {*unscreened(records, rule), *open_suspects(records, rule)}:  # assume the best outcome of each
        best = EXPECTED[records[name].all_cores][name][0] if is_canary(name) else "ok"
        findings[name] = Finding(verdict=best)
    return judge(records, findings, is_shard=is_shard).invalid


def wrong_canaries(records: Mapping[str, Record], findings: Mapping[str, Finding]) -> list[str]:
    """Return a line for each canary that is missing or has a wrong verdict, inconclusive ones last.

    Only passes in which a case was timed are checked.
    """
    wrong, inconclusive = list[str](), list[str]()
    for all_cores in sorted({record.all_cores for record in records.values() if record.state == "timed"}):
        for canary, expected in EXPECTED[all_cores].items():
            names = [name for name in findings if without_shard(name) == canary]
            if not names:
                wrong.append(f"{canary} was not measured; repeat the run")
            for name in names:
                if (verdict := findings[name].verdict) not in expected:
                    lines = inconclusive if verdict == "inconclusive" else wrong
                    lines.append(f"{name} is {verdict}, but should be {' or '.join(expected)}; {REPEAT}")
    return wrong + inconclusive
