"""What all correctness tests share."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from perf_tests.suite.exporter import parse_once
from rl_impls import backends

from .neuron_standin import INSTALL, install_xla

FOLDER = Path(__file__).parent
WORKLOADS = frozenset(backends.workloads())
OF_NONE = "gate"  # the folder of tests that are of no workload

settings.register_profile("fixed", max_examples=30, derandomize=True, database=None, deadline=None)
settings.register_profile("free", deadline=None, print_blob=True)


def pytest_configure(config):
    """The same examples in every run, unless another profile is asked for; Ctrl-C reaches what tests start."""
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("fixed")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's job in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def workloads_of(item):
    """The workloads that a test is of: by its folder, or by the variant, case, name or path that it is given."""
    folder = item.path.relative_to(FOLDER).parts[0]
    if folder in WORKLOADS:
        return {folder}
    given = item.callspec.params.values() if hasattr(item, "callspec") and folder != OF_NONE else ()
    cases = {getattr(getattr(value, "case", value), "workload", None) for value in given}
    names = {part for value in given if isinstance(value, str) for part in re.split(r"[./]", value)}
    return (cases | names) & WORKLOADS


def pytest_ignore_collect(collection_path, config):
    """With ``--workload``, import no module of a folder of which no test is kept."""
    wanted = set(config.getoption("workload"))
    if wanted and collection_path.parent == FOLDER and collection_path.name in {*WORKLOADS - wanted, OF_NONE}:
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """With ``--workload``, keep that workload's tests: those in its folder, and the general ones that are given it.

    What runs alone is slow.
    """
    for item in items:
        if item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.slow)
    wanted = set(config.getoption("workload"))
    if wanted:
        kept = [item for item in items if FOLDER not in item.path.parents or workloads_of(item) & wanted]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept


@pytest.fixture(scope="session", autouse=True)
def exporter_parses_its_operators_once():
    """Most of the time of a small net's export is spent on that."""
    parse_once()


@pytest.fixture(params=INSTALL)
def stand_in(request, monkeypatch):
    """A stand-in for each line of torch-neuronx. -> what it has compiled"""
    return INSTALL[request.param](monkeypatch)


@pytest.fixture
def xla(monkeypatch):
    """The stand-in for the XLA line of torch-neuronx. -> what it has traced"""
    return install_xla(monkeypatch)


@pytest.fixture(scope="module")
def one_thread():
    """Two threads of so small a product wait for each other most of the time where others use the cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
