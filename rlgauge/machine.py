"""Identification of the machine on which measurements are made."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from .process import cores

CPU = Path("/proc/cpuinfo")
SET_BY_HOOKS = (  # variables that a git hook inherits: its repository, and how the caller, such as Magit, writes paths
    "GIT_COMMON_DIR", "GIT_DIR", "GIT_GLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_INDEX_FILE", "GIT_LITERAL_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS", "GIT_PREFIX", "GIT_WORK_TREE",
)  # fmt: skip
VECTORS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "sve", "asimd")  # fastest first; the first two have bfloat16
PACKAGES = ("numpy", "pytest", "pytest-benchmark")  # whose versions belong to results


def cpuinfo(*names: str) -> str:
    """Return the first core's value in ``/proc/cpuinfo`` under one of the given names; empty if there is none."""
    for line in CPU.read_text("utf-8").splitlines() if CPU.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() in names:
            return value.strip()
    return ""


def cpu_model() -> str:
    """Return the processor's name."""
    return cpuinfo("model name") or platform.processor() or platform.machine()


def vectors() -> str:
    """Return the fastest vector instruction set, such as ``avx2``: processors of the same name may differ in it."""
    flags = set(cpuinfo("flags", "Features").split())
    return next((name for name in VECTORS if name in flags), "")


def this_machine() -> dict[str, Any]:
    """Return this machine's processor, vector instructions and the number of cores that this process may use."""
    return {"cpu_model": cpu_model(), "vectors": vectors(), "cores": cores()}


def machine_and_versions() -> dict[str, Any]:
    """Return :func:`this_machine` and the Python and package versions that results belong to."""
    versions = {package: version(package) for package in PACKAGES}
    return this_machine() | {"python": platform.python_version(), "versions": versions}


def version(package: str) -> str:
    """Return the version of a package, or ``not installed``."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def called(machine: Mapping[str, Any]) -> str:
    """Format the result of :func:`this_machine`, for example ``AMD EPYC (avx2)``."""
    return f"{machine['cpu_model']} ({machine['vectors']})" if machine.get("vectors") else str(machine["cpu_model"])


def outside_hooks() -> dict[str, str]:
    """Return the environment variables without those in ``SET_BY_HOOKS``."""
    return {name: value for name, value in os.environ.items() if name not in SET_BY_HOOKS}


def git_state(root: Path) -> str:
    """Return the current commit, with ``+dirty`` if the working tree differs from it."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+dirty", "--exclude=*"],
            cwd=root,
            env=outside_hooks(),
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "no git"
    return done.stdout.strip()
