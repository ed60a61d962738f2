"""What a timing process sets before anything is imported."""

from __future__ import annotations

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
    sys.exit(subprocess.run([sys.executable, "-c", sys.argv[2], "as it is", ""]).returncode)
import numpy as np
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(16_000_000, np.float32)
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


def page_faults(how, monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    return int(python("-c", FAULTS, how, FAULTS).stdout)


def test_large_arrays_are_not_given_back_to_the_kernel(monkeypatch):
    assert page_faults("kept", monkeypatch) < 50
    assert page_faults("started", monkeypatch) < 50, "a process that a timing one has started gives memory back"
    assert page_faults("as it is", monkeypatch) > 200  # for 64 MB, in huge pages where the kernel has them


THREADS = """
import os
from rlgauge.process import THREAD_VARIABLES, set_up
set_up(1)
print([os.environ[name] for name in THREAD_VARIABLES], len(os.sched_getaffinity(0)))
"""


def test_the_number_of_threads_is_that_which_is_asked_for_whatever_the_user_has_set(monkeypatch):
    for name in THREAD_VARIABLES:
        monkeypatch.setenv(name, "7")
    assert python("-c", THREADS).stdout == f"{['1'] * len(THREAD_VARIABLES)} 1\n"


@pytest.mark.parametrize("threads", [0, -1, 10_000])
def test_threads_are_those_there_are(threads):
    with pytest.raises(ValueError, match=f"^threads: got {threads}, wanted 1 to {process.cores()}"):
        process.set_up(threads)
