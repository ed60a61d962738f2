"""A replay buffer on preallocated arrays."""

import numpy as np

PUSHED = "pushed"


class Replay:
    """Ring buffer of the last `capacity` items, with one array per field.

    ``Replay(1000, state=np.zeros(16, np.float32), action=np.int32(0))``: the example of a field sets shape and dtype.

    Raises:
        ValueError: invalid arguments, here or in a method; the buffer is left unchanged.
    """

    def __init__(self, capacity, **example):
        if capacity < 1:
            raise ValueError(f"capacity={capacity} should be 1 or more")
        if not example or PUSHED in example:
            raise ValueError(f"fields {sorted(example)} should be one or more, none of them {PUSHED!r}")
        self.capacity, self.pushed = capacity, 0
        self.fields = {
            name: np.zeros((capacity, *np.shape(value)), np.asarray(value).dtype) for name, value in example.items()
        }

    @classmethod
    def over(cls, **fields):
        """Return an empty buffer over existing arrays [capacity, ...], such as slices of larger ones."""
        rows = {name: len(field) for name, field in fields.items()}
        if not rows or PUSHED in rows or len(set(rows.values())) > 1 or min(rows.values()) < 1:
            raise ValueError(f"fields {rows} should have equally many rows, 1 or more, and none be named {PUSHED!r}")
        replay = cls.__new__(cls)
        replay.capacity, replay.pushed, replay.fields = min(rows.values()), 0, fields
        return replay

    def __len__(self):
        return min(self.pushed, self.capacity)

    def push(self, **item):
        """Store one item, given by field name, in place of the oldest."""
        self._check(item)
        row = self.pushed % self.capacity
        for name, value in item.items():
            self.fields[name][row] = value
        self.pushed += 1

    def store(self, *columns):
        """Store N items like N pushes, with one slice assignment per field, or two where the ring wraps; no checks.

        `columns` are the values of each field, [N, ...], oldest first; N may be 0 or exceed the capacity.
        """
        count, capacity = len(columns[0]), self.capacity
        start = max(0, count - capacity)  # skip items that later ones would overwrite
        pushed, self.pushed = self.pushed + start, self.pushed + count
        while start < count:
            row = pushed % capacity
            end = min(count, start + capacity - row)
            for field, column in zip(self.fields.values(), columns):
                field[row : row + end - start] = column[start:end]
            pushed += end - start
            start = end

    def sample(self, rng, batch_size):
        """Sample distinct items uniformly; return a copy of each field, [batch_size, ...], by name."""
        if not 1 <= batch_size <= len(self):
            raise ValueError(f"batch_size={batch_size} should be from 1 to {len(self)}, the number of items stored")
        rows = rng.choice(len(self), batch_size, replace=False)
        return {name: field[rows] for name, field in self.fields.items()}

    def arrays(self):
        """Return a copy of the stored items and ``pushed``, the number of items ever pushed, for :meth:`restore`."""
        stored = {name: field[: len(self)].copy() for name, field in self.fields.items()}
        return {**stored, PUSHED: np.array(self.pushed)}

    def restore(self, arrays):
        """Replace the contents by what :meth:`arrays` returned; raise ValueError for other names, shapes or dtypes."""
        if arrays.keys() != self.fields.keys() | {PUSHED}:
            raise ValueError(f"arrays {sorted(arrays)} should be {sorted(self.fields.keys() | {PUSHED})}")
        pushed = arrays[PUSHED]
        if pushed.shape != () or pushed.dtype != np.int64 or pushed < 0:
            raise ValueError(f"{PUSHED}={pushed!r} should be an int64 of 0 or more")
        stored = min(int(pushed), self.capacity)
        for name, field in self.fields.items():
            if arrays[name].dtype != field.dtype:
                raise ValueError(f"{name} of dtype {arrays[name].dtype} should be {field.dtype}")
        self._check({name: arrays[name] for name in self.fields}, (stored,))
        for name, field in self.fields.items():
            field[:stored] = arrays[name]
        self.pushed = int(pushed)

    def _check(self, values, rows=()):
        """Raise ValueError unless `values` has a value [*rows, ...] for each field."""
        if values.keys() != self.fields.keys():
            raise ValueError(f"fields {sorted(values)} should be {sorted(self.fields)}")
        for name, value in values.items():
            field, value = self.fields[name], np.asarray(value)
            shape = (*rows, *field.shape[1:])
            if value.shape != shape or not np.can_cast(value.dtype, field.dtype, "same_kind"):
                raise ValueError(f"{name} {value.dtype}{list(value.shape)} should be {field.dtype}{list(shape)}")
