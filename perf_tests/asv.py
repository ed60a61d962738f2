"""Benchmark HEAD and HEAD~1 with ASV and publish the pages: ``python -m perf_tests.asv``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def asv(*arguments: str) -> None:
    """Run one ASV command; a failure ends this program with its exit code."""
    command = [sys.executable, "-m", "asv", *arguments]
    print("asv", *arguments, flush=True)
    # an index that cannot be reached is given up at once: each package is served by another
    code = subprocess.run(command, cwd=ROOT, env={"PIP_RETRIES": "0", **os.environ}).returncode
    if code:
        sys.exit(code)


def main() -> None:
    """Check the benchmarks, run both commits, publish."""
    if not (Path.home() / ".asv-machine.json").exists():
        asv("machine", "--yes")
    asv("check")
    for revision in ("HEAD~1", "HEAD"):
        asv("run", f"{revision}^!", "--show-stderr")
    asv("publish", "--no-pull")
    print(f"open {ROOT / '.asv' / 'html' / 'index.html'} through: {sys.executable} -m asv preview")


if __name__ == "__main__":
    main()
