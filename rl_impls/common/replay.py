"""A replay buffer: a ring over arrays that are allocated once."""

from __future__ import annotations

import numpy as np

PUSHED = "pushed"


class Replay:
    """The last ``capacity`` items, each with a value for every field; shapes and dtypes are those of an example.

    ``Replay(1000, state=np.zeros(16, np.float32), action=np.int32(0))``

    Args:
        capacity: items that are kept.
        example: by the name of a field, a value like those to come, an array or a NumPy number.

    Raises:
        ValueError: here and in the methods, for arguments that do not fit; nothing is changed.
    """

    def __init__(self, capacity, **example):
        if capacity < 1:
            raise ValueError(f"capacity: got {capacity}, wanted 1 or more")
        if not example or PUSHED in example:
            raise ValueError(f"fields: got {sorted(example)}, wanted one or more, none of them {PUSHED!r}")
        self.capacity, self.pushed = capacity, 0
        self.fields = {
            name: np.zeros((capacity, *np.shape(value)), np.asarray(value).dtype) for name, value in example.items()
        }

    def __len__(self):
        """Return the number of items that are stored."""
        return min(self.pushed, self.capacity)

    def push(self, **item):
        """Store one item in place of the oldest.

        Args:
            item: a value of every field, by its name.

        Raises:
            ValueError: other fields than the example's, or a value of another shape or kind of dtype.
        """
        if item.keys() != self.fields.keys():
            raise ValueError(f"item: got the fields {sorted(item)}, wanted {sorted(self.fields)}")
        for name, value in item.items():
            field, value = self.fields[name], np.asarray(value)
            if value.shape != field.shape[1:] or not np.can_cast(value.dtype, field.dtype, "same_kind"):
                raise ValueError(
                    f"{name}: got {value.dtype}{list(value.shape)}, wanted {field.dtype}{list(field.shape[1:])}"
                )
        row = self.pushed % self.capacity
        for name, value in item.items():
            self.fields[name][row] = value
        self.pushed += 1

    def sample(self, rng, batch):
        """Return ``batch`` different items, drawn uniformly: a copy of each field, [batch, ...], by name.

        Args:
            rng: generator that draws them.
            batch: number of items.

        Raises:
            ValueError: a batch below 1, or of more items than are stored.
        """
        if not 1 <= batch <= len(self):
            raise ValueError(f"batch: got {batch}, wanted 1 to {len(self)}, the number of items stored")
        rows = rng.choice(len(self), batch, replace=False)
        return {name: field[rows] for name, field in self.fields.items()}

    def arrays(self):
        """Return a copy of all that is stored, and ``pushed``, the number of items ever pushed, for ``restore``."""
        stored = {name: field[: len(self)].copy() for name, field in self.fields.items()}
        return {**stored, PUSHED: np.array(self.pushed)}

    def restore(self, arrays):
        """Put back what :meth:`arrays` returned, in place of all that is stored.

        Args:
            arrays: by the name of a field, its stored items, [items, ...]; and ``pushed`` i64[].

        Raises:
            ValueError: names, shapes or dtypes that are not this buffer's.
        """
        if arrays.keys() != self.fields.keys() | {PUSHED}:
            raise ValueError(f"arrays: got {sorted(arrays)}, wanted {sorted(self.fields.keys() | {PUSHED})}")
        pushed = arrays[PUSHED]
        if pushed.shape != () or pushed.dtype != np.int64 or pushed < 0:
            raise ValueError(f"{PUSHED}: got {pushed!r}, wanted an int64 of 0 or more")
        stored = min(int(pushed), self.capacity)
        for name, field in self.fields.items():
            got, wanted = arrays[name], field[:stored]
            if got.shape != wanted.shape or got.dtype != wanted.dtype:
                raise ValueError(f"{name}: got {got.dtype}{list(got.shape)}, wanted {wanted.dtype}{list(wanted.shape)}")
        for name, field in self.fields.items():
            field[:stored] = arrays[name]
        self.pushed = int(pushed)
