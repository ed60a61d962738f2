"""Checkpoints of an agent: the state of its loop, its configuration, its random generator and its step."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np

from .. import params


def save(path, agent, state):
    """Write the agent's ``config``, ``rng`` and ``step``, and its loop's arrays `state`, atomically to a file."""
    values = {"config": asdict(agent.config), "rng": agent.rng.bit_generator.state, "step": agent.step}
    params.save(path, state, **{name: json.dumps(value) for name, value in values.items()})


def read(path, configure, outline):
    """Return the configuration, state, generator and step of a checkpoint.

    ``configure(**fields)`` makes the configuration; ``outline(config, arrays)`` returns arrays with the names, shapes
    and dtypes that the state must have. Raises CheckpointError for a corrupt file or another architecture.
    """
    arrays, metadata = params.load_with_metadata(path)
    try:
        config = configure(**json.loads(metadata["config"]))
        rng, step = np.random.default_rng(0), int(json.loads(metadata["step"]))
        rng.bit_generator.state = json.loads(metadata["rng"])
        state = params.match(path, arrays, outline(config, arrays))
    except params.CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise params.CheckpointError(f"{path}: not a checkpoint of this agent ({error!r})") from error
    return config, state, rng, step
