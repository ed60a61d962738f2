"""Number of threads for training and evaluation, and how waiting threads behave."""

from __future__ import annotations

import json
import math
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import backends, params
from .checks import check_integer
from .procgen_env import set_game_threads
from .starting import THREAD_VARIABLES

SPINS = 1000  # spins of a waiting OpenMP thread before it sleeps; libgomp's default is 300,000
SMALL = 5e7  # weights times samples per batch; below this, a second thread costs more than it saves


def default_threads(work: float) -> int:
    """Return ``OMP_NUM_THREADS`` if set, else 1 for a small net, else the number of available cores.

    `work` is the number of weights times the samples per batch.
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given):
        return int(given)
    return 1 if work < SMALL else len(os.sched_getaffinity(0))


def set_threads(count: int, inter_op: int | None = None) -> None:
    """Set the number of threads of torch, JAX and Procgen.

    Also limits spinning, see :func:`limit_spinning`. torch and JAX read the environment when they are imported; after
    that, only torch's number of threads can change. `inter_op` limits the torch operations that run in parallel; None
    is torch's default.
    """
    check_integer("threads", count, 1)
    if inter_op is not None:
        check_integer("inter_op_threads", inter_op, 1)
    if "torch" not in sys.modules:
        os.environ |= dict.fromkeys(THREAD_VARIABLES, str(count))
        limit_spinning()
    else:
        import torch

        torch.set_num_threads(count)
    if "jax" not in sys.modules:
        os.environ["NPROC"] = str(count)  # the size of XLA's thread pools
    if inter_op is not None:
        import torch

        torch.set_num_interop_threads(inter_op)
    set_game_threads(count)


def limit_spinning() -> None:
    """Let waiting torch threads spin only briefly before they sleep; no effect once torch is imported.

    If another program occupies a core, spinning threads take time from working ones. ``OMP_WAIT_POLICY`` and
    ``GOMP_SPINCOUNT`` take precedence.
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))


def configuration(agent: Any, fields: Mapping[str, Any], path: Path | None) -> Any:
    """Return the configuration of the agent about to be made, or None if it is invalid.

    `fields` override those of the checkpoint at `path`, if any.
    """
    try:
        stored = json.loads(params.read_metadata(path)["config"]) if path else {}
        return agent.configure(**stored | {name: value for name, value in fields.items() if name != "seed"})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def use_threads(options: Namespace, config: Any, samples: int | None = None) -> int:
    """Set the number of threads, by default according to the size of the net, and return it.

    Without ``weights`` in `config`, the default is that of a large net. `samples` replaces ``config.batch_size``.
    """
    weights, batch = getattr(config, "weights", math.inf), getattr(config, "batch_size", 1)
    count = options.threads
    if count is None:
        count = default_threads(weights * (batch if samples is None else samples))
    set_threads(count, options.inter_op_threads)
    return int(count)


def described(config: Any, threads: int) -> str:
    """Describe backend, device and threads in one line."""
    name = getattr(config, "backend", None)
    words = f"{threads} thread{'s' if threads > 1 else ''}, {len(os.sched_getaffinity(0))} cores"
    return f"{name} on {backends.get(name).device}, {words}" if name else words
