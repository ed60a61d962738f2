"""What machine a figure belongs to."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CPU = Path("/proc/cpuinfo")
VECTORS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "sve", "asimd")  # fastest first: bfloat16 needs the first two


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


def this_machine() -> dict[str, Any]:
    """Return what tells this machine from others: its processor, its vector instructions, how many cores."""
    return {"cpu_model": cpu_model(), "vectors": vectors(), "cores": os.cpu_count()}


def called(machine: Mapping[str, Any]) -> str:
    """Return what a machine is called where its figures stand, as in ``AMD EPYC (avx2)``.

    Args:
        machine: what :func:`info` returned there.
    """
    return f"{machine['cpu_model']} ({machine['vectors']})" if machine.get("vectors") else str(machine["cpu_model"])


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
