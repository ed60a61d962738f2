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
    """The last ``capacity`` transitions as tuples.

    Args:
        capacity: transitions that are kept.
        size: numbers of a board; unused, as a tuple holds boards of any size.
        keep: ``keep(board)``, a board as it is kept: as a list or as an array.
    """

    def __init__(self, capacity, size, keep):
        self.items, self.keep, self.capacity = deque(maxlen=capacity), keep, capacity

    def __len__(self):
        """Return the number of transitions that are stored."""
        return len(self.items)

    def push(self, obs, action, reward, next_obs, terminated):
        """Store one transition in place of the oldest.

        Args:
            obs: board before the move, f32[O].
            action: from 0 to 3.
            reward: of the move.
            next_obs: board after it, f32[O].
            terminated: whether the episode ended with it.
        """
        self.items.append((self.keep(obs), int(action), float(reward), self.keep(next_obs), bool(terminated)))

    def push_many(self, *columns):
        """Store N transitions.

        Args:
            columns: the fields of :data:`FIELDS`, arrays [N, ...].
        """
        for item in zip(*columns):
            self.push(*item)

    def columns(self, rows):
        """Return each field of some transitions as a list of B elements.

        Args:
            rows: i64[B], 0 the oldest.

        Raises:
            ValueError: rows that are not stored, or more of them than are stored.
        """
        check_rows(rows, len(self))
        items = [self.items[row] for row in rows]
        return [[item[k] for item in items] for k in range(len(FIELDS))]

    def arrays(self):
        """Return all that is stored, each field as one array, oldest first."""
        return tuple(np.array([item[k] for item in self.items], dtype) for k, dtype in enumerate(DTYPES))

    def restore(self, *columns):
        """Store these transitions and no others.

        Args:
            columns: the fields of :data:`FIELDS`, arrays [N, ...], oldest first.
        """
        self.items.clear()
        self.push_many(*columns)

    def mark(self):
        """Return what is stored now, for :meth:`rewind`."""
        return tuple(self.items)

    def rewind(self, mark):
        """Store what was stored when ``mark`` was made; no transition is made anew, as none is ever changed.

        Args:
            mark: what :meth:`mark` returned.
        """
        self.items.clear()
        self.items.extend(mark)


class RingMemory:
    """The last ``capacity`` transitions in arrays that are allocated once.

    Args:
        capacity: transitions that are kept.
        size: numbers of a board.
    """

    def __init__(self, capacity, size):
        board = np.zeros(size, np.float32)
        example = dict(zip(FIELDS, (board, np.int32(0), np.float32(0), board, np.float32(0))))
        self.replay, self.capacity = Replay(capacity, **example), capacity
        self.fields = tuple(self.replay.fields.values())

    def __len__(self):
        """Return the number of transitions that are stored."""
        return len(self.replay)

    def push(self, *item):
        """Store one transition in place of the oldest.

        Args:
            item: obs f32[O], action, reward, next_obs f32[O], terminated.
        """
        row = self.replay.pushed % self.capacity
        for field, value in zip(self.fields, item):
            field[row] = value
        self.replay.pushed += 1

    def push_many(self, *columns):
        """Store N transitions.

        Args:
            columns: the fields of :data:`FIELDS`, arrays [N, ...].
        """
        self.replay.store(*columns)

    def columns(self, rows):
        """Return each field of some transitions as an array [B, ...].

        Args:
            rows: i64[B], 0 the oldest.

        Raises:
            ValueError: rows that are not stored, or more of them than are stored.
        """
        check_rows(rows, len(self))
        slots = self.slots(rows)
        return [field[slots] for field in self.fields]

    def slots(self, rows):
        """Return where in the ring some transitions lie, i64[B].

        Args:
            rows: i64[B], 0 the oldest.
        """
        return rows if self.replay.pushed <= self.capacity else (self.replay.pushed + rows) % self.capacity

    def arrays(self):
        """Return all that is stored, each field as one array, oldest first."""
        slots = self.slots(np.arange(len(self)))
        return tuple(field[slots] for field in self.fields)

    def restore(self, *columns):
        """Store these transitions and no others.

        Args:
            columns: the fields of :data:`FIELDS`, arrays [N, ...], oldest first.
        """
        self.replay.pushed = 0
        self.push_many(*columns)

    def mark(self):
        """Return a copy of what is stored now, for :meth:`rewind`."""
        return self.arrays()

    def rewind(self, mark):
        """Store what was stored when ``mark`` was made.

        Args:
            mark: what :meth:`mark` returned.
        """
        self.restore(*mark)


def check_rows(rows, stored):
    """Check that all rows are stored.

    Args:
        rows: i64[B], 0 the oldest.
        stored: number of transitions that are stored.

    Raises:
        ValueError: no rows, more than are stored, or one that is not.
    """
    if len(rows) > stored or len(rows) == 0:
        raise ValueError(f"rows: got {len(rows)} of them, wanted 1 to {stored}, the number of transitions stored")
    if rows.min() < 0 or rows.max() >= stored:
        raise ValueError(f"rows: got {rows.min()} to {rows.max()}, wanted 0 to {stored - 1}, the transitions stored")


def make_memory(kind, capacity, size):
    """Return an empty memory.

    Args:
        kind: value of the knob ``memory``: lists, arrays or ring.
        capacity: transitions that are kept.
        size: numbers of a board.

    Raises:
        ValueError: a capacity below 1.
    """
    if capacity < 1:
        raise ValueError(f"capacity: got {capacity}, wanted 1 or more")
    if kind == "ring":
        return RingMemory(capacity, size)
    return DequeMemory(capacity, size, {"lists": np.ndarray.tolist, "arrays": np.copy}[kind])
