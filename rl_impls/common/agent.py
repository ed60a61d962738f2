"""Base class of the agents: configuration, random generator, progress and checkpoints."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from .. import backends, params
from ..params import CheckpointError


class Agent(ABC):
    """An agent that can be trained, evaluated, saved and resumed.

    All arguments but the seed are fields of ``Config``. If it has ``weights``, the number of weights of the net, this
    and ``batch_size`` determine the default number of threads.

    Raises:
        ValueError: an invalid argument, here or in a method; the agent is left unchanged.
        BackendUnavailable: the backend cannot run on this machine.

    Attributes:
        Config: class of the configuration, see :mod:`.config`.
        ABOUT: what the command line does, for its help.
        UNIT: unit of training progress.
        CHANGEABLE: fields that may be overridden when a checkpoint is loaded.
        STOCHASTIC: whether :meth:`evaluate` samples actions, unless it is called with ``deterministic=True``.
        DISTRIBUTED: whether several processes of torchrun can train one agent.
        EVALUATES: fields whose values may be overridden for one evaluation, as keyword arguments of :meth:`evaluate`.
        ACTS_ON: backend on which the agent is always evaluated; empty if it follows the configuration.
        deadline: time of ``time.perf_counter()`` at which training should end.
        config: configuration, with everything but the seed.
        rng: generator of all random numbers.
        step: training progress in its unit.
        loop: the training loop that :meth:`build` creates, with ``close()``; None until then.
    """

    Config: ClassVar[Any]
    ABOUT: ClassVar[str] = ""
    UNIT: ClassVar[str] = "environment steps"
    CHANGEABLE: ClassVar[tuple[str, ...]] = ("backend", "form")
    STOCHASTIC: ClassVar[bool] = False
    DISTRIBUTED: ClassVar[bool] = False
    EVALUATES: ClassVar[tuple[str, ...]] = ()
    ACTS_ON: ClassVar[str] = ""
    deadline: float = math.inf
    loop: Any = None

    def __init__(self, backend: str = "torch", form: str = "full", *, seed: int, **config: Any) -> None:
        self.config = self.configure(backend=backend, form=form, **config)
        self.rng = np.random.default_rng(seed)
        self.step = 0

    @classmethod
    def configure(cls, **fields: Any) -> Any:
        """Return the configuration with these fields, and defaults for the others."""
        return cls.Config(**fields)

    @property
    @abstractmethod
    def chunk(self) -> int:
        """Progress per call of :meth:`learn`, in the agent's unit."""

    @property
    @abstractmethod
    def params(self) -> Mapping[str, Any]:
        """The learned weights as NumPy arrays by name."""

    @abstractmethod
    def learn(self) -> Mapping[str, float]:
        """Train for one chunk, or until the deadline if that is sooner and the agent supports it.

        Returns:
            figures by name, always in this order: ``return`` and ``length``, means over the episodes that ended in the
            chunk, NaN if none did; ``episodes``, their number; other counts; losses, named ``loss`` or
            ``policy_loss``; then the exploration rate of the chunk's last steps, ``epsilon``, or the policy's mean
            ``entropy`` in nats. If some chunks have no updates, ``updates`` is their number.
        """

    @abstractmethod
    def evaluate(self, episodes: int, seed: int) -> Mapping[str, Any]:
        """Play without learning; return an array [episodes] for each figure.

        A stochastic agent also takes ``deterministic``, and any agent the fields in ``EVALUATES``.
        """

    @abstractmethod
    def state(self) -> Mapping[str, Any]:
        """Return everything that :meth:`load_state` needs, besides configuration, generator and step, as arrays."""

    @abstractmethod
    def load_state(self, arrays: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned; raise ValueError or KeyError for other arrays."""

    def prepare(self) -> None:
        """Build what :meth:`learn` needs, so that its errors appear before training begins.

        Raises:
            OpUnavailable: the backend computes no gradients.
        """
        name = self.config.backend
        if not backends.get(name).learns:
            raise backends.OpUnavailable(f"{name} computes no gradients; train with --backend torch")
        if self.loop is None:
            self.build()

    def build(self) -> None:  # noqa: B027
        """Set ``loop``, which :meth:`learn` calls, in an agent that does not override :meth:`prepare`."""

    def lines(self, figures: Mapping[str, float], seconds: float) -> Sequence[str]:
        """Return lines to print every ten seconds of training.

        `figures` are the last result of :meth:`learn`, `seconds` the time since the previous call.
        """
        return ()

    def agree(self, wanted: bool) -> bool:
        """Return whether `wanted` is true in any of the processes that train together."""
        return wanted

    def close(self) -> None:
        """Stop the threads and processes that the agent started."""
        if self.loop is not None:
            self.loop.close()

    def save(self, path: Path) -> None:
        """Write a checkpoint atomically."""
        arrays = self.state()  # before the state of the generator, from which it may draw
        values = {
            "agent": type(self).__name__, "config": asdict(self.config), "rng": self.rng.bit_generator.state,
            "step": self.step,
        }  # fmt: skip
        params.save(path, arrays, **{name: json.dumps(value) for name, value in values.items()})

    @classmethod
    def load(cls, path: Path, **changes: Any) -> Self:
        """Load an agent; training continues bit for bit where it was saved.

        `changes` may replace the fields in ``CHANGEABLE``.

        Raises:
            CheckpointError: the file is corrupt or truncated, or not a checkpoint of this agent.
            ValueError: another field is changed, or a change is invalid.
        """
        if wrong := sorted(changes.keys() - set(cls.CHANGEABLE)):
            raise ValueError(
                f"cannot change {', '.join(wrong)} when resuming; only {listed(cls.CHANGEABLE)} can change"
            )
        arrays, metadata = params.load_with_metadata(path)
        config = stored_config(path, metadata, cls.__name__)
        try:
            cls.configure(**config)
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: {error}") from error
        agent = cls(seed=0, **{**config, **changes})
        try:
            agent.rng.bit_generator.state = json.loads(metadata["rng"])
            agent.step = int(json.loads(metadata["step"]))
            agent.load_state(arrays)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            agent.close()
            raise CheckpointError(f"{path}: not a checkpoint of this agent ({error!r}); give another file") from error
        return agent


def stored_config(path: Path, metadata: Mapping[str, str], agent: str) -> dict[str, Any]:
    """Return the configuration in the metadata of a checkpoint; raise CheckpointError if it is of another agent."""
    try:
        config: dict[str, Any] = json.loads(metadata["config"])
        found = json.loads(metadata.get("agent", "null"))
    except (KeyError, ValueError):
        raise CheckpointError(f"{path}: not a checkpoint of an agent; give another file") from None
    if found not in (None, agent):  # older checkpoints name none
        raise CheckpointError(f"{path}: a checkpoint of {found}, not of {agent}")
    return config


def listed(names: tuple[str, ...]) -> str:
    """Join names with commas and a final ``and``."""
    return f"{', '.join(names[:-1])} and {names[-1]}"
