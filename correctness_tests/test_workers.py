"""Worker processes: arguments, niceness, and a worker that dies before it has read its arguments."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from rl_impls.common.shared_arrays import SharedArrays
from rl_impls.common.workers import LIVES, Workers

LARGE = 1_000_000  # bytes, more than a pipe buffers
UNGUARDED = f"""
from rl_impls.common.workers import Workers

workers = Workers(1, dict, lambda index, life: ({{"large": bytes({LARGE})}},), 1)
workers.tell([("copy",)])
workers.answers()
"""


class Holder:
    def __init__(self, index, array, shared, lock):
        self.index, self.array, self.shared, self.lock = index, array, shared, lock

    def report(self):
        with self.lock:
            self.shared["sums"][self.index] = self.array.sum()
        return self.index, len(self.array), opened("rl_impls.handed"), opened("rl_impls")


class Threaded:
    """A worker that reports the initial priority of its process, and the current ones of its threads."""

    def __init__(self):
        self.before, self.going = os.getpriority(os.PRIO_PROCESS, 0), threading.Event()
        threading.Thread(target=self.going.wait, daemon=True).start()

    def priorities(self):
        threads = map(int, os.listdir("/proc/self/task"))
        return self.before, sorted({os.getpriority(os.PRIO_PROCESS, thread) for thread in threads}), os.getpid()


class Busy:
    """A worker that computes in turns of 0.05 seconds of CPU time, each followed by `rest` seconds without any."""

    def compute(self, turns, rest):
        for _ in range(turns):
            end = time.process_time() + 0.05
            while time.process_time() < end:
                pass
            time.sleep(rest)
        return "done"


def opened(memory):
    """Return how many descriptors of shared memory with this name are open."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor that reads the directory
            found.append(os.readlink(path))
    return sum(f"/memfd:{memory} " in name for name in found)


def test_large_arrays_shared_memory_and_locks_reach_each_worker():
    arrays = [np.full(LARGE, index, np.uint8) for index in range(2)]
    shared, lock = SharedArrays({"sums": ((2,), np.int64)}), get_context("spawn").Lock()
    workers = Workers(2, Holder, lambda index, life: (index, arrays[index], shared, lock), 1)
    with contextlib.closing(workers):
        workers.tell([("report",)] * 2)
        (first, second) = workers.answers()
        assert (first, second) == ((0, LARGE, 0, 1), (1, LARGE, 0, 1))  # the mapping has a descriptor of its own
        assert shared["sums"].tolist() == [0, LARGE]
        assert opened("rl_impls.handed") == 0


def test_replaced_workers_are_numbered_and_have_the_niceness_in_all_threads():
    ours, lives = os.getpriority(os.PRIO_PROCESS, 0), []

    def arguments(index, life):
        lives.append(life)
        return ()

    workers = Workers(1, Threaded, arguments, 1, niceness=5)
    with contextlib.closing(workers):
        for replaced in range(3):
            workers.tell([("priorities",)])
            [(before, after, process)] = workers.answers()
            assert (before, after) == (ours, [min(ours + 5, 19)])
            assert workers.replaced == replaced
            assert lives == list(range(replaced + 1))
            os.kill(process, signal.SIGKILL)
    assert os.getpriority(os.PRIO_PROCESS, 0) == ours


@pytest.mark.parametrize("rest", [0.0, 0.1], ids=["all the time", "a third of the time"])
def test_a_worker_that_computes_for_longer_than_the_timeout_is_not_silent(rest):
    workers = Workers(1, Busy, lambda index, life: (), 1)
    with contextlib.closing(workers):
        for turns in (0, 24):
            workers.tell([("compute", turns, rest)])
            assert workers.answers() == ["done"]
            workers.timeout = 1  # only now, as a process may take longer to start


def test_script_without_a_main_guard_is_an_error(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    died = rf"actor 0 died {LIVES + 1} times before it had answered; the last time it exited with code 1$"
    assert re.search(f"WorkersEnded: {died}", done.stderr.splitlines()[-1])
    assert "freeze_support" in done.stderr  # Python's message explains the mistake
