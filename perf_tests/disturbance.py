"""What else the machine did while a sample was taken: who took the cores from it, and for how long."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TICK = 1 / os.sysconf("SC_CLK_TCK")
STOLEN = 7  # column of /proc/stat: time that the hypervisor gave to others


@dataclass(frozen=True)
class Reading:
    """Counters of this process and of the machine; what a sample was disturbed by is the difference of two.

    Attributes:
        cpu: seconds that this process's threads ran.
        waited: seconds that they were ready to run and something else ran.
        switches: how often they were made to stop.
        stolen: seconds that the hypervisor gave to other machines, in steps of 10 ms.
        busy: seconds that all cores ran, in the same steps.
    """

    cpu: float
    waited: float
    switches: int
    stolen: float
    busy: float

    def since(self, before: Reading) -> dict[str, Any]:
        """Return what happened since an earlier reading."""
        earlier = asdict(before)
        return {name: value - earlier[name] for name, value in asdict(self).items()}


def read() -> Reading:
    """Return the counters as they are now."""
    stolen, busy = machine()
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu, switches = used.ru_utime + used.ru_stime, used.ru_nivcsw
    return Reading(cpu, waited(), switches, stolen, busy)


def machine() -> tuple[float, float]:
    """Return the seconds that were stolen, and that all cores were busy, since the machine started."""
    with suppress(OSError, ValueError):
        user, nice, system, _, _, irq, softirq, steal, *_ = map(int, _first_line("/proc/stat").split()[1:])
        return steal * TICK, (user + nice + system + irq + softirq) * TICK
    return 0.0, 0.0


def waited() -> float:
    """Return the seconds that threads of this process were ready to run and did not; 0.0 where no kernel says so."""
    total = 0
    for thread in os.listdir("/proc/self/task") if Path("/proc/self/task").exists() else ():
        with suppress(OSError, ValueError, IndexError):  # it just ended
            total += int(_first_line(f"/proc/self/task/{thread}/schedstat").split()[1])
    return total * 1e-9


def _first_line(path: str) -> str:
    with open(path) as file:
        return file.readline()
