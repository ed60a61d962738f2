"""The machine and the package versions that a measurement belongs to."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import Any

from rlgauge.machine import cpu_model, git_state, vectors

from .process import cores, waiting_policy

PACKAGES = ("numpy", "torch", "jax", "jaxlib", "optax", "onnxruntime", "gymnasium", "pytest-benchmark")


def versions() -> dict[str, str]:
    """Return the installed versions of the packages that affect timings, without importing them."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def blas() -> str:
    """Return the name and version of NumPy's BLAS library."""
    import numpy as np

    build: Any = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{build.get('name')} {build.get('version')}"


def gpu() -> str:
    """Return the names of the NVIDIA GPUs that the driver lists; empty if there are none."""
    lists = Path("/proc/driver/nvidia/gpus").glob("*/information")
    models = [line.partition(":")[2].strip() for file in lists for line in file.read_text().splitlines()
              if line.startswith("Model:")]  # fmt: skip
    return ", ".join(sorted(models))


def environment() -> dict[str, Any]:
    """Return the hardware, settings and versions, which are the same in every run."""
    return {
        "cpu_model": cpu_model(),
        "vectors": vectors(),
        "cores": os.cpu_count(),
        **({"gpu": found} if (found := gpu()) else {}),
        "threads": cores(),
        "omp_wait_policy": waiting_policy(),
        "blas": blas(),
        "versions": versions(),
    }


def info(root: Path) -> dict[str, Any]:
    """Return the environment, and the commit of the repository at ``root``."""
    return {**environment(), "git": git_state(root)}
