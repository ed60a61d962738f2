"""The replay buffer in three variants: a deque of lists, a deque of arrays, and a ring of arrays.

A transition is ``(obs f32[O], action int, reward float, next_obs f32[O], terminated bool)``; row 0 is the oldest.
"""

from collections import deque

import numpy as np

from ..common.replay import Replay

FIELDS = ("obs", "action", "reward", "next_obs", "terminated")
DTYPES = (np.float32, np.int32, np.float32, np.float32, np.float32)


class DequeBuffer:
    """A deque of the last `capacity` transitions; ``keep(board)`` converts a board for storage."""

    def __init__(self, capacity, keep):
        self.items, self.keep = deque(maxlen=capacity), keep

    def __len__(self):
        return len(self.items)

    def push(self, obs, action, reward, next_obs, terminated):
        """Append one transition, dropping the oldest if full."""
        self.items.append((self.keep(obs), int(action), float(reward), self.keep(next_obs), bool(terminated)))

    def push_many(self, *columns):
        """Append N transitions from columns [N, ...] in the order of :data:`FIELDS`."""
        for item in zip(*columns):
            self.push(*item)

    def sample(self, rows):
        """Return each field of the rows i64[B] (0 the oldest) as a list of B elements; all rows must be stored."""
        check_rows(rows, len(self))
        items = [self.items[row] for row in rows]
        return [[item[k] for item in items] for k in range(len(FIELDS))]

    def arrays(self):
        """Return each field of all stored transitions as one array, oldest first."""
        return tuple(np.array([item[k] for item in self.items], dtype) for k, dtype in enumerate(DTYPES))

    def restore(self, *columns):
        """Replace the contents by columns [N, ...], oldest first."""
        self.items.clear()
        self.push_many(*columns)

    def mark(self):
        """Return a snapshot of the contents for :meth:`rewind`."""
        return tuple(self.items)

    def rewind(self, mark):
        """Restore a snapshot of :meth:`mark`; tuples are immutable, so they are not copied."""
        self.items.clear()
        self.items.extend(mark)


class RingBuffer:
    """A ring of the last `capacity` transitions in preallocated arrays, with boards of `size` cells."""

    def __init__(self, capacity, size):
        board = np.zeros(size, np.float32)
        example = dict(zip(FIELDS, (board, np.int32(0), np.float32(0), board, np.float32(0))))
        self.replay, self.capacity = Replay(capacity, **example), capacity
        self.fields = tuple(self.replay.fields.values())

    def __len__(self):
        return len(self.replay)

    def push(self, *item):
        """Store one transition, a value for each of :data:`FIELDS`, overwriting the oldest if full."""
        row = self.replay.pushed % self.capacity
        for field, value in zip(self.fields, item):
            field[row] = value
        self.replay.pushed += 1

    def push_many(self, *columns):
        """Store N transitions from columns [N, ...]."""
        self.replay.store(*columns)

    def sample(self, rows):
        """Like :meth:`DequeBuffer.sample`, with an array [B, ...] per field."""
        check_rows(rows, len(self))
        slots = self.slots(rows)
        return [field[slots] for field in self.fields]

    def slots(self, rows):
        """Return the positions i64[B] of rows in the ring."""
        return rows if self.replay.pushed <= self.capacity else (self.replay.pushed + rows) % self.capacity

    def arrays(self):
        """Return a copy of each field of all stored transitions, oldest first."""
        slots = self.slots(np.arange(len(self)))
        return tuple(field[slots] for field in self.fields)

    def restore(self, *columns):
        """Replace the contents by columns [N, ...], oldest first."""
        self.replay.pushed = 0
        self.push_many(*columns)

    mark = arrays

    def rewind(self, mark):
        """Restore the contents copied by :meth:`mark`."""
        self.restore(*mark)


def check_rows(rows, stored):
    """Raise ValueError unless `rows` i64[B] are one or more rows that are stored."""
    if len(rows) == 0 or rows.min() < 0 or rows.max() >= stored:
        raise ValueError(f"rows={rows} should be integers from 0 to {stored - 1}: {stored} transitions are stored")


def make_buffer(memory, capacity, size):
    """Return an empty replay buffer for boards of `size` cells; `memory` is an option: lists, arrays or ring."""
    if memory == "ring":
        return RingBuffer(capacity, size)
    return DequeBuffer(capacity, {"lists": np.ndarray.tolist, "arrays": np.copy}[memory])
