"""Test ids on the command line: benchmarks that may be slower or gone, and renamed tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from .rule import FAILING, Finding, GateError, is_canary


def parse_allowed(texts: Iterable[str], names: Collection[str] = ()) -> list[tuple[str, str]]:
    """Parse each ``ID-PATTERN=REASON``.

    Ids may contain ``=``. The pattern is therefore the text before the first ``=`` at which that text matches one of
    `names`. If it never does, the pattern is the text before the first ``=``.
    """
    allowed = []
    for text in texts:
        ends = [index for index, character in enumerate(text) if character == "="] or [len(text)]
        end = next((end for end in ends if any(matches(name, text[:end].strip()) for name in names)), ends[0])
        pattern, reason = text[:end], text[end + 1 :]
        if not pattern.strip() or not reason.strip():
            raise GateError(f"--gate-allow: invalid value {text!r}; write ID-PATTERN=REASON")
        allowed.append((pattern.strip(), " ".join(reason.split())))
    return allowed


def matches(name: str, pattern: str) -> bool:
    """Return whether a pattern matches a case; ``*`` and ``?`` are wildcards, brackets are literal."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def last_match(patterns: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return the setting of the last pattern that matches a test, or the default."""
    return next((value for pattern, value in reversed(list(patterns.items())) if matches(name, pattern)), default)


def suggestion(text: str, names: Collection[str]) -> str:
    """Return ``; did you mean X?`` for similar names, compared with and without the file; empty if there are none."""
    near = get_close_matches(text, names, n=3, cutoff=0.4)
    if not near:
        ends = {name.rpartition("::")[2]: name for name in names}
        near = [ends[end] for end in get_close_matches(text.rpartition("::")[2].strip("*"), ends, n=3, cutoff=0.4)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def parse_renamed(texts: Iterable[str], names: Collection[str]) -> dict[str, str]:
    """Parse each ``OLD=NEW``; return a dict from the revision's test id to the working tree's."""
    renamed: dict[str, str] = {}
    for text in texts:
        pairs = [(text[:index], text[index + 1 :]) for index, character in enumerate(text) if character == "="]
        old, new = next(((old, new) for old, new in pairs if new in names), ("", ""))
        if not old:
            hint = suggestion(text.partition("=")[2], names)
            wanted = "OLD=NEW, where NEW is the id of a selected benchmark"
            raise GateError(f"--gate-renamed: invalid value {text!r}; write {wanted}{hint}")
        if old in renamed or new in renamed.values():
            raise GateError(f"--gate-renamed: one of the ids in {text!r} is already renamed; give each id once")
        renamed[old] = new
    return renamed


def check_allowed(allowed: Iterable[tuple[str, str]], names: Sequence[str]) -> None:
    """Reject patterns that match no case."""
    for pattern, _ in allowed:
        if not any(matches(name, pattern) for name in names):
            hint = suggestion(pattern, names) or "; change the pattern"
            raise GateError(f"--gate-allow {pattern!r}: no benchmark matches{hint}")


def allowed_reasons(findings: Mapping[str, Finding], allowed: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return why each case that is slower, gone or an error is allowed; only its exact id allows an error."""
    reasons: dict[str, list[str]] = {}
    for name, finding in findings.items():
        for pattern, reason in allowed:
            matched = name == pattern if finding.verdict == "error" else matches(name, pattern)
            if finding.verdict in FAILING and matched and not is_canary(name):
                reasons.setdefault(name, []).append(reason)
    return {name: "; ".join(given) for name, given in reasons.items()}
