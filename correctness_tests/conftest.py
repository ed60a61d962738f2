"""Selection by workload and fixtures for all correctness tests."""

import contextlib
import os
import re
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from perf_tests.suite.exporter import parse_once
from rl_impls import backends

from .neuron_standin import INSTALL, install_xla
from .waiting import at_most

FOLDER = Path(__file__).parent
WORKLOADS = frozenset(backends.workloads())
NO_WORKLOAD = "gate"  # directory of tests that belong to no workload
ABSENT = {name for name in ("torch", "procgen") if find_spec(name) is None}  # not built for every Python
LIMIT, SLOW_LIMIT = 300, 3600  # seconds for a test; other processes may use the cores

# Compiling takes most of the time of small JAX programs; test_against_reference.py compiles as the benchmarks do.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

settings.register_profile("fixed", max_examples=30, derandomize=True, database=None, deadline=None)
settings.register_profile("free", deadline=None, print_blob=True)


def pytest_configure(config):
    """Use fixed hypothesis examples unless a profile is given, and let Ctrl-C reach the processes of the tests."""
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("fixed")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)


def workloads_of(item):
    """Return the workloads of a test, by its directory or by its parameters: benchmarks, cases, names or paths."""
    folder = item.path.relative_to(FOLDER).parts[0]
    if folder in WORKLOADS:
        return {folder}
    given = item.callspec.params.values() if hasattr(item, "callspec") and folder != NO_WORKLOAD else ()
    cases = {getattr(getattr(value, "case", value), "workload", None) for value in given}
    names = {part for value in given if isinstance(value, str) for part in re.split(r"[./]", value)}
    return (cases | names) & WORKLOADS


def pytest_ignore_collect(collection_path, config):
    """With ``--workload``, do not import the tests of other workloads and of the gate."""
    wanted = set(config.getoption("workload"))
    if wanted and collection_path.parent == FOLDER and collection_path.name in {*WORKLOADS - wanted, NO_WORKLOAD}:
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """With ``--workload``, keep the tests in its directory and the general tests that have it as a parameter.

    Also mark the tests that run alone as slow.
    """
    for item in items:
        if item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.slow)
    wanted = set(config.getoption("workload"))
    if wanted:
        kept = [item for item in items if FOLDER not in item.path.parents or workloads_of(item) & wanted]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept


@contextlib.contextmanager
def skip_without_packages():
    """Skip a test that fails because a package in ``ABSENT`` is missing, unless ``RL_PERF_REQUIRE`` names it."""
    try:
        yield
    except (ImportError, backends.BackendUnavailable, SystemExit) as error:
        from perf_tests.ops import required  # imports NumPy, so not before pytest sets its threads

        if not any(name in str(error) for name in ABSENT - {*required()}):
            raise
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    with skip_without_packages():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    with skip_without_packages():
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def parse_exporter_operators_once():
    """Save most of the time of exporting a small net."""
    parse_once()


@pytest.fixture(autouse=True)
def limited(request):
    """Limit the time of each test, as some would wait forever for threads, processes or sockets."""
    with at_most(SLOW_LIMIT if request.node.get_closest_marker("slow") else LIMIT, request.node.name):
        yield


@pytest.fixture(params=INSTALL)
def stand_in(request, monkeypatch):
    """Install a stand-in for each version of torch-neuronx; return the list of its compilations."""
    return INSTALL[request.param](monkeypatch)


@pytest.fixture
def xla(monkeypatch):
    """Install the stand-in for the XLA version of torch-neuronx; return the list of its traces."""
    return install_xla(monkeypatch)


@pytest.fixture(scope="session")
def needed(unavailable):
    """Return a function that calls a check, such as ``backend.require``, and skips or fails the test if it fails."""

    def need(check, *args):
        try:
            check(*args)
        except backends.BackendUnavailable as error:
            unavailable(error)

    return need


@pytest.fixture
def installed(needed):
    """Skip or fail a test where Procgen is not installed."""
    from rl_impls.common.procgen_env import check_installed  # imports NumPy, so not before pytest sets its threads

    needed(check_installed)


@pytest.fixture(scope="session")
def torch():
    """Import torch, without which the test is skipped."""
    import torch

    return torch


@pytest.fixture(scope="module")
def one_thread():
    """Use one torch thread: on busy cores, two threads of a small product mostly wait for each other."""
    if "torch" in ABSENT:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", autouse=True)
def one_thread_in_workloads(request):
    """Use one torch thread in the tests of a workload."""
    if request.path.relative_to(FOLDER).parts[0] in WORKLOADS:
        request.getfixturevalue("one_thread")
