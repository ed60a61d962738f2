"""Merge the shards of one comparison, and decide over all their cases as a single family of tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .artifact import Artifact
from .exit_code import INTERRUPTED
from .rule import AT, WANTED, GateError, is_canary

SAME = ("base", "head", "rule", "strict", "allowed")  # must be equal for all shards of one comparison
INSTALLED = ("python", "versions")  # must be equal on all machines


def merged(parts: Mapping[str, Artifact]) -> Artifact:
    """Merge shards into one artifact, in which the names of canaries include the number of their shard.

    `parts` are artifacts by file name. Their machines may differ; each is stored under its shard number. Raises
    GateError if these are not the shards of one comparison, or if a shard or case is missing or repeated.
    """
    names, artifacts = list(parts), list(parts.values())
    if not artifacts:
        raise GateError("merge: give the artifacts of all shards of one comparison")
    for name, part in parts.items():
        if part.interrupted:
            raise GateError(f"{name}: {INTERRUPTED}")
        if part.shard is None:
            raise GateError(f"{name}: this is a whole run, not a shard; leave it out")
    check(names, artifacts)
    numbers = [part.shard[0] for part in artifacts if part.shard]
    count = artifacts[0].shard[1] if artifacts[0].shard else 0
    for name, part in parts.items():
        if part.shard and part.shard[1] != count:
            raise GateError(f"{name}: it is one of {part.shard[1]} shards, but {names[0]} is one of {count}")
    for number in range(1, count + 1):
        if numbers.count(number) != 1:
            raise GateError(f"shard {number} of {count}: give one artifact of it, not {numbers.count(number)}")
    anchors = {name: part.anchor for name, part in parts.items() if part.anchor}
    if len(anchors) not in (0, len(parts)):
        lacking = next(name for name in names if name not in anchors)
        raise GateError(f"{lacking}: no comparison with an anchor, but {next(iter(anchors))} has one")
    found = together(names, artifacts)
    found.anchor = together(list(anchors), list(anchors.values())) if anchors else None
    return found


def check(names: list[str], artifacts: list[Artifact]) -> None:
    """Reject artifacts with different revisions, rules, allowances or installed versions."""
    for name, part in zip(names, artifacts, strict=True):
        for what in SAME:
            mine, first = getattr(part, what), getattr(artifacts[0], what)
            if mine != first:
                raise GateError(f"{name}: not the same {what} as in {names[0]}: {mine} and {first}")
        for what in INSTALLED:
            mine, first = part.machine.get(what), artifacts[0].machine.get(what)
            if mine != first:
                raise GateError(f"{name}: not the same {what} as in {names[0]}: {mine} and {first}")


def together(names: list[str], artifacts: list[Artifact]) -> Artifact:
    """Combine artifacts of the same comparison; raise GateError if a canary is missing or a case is in two of them."""
    check(names, artifacts)
    records, owner = {}, dict[str, str]()
    for name, part in zip(names, artifacts, strict=True):
        number = part.shard[0] if part.shard else 0
        for all_cores in {record.all_cores for record in part.records.values() if record.state == "timed"}:
            for canary in WANTED[all_cores].keys() - part.records.keys():
                raise GateError(f"{name}: {canary} was not measured")
        for case, record in part.records.items():
            if is_canary(case):
                records[f"{case}{AT}{number}"] = record
            elif case in owner:
                raise GateError(f"{name}: {case} is also in {owner[case]}; give each shard once")
            else:
                records[case], owner[case] = record, name
    models = list(dict.fromkeys(str(part.machine["cpu_model"]) for part in artifacts))
    machines = {str(part.shard[0] if part.shard else 0): part.machine for part in artifacts}
    first = artifacts[0]
    return replace(
        first,
        seconds=max(part.seconds for part in artifacts),
        machine={"cpu_model": ", ".join(models), "cores": first.machine.get("cores"), "shards": machines},
        records=records,
        shard=None,
        anchor=None,
        told=list(dict.fromkeys(words for part in artifacts for words in part.told)),
    )
