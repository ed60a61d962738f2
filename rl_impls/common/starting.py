"""How processes are started: as new ones, or forked from one that has already imported what all of them need."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from multiprocessing import forkserver
from multiprocessing.util import get_temp_dir
from pathlib import Path

THREAD_VARIABLES = "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"
FOLDER = "RL_IMPLS_FORKED_FROM"  # variable of the folder of the socket by which they are asked for
GAMES = "rl_impls.common.games_loaded"  # for who plays Procgen
OF_GROUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP  # may come to the whole group; for the first process alone
ROOT = Path(__file__).parents[2]  # where these modules are imported from


@contextlib.contextmanager
def environment(values):
    """Return a context in which processes are started with values in their environment.

    Args:
        values: texts by the names of variables.
    """
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def threads_of_started(threads):
    """Return a context in which processes are started whose libraries have so many threads.

    They read it when they are imported, NumPy's as soon as the process has its arguments.

    Args:
        threads: of a library in a process.
    """
    return environment(dict.fromkeys(THREAD_VARIABLES, str(threads)))


def context_of(threads, needs=()):
    """Return the context of :mod:`multiprocessing` in which processes are started.

    To import torch takes a core more than a second. Where there are more processes than cores, which have a thread
    each, one does it for all, and they are forked from it; it ends with this process. The first who asks says what it
    imports.

    Args:
        threads: of a library in each process.
        needs: names of modules that each would import: torch, what its optimisers import, :data:`GAMES`.
    """
    if threads > 1 or not needs:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rl_impls.common.forked_from", *needs])
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    safe = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}  # not what the folder has that it is started in
    with threads_of_started(1), environment(safe | {FOLDER: get_temp_dir()}):
        try:
            forkserver.ensure_running()
        except OSError:  # the folder of temporary files has a longer path than a socket may have
            return multiprocessing.get_context("spawn")
    return context


def begin(cores):
    """Set the signal handlers and the cores of a new process.

    The first process may still need it, and ends it.

    Args:
        cores: that the first process has.
    """
    for number in OF_GROUP:
        signal.signal(number, signal.SIG_IGN)
    os.sched_setaffinity(0, cores)
