"""Compare our code with other libraries: ``python -m perf_tests.peers [--only NAME] [--json FILE]``.

``rlgauge compare`` measures each comparison of ``comparisons.toml``. It also receives all further options, such as
``--minutes 1``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

from rlgauge.command import ended
from rlgauge.files import reserved
from rlgauge.interrupts import by_sigterm

ROOT, FILE = Path(__file__).parents[2], Path(__file__).with_name("comparisons.toml")
ROOM = 1 << 20  # maximum size of the JSON in bytes


def compared(one: dict[str, Any], arguments: Sequence[str], folder: Path) -> dict[str, Any] | int:
    """Measure one comparison; return its figures, or an exit code if it failed: 0 if its library is not installed."""
    result = folder / "result.json"
    command = [sys.executable, "-m", "rlgauge", "compare", one["a"], one["b"], f"--json={result}", *arguments]
    command += [f"--outputs={one.get('outputs', 'close')}", *(["--items"] if one.get("items") else [])]
    print(f"{one['name']}:", flush=True)
    with by_sigterm():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        print(f"  {(done.stderr.splitlines() or ['rlgauge compare failed'])[-1]}", flush=True)
        return 0 if "could not import" in done.stderr else done.returncode
    print(indent(f"{done.stdout}Left out: {one['leaves_out']}.", "  "), flush=True)
    return {**one, **json.loads(result.read_text())}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all comparisons whose libraries are installed; return the exit code."""
    known = {one["name"]: one for one in tomllib.loads(FILE.read_text())["comparison"]}
    parser = argparse.ArgumentParser(prog="python -m perf_tests.peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", choices=known, action="append", help="run only this comparison; repeatable (default: all)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to FILE as JSON")
    options, rest = parser.parse_known_args(arguments)

    def run() -> int:
        with reserved(options.json, ROOM, "--json") as write, tempfile.TemporaryDirectory() as folder:
            found = [compared(known[name], rest, Path(folder)) for name in options.only or known]
            write(json.dumps([one for one in found if isinstance(one, dict)], indent=1).encode())
        return max((one for one in found if isinstance(one, int)), default=0)

    return ended(run)


if __name__ == "__main__":
    sys.exit(main())
