"""Preloaded by the fork server of processes that play Procgen: the first environment reads all images."""

import contextlib

from ..backends import BackendUnavailable
from .procgen_env import ProcgenVectorEnv

with contextlib.suppress(BackendUnavailable):
    ProcgenVectorEnv(threads=1).close()
