"""What is kept of a commit and a case: a line of ``results/history/<machine>.jsonl``, which is never changed again."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from perf_tests.report.results import name_of
from rlgauge import machine
from rlgauge.files import Unwritable, reserved
from rlgauge.rule import GateError
from rlgauge.statistics import interval

FORMAT: Literal[1] = 1
Ratio = Field(default=None, gt=0, allow_inf_nan=False)


class Entry(BaseModel):
    """A case of a commit, compared with an earlier commit.

    Attributes:
        format: of these lines.
        machine: label of the machine, as in ``amd-epyc-avx2-2-cores``.
        date: when it was measured, as in ``2026-11-23``.
        commit: full hash.
        anchor: full hash of what it is compared with.
        case: id.
        version: of the case; ratios of two versions are not of the same.
        state: ``timed``; ``unchanged``, where all that the workload depends on is that of an earlier commit; or
            ``lacking``, where the anchor does not have the case.
        same_as: the commit that an unchanged one is like: one that was timed, or the anchor itself.
        ratio: seconds of the commit over seconds of the anchor, median over pairs; None where there is none.
        low: lower end of the 95 % interval of it; the least where there are fewer than six pairs.
        high: upper end.
        n: pairs of processes that these are of; 0 for what is like the anchor.
        log_ratios: what each pair says, where it was timed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal[1] = FORMAT
    machine: str
    date: str
    commit: str = Field(pattern="^[0-9a-f]{40,64}$")
    anchor: str = Field(pattern="^[0-9a-f]{40,64}$")
    case: str
    version: int
    state: Literal["timed", "unchanged", "lacking"]
    same_as: str | None = None
    ratio: float | None = Ratio
    low: float | None = Ratio
    high: float | None = Ratio
    n: int = Field(ge=0)
    log_ratios: tuple[float, ...] = ()

    @model_validator(mode="after")
    def consistent(self) -> Entry:
        """Refuse what contradicts itself."""
        if (self.state == "lacking") != (self.ratio is None):
            raise ValueError(f"{self.state}, and a ratio of {self.ratio}")
        if (self.state == "unchanged") != (self.same_as is not None):
            raise ValueError(f"{self.state}, and the same as {self.same_as}")
        if len(self.log_ratios) != (self.n if self.state == "timed" else 0):
            raise ValueError(f"{self.state}, {self.n} pairs and {len(self.log_ratios)} log-ratios")
        return self


def timed(log_ratios: Sequence[float]) -> dict[str, object]:
    """Return the fields of an entry that its pairs say.

    Args:
        log_ratios: of each pair.
    """
    rounded = tuple(round(value, 6) for value in log_ratios)
    low, high = interval(rounded)
    ratio, low, high = (round(math.exp(value), 6) for value in (median(rounded), low, high))
    return {"state": "timed", "ratio": ratio, "low": low, "high": high, "n": len(rounded), "log_ratios": rounded}


def label() -> str:
    """Return what this machine is called, as in ``amd-epyc-avx2-2-cores``."""
    return name_of({"cpu_model": machine.cpu_model(), "vectors": machine.vectors(), "cores": os.cpu_count()})


def parse(file: Path, text: bytes) -> list[Entry]:
    """Return the entries of a file, given what is in it.

    Args:
        file: its path, whose name is the label of the machine.
        text: what it holds.

    Raises:
        GateError: a line is no entry, or of another machine, or the last is cut off.
    """
    found = []
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        where, wanted = f"{file.name}, line {number}", f"wanted an entry of a history, format {FORMAT}"
        if not line.endswith(b"\n"):
            raise GateError(f"{where}: it is cut off, {wanted}")
        try:
            entry = Entry.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise GateError(f"{where}: {wanted}: {place + ': ' if place else ''}{first['msg']}") from error
        if entry.machine != file.stem:
            raise GateError(f"{where}: machine: got {entry.machine}, wanted {file.stem}")
        found.append(entry)
    return found


def read(file: Path) -> list[Entry]:
    """Return the entries of a file, none where there is no file.

    Args:
        file: its path.

    Raises:
        GateError: it cannot be read, or a line is no entry.
    """
    try:
        return parse(file, file.read_bytes()) if file.exists() else []
    except OSError as error:
        raise GateError(f"{file}: cannot be read: {error.strerror}") from error


def append(file: Path, entries: Sequence[Entry]) -> None:
    """Add entries to a file: it is written whole, what it held before and then these, or stays as it was.

    Args:
        file: its path.
        entries: what is added.

    Raises:
        GateError: what the file holds are no entries, or it cannot be written.
    """
    before = file.read_bytes() if file.exists() else b""
    parse(file, before)
    after = before + b"".join(entry.model_dump_json().encode() + b"\n" for entry in entries)
    try:
        with reserved(file, len(after)) as write:
            write(after)
    except Unwritable as error:
        raise GateError(str(error)) from error
