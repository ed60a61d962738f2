"""Options and set-up of benchmarks and correctness tests; threads are set before anything heavy is imported."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from perf_tests.suite import process
from rl_impls.backends import BACKENDS, OPTIONAL, PACKAGES, BackendUnavailable
from rl_impls.common.checks import choose
from rlgauge.interrupts import by_sigterm
from rlgauge.workers import SIDE

IN_WORKER = SIDE in os.environ  # a gate worker, which has already set up the process and selected the tests


def words(text: str) -> tuple[str, ...]:
    """Split at commas; reject an empty text, as from an unset variable."""
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} has no names; give one or more, separated by commas")
    return found


def turn(config: pytest.Config) -> int:
    """Return the number of this pytest-xdist worker, or 0, and hide pytest-xdist from the processes it starts."""
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST_")]:
        del os.environ[name]
    worker: str = getattr(config, "workerinput", {}).get("workerid", "gw0")
    return int(worker.removeprefix("gw"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suite."""
    group = parser.getgroup("rlgauge")
    for name in ("workload", "op", "form", "backend"):
        given = {"action": "extend", "type": words, "default": []}
        group.addoption(f"--{name}", **given, metavar="NAME[,NAME]", help=f"select only these {name}s")
    group.addoption(
        "--axis", action="append", default=[], metavar="NAME=VALUE[,VALUE]", help="select only these values of an axis"
    )
    tier = "run this tier: gate, bench (includes gate) or full (default: gate in a gate run, else bench)"
    group.addoption("--tier", help=tier)
    threads = "set the number of threads of this process (default: all cores)"
    group.addoption("--threads", type=int, default=process.cores(), metavar="N", help=threads)
    group.addoption("--seed", type=int, default=0, metavar="N", help="set the seed of all inputs (default: 0)")


def pytest_configure(config: pytest.Config) -> None:
    """Set the threads and read the selection, so that a mistake ends the run before collection."""
    if IN_WORKER:
        return
    stack = ExitStack()
    config.add_cleanup(stack.close)
    stack.enter_context(by_sigterm())
    try:
        if not config.getoption("numprocesses", None):  # a process that only distributes tests needs no threads
            process.set_up(config.getoption("threads"), memory="default", turn=turn(config))
        from perf_tests.ops import required
        from perf_tests.selection import NothingMatchesError, selected, selection_of

        if config.getoption("seed") < 0:
            raise ValueError(f"--seed: {config.getoption('seed')} is out of range; choose 0 or more")
        for name in required():
            modules = {module for backend in BACKENDS.values() for module in backend.modules}
            choose("name in RL_PERF_REQUIRE", name, {*BACKENDS, *modules, *PACKAGES, *OPTIONAL})
        try:
            selected(selection_of(config))
        except NothingMatchesError as error:
            if config.getoption("gate_against") is None:
                pytest.exit(str(error), returncode=pytest.ExitCode.NO_TESTS_COLLECTED)
            raise
    except ImportError as error:
        if config.getoption("gate_against") is None:
            raise pytest.UsageError(str(error)) from error
        pytest.exit(f"head: {error}", returncode=2)
    except (ValueError, RuntimeError) as error:
        raise pytest.UsageError(str(error)) from error
    except Exception as error:
        if config.getoption("gate_against") is None:
            raise
        pytest.exit(f"head: importing the benchmarks failed: {type(error).__name__}: {error}", returncode=2)


@pytest.fixture(scope="session")
def threads(pytestconfig: pytest.Config) -> int:
    """Number of threads of this process."""
    return int(pytestconfig.getoption("threads"))


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """Seed of all inputs."""
    return int(pytestconfig.getoption("seed"))


@pytest.fixture(scope="session")
def unavailable() -> Callable[[BackendUnavailable], None]:
    """Skip a test whose backend is missing; fail it if ``RL_PERF_REQUIRE`` names the backend or a package it lacks."""
    from perf_tests.ops import unavailable

    return unavailable
