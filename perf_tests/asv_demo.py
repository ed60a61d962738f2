"""Does ASV name the commit that made something slower? ``python -m perf_tests.asv_demo [--flat] [--runs N]``.

A scratch repository has one quiet case in NumPy: sorting, as a multiple of the same sorting that has turns with it, as
its seconds differ by half where a machine is shared. ASV measures 48 commits of it, whose spread tells what can be
shown here; the next is slower by three times that, and three more come after it. The published pages, packed to need no
network, are to name that commit and no other; with ``--flat``, where nothing is slower, none.

A short history would not do: ASV takes a step only where the logarithm of what is left unexplained falls by
``4 log(n) / n``. Of steps of that size in normal noise it finds fewer than two in three after six commits, 98 of 100
after 48.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlgauge.command import ended
from rlgauge.interrupts import heard, held
from rlgauge.revisions import git

from .gate.selfcheck.planted import AUTHOR
from .offline import pack

BEFORE, AFTER = 48, 4  # commits; of those after, the first may be slower
UNITS, TIMES, LEAST = 200, 3.0, 0.02  # of sorting in a sample; how many spreads are planted, and what part at least
LOUD = 0.25  # spread of the same code beyond which the machine shows nothing
GRACE = 5.0  # seconds in which what is told to end may tidy up
NAME, MACHINE = "quiet.Sort.track_sort", "scratch"
SOURCE = '''"""Sorts the same numbers {units} times."""

import numpy as np


def work(numbers):
    for _ in range({units}):
        np.sort(numbers)
'''
BENCHMARK = f'''"""What ASV measures."""

import time

import numpy as np
from sorting import work


def fixed(numbers):
    for _ in range({UNITS}):
        np.sort(numbers)


class Sort:
    """A quiet case: sorting takes so many times what a fixed amount of it takes, which has turns with it."""

    unit = "times"

    def setup(self):
        """Draw the numbers."""
        self.numbers = np.random.default_rng(0).random(1_000)

    def track_sort(self):
        """Return the median ratio."""
        ratios, end = [], time.perf_counter() + 1
        while time.perf_counter() < end:
            start = time.process_time()
            fixed(self.numbers)
            between = time.process_time()
            work(self.numbers)
            ratios.append((time.process_time() - between) / (between - start))
        return float(np.median(ratios))
'''


class DemoError(Exception):
    """ASV failed, with its last words, or the machine is too loud for it: nothing was shown."""


@dataclass(frozen=True)
class Demo:
    """What a run came to.

    Attributes:
        pages: folder of the pages.
        spread: of the commits before, as a part of their median: of nine in ten.
        part: by which the planted commit is slower, 0 where nothing was planted.
        planted: the commit, if any.
        named: the commits that ASV's regression page names.
    """

    pages: Path
    spread: float
    part: float
    planted: str | None
    named: list[str]

    @property
    def right(self) -> bool:
        """Whether ASV names the planted commit and no other."""
        return self.named == ([self.planted] if self.planted else [])

    def __str__(self) -> str:
        """Return what happened, in a line."""
        planted = f"{self.planted[:12]} is slower by {100 * self.part:.1f} %" if self.planted else "nothing is slower"
        named = ", ".join(commit[:12] for commit in self.named) or "no commit"
        outcome = "right" if self.right else "WRONG"
        return f"spread {100 * self.spread:.1f} %, {planted}; ASV names {named}: {outcome}"


def of_session(leader: int) -> Iterator[int]:
    """Return the processes of a session, groups of their own included.

    Args:
        leader: process that began it.
    """
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it just ended
            if int(path.read_text().rpartition(")")[2].split()[3]) == leader:
                yield int(path.parent.name)


def asv(folder: Path, *arguments: str) -> None:
    """Run an ASV command in a repository; whatever ends this, all that it started ends too.

    Args:
        folder: of the repository, and home of ASV's own files.
        arguments: the command and its options.

    Raises:
        DemoError: it failed.
    """
    command = [sys.executable, "-m", "asv", *arguments]
    environment = {**os.environ, "HOME": str(folder), "ASV_PYTHONPATH": str(folder)}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            with heard():
                said, _ = process.communicate()
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE)
            for left in of_session(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)
    if process.returncode:
        raise DemoError(f"asv {arguments[0]} ended with code {process.returncode}: {said.strip().splitlines()[-1:]}")


def configure(folder: Path, thresholds: Mapping[str, float]) -> None:
    """Write ASV's configuration.

    Args:
        folder: of the repository.
        thresholds: of what is called a regression, by pattern of names.
    """
    content = {
        "version": 1,
        "project": "scratch",
        "repo": ".",
        "branches": ["main"],
        "benchmark_dir": "benchmarks",
        "environment_type": "existing",
        "regressions_thresholds": thresholds,
    }
    (folder / "asv.conf.json").write_text(json.dumps(content))


def start(folder: Path) -> None:
    """Make an empty repository with the benchmark.

    Args:
        folder: that is there and empty.
    """
    git(folder, "init", "--quiet", "--initial-branch=main")
    configure(folder, {})
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks" / "__init__.py").touch()
    (folder / "benchmarks" / "quiet.py").write_text(BENCHMARK)
    asv(folder, "machine", "--yes", "--machine", MACHINE)


def measured(folder: Path, units: int, number: int) -> tuple[str, float]:
    """Commit a version of the source and have ASV measure it; return the commit and what was measured.

    Args:
        folder: of the repository.
        units: of work.
        number: of the commit.

    Raises:
        DemoError: ASV has no figure of it.
    """
    from asv.results import iter_results_for_machine_and_hash

    (folder / "sorting.py").write_text(f"{SOURCE.format(units=units)}\n\n# change {number}\n")
    git(folder, "add", "sorting.py")
    git(folder, *AUTHOR, "commit", "--quiet", "--message", f"change {number}")
    commit = git(folder, "rev-parse", "HEAD").decode().strip()
    here = ("--environment", f"existing:{sys.executable}", "--machine", MACHINE)
    asv(folder, "run", *here, "--set-commit-hash", commit, "--show-stderr")
    for results in iter_results_for_machine_and_hash(str(folder / "results"), MACHINE, commit):
        found = results.get_result_value(NAME, [])
        if found and found[0] is not None:
            return commit, float(found[0])
    raise DemoError(f"ASV has no figure of {NAME} at {commit[:12]}")


def named(pages: Path) -> list[str]:
    """Return the commits that the regression page names, one for each step that it shows.

    Args:
        pages: the folder that ``asv publish`` wrote.
    """
    hashes = json.loads((pages / "index.json").read_text())["revision_to_hash"]
    regressions = json.loads((pages / "regressions.json").read_text())["regressions"]
    return [hashes[str(jump[1])] for *_, jumps in regressions for jump in jumps]


def quiet(figures: Sequence[float]) -> float:
    """Return how far apart figures of the same code are, as a part of their median.

    It is the width of the band about the median that holds nine in ten: the whole range would grow with every commit
    that something else disturbed.

    Args:
        figures: of each commit.

    Raises:
        DemoError: too far to show anything.
    """
    middle = np.median(figures)
    spread = float(2 * np.quantile(np.abs(np.subtract(figures, middle)), 0.9) / middle)
    if spread > LOUD:
        raise DemoError(
            f"the same code differs by {100 * spread:.0f} % here, wanted {100 * LOUD:.0f} % or less: too loud"
        )
    return spread


def demonstrate(folder: Path, flat: bool) -> Demo:
    """Make a repository, have ASV measure its commits, and publish.

    Args:
        folder: that is there and empty.
        flat: whether nothing is to be slower.

    Raises:
        DemoError: ASV failed, or the machine is too loud.
        ValueError: its pages load something of which there is no copy.
    """
    start(folder)
    spread = quiet([measured(folder, UNITS, number)[1] for number in range(BEFORE)])
    part = max(TIMES * spread, LEAST)
    units = UNITS if flat else round(UNITS * (1 + part))
    commits = [measured(folder, units, BEFORE + number) for number in range(AFTER)]
    quiet([figure for _, figure in commits])
    configure(folder, {".*": part / 2})
    asv(folder, "publish", "--no-pull")
    pages = folder / "html"
    pack(pages)
    return Demo(pages, spread, units / UNITS - 1, None if flat else commits[0][0], named(pages))


def shown(runs: int, flat: bool) -> int:
    """Run it so often and print how each run went; the code is 1 where ASV was not right every time.

    Args:
        runs: each in a repository of its own.
        flat: plant nothing.
    """
    right = 0
    for _ in range(runs):
        with held(), tempfile.TemporaryDirectory(prefix="asv-demo-") as folder:  # none while a process is started
            demo = demonstrate(Path(folder), flat)
        print(demo, flush=True)
        right += demo.right
    print(f"right: {right} of {runs}")
    return 0 if right == runs else 1


def main(arguments: list[str] | None = None) -> int:
    """Run it; the code is 1 where ASV is not right every time, 2 where that cannot be told.

    Args:
        arguments: the command line, that of the process unless given.
    """
    parser = argparse.ArgumentParser(prog="python -m perf_tests.asv_demo", description=__doc__.splitlines()[0])
    parser.add_argument("--flat", action="store_true", help="plant nothing: no commit is to be named")
    parser.add_argument("--runs", type=int, default=1, help="how often, each in a repository of its own (default: 1)")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error(f"--runs: got {options.runs}, wanted 1 or more")
    return ended(lambda: shown(options.runs, options.flat), DemoError, ValueError)


if __name__ == "__main__":
    sys.exit(main())
