"""Measure comparisons with ``rlgauge compare --file``, and single figures with pytest-benchmark."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlgauge.benchmarks.source import Benchmarks
from rlgauge.command import INTERRUPTED
from rlgauge.compare_file import compare_file
from rlgauge.config import read as settings
from rlgauge.config import settings_folder
from rlgauge.plan import Plan
from rlgauge.rule import GateError
from rlgauge.two_tests import DIFFER

from .. import run
from .catalogue import Comparison

ROOT = Path(__file__).parents[2]
AT_ONCE = 4  # comparisons per round of additional pairs
BLOCKS = 4  # per pair: half the usual number, because the time is better spent on pairs of unclear comparisons
LIMIT = 600.0  # timeout of a request to a worker in seconds: one call of some loops takes a minute


@dataclass
class Measured:
    """Results of one comparison.

    ``values`` has the ratio of each pair, first test over second; ``sides`` the median of each test's measurements over
    the pairs of the first round; ``error`` the reason for a failure.
    """

    values: list[float] = field(default_factory=list)
    sides: Sequence[float] = ()
    error: str = ""

    @property
    def differs(self) -> bool:
        """Whether the comparison failed because the outputs of the two tests are not close."""
        return DIFFER in self.error


def as_toml(comparisons: Iterable[Comparison]) -> str:
    """Return comparisons as a TOML file for ``rlgauge compare --file``, named "1", "2", ..."""
    text = ""
    for number, comparison in enumerate(comparisons, 1):
        text += f'[[comparison]]\nname = "{number}"\n'
        given = comparison.model_dump(exclude_none=True)
        text += "".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items()) + "\n"
    return text


def round_of(comparisons: Sequence[Comparison], number: int, folder: Path) -> dict[Comparison, Measured]:
    """Measure six pairs of each comparison, resuming an interrupted run of round ``number``, which seeds the order."""
    file, out = folder / f"round-{number}.toml", folder / f"round-{number}.json"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(as_toml(comparisons))
    source = Benchmarks(ROOT, settings(settings_folder(ROOT)), None)
    plan = Plan(minutes=0.0, seed=number, blocks=BLOCKS, limit=LIMIT)
    try:
        with redirect_stdout(sys.stderr):
            compare_file(
                source, ROOT, file, plan, out, out.exists(), lambda line: print(line, file=sys.stderr, flush=True)
            )
    except GateError as stopped:
        if str(stopped).startswith("interrupted"):
            raise KeyboardInterrupt from stopped
        raise
    rows = json.loads(out.read_text())["comparisons"]
    found = {}
    for position, comparison in enumerate(comparisons, 1):
        row = rows[str(position)]
        error = row.get("error") or row.get("skipped") or ""
        found[comparison] = Measured(row.get("values", []), row.get("sides", ()), error)
    return found


def measure(
    comparisons: Sequence[Comparison],
    folder: Path,
    minutes: float,
    unclear: Callable[[Mapping[Comparison, Measured]], Sequence[Comparison]],
    measured: Callable[[Sequence[Comparison], int, Path], Mapping[Comparison, Measured]] = round_of,
) -> dict[Comparison, Measured]:
    """Measure all comparisons, then repeat the unclear ones until none is left or the time is up.

    Partial results are kept in ``folder``. ``unclear`` returns the comparisons that more pairs may decide, widest
    interval first, and ``measured`` measures a round; no round starts after ``minutes``.
    """
    if not comparisons:
        return {}
    end = time.monotonic() + 60 * minutes
    found, number = dict(measured(comparisons, 0, folder)), 0
    failed = set[Comparison]()  # in a later round; their earlier pairs still count
    while time.monotonic() < end and (chosen := [one for one in unclear(found) if one not in failed][:AT_ONCE]):
        number += 1
        for comparison, more in measured(chosen, number, folder).items():
            found[comparison].values += more.values
            if more.differs:  # refutes a claim, however many pairs came before
                found[comparison].error = more.error
            if more.error:
                failed.add(comparison)
    return found


def timed(tests: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the ``extra_info`` of tests from a plain run, by pytest id; ``tests`` maps each id to its backend.

    Tests that fail are missing.
    """
    if not tests:
        return {}
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr):
        file = Path(folder) / "figures.json"
        chosen = [f"--backend={','.join(sorted(set(tests.values())))}", "--tier=full", *tests]
        if run.main([f"--json={file}", *chosen]) == INTERRUPTED:
            raise KeyboardInterrupt
        if not file.exists():
            return {}
        return {found["fullname"]: found["extra_info"] for found in json.loads(file.read_text())["benchmarks"]}
