"""How much memory a side needs: ``python -m perf_tests.claims.resident WORKLOAD LABEL SEED``, a process of its own.

It has default malloc, as a user's process has. Two figures are printed, as JSON, in bytes: by how much a call raised
the most memory that the process had, and the most that it ever had.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from rlgauge.interrupts import by_sigterm

from ..suite import process
from ..suite.claim import ClaimsError, Side

FORGET = "5"  # written to clear_refs: the most that a process had is what it has


def status(name: str) -> int:
    """Return a figure of this process in bytes.

    Args:
        name: as in ``/proc/self/status``.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ClaimsError(f"/proc/self/status has no {name}: memory cannot be measured here")


def own_memory(side: Side, seed: int) -> dict[str, float]:
    """Return what this process needs for a side: ``resident`` and ``peak``, bytes.

    Args:
        side: of a claim.
        seed: of all that is drawn.
    """
    from .sides import ready

    with ready(side, seed) as here:
        before = status("VmHWM")
        Path("/proc/self/clear_refs").write_text(FORGET)
        started = status("VmRSS")
        here.sample()
        raised = status("VmHWM")
        return {"resident": float(max(raised - started, 4096)), "peak": float(max(before, raised))}


def memory(workload: str, sides: Sequence[Side], seed: int) -> dict[str, Mapping[str, float]]:
    """Return the same of sides by their labels, each in a fresh process, as many at a time as there are cores.

    Args:
        workload: of the sides.
        sides: of claims.
        seed: of all that is drawn.

    Raises:
        ClaimsError: a process failed; it has said why.
    """
    variables = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}  # of keep_memory
    command = [sys.executable, "-m", "perf_tests.claims.resident", workload]
    found: dict[str, Mapping[str, float]] = {}
    with by_sigterm():
        for first in range(0, len(sides), process.cores()):
            with ExitStack() as stack:
                started = {}
                for side in sides[first : first + process.cores()]:
                    words = [*command, side.label, str(seed)]
                    running = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=variables)
                    started[side.label] = stack.enter_context(running)
                    stack.callback(running.kill)
                for label, running in started.items():
                    out, _ = running.communicate()
                    if running.returncode:
                        why = f"the process whose memory is measured ended with {running.returncode}"
                        raise ClaimsError(f"{label}: {why}")
                    found[label] = json.loads(out.splitlines()[-1])
    return found


def main() -> None:
    """Print the memory of the side that the command line names."""
    workload, label, seed = sys.argv[1:]
    process.set_up(process.cores(), memory="default")
    from ..suite.claims import claims_of

    sides = {side.label: side for claim in claims_of(workload) for side in claim.sides}
    print(json.dumps(own_memory(sides[label], int(seed))))


if __name__ == "__main__":
    main()
