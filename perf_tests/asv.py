"""Benchmark HEAD and HEAD~1 with ASV and publish the pages: ``python -m perf_tests.asv``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from .offline import pack
from .suite.asv_cases import gated, parameters

ROOT = Path(__file__).parents[1]
PAGES = ROOT / ".asv" / "html"


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


def main() -> None:
    """Check the benchmarks, run both commits, publish pages that need no network."""
    if not (Path.home() / ".asv-machine.json").exists():
        asv("machine", "--yes")
    asv("check")
    for revision in ("HEAD~1", "HEAD"):
        asv("run", f"{revision}^!", "--show-stderr", only=existing())
    asv("publish", "--no-pull")
    try:
        pack(PAGES)
    except ValueError as error:
        sys.exit(str(error))
    print(f"open {PAGES / 'index.html'} through: {sys.executable} -m asv preview")


if __name__ == "__main__":
    main()
