"""The interface of a built op."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol


class Op(Protocol):
    """A built op. Only the call is timed; the other methods have defaults for subclasses to override.

    A plain function is also an op, with all the defaults.

    Attributes:
        params: current weights, a flat dict of f32 NumPy arrays, empty if the op has none; compared with the reference
            after two calls.
    """

    params: Mapping[str, Any] = MappingProxyType({})

    @abstractmethod
    def __call__(self, *args: Any) -> Any:
        """Return the output of one call, with arguments as returned by :meth:`pack_args`."""

    def reset(self) -> None:
        """Restore the initial state, so that samples do the same work. Not timed."""

    def close(self) -> None:
        """Stop the op's threads and processes and release its shared memory. Not timed."""

    def stats(self) -> dict[str, float]:
        """Return additional figures of the last sample by name, such as latencies in seconds or policy lag in steps."""
        return {}

    def phases(self) -> dict[str, float]:
        """Return the seconds spent in each phase of a loop since the reset, by name; they add up to the whole time."""
        return {}

    def pack_args(self, *args: Any) -> tuple[Any, ...]:
        """Convert arguments from the layout shared by all forms to that of this form. Not timed."""
        return args
