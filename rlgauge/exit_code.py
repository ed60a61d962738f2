"""The exit code of a run, a merge or a replay, determined from the verdicts by one function.

- 0, passed: no test is slower, gone or an error unless it is allowed, and at least one was measured or is unchanged.
- 1, failed: a test is slower, gone or an error, and not allowed.
- 2, invalid: the verdicts cannot be trusted, or there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .allowed import reasons
from .progress import number_of
from .rule import (
    CHANGED,
    FAILING,
    WANTED,
    Finding,
    Record,
    Rule,
    decide,
    is_canary,
    unscreened,
    unsettled,
    without_shard,
)

PASSED, FAILED, INVALID = 0, 1, 2
UNMEASURED = ("new", "error", "skipped")
INTERRUPTED = "the run was interrupted; repeat its command with --gate-resume"


@dataclass(frozen=True)
class Judgement:
    """The exit code of a comparison, with reasons: why the verdicts are invalid, what fails, and what is allowed to."""

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
    part: bool = False,
    complete: bool = True,
) -> Judgement:
    """Return the exit code of a comparison, with reasons. Records and findings include canaries.

    Args:
        records: measurements by name.
        findings: verdicts by name.
        allowed: pattern and reason of each test that may be slower or gone; an exact id also allows an error.
        strict: whether inconclusive tests and changed outputs fail too.
        part: whether this is one of several shards, which need not have a measurable test.
        complete: whether the run was completed.
    """
    tests = {name: found for name, found in findings.items() if not is_canary(name)}
    excused = reasons(tests, allowed)
    failed = [
        name
        for name, found in tests.items()
        if (found.verdict in FAILING and name not in excused)
        or (strict and (found.verdict == "inconclusive" or CHANGED in found.notes))
    ]
    invalid = [] if complete else [INTERRUPTED]
    errors = {name: found for name, found in tests.items() if found.verdict == "error"}
    if not part and 2 * len(errors) > len(tests):
        name, found = next(iter(errors.items()))
        what = f"{len(errors)} of {number_of(len(tests), 'test')} could not be measured"
        invalid.append(": ".join([what, name, *found.notes]))
    elif not part and all(
        found.verdict in UNMEASURED or (found.verdict == "gone" and name in excused) for name, found in tests.items()
    ):
        invalid.append("no test was measured or proven unchanged")
    invalid = invalid or wrong_canaries(records, findings)
    code = INVALID if invalid else FAILED if failed else PASSED
    return Judgement(code, invalid, failed, excused)


def certainly_invalid(records: Mapping[str, Record], rule: Rule, *, part: bool = False) -> Sequence[str]:
    """Return why a run is invalid regardless of further pairs; empty while it may still be valid.

    `part` says whether this is one of several shards.
    """
    findings = decide(records, rule)
    for name in {*unscreened(records, rule), *unsettled(records, rule)}:  # assume the best outcome of each
        right = WANTED[records[name].all_cores][name][0] if is_canary(name) else "ok"
        findings[name] = Finding(verdict=right)
    return judge(records, findings, part=part).invalid


def wrong_canaries(records: Mapping[str, Record], findings: Mapping[str, Finding]) -> list[str]:
    """Return a line for each canary that is missing or has a wrong verdict, inconclusive ones last.

    Only passes in which a case was timed are checked.
    """
    wrong, undecided = list[str](), list[str]()
    for all_cores in sorted({record.all_cores for record in records.values() if record.state == "timed"}):
        for canary, right in WANTED[all_cores].items():
            found = [name for name in findings if without_shard(name) == canary]
            if not found:
                wrong.append(f"{canary} was not measured")
            for name in found:
                if (verdict := findings[name].verdict) not in right:
                    told = undecided if verdict == "inconclusive" else wrong
                    told.append(f"{name} is {verdict}, but should be {' or '.join(right)}")
    return wrong + undecided
