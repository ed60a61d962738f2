"""What starts a worker of this suite: its command and the variables of its compilers."""

from __future__ import annotations

from perf_tests.suite.process import CACHE

WORKER = ("-m", "perf_tests.gate.worker")
COMPILERS = {  # their caches are kept from run to run
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_CACHE_DIR": str(CACHE / "inductor"),
    "JAX_COMPILATION_CACHE_DIR": str(CACHE / "jax"),
}
