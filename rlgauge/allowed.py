"""What may be slower or gone, and why: patterns of ids, each with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from .rule import FAILING, Finding, GateError, is_canary


def allowances(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pattern of ids and the reason of each ``ID-PATTERN=REASON``.

    Args:
        texts: as given on the command line.

    Raises:
        GateError: one of them is missing.
    """
    found = []
    for text in texts:
        pattern, _, reason = text.partition("=")
        if not pattern.strip() or not reason.strip():
            raise GateError(f"--gate-allow: got {text!r}, wanted ID-PATTERN=REASON")
        found.append((pattern.strip(), " ".join(reason.split())))
    return found


def matches(name: str, pattern: str) -> bool:
    """Return whether a pattern names a case: ``*`` and ``?`` stand for others, brackets for themselves.

    Args:
        name: of the case.
        pattern: of ids.
    """
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def check_allowed(allowed: Iterable[tuple[str, str]], names: Sequence[str]) -> None:
    """Refuse patterns that name no case.

    Args:
        allowed: pattern and reason of each case that may be slower or gone.
        names: of all cases.

    Raises:
        GateError: there is one.
    """
    for pattern, _ in allowed:
        if not any(matches(name, pattern) for name in names):
            raise GateError(f"--gate-allow: {pattern!r} matches none of the {len(names)} cases")


def excusable(finding: Finding) -> bool:
    """Return whether a reason may be given: for a case that is slower or gone, or that base's code cannot run.

    Args:
        finding: the verdict on it.
    """
    on_base = finding.verdict == "error" and any(note.startswith("base: ") for note in finding.notes)
    return finding.verdict in FAILING or on_base


def reasons(findings: Mapping[str, Finding], allowed: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return why each case that is slower or gone may be so, of those that a pattern lets pass.

    Args:
        findings: the verdict on each case, by name.
        allowed: pattern and reason of each case that may be slower or gone.
    """
    failing = [name for name, found in findings.items() if excusable(found) and not is_canary(name)]
    given = {name: [reason for pattern, reason in allowed if matches(name, pattern)] for name in failing}
    return {name: "; ".join(found) for name, found in given.items() if found}
