"""What else the machine did while a sample was taken: who took the cores from it, and for how long."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

TICK = 1 / os.sysconf("SC_CLK_TCK")
TASKS, STAT = "/proc/self/task", "/proc/stat"
PACED = 4000  # additions


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
        """Return what happened since an earlier reading.

        Args:
            before: the earlier one.
        """
        earlier = asdict(before)
        return {name: value - earlier[name] for name, value in asdict(self).items()}


def read() -> Reading:
    """Return the counters as they are now."""
    stolen, busy = machine()
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu, switches = used.ru_utime + used.ru_stime, used.ru_nivcsw
    return Reading(cpu, THREADS.waited(), switches, stolen, busy)


def machine() -> tuple[float, float]:
    """Return the seconds that were stolen, and that all cores were busy, since the machine started."""
    with suppress(OSError, ValueError), open(STAT) as file:
        user, nice, system, _, _, irq, softirq, steal, *_ = map(int, file.readline().split()[1:])
        return steal * TICK, (user + nice + system + irq + softirq) * TICK
    return 0.0, 0.0


def pace() -> float:
    """Return the seconds that a fixed piece of Python takes now.

    On a virtual machine another one may have the other half of a core: no counter here tells, and all takes up to twice
    as long.
    """
    start, total = time.perf_counter(), 0
    for number in range(PACED):
        total += number
    return time.perf_counter() - start


class Threads:
    """The threads of this process, whose files stay open: there may be hundreds, and to open one takes longest."""

    def __init__(self) -> None:
        self.files: list[int] = []
        self.count = -1

    def waited(self) -> float:
        """Return the seconds that they were ready to run and did not; 0.0 where no kernel says so."""
        with suppress(OSError, ValueError, IndexError):
            for _ in range(3):
                if (count := os.stat(TASKS).st_nlink) != self.count:
                    self.open(count)
                with suppress(ProcessLookupError):  # one ended since
                    return 1e-9 * sum(int(os.pread(file, 64, 0).split()[1]) for file in self.files)
                self.count = -1
        return 0.0

    def open(self, count: int) -> None:
        """Open the file of each thread that is there.

        Args:
            count: links of the folder of threads, two more than there are threads.
        """
        while self.files:
            os.close(self.files.pop())
        for thread in os.listdir(TASKS):
            with suppress(OSError):  # it just ended
                self.files.append(os.open(f"{TASKS}/{thread}/schedstat", os.O_RDONLY))
        self.count = count


THREADS = Threads()
