"""Imported by the process that those who play Procgen are forked from: its first environment reads all pictures."""

from __future__ import annotations

import contextlib

from ..backends import BackendUnavailable
from .procgen_env import ProcgenVectorEnv

with contextlib.suppress(BackendUnavailable):
    ProcgenVectorEnv(threads=1).close()
