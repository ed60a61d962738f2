"""Going on from an interrupted run: which of its pairs belong to the same comparison on the same machine.

Pairs are kept whole, or not at all. Canaries are measured anew: they tell whether this machine can be trusted now.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .artifact import Artifact
from .revisions import digest
from .rule import Record, is_canary
from .workers import Side

if TYPE_CHECKING:
    from .run import Gate


def fingerprints(sides: Sequence[Side], folder: Path) -> dict[str, str]:
    """Return hashes of what a comparison depends on, by a name of each: both sides, and the packages installed here.

    Args:
        sides: base and head, laid out.
        folder: of the run, whose name says nothing.
    """
    found = {f"{side.name}'s files": digest(side.root, side.root.rglob("*")) for side in sides}
    for side in sides:
        started = [str(side.python), *side.worker, *(f"{name}={value}" for name, value in side.variables.items())]
        found[f"{side.name}'s command"] = hashed(
            [word.replace(str(folder.resolve()), "").replace(str(folder), "") for word in started]
        )
    return found | {"installed packages": installed()}


def installed() -> str:
    """Return a hash of the packages installed here, with their versions."""
    found = {(found.name.lower(), found.version) for found in metadata.distributions() if found.name}
    return hashed([f"{name} {version}" for name, version in sorted(found)])


def hashed(lines: Sequence[str]) -> str:
    """Return a hash of lines of text."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def resume(gate: Gate, before: Artifact) -> list[str]:
    """Give a comparison the pairs of an interrupted one; return what they differ in, and reuse nothing if they do.

    Args:
        gate: that is about to run.
        before: what the interrupted run left.
    """
    here, there = conditions(gate.artifact()), conditions(before)
    differing = [name for name in here | there if here.get(name) != there.get(name)]
    if differing:
        return differing
    gate.records |= {name: before.records[name] for name in reusable(before.records) if gate.timed(name)}
    gate.spent = before.seconds
    return []


def reusable(records: Mapping[str, Record]) -> list[str]:
    """Return the tests whose pairs can be reused.

    Args:
        records: of an interrupted run.
    """
    return [name for name, record in records.items() if record.state == "timed" and not is_canary(name)]


def conditions(artifact: Artifact) -> dict[str, Any]:
    """Return what must be the same where pairs are put together, by what each is called in a message.

    Args:
        artifact: of a run.
    """
    return {
        **artifact.fingerprints,
        "machine": json.loads(json.dumps(artifact.machine)),
        "rule": artifact.rule,
        "seed": artifact.seed,
        "shard": artifact.shard,
        "selected tests": sorted(name for name in artifact.records if not is_canary(name)),
    }
