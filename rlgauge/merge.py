"""Merge the shards of one comparison, and decide over all their cases as a single family of tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .artifact import Artifact
from .exit_code import INTERRUPTED
from .progress import number_of
from .rule import EXPECTED, SHARD_SEPARATOR, GateError, is_canary

EQUAL = ("base", "head", "rule", "strict", "allowed", "cases")  # must be equal for all shards of one comparison
INSTALLED = ("python", "versions")  # must be equal on all machines
ONE_RUN = "merge only shards of one run"


def merge_artifacts(parts: Mapping[str, Artifact]) -> Artifact:
    """Merge shards into one artifact, in which the names of canaries include the number of their shard.

    `parts` are artifacts by file name. Their machines may differ; each is stored under its shard number. Raises
    GateError if these are not the shards of one comparison, or if a shard or case is missing or repeated.
    """
    shards: dict[str, tuple[int, int]] = {}
    for name, part in parts.items():
        if part.interrupted:
            raise GateError(f"{name}: {INTERRUPTED}")
        if part.shard is None:
            raise GateError(f"{name}: this is a whole run, not a shard; leave it out")
        shards[name] = part.shard
    first = next(iter(shards), None)
    if first is None:
        raise GateError("merge: give the artifacts of all shards of one comparison")
    numbers, count = [number for number, _ in shards.values()], shards[first][1]
    for name, (_, other) in shards.items():
        if other != count:
            raise GateError(f"{name}: it is one of {other} shards, but {first} is one of {count}; {ONE_RUN}")
    for number in range(1, count + 1):
        if numbers.count(number) != 1:
            given = number_of(numbers.count(number), "artifact")
            raise GateError(f"shard {number} of {count}: {given} given; give one")
    anchors = {name: part.anchor for name, part in parts.items() if part.anchor}
    if len(anchors) not in (0, len(parts)):
        lacking = next(name for name in parts if name not in anchors)
        raise GateError(f"{lacking}: it has no comparison with an anchor, but {next(iter(anchors))} has one; {ONE_RUN}")
    merged = combine(parts)
    merged.anchor = combine(anchors) if anchors else None
    return merged


def check_equal(parts: Mapping[str, Artifact]) -> None:
    """Reject artifacts with different revisions, rules, allowances or installed versions."""
    (first_name, first), *others = parts.items()
    for name, part in others:
        values = {key: (getattr(part, key), getattr(first, key)) for key in EQUAL}
        values |= {key: (part.machine.get(key), first.machine.get(key)) for key in INSTALLED}
        for key, (own, wanted) in values.items():
            if own != wanted:
                fix = "install the same versions for all shards" if key in INSTALLED else ONE_RUN
                raise GateError(f"{name}: {key} is {own}, but {first_name} has {wanted}; {fix}")


def combine(parts: Mapping[str, Artifact]) -> Artifact:
    """Combine artifacts of the same comparison; raise GateError if a canary is missing or a case is in two of them."""
    check_equal(parts)
    records, owner, machines = {}, dict[str, str](), {}
    for name, part in parts.items():
        number = part.shard[0] if part.shard else 0
        machines[str(number)] = part.machine
        for all_cores in {record.all_cores for record in part.records.values() if record.state == "timed"}:
            for canary in EXPECTED[all_cores].keys() - part.records.keys():
                raise GateError(f"{name}: {canary} was not measured; measure this shard again")
        for case, record in part.records.items():
            if is_canary(case):
                records[f"{case}{SHARD_SEPARATOR}{number}"] = record
            elif case in owner:
                raise GateError(f"{name}: {case} is also in {owner[case]}; give each shard once")
            else:
                records[case], owner[case] = record, name
    first = next(iter(parts.values()))
    if first.cases not in (None, len(owner)):
        raise GateError(
            f"the shards have {len(owner)} of {first.cases} tests; run all shards with the same tests and options"
        )
    models = dict.fromkeys(str(machine["cpu_model"]) for machine in machines.values())
    about = {name: first.machine.get(name) for name in ("cores", *INSTALLED)}
    return replace(
        first,
        seconds=max(part.seconds for part in parts.values()),
        machine={"cpu_model": ", ".join(models), **about, "shards": machines},
        records=records,
        shard=None,
        anchor=None,
        notes=list(dict.fromkeys(line for part in parts.values() for line in part.notes)),
    )
