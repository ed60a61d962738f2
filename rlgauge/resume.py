"""Resume an interrupted run: reuse its pairs if they belong to the same comparison on the same machine.

A pair is reused in full or not at all. Canaries are measured again, because they show whether the machine can be
trusted now.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .artifact import Artifact
from .memory import without_counts
from .revisions import digest, matches_any
from .rule import Record, is_canary
from .workers import Side

if TYPE_CHECKING:
    from .run import Gate


def fingerprints(sides: Sequence[Side], folder: Path, outputs: Sequence[str]) -> dict[str, str]:
    """Return hashes of both sides and the installed packages, by name.

    `folder` is the run's temporary directory, which is removed from paths. `outputs` are patterns of the files that the
    run writes, which do not count.
    """
    hashes = {}
    for side in sides:
        names = ((path, path.relative_to(side.root)) for path in side.root.rglob("*"))
        files = (path for path, name in names if ".git" not in name.parts and not matches_any(str(name), outputs))
        hashes[f"{side.name}'s files"] = digest(side.root, files)
    for side in sides:
        command = [str(side.python), *side.worker, *(f"{name}={value}" for name, value in side.variables.items())]
        hashes[f"{side.name}'s command"] = hash_lines(
            [word.replace(str(folder.resolve()), "").replace(str(folder), "") for word in command]
        )
    return hashes | {"installed packages": hash_of_installed()}


def hash_of_installed() -> str:
    """Return a hash of the installed packages and their versions."""
    found = [package.metadata for package in metadata.distributions()]  # each access parses a file
    packages = {(each["Name"].lower(), each["Version"]) for each in found if each and "Name" in each}
    return hash_lines([f"{name} {version}" for name, version in sorted(packages)])


def name_of(package: metadata.Distribution) -> str | None:
    """Return the name of an installed package; None if its metadata is missing."""
    found = package.metadata
    return found["Name"] if found and "Name" in found else None  # from Python 3.12, a missing key is a warning


def hash_lines(lines: Sequence[str]) -> str:
    """Return a hash of lines of text."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def resume(gate: Gate, before: Artifact) -> list[str]:
    """Copy the pairs of an interrupted run to a gate, unless conditions differ; return those that do."""
    here, there = conditions(gate.artifact()), conditions(before)
    differing = [name for name in here | there if here.get(name) != there.get(name)]
    if differing:
        return differing
    for name in filter(gate.timed, reusable(before.records)):
        gate.records[name] = without_counts(before.records[name])
    gate.spent = before.seconds
    return []


def reusable(records: Mapping[str, Record]) -> list[str]:
    """Return the tests whose pairs can be reused."""
    return [name for name, record in records.items() if record.state == "timed" and not is_canary(name)]


def conditions(artifact: Artifact) -> dict[str, Any]:
    """Return the conditions under which a gate ran, by their name in messages."""
    return {
        **artifact.fingerprints,
        "machine": json.loads(json.dumps(artifact.machine)),
        "rule": artifact.rule,
        "seed": artifact.seed,
        "shard": artifact.shard,
        "selected tests": sorted(name for name in artifact.records if not is_canary(name)),
    }
