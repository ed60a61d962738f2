"""The replay memory in the three ways it is written: a deque of lists, a deque of arrays, a ring.

A transition is ``(obs f32[O], action int, reward float, next_obs f32[O], terminated bool)``; row 0 is the oldest.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from ..common.replay import Replay

FIELDS = ("obs", "action", "reward", "next_obs", "terminated")
DTYPES = (np.float32, np.int32, np.float32, np.float32, np.float32)


class DequeMemory:
    """The last ``capacity`` transitions as tuples; boards are kept by ``keep``: as lists or as arrays."""

    def __init__(self, capacity, size, keep):
        self.items, self.keep, self.capacity = deque(maxlen=capacity), keep, capacity

    def __len__(self):
        """Return the number of transitions that are stored."""
        return len(self.items)

    def push(self, obs, action, reward, next_obs, terminated):
        """Store one transition in place of the oldest."""
        self.items.append((self.keep(obs), int(action), float(reward), self.keep(next_obs), bool(terminated)))

    def push_many(self, *columns):
        """Store N transitions, given as arrays [N, ...]."""
        for item in zip(*columns):
            self.push(*item)

    def columns(self, rows):
        """Return each field of these rows as a list."""
        check_rows(rows, len(self))
        items = [self.items[row] for row in rows]
        return [[item[k] for item in items] for k in range(len(FIELDS))]

    def arrays(self):
        """Return all that is stored, each field as one array, oldest first."""
        return tuple(np.array([item[k] for item in self.items], dtype) for k, dtype in enumerate(DTYPES))

    def restore(self, *columns):
        """Store these transitions and no others."""
        self.items.clear()
        self.push_many(*columns)

    def mark(self):
        """Return what ``rewind`` takes to come back to what is stored now."""
        return tuple(self.items)

    def rewind(self, mark):
        """Store what was stored when ``mark`` was made; no transition is made anew, as none is ever changed."""
        self.items.clear()
        self.items.extend(mark)


class RingMemory:
    """The last ``capacity`` transitions in arrays that are allocated once."""

    def __init__(self, capacity, size):
        board = np.zeros(size, np.float32)
        example = dict(zip(FIELDS, (board, np.int32(0), np.float32(0), board, np.float32(0))))
        self.replay, self.capacity = Replay(capacity, **example), capacity
        self.fields = tuple(self.replay.fields.values())

    def __len__(self):
        """Return the number of transitions that are stored."""
        return len(self.replay)

    def push(self, *item):
        """Store one transition in place of the oldest."""
        row = self.replay.pushed % self.capacity
        for field, value in zip(self.fields, item):
            field[row] = value
        self.replay.pushed += 1

    def push_many(self, *columns):
        """Store N transitions, given as arrays [N, ...]."""
        count = len(columns[0])
        start = max(0, count - self.capacity)  # more than there is room for push each other out
        self.replay.pushed += start
        while start < count:
            row = self.replay.pushed % self.capacity
            end = min(count, start + self.capacity - row)
            for field, column in zip(self.fields, columns):
                field[row : row + end - start] = column[start:end]
            self.replay.pushed += end - start
            start = end

    def columns(self, rows):
        """Return each field of these rows as an array."""
        check_rows(rows, len(self))
        slots = self.slots(rows)
        return [field[slots] for field in self.fields]

    def slots(self, rows):
        """Return where in the ring these rows lie."""
        return rows if self.replay.pushed <= self.capacity else (self.replay.pushed + rows) % self.capacity

    def arrays(self):
        """Return all that is stored, each field as one array, oldest first."""
        slots = self.slots(np.arange(len(self)))
        return tuple(field[slots] for field in self.fields)

    def restore(self, *columns):
        """Store these transitions and no others."""
        self.replay.pushed = 0
        self.push_many(*columns)

    def mark(self):
        """Return what ``rewind`` takes to come back to what is stored now."""
        return self.arrays()

    def rewind(self, mark):
        """Store what was stored when ``mark`` was made."""
        self.restore(*mark)


def check_rows(rows, stored):
    """Raise a ValueError for rows that are not stored."""
    if len(rows) > stored or len(rows) == 0:
        raise ValueError(f"rows: got {len(rows)} of them, wanted 1 to {stored}, the number of transitions stored")
    if rows.min() < 0 or rows.max() >= stored:
        raise ValueError(f"rows: got {rows.min()} to {rows.max()}, wanted 0 to {stored - 1}, the transitions stored")


def make_memory(kind, capacity, size):
    """Return an empty memory for boards of ``size`` numbers; ``kind`` is a value of the knob ``memory``."""
    if capacity < 1:
        raise ValueError(f"capacity: got {capacity}, wanted 1 or more")
    if kind == "ring":
        return RingMemory(capacity, size)
    return DequeMemory(capacity, size, {"lists": np.ndarray.tolist, "arrays": np.copy}[kind])
