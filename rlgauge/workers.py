"""The processes of a pair, seen from the gate: started, asked, timed out, ended."""

from __future__ import annotations

import json
import os
import random
import select
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

SIDE = "RLGAUGE_GATE_SIDE"  # set to base or head in a worker
GRACE = 1.0  # seconds in which what is told to end may tidy up
PYTHON = Path(sys.executable)
COMPILED = "NUMBA_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR"


class WorkerError(Exception):
    """A worker died, or did not answer in time; the message holds its last words."""


@dataclass(frozen=True)
class Side:
    """One of the revisions compared.

    Attributes:
        name: ``base`` or ``head``.
        root: folder with this revision's code and HEAD's benchmarks.
        python: interpreter of its environment.
        worker: arguments of the interpreter that start a worker.
        variables: of the environment that are its own, with ``PYTHONPATH`` where that is not ``root``.
        memory: freed memory is ``kept``, or given back as by ``default`` malloc.
        start: folder in which a worker starts; ``root`` unless given.
        threads: of its workers, with as many cores; those of the pair unless given.
    """

    name: str
    root: Path
    python: Path
    worker: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    memory: str = "kept"
    start: Path | None = None
    threads: int | None = None

    def environment(self) -> dict[str, str]:
        """Return the variables of a fresh worker: another hash seed and another stack each time."""
        rng = random.SystemRandom()
        own = ("COV_", "COVERAGE_", "PYTEST_", "GLIBC_TUNABLES")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(own)},
            "PYTHONPATH": str(self.root),
            "PYTHONHASHSEED": str(rng.randrange(1 << 32)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "RLGAUGE_PADDING": "x" * rng.randrange(1 << 12),
            SIDE: self.name,
            **self.variables,
        }


def caches(folder: Path) -> dict[str, str]:
    """Return the variables by which each side keeps what it compiles from pair to pair, and apart from the other side.

    Bytecode lies beside its source, of which each side has its own copy. A folder for all bytecode would lack that of
    the installed packages.

    Args:
        folder: of the side.
    """
    own = {name: str(folder / "compiled" / name.partition("_")[0].lower()) for name in COMPILED}
    return own | {"PYTHONPYCACHEPREFIX": "", "PYTHONDONTWRITEBYTECODE": ""}  # empty is as if not set


class Worker(AbstractContextManager["Worker"]):
    """A fresh process of one side; it ends with its standard input, so also when the gate is killed.

    Args:
        side: whose process it is.
        cores: numbers of the cores to start on.
        threads: that its libraries get, where the side has no number of its own.
        limit: seconds that it may take for one request.
    """

    def __init__(self, side: Side, cores: Sequence[int], threads: int, limit: float) -> None:
        self.side, self.limit = side, limit
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed at exit
        how = ",".join(map(str, cores)), str(side.threads or threads), side.memory
        self.process = subprocess.Popen(
            [str(side.python), *side.worker, *how],
            cwd=side.start or side.root,
            env=side.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            start_new_session=True,
        )
        self.buffer = b""

    def ask(self, do: str, **arguments: Any) -> None:
        """Send a request.

        Args:
            do: name of the request, see :class:`.worker.Requests`.
            arguments: of the request, by name.
        """
        assert self.process.stdin
        with suppress(BrokenPipeError):  # the reply says what happened
            self.process.stdin.write((json.dumps({"do": do, **arguments}) + "\n").encode())
            self.process.stdin.flush()

    def reply(self) -> dict[str, Any]:
        """Wait for the answer.

        Raises:
            WorkerError: the process ended, or the answer took longer than the limit.
            KeyboardInterrupt: an interrupt, now or before.
        """
        assert self.process.stdout
        deadline = time.monotonic() + self.limit
        while b"\n" not in self.buffer:
            with interrupts.heard():
                readable, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                raise WorkerError(f"{self.side.name}: no answer in {self.limit:g} s{self.last_words()}")
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                raise WorkerError(f"{self.side.name}: {self.cause()}{self.last_words()}")
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def cause(self) -> str:
        """Say how the process ended."""
        code = self.process.wait()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def last_words(self) -> str:
        """Return the last line that the process wrote to standard error; one that is not indented if there is any."""
        self.errors.seek(0)
        lines = [line for line in self.errors.read().decode(errors="replace").split("\n") if line.strip()]
        whole = [line for line in lines if not line.startswith("  ")] or lines  # as below a usage error
        return f"; {whole[-1].strip()}" if whole else ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process: by closing its standard input, after five seconds or a failure by force."""
        assert self.process.stdout
        try:
            with suppress(subprocess.TimeoutExpired):
                self.finish()
                self.process.wait(5 if error is None else GRACE)  # fixtures of a test that waits end by themselves
        finally:
            self.end_group()
            self.process.stdout.close()
            self.errors.close()

    def finish(self) -> None:
        """Have the process end: there are no more requests."""
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def end_group(self) -> None:
        """End the process and all that it started: they are told, and ended by force where that does not help.

        Compilers then remove what they have half written, and shared memory is given back.
        """
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
            end = time.monotonic() + GRACE
            while time.monotonic() < end:
                self.process.poll()  # or it stays in its group
                os.killpg(self.process.pid, 0)
                time.sleep(0.005)
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def both(workers: Sequence[Worker], do: str, **arguments: Any) -> list[dict[str, Any]]:
    """Ask all workers at once, and wait for all answers.

    Args:
        workers: those to be asked.
        do: name of the request, see :class:`.worker.Requests`.
        arguments: of the request, by name.
    """
    for worker in workers:
        worker.ask(do, **arguments)
    return [worker.reply() for worker in workers]
