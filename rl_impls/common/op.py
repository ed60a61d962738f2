"""What a builder returns: something that is called, and what else it may have."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol


class Op(Protocol):
    """A built op. Only the call is timed; all else has a default, so that a subclass says what differs.

    A plain function is an op too: it stands for one that has the defaults.

    Attributes:
        params: the weights as they are now, a flat dict of f32 NumPy arrays; empty where an op has none. They are
            compared with the reference's after two calls.
    """

    params: Mapping[str, Any] = MappingProxyType({})

    @abstractmethod
    def __call__(self, *args: Any) -> Any:
        """Return the output of one call.

        Args:
            args: the inputs of the call, as :meth:`held` returned them.
        """

    def reset(self) -> None:
        """Put back all that calls change: two samples, each from a reset, do the same work. Not timed."""

    def close(self) -> None:
        """End the threads and processes that the op has started, and give shared memory back. Not timed."""

    def stats(self) -> dict[str, float]:
        """Return other figures of the last sample by name, as latencies in seconds, or the policy's lag in steps."""
        return {}

    def phases(self) -> dict[str, float]:
        """Return the seconds that each phase of a loop has taken since the reset, by name; together the whole time."""
        return {}

    def held(self, *args: Any) -> tuple[Any, ...]:
        """Return the inputs of a call in the shape in which a program written in this form holds them. Not timed.

        Args:
            args: the inputs in the shape that all forms of the op share.
        """
        return args
