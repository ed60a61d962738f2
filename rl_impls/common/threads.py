"""Threads of a training or an evaluation: how many by default, and how they wait."""

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
from .procgen_env import set_threads as set_game_threads
from .starting import THREAD_VARIABLES

SPINS = 1000  # of OpenMP's waiting threads before they sleep; libgomp's default is 300,000
SMALL = 5e7  # weights times samples in a batch; below it, a second thread costs more than it computes


def default_threads(work: float) -> int:
    """Return what ``OMP_NUM_THREADS`` says, else 1 for a small net, else the number of cores of this process.

    Args:
        work: number of weights times the number of samples in a batch.
    """
    said = os.environ.get("OMP_NUM_THREADS", "")
    if said.isdecimal() and int(said):
        return int(said)
    return 1 if work < SMALL else len(os.sched_getaffinity(0))


def set_threads(count: int, inter_op: int | None = None) -> None:
    """Give torch, JAX and Procgen this many threads.

    Threads of torch that wait for each other soon go to sleep, unless ``OMP_WAIT_POLICY`` or ``GOMP_SPINCOUNT`` is set:
    where another program has one of the cores, they would spin away their share of the others.
    torch and JAX read all of this from the environment when they are imported; after that, only torch's number of
    threads can change.

    Args:
        count: threads of one operation.
        inter_op: torch operations that may run side by side; None leaves that to torch.

    Raises:
        ValueError: a number below 1.
    """
    check_integer("threads", count, 1)
    if inter_op is not None:
        check_integer("inter_op_threads", inter_op, 1)
    if "torch" not in sys.modules:
        os.environ |= dict.fromkeys(THREAD_VARIABLES, str(count))
        if "OMP_WAIT_POLICY" not in os.environ:
            os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
    else:
        import torch

        torch.set_num_threads(count)
    if "jax" not in sys.modules:
        os.environ["NPROC"] = str(count)  # the size of XLA's thread pools
    if inter_op is not None:
        import torch

        torch.set_num_interop_threads(inter_op)
    set_game_threads(count)


def configuration(agent_class: Any, config: type, fields: Mapping[str, Any], path: Path | None) -> Any:
    """Return the configuration of the agent that is about to be made, or None where the agent itself will refuse it.

    Args:
        agent_class: the class of the workload's agent; ``configure(**fields)`` makes its configuration, if it has that.
        config: class of the configuration.
        fields: that were given, by name, and perhaps the seed.
        path: of the checkpoint that the other fields come from; None for a new agent.
    """
    configure = getattr(agent_class, "configure", config)
    fields = {name: value for name, value in fields.items() if name != "seed"}
    try:
        stored = json.loads(params.read_metadata(path)["config"]) if path else {}
        return configure(**stored | fields)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def use_threads(options: Namespace, config: Any, samples: int | None = None) -> int:
    """Set the number of threads that was asked for, or that suits the net; return it.

    Args:
        options: the parsed command line.
        config: of the agent; its ``weights`` and ``batch`` are read. None, or one without them, gets all cores.
        samples: in a batch, instead of ``config.batch``.
    """
    weights, batch = getattr(config, "weights", math.inf), getattr(config, "batch", 1)
    count = options.threads
    if count is None:
        count = default_threads(weights * (batch if samples is None else samples))
    set_threads(count, options.inter_op_threads)
    return int(count)


def described(config: Any, threads: int) -> str:
    """Return backend, device and threads in a line.

    Args:
        config: of an agent.
        threads: of one operation.
    """
    name = getattr(config, "backend", None)
    words = f"{threads} thread{'s' if threads > 1 else ''} of {len(os.sched_getaffinity(0))} cores"
    return f"{name} on {backends.get(name).device}, {words}" if name else words
