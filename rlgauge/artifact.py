"""The JSON artifact of a gate run: all measurements, from which the verdicts can be recomputed."""

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
    """All measurements of a run, and the criteria for passing: enough to decide again.

    Attributes:
        version: version of this format.
        base: full hash of the base commit.
        head: description of the working tree.
        seconds: duration of the run.
        machine: machine of the run; a merged run also has the machine of each shard.
        records: measurements of each case, by name.
        allowed: patterns of cases that may be slower or gone, with reasons.
        strict: whether inconclusive cases and changed outputs fail too.
        shard: (number, count) of the shard; None for all cases.
        cases: number of cases in all shards; None in older artifacts.
        anchor: the comparison with an older revision, if any.
        notes: additional lines for the report.
        complete: whether the run was completed rather than interrupted.
        fingerprints: hashes of both sides and the installed packages, see :mod:`.resume`.
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
    cases: int | None = None
    anchor: Artifact | None = None
    notes: list[str] = field(default_factory=list, metadata={"older": "told"})
    complete: bool = True
    fingerprints: dict[str, str] = field(default_factory=dict)

    @property
    def interrupted(self) -> bool:
        """Whether this comparison, or the one with the anchor, was interrupted."""
        return not self.complete or bool(self.anchor and self.anchor.interrupted)

    def to_json(self) -> str:
        """Return the JSON text, which :func:`read` parses."""
        return json.dumps(self, default=asdict)

    def decide(self) -> Outcome:
        """Decide by the rule."""
        findings = decide(self.records, self.rule)
        flags = {"strict": self.strict, "is_shard": self.shard is not None, "complete": self.complete}
        own = judge(self.records, findings, self.allowed, **flags)
        older = self.anchor.decide() if self.anchor else None
        code = max(own.code, older.code if older else 0)
        return Outcome(findings, own.invalid, own.allowed, own.failed, own.code, code, older)


@dataclass(frozen=True)
class Outcome:
    """Verdicts and exit code of a run.

    Attributes:
        wrong: reasons why the verdicts cannot be trusted; empty for a valid run.
        excused: reasons why failing cases are allowed, by name.
        failed: names of the cases that fail the run.
        own_code: exit code of this comparison alone, see :mod:`.exit_code`.
        code: exit code of the run: the larger of both codes if there is an anchor.
        anchor: outcome of the comparison with an older revision, if any.
    """

    findings: Mapping[str, Finding]
    wrong: Sequence[str]
    excused: Mapping[str, str]
    failed: Sequence[str]
    own_code: int
    code: int
    anchor: Outcome | None = None


def read(path: Path) -> Artifact:
    """Read an artifact from its JSON file; raise GateError for any other file or version."""
    wrong, fix = f"{path}: not an artifact of the gate", "give a file that --gate-json wrote"
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise GateError(f"{path}: cannot be read: {error.strerror}; {fix}") from error
    except ValueError as error:
        raise GateError(f"{wrong}: {error}; {fix}") from error
    if not isinstance(data, dict) or "records" not in data:
        raise GateError(f"{wrong}: it has no records; {fix}")
    if (version := data.get("version")) != VERSION:  # checked first: another format may have other fields
        raise GateError(f"{path}: format version {version!r} is not supported; measure again with this rlgauge")
    try:
        artifact: Artifact = parse(Artifact, data)
    except FieldError as error:
        raise GateError(f"{wrong}: {error}; {fix}") from error
    return artifact
