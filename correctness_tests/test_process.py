"""What a timing process sets before anything is imported."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from perf_tests.suite import process
from rlgauge import process as plain
from rlgauge.process import THREAD_VARIABLES

from .commands import ROOT, python

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


def page_faults(how, monkeypatch, numbers=16_000_000):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    return int(python("-c", FAULTS, how, FAULTS, str(numbers)).stdout)


@pytest.mark.parametrize("numbers", [16_000_000, 2**29 + 1_000_000], ids=["64 MB", "more than 2 GiB"])
def test_large_arrays_are_not_given_back_to_the_kernel(numbers, monkeypatch):
    assert page_faults("kept", monkeypatch, numbers) < 50
    assert page_faults("started", monkeypatch, numbers) < 50, "a process that a timing one has started gives it back"


def test_large_arrays_are_given_back_by_a_process_that_was_told_nothing(monkeypatch):
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


@pytest.fixture
def prepared(monkeypatch):
    """Set up a process that has four cores and has imported these. -> its variables, its cores, what malloc is told"""

    def run(*how, imported=(), library="glibc"):
        variables, kept, placed = {"OMP_NUM_THREADS": "9"}, [], []
        calls = SimpleNamespace(mallopt=lambda *option: kept.append(option)) if library == "glibc" else object()
        with monkeypatch.context() as patched:
            patched.setattr(plain.os, "environ", variables)
            patched.setattr(plain.os, "sched_getaffinity", lambda which: {7, 2, 5, 3})
            patched.setattr(plain.os, "sched_setaffinity", lambda which, cores: placed.append((which, list(cores))))
            patched.setattr(plain.ctypes, "CDLL", lambda name: calls)
            patched.setattr(plain, "sys", SimpleNamespace(modules=dict.fromkeys(imported)))
            plain.set_up(*how)
        return variables, placed, kept

    return run


THREE_KEPT = [(-4, 0), (-8, 1), (-1, -1)]
TUNED = "glibc.malloc.mmap_max=0:glibc.malloc.arena_max=1:glibc.malloc.trim_threshold=18446744073709551615"


def test_a_process_has_its_threads_and_cores_and_keeps_memory_unless_it_is_told_otherwise(prepared):
    names = "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"
    threads = dict.fromkeys(names, "2")
    assert prepared(2) == (threads | {"GLIBC_TUNABLES": TUNED}, [(0, [2, 3])], THREE_KEPT)
    assert prepared(2, "kept") == prepared(2)
    assert prepared(2, "default") == (threads, [(0, [2, 3])], [])
    assert prepared(2, library="another")[::2] == (threads, [])


@pytest.mark.parametrize(
    ("threads", "turn", "cores"),
    [(1, 0, [2]), (1, 3, [7]), (1, 4, [2]), (2, 1, [5, 7]), (2, 2, [2, 3]), (3, 1, [7, 2, 3]), (4, 1, [2, 3, 5, 7])],
)
def test_processes_side_by_side_have_cores_of_their_own_as_long_as_there_are_some(prepared, threads, turn, cores):
    assert prepared(threads, "default", turn)[1] == [(0, cores)]


@pytest.mark.parametrize(
    ("threads", "imported", "named"),
    [
        (1, ["jax", "torch"], "torch and jax"),
        (4, ["jax"], "jax"),
        (3, ["numpy"], "numpy"),
        (3, ["numpy", "torch"], "torch and numpy"),
        (4, ["numpy"], None),
        (1, ["scipy"], None),
    ],
)
def test_what_was_imported_before_and_has_its_threads_already_is_refused(prepared, threads, imported, named):
    if named is None:
        prepared(threads, imported=imported)
    else:
        with pytest.raises(RuntimeError, match=f"^{named} imported before the number of threads was set$"):
            prepared(threads, imported=imported)


def test_threads_and_memory_that_are_none_of_those_there_are_are_refused(prepared):
    assert len(prepared(4)[1][0][1]) == 4
    for threads in (0, 5):
        with pytest.raises(
            ValueError, match=f"^threads: got {threads}, wanted 1 to 4, the cores this process may use$"
        ):
            prepared(threads)
    with pytest.raises(ValueError, match=r"^memory: got 'lost', wanted kept or default$"):
        prepared(1, "lost")


def test_a_process_counts_the_cores_that_it_may_use(monkeypatch):
    monkeypatch.setattr(plain.os, "sched_getaffinity", lambda which: {7, 2, 5} if which == 0 else set())
    assert plain.cores() == 3


def test_how_idle_threads_wait_is_said_with_the_variable_or_as_the_default(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    assert plain.waiting_policy() == "passive"
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert plain.waiting_policy() == "the library's default (OMP_WAIT_POLICY is not set)"


COMPILED = {
    "TORCHINDUCTOR_CACHE_DIR": str(process.CACHE / "inductor"),
    "JAX_COMPILATION_CACHE_DIR": str(process.CACHE / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


def test_compilers_keep_what_they_make_in_the_cache_unless_the_user_has_said_where(monkeypatch):
    asked = []
    monkeypatch.setattr(process.process, "set_up", lambda *of: asked.append(of))
    for name in COMPILED:
        monkeypatch.setenv(name, "of the user")
    process.set_up(2, "default", 3)
    assert {name: os.environ[name] for name in COMPILED} == dict.fromkeys(COMPILED, "of the user")
    for name in COMPILED:
        monkeypatch.delenv(name)
    process.set_up(1)
    assert {name: os.environ[name] for name in COMPILED} == COMPILED
    assert asked == [(2, "default", 3), (1, "kept", 0)]
    assert process.CACHE == ROOT / ".cache"
