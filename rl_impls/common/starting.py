"""How worker processes are started: spawned, or forked from a server that has imported the heavy modules."""

import contextlib
import multiprocessing
import os
import signal
from multiprocessing import forkserver
from multiprocessing.util import get_temp_dir
from pathlib import Path

THREAD_VARIABLES = "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC"  # XLA reads the last one
PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"  # whether JAX takes most of a GPU's memory at once
FOLDER = "RL_IMPLS_FORKED_FROM"  # environment variable with the folder of the fork server's socket
GAMES = "rl_impls.common.games_loaded"  # preloaded for processes that play Procgen
OF_GROUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP  # may reach the whole group; only the parent handles them
ROOT = Path(__file__).parents[2]  # import path of this package


@contextlib.contextmanager
def environment(values):
    """Set environment variables within the context, for processes started there."""
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
    """Return a context in which started processes get `threads` threads per library; None changes nothing.

    Libraries read the variables when they are imported, NumPy as soon as the process unpickles its arguments. The
    processes may share a GPU, so JAX takes memory as they need it.
    """
    if threads is None:
        return environment({})
    on_demand = {PREALLOCATE: os.environ.get(PREALLOCATE, "false")}
    return environment(dict.fromkeys(THREAD_VARIABLES, str(threads)) | on_demand)


def context_of(threads, needs=()):
    """Return the :mod:`multiprocessing` context for starting processes.

    Importing torch takes more than a second of CPU time. If each process has one thread, as when there are at least as
    many processes as cores, a fork server imports torch once for all of them. The server ends with this process. The
    first call decides which modules it imports.

    Args:
        threads: threads per library in each process; may be None if `needs` is empty.
        needs: modules to preload, for example torch, modules that its optimisers import, or :data:`GAMES`.
    """
    if not needs or threads > 1:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rl_impls.common.forked_from", *needs])
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    safe = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}  # do not import from the working directory
    with threads_of_started(1), environment(safe | {FOLDER: get_temp_dir()}):
        try:
            forkserver.ensure_running()
        except OSError:  # the path of the temporary folder is too long for a socket
            return multiprocessing.get_context("spawn")
    return context


def begin(cores):
    """Ignore group signals and set the CPU affinity of a new process.

    The parent may still need the process when the signal arrives, and stops it itself.
    """
    for number in OF_GROUP:
        signal.signal(number, signal.SIG_IGN)
    os.sched_setaffinity(0, cores)
