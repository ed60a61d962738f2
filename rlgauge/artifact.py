"""What a run of the gate leaves: all that it measured, from which it can be decided again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .exit_code import judge
from .fields import FieldError, parse
from .rule import Finding, GateError, Record, Rule, decide

VERSION = 2


@dataclass(kw_only=True)
class Artifact:
    """All that a run measured, and what of it was to pass or to fail: enough to decide again.

    Attributes:
        version: of this format.
        base: full hash of the commit that head is compared with.
        head: what the working tree is called.
        seed: of all that was left to chance.
        seconds: that the run took.
        machine: that it ran on; of a merged run all of them, by shard.
        rule: the numbers to decide by.
        records: what is known of each case, by name.
        allowed: patterns of cases that may be slower or gone, with the reasons.
        strict: whether undecided cases and changed answers fail too.
        shard: which part of the cases it has, of how many; ``None`` for all.
        anchor: the comparison with an older revision, if there was one.
        told: what else is to be said.
        complete: it was not interrupted.
        fingerprints: hashes of both sides and of what is installed, by name, see :mod:`.resume`.
    """

    version: int = VERSION
    base: str
    head: str
    seed: int
    seconds: float
    machine: dict[str, Any]
    rule: Rule
    records: dict[str, Record]
    allowed: list[tuple[str, str]] = field(default_factory=list)
    strict: bool = False
    shard: tuple[int, int] | None = None
    anchor: Artifact | None = None
    told: list[str] = field(default_factory=list)
    complete: bool = True
    fingerprints: dict[str, str] = field(default_factory=dict)

    @property
    def interrupted(self) -> bool:
        """Whether this comparison, or the one with the anchor, was interrupted."""
        return not self.complete or bool(self.anchor and self.anchor.interrupted)

    def to_json(self) -> str:
        """Return the text that :func:`read` reads."""
        return json.dumps(self, default=asdict)

    def decide(self) -> Outcome:
        """Return the verdicts."""
        findings = decide(self.records, self.rule)
        how = {"strict": self.strict, "part": self.shard is not None, "complete": self.complete}
        own = judge(self.records, findings, self.allowed, **how)
        older = self.anchor.decide() if self.anchor else None
        code = max(own.code, older.code if older else 0)
        return Outcome(findings, own.invalid, own.allowed, own.failed, own.code, code, older)


@dataclass(frozen=True)
class Outcome:
    """What a run concludes.

    Attributes:
        findings: the verdict on each case, canaries included.
        wrong: why the verdicts cannot be trusted, where they cannot.
        excused: why cases that are slower, gone or an error may be so.
        failed: the cases that fail.
        own_code: exit code of this comparison alone, see :mod:`.exit_code`.
        code: the worse one of both comparisons where there is an anchor.
        anchor: what the comparison with an older revision concludes, if there was one.
    """

    findings: Mapping[str, Finding]
    wrong: Sequence[str]
    excused: Mapping[str, str]
    failed: Sequence[str]
    own_code: int
    code: int
    anchor: Outcome | None = None


def read(path: Path) -> Artifact:
    """Return what a run wrote.

    Args:
        path: of its JSON.

    Raises:
        GateError: it cannot be read, is no artifact, or one of another version.
    """
    wrong = f"{path}: not an artifact of the gate"
    try:
        told = json.loads(path.read_bytes())
    except OSError as error:
        raise GateError(f"{path}: it cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise GateError(f"{wrong}: {error}; give a file that --gate-json wrote") from error
    if not isinstance(told, dict) or "records" not in told:
        raise GateError(f"{wrong}: it has no records; give a file that --gate-json wrote")
    if (version := told.get("version")) != VERSION:  # said first: another format may have other fields
        raise GateError(f"{path}: of version {version!r} of the gate's format, wanted {VERSION}")
    try:
        found: Artifact = parse(Artifact, told)
    except FieldError as error:
        raise GateError(f"{wrong}: {error}") from error
    return found
