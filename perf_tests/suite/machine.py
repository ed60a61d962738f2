"""What machine and which versions a figure belongs to."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from .process import cores, waiting_policy

CPU = Path("/proc/cpuinfo")
VECTORS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "sve", "asimd")  # fastest first: bfloat16 needs the first two
PACKAGES = ("numpy", "torch", "jax", "jaxlib", "optax", "onnxruntime", "gymnasium", "pytest-benchmark")


def described(*names: str) -> str:
    """Return what the system says of the first core under one of some names; nothing where it does not.

    Args:
        names: of a line of ``/proc/cpuinfo``.
    """
    for line in CPU.read_text().splitlines() if CPU.exists() else ():
        name, _, said = line.partition(":")
        if name.strip() in names:
            return said.strip()
    return ""


def cpu_model() -> str:
    """Return the processor's name."""
    return described("model name") or platform.processor() or platform.machine()


def vectors() -> str:
    """Return the fastest vector instructions, as in ``avx2``: processors of one name may differ in them."""
    words = set(described("flags", "Features").split())
    return next((name for name in VECTORS if name in words), "")


def called(machine: Mapping[str, Any]) -> str:
    """Return what a machine is called where its figures stand, as in ``AMD EPYC (avx2)``.

    Args:
        machine: what :func:`info` returned there.
    """
    return f"{machine['cpu_model']} ({machine['vectors']})" if machine.get("vectors") else str(machine["cpu_model"])


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
        "vectors": vectors(),
        "cores": os.cpu_count(),
        "threads": cores(),
        "omp_wait_policy": waiting_policy(),
        "blas": blas(),
        "versions": versions(),
        "git": git_state(root),
    }
