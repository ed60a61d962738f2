"""Benchmarks of the suite in a worker of the gate, which refuses what both sides would share."""

import os
from pathlib import Path

import pytest

from rl_impls import backends
from rlgauge.benchmarks.source import Benchmarks
from rlgauge.config import read, settings_folder
from rlgauge.layout import laid_out
from rlgauge.workers import Worker

ROOT = Path(__file__).parents[2]
BENCHMARKS = {
    backend: f"perf_tests/test_pirl.py::test_forward[full-{backend}-32-host-32]"
    for backend in ("numpy", "torch", "torch-trace", "onnx", "jax")
}


@pytest.fixture(scope="module")
def started():
    """A worker of the working tree, and the directory of the run."""
    # as in the gate, whose workers do not see what conftest.py has set
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_PERSISTENT")}
    source = Benchmarks(ROOT, read(settings_folder(ROOT)), None, environment=environment, limit=300)
    source.names = [*BENCHMARKS.values()]
    cores = sorted(os.sched_getaffinity(0))
    with laid_out(source, ROOT) as layout, Worker(layout.side(None, "head"), cores, 1, 300) as worker:
        worker.ask("hello")
        worker.reply()
        yield worker, layout.folder


@pytest.mark.parametrize("backend", BENCHMARKS)
def test_a_benchmark_of_each_backend_is_timed(started, backend, needed):
    needed(backends.get(backend).require)
    worker, folder = started
    worker.ask("prepare", identity=BENCHMARKS[backend], output=None, exact=True)
    assert not worker.reply().keys() & {"failed", "skipped"}
    worker.ask("measure", identity=BENCHMARKS[backend])
    assert worker.reply()["call"] > 0
    worker.ask("close", identity=BENCHMARKS[backend])
    assert "failed" not in worker.reply()
    if backend == "jax":  # it compiles in well under a second; other processes of this side must load it, too
        assert [*folder.rglob("compiled/jax/*-cache")]
