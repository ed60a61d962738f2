"""Preload Procgen's images in the fork server: the first environment of a process reads all of them."""

import contextlib

from ..backends import BackendUnavailable
from .procgen_env import ProcgenVectorEnv

with contextlib.suppress(BackendUnavailable):
    ProcgenVectorEnv(threads=1).close()
