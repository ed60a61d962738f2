"""Benchmark commits with ASV and publish the pages: ``python -m perf_tests.asv [A..B]``, HEAD~1..HEAD unless given."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from rlgauge.bisect import between
from rlgauge.revisions import resolve
from rlgauge.rule import GateError

from .offline import pack
from .suite.asv_cases import gated, parameters

ROOT = Path(__file__).parents[1]
PAGES = ROOT / ".asv" / "html"
RANGE = "HEAD~1..HEAD"


def asv(*arguments: str, only: str = "") -> None:
    """Run one ASV command; a failure ends this program with its exit code.

    Args:
        arguments: the command and its options.
        only: pattern of the benchmarks that it is about; all of them where it is empty.
    """
    command = [sys.executable, "-m", "asv", *arguments, *(["--bench", only] if only else [])]
    print("asv", *arguments, flush=True)
    # an index that cannot be reached is given up at once: each package is served by another
    code = subprocess.run(command, cwd=ROOT, env={"PIP_RETRIES": "0", **os.environ}).returncode
    if code:
        sys.exit(code)


def existing() -> str:
    """Return a pattern of the combinations that exist, as ASV names them: it starts no process for any other."""
    names = [
        f"{op}.time_sample({', '.join(map(repr, values))})"
        for op, variants in gated().items()
        for values in parameters(variants).ids
    ]
    return f"^({'|'.join(map(re.escape, names))})$"


def commits(text: str) -> list[str]:
    """Return the commits from A to B, both included, along first parents, oldest first.

    Args:
        text: the range, as ``A..B``.

    Raises:
        GateError: it is no range, a revision is unknown, or A does not come before B.
    """
    first, dots, last = text.partition("..")
    if not first or not dots or not last or last.startswith("."):
        raise GateError(f"range: got {text!r}, wanted A..B")
    return [resolve(ROOT, first), *between(ROOT, first, last)]


def main(arguments: list[str] | None = None) -> None:
    """Check the benchmarks, run the commits, publish pages that need no network.

    Args:
        arguments: the command line, that of the process unless given.
    """
    parser = argparse.ArgumentParser(prog="python -m perf_tests.asv", description=__doc__.splitlines()[0])
    parser.add_argument("range", nargs="?", default=RANGE, metavar="A..B", help=f"both included (default: {RANGE})")
    parser.add_argument("--new", action="store_true", help="leave out the commits that ASV has results of")
    options = parser.parse_args(arguments)
    try:
        found = commits(options.range)
    except GateError as error:
        parser.error(str(error))
    if not (Path.home() / ".asv-machine.json").exists():
        asv("machine", "--yes")
    asv("check")
    new = ["--skip-existing-commits"] if options.new else []
    for commit in found:
        asv("run", f"{commit}^!", "--show-stderr", *new, only=existing())
    asv("publish", "--no-pull")
    try:
        pack(PAGES)
    except ValueError as error:
        sys.exit(str(error))
    print(f"open {PAGES / 'index.html'} through: {sys.executable} -m asv preview")


if __name__ == "__main__":
    main(sys.argv[1:])
