"""Reader for pytest-benchmark JSON of this or any other suite, as rows of one format."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from perf_tests.report.order import SCATTER, Row
from perf_tests.rows import FORMAT, machine_of
from rlgauge.statistics import interval

KNOWN = 5  # newest major version of pytest-benchmark whose JSON is supported
WANTED = "the JSON of a pytest-benchmark run, as make bench writes it"
NOTCH = 1.57  # median +- NOTCH * IQR / sqrt(n) is about its 95% interval
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class BadInput(Exception):
    """An input file that cannot be shown; the message names the file and the reason."""


class Stats(BaseModel):
    """pytest-benchmark's statistics in seconds per call, of ``rounds`` samples; ``data`` may hold them."""

    median: Seconds
    iqr: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    rounds: Annotated[int, Field(ge=1)]
    data: list[Seconds] = []


class Benchmark(BaseModel):
    """One benchmark of a pytest-benchmark JSON."""

    group: str | None = None
    name: str
    fullname: str
    params: dict[str, Any] | None = None
    extra_info: dict[str, Any] = {}
    stats: Stats


class Measured(BaseModel):
    """The part of :func:`perf_tests.rows.row` that the page needs, validated."""

    model_config = ConfigDict(extra="allow")
    id: str
    workload: str
    op: str
    form: str
    backend: str
    axes: dict[str, int | float | str]
    precision: str = "float32"
    calls: int = 1
    seconds_per_call: Seconds
    low: Seconds
    high: Seconds
    samples: Annotated[int, Field(ge=1)]
    spread: Annotated[float, Field(ge=0)] = 0.0
    items_per_second: Seconds
    unit: str
    limit_share: float | None = None
    bound: str | None = None
    phases: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = {}
    threads: int | None = None


class Result(BaseModel):
    """A pytest-benchmark JSON, with the additions of this suite."""

    machine_info: dict[str, Any] = {}
    rlgauge: dict[str, Any] = {}
    commit_info: dict[str, Any] = {}
    benchmarks: list[Benchmark]
    datetime: str
    version: str


@dataclass(frozen=True)
class Run:
    """One run of benchmarks; ``machine`` is this suite's metadata, empty for other suites.

    ``low`` and ``high`` of a row with a single sample are NaN.
    """

    path: Path
    result: Result
    machine: Mapping[str, Any]
    rows: list[Row]

    @property
    def threads(self) -> int | None:
        """Number of threads of the timing processes, if known."""
        found = self.machine.get("threads")
        return int(found) if found else None

    @property
    def commit(self) -> str:
        """The measured commit, with ``+dirty`` if the working tree had uncommitted changes."""
        info = self.result.commit_info
        if known := self.machine.get("git"):
            return str(known)
        return f"{str(info['id'])[:12]}{'+dirty' * bool(info.get('dirty'))}" if info.get("id") else "no commit"


def parse(path: Path, wanted: str) -> Any:
    """Return the content of a JSON file; ``wanted`` describes the expected file in the message of a BadInput."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}; give {wanted}") from error
    except ValueError as error:
        raise BadInput(f"{path}: not a complete JSON file: {error}; give {wanted}") from error


def first(error: ValidationError) -> str:
    """Return the first error of a failed validation in one line: the field and the reason."""
    found = error.errors()[0]
    return ": ".join([".".join(map(str, found["loc"])), found["msg"]] if found["loc"] else [found["msg"]])


def read(path: Path) -> Run:
    """Return the run in a pytest-benchmark JSON; raise BadInput for another, a newer or an empty file."""
    found = parse(path, WANTED)
    try:
        result = Result.model_validate(found)
    except ValidationError as error:
        raise BadInput(f"{path}: not {WANTED}: {first(error)}") from error
    major = result.version.partition(".")[0]
    if not major.isdecimal() or int(major) > KNOWN:
        raise BadInput(f"{path}: pytest-benchmark {result.version} is too new; use version {KNOWN} or older")
    known = result.machine_info.get("rlgauge", {})
    if not isinstance(known, dict) or not isinstance(known.get("format", FORMAT), int):
        raise BadInput(f"{path}: not {WANTED}: machine_info.rlgauge is not from this suite")
    machine = machine_of(found)
    if machine.get("format", FORMAT) > FORMAT:
        raise BadInput(
            f"{path}: its format is {machine['format']}, but this rlgauge reads up to {FORMAT}; update rlgauge"
        )
    if not result.benchmarks:
        raise BadInput(f"{path}: no benchmark was measured; run make bench")
    try:
        rows = [row(benchmark) for benchmark in result.benchmarks]
    except ValidationError as error:
        raise BadInput(f"{path}: not {WANTED}: extra_info.{first(error)}") from error
    return Run(path, result, machine, rows)


def row(benchmark: Benchmark) -> Row:
    """Return the row of a benchmark of this suite or of another."""
    if not {"id", "workload", "seconds_per_call"} <= benchmark.extra_info.keys():
        return foreign(benchmark)
    found = Measured.model_validate(benchmark.extra_info).model_dump()
    return found if found["samples"] > 1 else {**found, "low": math.nan, "high": math.nan}


def foreign(benchmark: Benchmark) -> Row:
    """Return the row of another suite's benchmark.

    The file takes the place of the workload, and numeric parameters are axes. A group is taken for the op, with
    functions in place of backends and the other parameters in place of forms. Without a group the function is the op,
    and the other parameters take the place of backends.
    """
    params = benchmark.params or {}
    numbers = {name: value for name, value in params.items() if is_number(value)}
    words = [str(value) for name, value in params.items() if name not in numbers]
    function = benchmark.name.partition("[")[0]
    stats, file = benchmark.stats, benchmark.fullname.partition("::")[0]
    low, high = foreign_interval(stats)
    known: Mapping[str, Any] = TypeAdapter(dict[str, Any]).validate_python(benchmark.extra_info)
    return {
        "id": benchmark.fullname,
        "workload": Path(file).stem,
        "op": benchmark.group or function,
        "form": " ".join(words) if benchmark.group else "",
        "backend": function if benchmark.group else " ".join(words) or function,
        "axes": numbers,
        "precision": "float32",
        "calls": 1,
        "seconds_per_call": stats.median,
        "low": low,
        "high": high,
        "samples": stats.rounds,
        "spread": stats.iqr / stats.median,
        "items_per_second": 1 / stats.median,
        "unit": "calls",
        "limit_share": None,
        "bound": None,
        "phases": {},
        "threads": known.get("threads") if is_number(known.get("threads")) else None,
    }


def foreign_interval(stats: Stats) -> tuple[float, float]:
    """Return the interval of the median, from the samples or else from the quartiles, widened by ``SCATTER``."""
    if stats.rounds < 2:
        return math.nan, math.nan
    half = NOTCH * stats.iqr / math.sqrt(stats.rounds)
    low, high = (
        interval(stats.data) if stats.data else (max(stats.median - half, stats.median / 2), stats.median + half)
    )
    return low * (1 - SCATTER), high * (1 + SCATTER)


def is_number(value: Any) -> bool:
    """Return whether a parameter is a finite number and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
