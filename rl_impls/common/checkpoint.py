"""The checkpoint of an agent: what its loop holds, its configuration, its generator, and how far it has come."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np

from .. import params


def save(path, agent, state):
    """Write a checkpoint, whole or not at all.

    Args:
        path: of the file.
        agent: with ``config``, ``rng`` and ``step``.
        state: what its loop holds, arrays by name.
    """
    values = {"config": asdict(agent.config), "rng": agent.rng.bit_generator.state, "step": agent.step}
    params.save(path, state, **{name: json.dumps(value) for name, value in values.items()})


def read(path, configure, outline):
    """Return the configuration, state, generator and step of a checkpoint, checked against each other.

    Args:
        path: of the file.
        configure: ``configure(**fields)``, the configuration.
        outline: ``outline(config, arrays)``, arrays of the names, shapes and dtypes that the state has to have.

    Raises:
        CheckpointError: the file is corrupt or truncated, or not a checkpoint of this architecture.
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
