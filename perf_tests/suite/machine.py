"""What machine and which versions a figure belongs to."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from .process import cores, waiting_policy

PACKAGES = ("numpy", "torch", "jax", "jaxlib", "optax", "onnxruntime", "gymnasium", "pytest-benchmark")


def cpu_model() -> str:
    """Return the processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the installed versions of what the figures depend on, without importing it."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def blas() -> str:
    """Return the name and version of NumPy's linear algebra."""
    import numpy as np

    build: Any = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{build.get('name')} {build.get('version')}"


def git_state(root: Path) -> str:
    """Return the commit, with ``+dirty`` where the working tree differs from it.

    Args:
        root: of the repository.
    """
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+dirty", "--exclude=*"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "no git"
    return described.stdout.strip()


def info(root: Path) -> dict[str, Any]:
    """Return all of it, for the head of a result file.

    Args:
        root: of the repository.
    """
    return {
        "cpu_model": cpu_model(),
        "cores": os.cpu_count(),
        "threads": cores(),
        "omp_wait_policy": waiting_policy(),
        "blas": blas(),
        "versions": versions(),
        "git": git_state(root),
    }
