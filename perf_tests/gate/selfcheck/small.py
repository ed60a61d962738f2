"""Compare the gate with pytest-benchmark's own rule on a small repository like those of users.

Each round slows the code behind a random half of its 20 tests by 5% and leaves the other half as it was.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlgauge import artifact, machine, measurements
from rlgauge.benchmarks.source import Benchmarks
from rlgauge.config import Config
from rlgauge.layout import laid_out
from rlgauge.pairs import Pairs
from rlgauge.progress import left, number_of
from rlgauge.rates import Rate
from rlgauge.rule import GateError, Record, Rule, is_canary
from rlgauge.run import LIMIT
from rlgauge.sampling import cores
from rlgauge.statistics import interval

FILE = Path(__file__).with_name("small.jsonl")
SLOWER, UNITS = 1.05, 100
FAIL = "median:5%"  # the pytest-benchmark rule that the gate is compared with
KINDS, SIZES = ("loop", "numbers", "text", "table"), (2, 10, 40)
CASES = (
    *(f"benchmarks/test_work.py::test_work[{kind}-{size}]" for kind in KINDS for size in SIZES),
    *(f"benchmarks/test_work.py::TestShared::test_read[{size}]" for size in (2, 5, 10, 40)),
    *(f"benchmarks/test_ready.py::test_ready[{size}]" for size in (2, 5, 10, 40)),
)
WORK = '''"""Work of several kinds; ``UNITS`` is the amount for each test."""

import numpy as np

UNITS = {units}


def loop(size):
    total = 0
    for number in range(size):
        total += number * number
    return total


def numbers(size):
    return float(np.sort(np.arange(16.0 * size)[::-1])[0])


def text(size):
    return " ".join(str(number) for number in range(size)).upper()


def table(size):
    return {{str(number): number for number in range(size)}}


KINDS = {{"loop": loop, "numbers": numbers, "text": text, "table": table}}


def run(name, kind, size):
    unit = KINDS[kind]
    for _ in range(UNITS[name]):
        out = unit(size)
    return out


def total(name, values):
    for _ in range(UNITS[name]):
        out = sum(values)
    return out
'''
TESTS = """import pytest

from small import work


@pytest.mark.parametrize("size", {sizes})
@pytest.mark.parametrize("kind", {kinds})
def test_work(benchmark, request, kind, size):
    assert benchmark(work.run, request.node.nodeid, kind, size) is not None


@pytest.fixture(scope="session")
def values():
    return list(range(1000))


@pytest.mark.parametrize("size", (2, 5, 10, 40))
class TestShared:
    def test_read(self, benchmark, request, values, size):
        some = values[:size]
        assert benchmark(work.total, request.node.nodeid, some) == sum(some)
"""
READY = """import pytest

from small import work


@pytest.mark.parametrize("size", (2, 5, 10, 40))
def test_ready(benchmark, request, size):
    def ready():
        return (request.node.nodeid, list(range(size))), {}

    assert benchmark.pedantic(work.total, setup=ready, rounds=200) == sum(range(size))
"""


def write(folder: Path, slowed: Sequence[str]) -> None:
    """Write the repository's files, with slower code for the tests in ``slowed``."""
    units = {name: round(UNITS * SLOWER) if name in slowed else UNITS for name in CASES}
    files = {
        "src/small/__init__.py": '"""A package."""\n',
        "src/small/work.py": WORK.format(units=units),
        "benchmarks/test_work.py": TESTS.format(sizes=SIZES, kinds=KINDS),
        "benchmarks/test_ready.py": READY,
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\ntestpaths = ["benchmarks"]\n',
        ".gitignore": "__pycache__/\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def repository(folder: Path) -> None:
    """Create a repository with one commit, in which nothing is slowed."""
    write(folder, ())
    identity = "-c", "user.name=small", "-c", "user.email=small@localhost", "-c", "commit.gpgsign=false"
    for command in (("init", "--quiet"), ("add", "--all"), (*identity, "commit", "--quiet", "--message", "start")):
        subprocess.run(["git", *command], cwd=folder, check=True)


def pytest(folder: Path, *arguments: str) -> int:
    """Run pytest in a folder; return its exit code."""
    dropped = ("PYTEST_", "PYTHONDONTWRITEBYTECODE")  # installed packages have compiled bytecode
    variables = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True).returncode


def medians(folder: Path, slowed: Sequence[str]) -> dict[str, float]:
    """Return the median seconds of each test by pytest-benchmark, from one run of its own."""
    write(folder, slowed)
    file = folder / "times.json"
    if code := pytest(folder, "--benchmark-only", f"--benchmark-json={file}"):
        raise GateError(f"small: the run of pytest-benchmark failed with exit code {code}")
    timed = json.loads(file.read_text())["benchmarks"]
    file.unlink()
    return {test["fullname"]: test["stats"]["median"] for test in timed}


def one_round(seed: int) -> dict[str, Any]:
    """Run both tools once; return their findings. ``seed`` chooses the slowed tests and all orders."""
    rng, start = random.Random(seed), time.monotonic()
    slowed = sorted(rng.sample(CASES, len(CASES) // 2))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        repository(folder)
        write(folder, slowed)
        pytest(folder, "--gate-against=HEAD", f"--gate-seed={seed}")
        found = artifact.read(folder / ".rlgauge" / "gate.json")
        seconds = time.monotonic() - start
        outcome = found.decide()
        sides: dict[str, list[str]] = {"base": [], "head": slowed}
        theirs = {name: medians(folder, sides[name]) for name in rng.sample(sorted(sides), 2)}
    verdicts = {name: finding.verdict for name, finding in outcome.findings.items() if not is_canary(name)}
    outcomes = {"verdicts": verdicts, "void": list(outcome.wrong), "medians": theirs}
    return {"what": "round", "slowed": slowed, **outcomes, "seconds": round(seconds, 1)}


def overhead(rounds: int) -> list[float]:
    """Return the duration of each of several pairs of all tests minus that of its samples, in seconds."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        repository(root)
        source = Benchmarks(root, Config(), None)
        source.names, found = list(CASES), list[float]()
        source.paths, tolerances = source.benchmark_paths(), dict.fromkeys(CASES, 0.0)
        with laid_out(source, root) as layout:
            sides = [layout.side(None, name) for name in ("base", "head")]
            pairs = Pairs(sides, Rule().blocks, LIMIT, tolerances, layout.folder, random.Random(0))
            for _ in range(rounds + 1):
                records = {name: Record(all_cores=False) for name in CASES}
                start = time.monotonic()
                pairs.measure(records, CASES, cores(False), "screen")
                spent = time.monotonic() - start
                timed = [sum(pair) for record in records.values() for pair in record.screen[0]]
                found.append(spent - sum(timed))
    return found[1:]  # the first pair also calibrates the number of calls per sample, as in a run


IMPORTING = (
    "import pytest, time; start = time.perf_counter(); import rlgauge.plugin; print(time.perf_counter() - start)"
)


def unused(times: int) -> list[float]:
    """Return the seconds that ``import rlgauge.plugin`` takes after pytest, in fresh processes, once compiled."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", IMPORTING]
    how = {"env": variables, "check": True, "capture_output": True, "text": True}
    return [float(subprocess.run(command, **how).stdout) for _ in range(times + 1)][1:]  # type: ignore[call-overload]


def measure(file: Path, rounds: int, log: Callable[[str], None] = print) -> None:
    """Append the machine, the overheads and some rounds to a file of JSON lines."""
    known = sum(line["what"] == "round" for line in read(file)) if file.exists() else 0

    measurements.append(
        file, [{"what": "machine", "date": datetime.date.today().isoformat(), **machine.this_machine()}]
    )
    measurements.append(file, [{"what": "costs", "pair": overhead(6), "plugin": unused(20)}])
    start = time.monotonic()
    for number in range(known, known + rounds):
        measurements.append(file, [one_round(number)])
        each = (time.monotonic() - start) / (number - known + 1)
        log(f"small: {number - known + 1} of {rounds} rounds, {left(each * (known + rounds - number - 1))}")


def read(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a file that :func:`measure` wrote."""
    return measurements.read(file, ("machine", "costs", "round"), "python -m perf_tests.gate small")


def rates(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[str, bool], Rate]:
    """Return how often each tool reports a test as slower, by (tool, whether it was slowed), in valid rounds."""
    from pytest_benchmark.utils import parse_compare_fail

    check = parse_compare_fail(FAIL)  # type: ignore[no-untyped-call]
    found = {}
    valid = [line for line in lines if line["what"] == "round" and not line["void"]]
    for slowed in (False, True):
        cases = [(line, name) for line in valid for name in CASES if (name in line["slowed"]) is slowed]
        ours = [line["verdicts"][name] == "slower" for line, name in cases]
        theirs = [
            bool(check.fails({"median": line["medians"]["head"][name]}, {"median": line["medians"]["base"][name]}))
            for line, name in cases
        ]
        for who, words in (("rlgauge", ours), ("pytest-benchmark", theirs)):
            found[who, slowed] = Rate(sum(words), len(words))
    return found


def rates_table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the rates as Markdown."""
    valid = sum(line["what"] == "round" and not line["void"] for line in lines)
    if not valid:
        raise GateError("small: no valid round was measured yet; run python -m perf_tests.gate small --rounds 7")
    found = rates(lines)
    rows = [
        f"| {number_of(valid, 'run')} of 20 tests, 10 of them 5% slower | slowdowns found [95% interval] "
        "| false alarms |",
        "|---|---|---|",
        f"| `pytest --gate-against` | {found['rlgauge', True]} | {found['rlgauge', False]} |",
        f"| `--benchmark-compare-fail={FAIL}` | {found['pytest-benchmark', True]} "
        f"| {found['pytest-benchmark', False]} |",
    ]
    return "\n".join(rows)


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the rates and the overheads as Markdown."""
    rows = rates_table(lines)
    rounds = [line for line in lines if line["what"] == "round"]
    machines = [line for line in lines if line["what"] == "machine"]
    void = sum(bool(line["void"]) for line in rounds)
    minutes = sorted(line["seconds"] / 60 for line in rounds)
    costs = [line for line in lines if line["what"] == "costs"][-1]
    runs = number_of(len(rounds), "run")
    words = [f"{runs} of {minutes[0]:.1f} to {minutes[-1]:.1f} minutes, {void} of them invalid"]
    for what, (unit, scale, text) in COSTS.items():
        low, high = interval(costs[what])
        middle = sorted(costs[what])[len(costs[what]) // 2]
        words.append(text.format(f"{scale * middle:.1f} {unit} [{scale * low:.1f}, {scale * high:.1f}]"))
    where = f"{machines[-1]['cpu_model']}, {machines[-1]['cores']} cores, {machines[-1]['date']}"
    return "\n".join([rows, "", f"{'. '.join(words)}. {where}: `python -m perf_tests.gate small`."])


COSTS = {
    "pair": ("s", 1, "A pair of all 20 tests takes {} in addition to its samples"),
    "plugin": ("ms", 1000, "In a run of pytest without the gate, importing the plugin takes {}"),
}
