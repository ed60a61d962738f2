"""Time the benchmarks, one process per backend, and merge the results.

The thread pools of several libraries disturb each other within one process, so ``make bench`` runs pytest once for each
backend.

    python -m perf_tests.run --json .cache/bench.json --tier gate --workload pirl
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rl_impls import backends
from rlgauge.command import ended
from rlgauge.files import reserved

from .report.table import text_tables, warnings, wrapped
from .rows import machine_of
from .suite import process
from .suite.limits import MEASURED, here, raise_limits

ROOT = Path(__file__).parents[1]
ROOM = 64 << 20  # maximum size of the merged JSON in bytes
EMPTY = (0, 5)  # pytest's exit codes for "passed" and "no tests collected"


def pytest_of(backend: str, options: argparse.Namespace, limits: Mapping[str, float], result: Path) -> int:
    """Run the benchmarks of one backend in a new process; return pytest's exit code."""
    paths = [] if any("::" in argument for argument in options.arguments) else ["perf_tests"]
    command = [sys.executable, "-m", "pytest", *paths, "--benchmark-only", "--quiet", "-p", "no:cacheprovider"]
    command += [f"--backend={backend}", f"--threads={options.threads}", f"--benchmark-json={result}"]
    environment = {**os.environ, MEASURED: json.dumps(limits)}
    if backends.get(backend).device == "cpu":
        environment["JAX_PLATFORMS"] = "cpu"  # otherwise JAX reserves most of the GPU's memory
    with subprocess.Popen([*command, *options.arguments], cwd=ROOT, env=environment) as child:
        try:
            return child.wait()
        except BaseException:
            child.terminate()  # SIGTERM lets benchmarks stop their processes
            raise


def merged(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge several pytest-benchmark results into one, with the metadata of the first."""
    first, *others = results
    return {**first, "benchmarks": [b for result in (first, *others) for b in result["benchmarks"]]}


def run(options: argparse.Namespace) -> int:
    """Time all backends, write the merged JSON, and print the tables.

    Return pytest's highest exit code, where 0 means passed; nothing selected counts as passed if another backend ran.
    """
    codes, results, limits = [], [], here(options.threads)
    with reserved(options.json, ROOM, "--json") as write, tempfile.TemporaryDirectory() as folder:
        for name in options.backend or backends.BACKENDS:
            if missing := backends.get(name).missing():
                print(f"{name}: not measured: {missing}", flush=True)
                continue
            print(f"{name}:", flush=True)
            result = Path(folder) / f"{name}.json"
            codes.append(pytest_of(name, options, limits, result))
            if result.exists() and result.stat().st_size:
                results.append(json.loads(result.read_text()))
        if not results:
            print("Nothing was measured; the reasons are above.")
            return max([code for code in codes if code not in EMPTY], default=5)
        found = merged(results)
        raise_limits(found, here(options.threads))  # other programs may have lowered the first measurement
        write(json.dumps(found, indent=1).encode())
    rows = [benchmark["extra_info"] for benchmark in found["benchmarks"]]
    print(f"\n{text_tables(rows)}")
    for words in warnings(machine_of(found), rows):
        print(f"\n{wrapped(words)}")
    return max([code for code in codes if code not in EMPTY], default=0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and time the benchmarks; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m perf_tests.run",
        description=__doc__.splitlines()[0],
        epilog="All other arguments go to pytest, for example: python -m perf_tests.run --tier gate --workload pirl",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the merged results of pytest-benchmark to FILE"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=process.cores(),
        metavar="N",
        help="use N threads per process (default: all cores)",
    )
    parser.add_argument(
        "--backend",
        action="extend",
        type=lambda text: text.split(","),
        metavar="NAME[,NAME]",
        help="time only these backends (default: all)",
    )
    options, rest = parser.parse_known_args(arguments)
    options.arguments = rest
    if not 1 <= options.threads <= process.cores():
        wanted = f"choose 1 to {process.cores()}, the cores this process may use"
        parser.error(f"--threads: {options.threads} is out of range; {wanted}")
    try:
        options.backend = [backends.resolve(name) for name in options.backend or ()]
    except ValueError as error:
        parser.error(f"--backend: {error}")
    return ended(lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
