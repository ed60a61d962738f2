"""The worker processes of a pair as seen from the gate: start, requests, timeouts, shutdown."""

from __future__ import annotations

import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from . import interrupts
from .machine import SET_BY_HOOKS

SIDE = "RLGAUGE_GATE_SIDE"  # set to base or head in a worker
TEMPORARY = "RLGAUGE_TEMPORARY"  # set to the directory for a worker's tmp_path
GRACE = 1.0  # seconds to clean up after SIGTERM
POLL = 5.0  # seconds until a process without a reply is checked
TEARDOWN = 30.0  # seconds for the fixtures of a session to stop what they have started
PYTHON = Path(sys.executable)
NOT_INHERITED = (  # prefixes of variables that concern only the parent process
    "COV_", "COVERAGE_", "GLIBC_TUNABLES", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_TIMEOUT", "PYTEST_VERSION",
    "PYTEST_XDIST_", *SET_BY_HOOKS,
)  # fmt: skip
SHARED_GPU = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.4", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}  # both sides share it
COMPILER_CACHES = (
    "NUMBA_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",  # torch keeps an extension by its name: both sides would load the same one
    "WARP_CACHE_PATH",
)  # fmt: skip
# Programs from JAX's cache and new ones differ in speed by a few percent. By default, JAX keeps only those that compile
# for over a second, which could be one side's alone.
KEEP_ALL_PROGRAMS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}  # fmt: skip


class WorkerError(Exception):
    """A worker died, or did not reply in time; the message has its last line of error output."""


@dataclass(frozen=True)
class Side:
    """One of the two sides of a comparison.

    Attributes:
        name: ``base`` or ``head``.
        root: directory with the side's code and benchmarks.
        python: interpreter of its environment.
        worker: interpreter arguments that start a worker.
        variables: additional environment variables, including ``PYTHONPATH`` if that is not ``root``.
        memory: ``kept`` (malloc keeps freed memory) or ``default``.
        start: working directory of a worker; ``root`` by default.
        threads: number of threads and cores of its workers; those of the pair by default.
        inherited: environment variables of the user; those of this process by default.
    """

    name: str
    root: Path
    python: Path
    worker: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    memory: str = "kept"
    start: Path | None = None
    threads: int | None = None
    inherited: Mapping[str, str] | None = None

    def environment(self) -> dict[str, str]:
        """Return the environment of a fresh worker, with a hash seed and a random stack offset."""
        rng = random.SystemRandom()
        return {
            **SHARED_GPU,
            **{name: value for name, value in self.users().items() if not name.startswith(NOT_INHERITED)},
            "PYTHONPATH": str(self.root),
            "PYTHONHASHSEED": self.hash_seed(),
            "PYTHONDONTWRITEBYTECODE": "1",
            "RLGAUGE_PADDING": "x" * rng.randrange(1 << 12),
            SIDE: self.name,
            "PWD": str(self.start or self.root),  # a shell has set it to the user's directory
            # short for the paths of sockets, and outside the repository for tools that search upwards
            TEMPORARY: str(Path(tempfile.gettempdir(), f"rlgauge-{rng.randrange(1 << 32):08x}")),
            **self.variables,
        }

    def users(self) -> Mapping[str, str]:
        """Return the user's environment variables."""
        return os.environ if self.inherited is None else self.inherited

    def hash_seed(self) -> str:
        """Return a new hash seed, or 0 if the user has disabled random hashes, which tests may depend on."""
        return "0" if self.users().get("PYTHONHASHSEED") == "0" else str(random.SystemRandom().randrange(1 << 32))


def interpreter_options() -> list[str]:
    """Return this interpreter's options ``-O`` and ``-X``, which can affect speed."""
    options = [f"-{'O' * sys.flags.optimize}"] if sys.flags.optimize else []
    for name, value in sys._xoptions.items():
        options += ["-X", name if value is True else f"{name}={value}"]
    return options


def cache_variables(folder: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep each side's compile caches between pairs and separate from the other side's.

    `inherited` are the user's variables.

    Bytecode is stored beside its source, of which each side has a copy. A separate bytecode directory would lack the
    bytecode of installed packages.
    """
    compiled = {name: str(folder / "compiled" / name.partition("_")[0].lower()) for name in COMPILER_CACHES}
    flags = [*filter(None, [inherited.get("PYTENSOR_FLAGS")]), f"base_compiledir={folder / 'compiled' / 'pytensor'}"]
    compiled["PYTENSOR_FLAGS"] = ",".join(flags)  # PyTensor keeps a kernel by its name, too
    bytecode = {"PYTHONPYCACHEPREFIX": "", "PYTHONDONTWRITEBYTECODE": ""}  # empty means not set
    return compiled | KEEP_ALL_PROGRAMS | bytecode


class Worker(AbstractContextManager["Worker"]):
    """A fresh process of one side; it ends when its standard input closes, and therefore also if the gate is killed.

    Args:
        side: the side it runs.
        cores: ids of the cores to start on.
        threads: number of library threads, unless the side sets its own.
        limit: timeout of one request, in seconds.
    """

    def __init__(self, side: Side, cores: Sequence[int], threads: int, limit: float) -> None:
        self.side, self.limit = side, limit
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed at exit
        arguments = ",".join(map(str, cores)), str(side.threads or threads), side.memory
        environment = side.environment()
        self.temporary = environment[TEMPORARY]
        self.process = subprocess.Popen(
            [str(side.python), *side.worker, *arguments],
            cwd=side.start or side.root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            start_new_session=True,
        )
        self.buffer, self.owes = b"", False  # whether a request has no reply yet

    def ask(self, do: str, **arguments: Any) -> None:
        """Send a request: the name of a method of :class:`.worker.Requests` and its arguments."""
        assert self.process.stdin
        self.owes = True
        with suppress(BrokenPipeError):  # reply() reports what happened
            self.process.stdin.write((json.dumps({"do": do, **arguments}) + "\n").encode())
            self.process.stdin.flush()

    def reply(self) -> dict[str, Any]:
        """Wait for the reply; raise WorkerError if the process exits or exceeds its limit."""
        assert self.process.stdout
        deadline = time.monotonic() + self.limit
        while b"\n" not in self.buffer:
            ended = self.process.poll() is not None  # its children may keep the pipe open
            with interrupts.allow_interrupts():
                remaining = 0.0 if ended else deadline - time.monotonic()
                readable, _, _ = select.select([self.process.stdout], [], [], min(max(0.0, remaining), POLL))
            if not readable and ended:
                raise WorkerError(f"{self.side.name}: {self.how_it_ended()}{self.last_error_line()}")
            if not readable and time.monotonic() < deadline:
                continue
            if not readable:
                words = (
                    f"no reply within {self.limit:g} s; if listing the tests, preparing a test or two calls of it may "
                    "take longer, raise --limit or --gate-limit"
                )
                raise WorkerError(f"{self.side.name}: {words}{self.last_error_line()}")
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                raise WorkerError(f"{self.side.name}: {self.how_it_ended()}{self.last_error_line()}")
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\n")
        self.owes = False
        reply: dict[str, Any] = json.loads(line)
        return reply

    def how_it_ended(self) -> str:
        """Describe how the process ended."""
        code = self.process.wait()
        if code >= 0:
            return f"the process of the tests ended with code {code}"
        hint = ", perhaps because both sides together need too much memory" if code == -signal.SIGKILL else ""
        return f"the process of the tests was killed by {signal.Signals(-code).name}{hint}"

    def last_error_line(self) -> str:
        """Return ``; `` followed by the last line of standard error; if possible, one that is not indented.

        If it is pytest's count of errors, return the first of these instead.
        """
        self.errors.seek(0)
        lines = [line for line in self.errors.read().decode(errors="replace").split("\n") if line.strip()]
        first = next((line for line in lines if line.startswith("E   ")), None)
        if first and re.match(r"=* ?\d+ errors? in ", lines[-1]):
            return f"; {first[1:].strip()}"
        lines = [line for line in lines if not line.startswith("  ")] or lines  # indented lines follow a usage error
        last = re.sub(r"^pytest\S*: error: ", "", lines[-1].strip()) if lines else ""
        return f"; {last}" if last else ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close standard input, wait a limited time for the process to end, and then terminate it by force."""
        assert self.process.stdout
        try:
            with suppress(subprocess.TimeoutExpired):
                self.close_stdin()
                hurry = isinstance(error, KeyboardInterrupt) or (error is not None and self.owes)
                self.process.wait(GRACE if hurry else TEARDOWN)  # a waiting test tears down its fixtures
        finally:
            self.end_group()
            self.process.stdout.close()
            self.errors.close()
            shutil.rmtree(self.temporary, ignore_errors=True)

    def close_stdin(self) -> None:
        """Close standard input, which ends the process."""
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def end_group(self) -> None:
        """Terminate the process and all its children: SIGTERM first, SIGKILL if that does not help.

        After SIGTERM compilers can remove half-written files, and shared memory is released.
        """
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
            os.killpg(self.process.pid, signal.SIGCONT)  # children, which are stopped between requests
            end = time.monotonic() + GRACE
            while time.monotonic() < end:
                self.process.poll()  # reap it, or it stays in its group
                os.killpg(self.process.pid, 0)
                time.sleep(0.005)
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def ask_both(workers: Sequence[Worker], do: str, **arguments: Any) -> list[dict[str, Any]]:
    """Send one request to all workers at once, and wait for all replies."""
    for worker in workers:
        worker.ask(do, **arguments)
    return [worker.reply() for worker in workers]
