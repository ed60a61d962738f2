"""Threads, cores and memory of a timing process."""

import os

import pytest

from perf_tests.suite import process
from rlgauge.process import THREAD_VARIABLES

from .commands import python

FAULTS = """
import resource, subprocess, sys, threading
from perf_tests.suite import process
from rlgauge.process import THREAD_VARIABLES
if sys.argv[1] in ("kept", "started"):
    process.set_up(1)
if sys.argv[1] == "started":
    sys.exit(subprocess.run([sys.executable, "-c", sys.argv[2], "as it is", "", sys.argv[3]]).returncode)
import numpy as np
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(int(sys.argv[3]), np.float32)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def several():
    found.extend(faults() for _ in range(4))
found = []
several()
thread = threading.Thread(target=several)
thread.start()
thread.join()
print(max(found[1:4] + found[5:]))
"""


def page_faults(how, numbers=16_000_000):
    return int(python("-c", FAULTS, how, FAULTS, str(numbers), GLIBC_TUNABLES="").stdout)


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(16_000_000, id="64 MB"),
        pytest.param(2**29 + 1_000_000, id="more than 2 GiB", marks=pytest.mark.slow),
    ],
)
def test_timing_process_and_its_children_keep_freed_memory(numbers):
    assert page_faults("kept", numbers) < 50
    assert page_faults("started", numbers) < 50


def test_other_processes_return_freed_memory_to_the_kernel():
    assert page_faults("as it is") > 200  # for 64 MB, possibly in huge pages


THREADS = """
import os, sys
from rlgauge.process import THREAD_VARIABLES, set_up
set_up(1, "default", int(sys.argv[1]))
print([os.environ[name] for name in THREAD_VARIABLES], *os.sched_getaffinity(0), os.environ["GLIBC_TUNABLES"])
"""


@pytest.mark.parametrize("turn", [0, 1])
def test_processes_side_by_side_have_their_own_threads_and_cores(turn):
    cores = sorted(os.sched_getaffinity(0))
    found = python("-c", THREADS, turn, GLIBC_TUNABLES="", **dict.fromkeys(THREAD_VARIABLES, "7")).stdout
    assert found == f"{['1'] * len(THREAD_VARIABLES)} {cores[turn % len(cores)]} \n"


@pytest.mark.parametrize("threads", [0, 10_000])
def test_more_threads_than_cores_are_an_error(threads):
    with pytest.raises(ValueError, match=f"^threads: {threads} is out of range; choose 1 to {process.cores()}"):
        process.set_up(threads)


def test_setting_up_after_torch_was_imported_is_an_error():
    done = python("-c", "import sys; sys.modules['torch'] = sys; from rlgauge.process import set_up; set_up(1)")
    assert "RuntimeError: torch imported before the number of threads was set" in done.stderr
