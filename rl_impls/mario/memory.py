"""Replay buffer of single frames, with one lane per environment; uniform or prioritised.

A lane is a ring buffer of L rows. Row ``lane * L + slot`` stores a frame, the action, the reward, whether the step
terminated its episode, and the step's index in its episode. A frame is stored once, however many stacks contain it.

A row is linked to the row before it if that one did not end an episode and its index is one lower. Where an experience
was lost or a collector was replaced, the index jumps although no episode ended. A row is valid, and may be sampled, if
the part of its stack that lies in its episode is stored and its outcome is known: the episode ended there, or the next
row is linked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..common.replay import PUSHED, Replay
from .sum_tree import GREATEST, LiteralSumTree, SumTree

STACK = 4  # frames of an observation
FIELDS = {  # dtype of each stored field
    "frames": np.uint8, "actions": np.int32, "rewards": np.float32, "terminated": np.bool_, "times": np.int32,
}  # fmt: skip


class Batch(NamedTuple):
    """Transitions. An observation is a stack of frames, oldest first, with zeros before the start of its episode.

    The next observation of a step that ended an episode has zeros as its newest frame.
    """

    obs: Any  # u8[B, stack, side, side]
    actions: Any  # i32[B]
    rewards: Any  # f32[B]
    next_obs: Any  # u8[B, stack, side, side]
    terminated: Any  # f32[B], 1 where the episode ended


class Newest(NamedTuple):
    """The newest row of a lane, to which the next row may be linked."""

    time: int
    terminated: bool
    run: int  # linked rows directly before it, counted up to ``stack - 1``


NONE = Newest(-1, True, 0)


def follow(newest, terminated, times, behind):
    """Link new rows of a lane to the row before them, and decide which rows are valid.

    ``newest`` is the row before them. There are n > 0 new ones: terminated bool[n], times i32[n]. ``behind`` is the
    number of earlier rows in a full stack, ``stack - 1``.

    Returns:
        whether the row before them becomes valid; bool[n], whether each new row is valid, provided that all rows before
        it are stored; and the new newest row.
    """
    linked = np.empty(len(times), bool)
    linked[0] = not newest.terminated and times[0] == newest.time + 1
    np.equal(times[1:], times[:-1] + 1, out=linked[1:])
    linked[1:] &= ~terminated[:-1]
    places = np.arange(len(times))
    runs = places - np.maximum.accumulate(np.where(linked, -1 - newest.run, places))
    whole = runs >= np.minimum(times, behind)
    known = terminated.copy()
    known[:-1] |= linked[1:]
    gained = bool(linked[0]) and newest.run >= min(newest.time, behind)
    return gained, whole & known, Newest(int(times[-1]), bool(terminated[-1]), min(int(runs[-1]), behind))


class FrameReplay:
    """Uniform replay of the last ``capacity`` steps of several environments, the same number for each.

    Args:
        capacity: number of rows; a multiple of ``lanes``, and at least ``(stack + 1) * lanes``.
        lanes: number of environments.
        side: height and width of a frame in pixels.
        stack: frames per observation.
        planes: pictures per stored frame, [planes, side, side], for collectors that send stacks; 0 for [side, side].

    Attributes:
        fields: the arrays of all rows, by the names in :data:`FIELDS`; ``frames`` has one more row, of zeros.
        valid: bool[capacity], which rows may be sampled.
        held: changes of ``valid`` postponed until :meth:`release`; None unless :meth:`hold` is in force.

    Raises:
        ValueError: the lanes cannot share the capacity, or, in a method, no row or an invalid row is sampled.
    """

    def __init__(self, capacity, lanes, side, stack=STACK, planes=0):
        if capacity % lanes or capacity < (stack + 1) * lanes:
            raise ValueError(f"capacity={capacity} should be a multiple of {lanes}, and at least {(stack + 1) * lanes}")
        self.capacity, self.lanes, self.stack, self.length = capacity, lanes, stack, capacity // lanes
        self.shape = (planes, side, side) if planes else (side, side)
        shapes = {"frames": (capacity + 1, *self.shape)}
        self.fields = {name: np.zeros(shapes.get(name, capacity), dtype) for name, dtype in FIELDS.items()}
        self.rings = [
            Replay.over(**{name: field[base : base + self.length] for name, field in self.fields.items()})
            for base in range(0, capacity, self.length)
        ]
        self.valid, self.newest, self.held = np.zeros(capacity, bool), [NONE] * lanes, None

    def __len__(self):
        """Return the number of stored rows in all lanes."""
        return sum(map(len, self.rings))

    def push(self, lane, frame, action, reward, terminated, time):
        """Store one step, in place of the lane's oldest row once the lane is full.

        ``frame`` is u8[side, side], or u8[planes, side, side]; ``time`` is the step's index in its episode, from 0.
        """
        ring, behind, base, before = self.rings[lane], self.stack - 1, lane * self.length, self.newest[lane]
        slot, time, terminated = ring.pushed % self.length, int(time), bool(terminated)
        for field, value in zip(ring.fields.values(), (frame, action, reward, terminated, time)):
            field[slot] = value
        ring.pushed += 1
        linked = not before.terminated and time == before.time + 1
        run = min(before.run + 1, behind) if linked else 0
        self.newest[lane] = Newest(time, terminated, run)
        rows, flags = [base + slot], [terminated and run >= min(time, behind)]
        if linked and before.run >= min(before.time, behind):
            rows.append(base + (slot - 1) % self.length)
            flags.append(True)
        if ring.pushed > self.length:
            for age in range(behind):
                oldest = base + (slot + 1 + age) % self.length
                if self.fields["times"][oldest] > age:
                    rows.append(oldest)
                    flags.append(False)
        self._mark(rows, flags)

    def push_batch(self, lane, frames, actions, rewards, terminated, times):
        """Store n steps of an environment, as n calls of :meth:`push` would.

        frames u8[n, side, side], oldest first, actions i32[n], rewards f32[n], terminated bool[n], times i32[n]; n, at
        least 1, may exceed the lane.
        """
        ring, behind, base, count = self.rings[lane], self.stack - 1, lane * self.length, len(times)
        ring.store(frames, actions, rewards, terminated, times)
        gained, flags, self.newest[lane] = follow(self.newest[lane], terminated, times, behind)
        kept = min(count, self.length)
        rows = base + np.arange(ring.pushed - kept, ring.pushed) % self.length
        parts, marks = [rows], [flags[-kept:]]
        if gained and count < self.length:
            parts.append([base + (ring.pushed - count - 1) % self.length])
            marks.append([True])
        if ring.pushed > self.length:
            oldest = base + np.arange(ring.pushed, ring.pushed + behind) % self.length
            torn = oldest[self.fields["times"].take(oldest) > np.arange(behind)]
            parts.append(torn)
            marks.append(np.zeros(len(torn), bool))
        self._mark(np.concatenate(parts), np.concatenate(marks))

    def clear(self):
        """Remove all rows."""
        for ring in self.rings:
            ring.pushed = 0
        self.newest, self.held = [NONE] * self.lanes, None
        self._flag(np.arange(self.capacity), np.zeros(self.capacity, bool))

    def hold(self, incoming):
        """Freeze ``valid`` until :meth:`release`, so that sampling does not depend on when experiences arrive.

        New rows stay invalid. Rows become invalid now if ``incoming`` new steps per lane would overwrite them or a part
        of their stack.
        """
        self.held = []
        for lane, ring in enumerate(self.rings):
            base, oldest = lane * self.length, max(0, ring.pushed - self.length)
            gone = ring.pushed + incoming - self.length - oldest
            if gone > 0:
                rows = base + np.arange(oldest, oldest + gone + self.stack - 1) % self.length
                torn = self.fields["times"].take(rows[gone:]) > np.arange(self.stack - 1)
                rows = np.concatenate([rows[:gone], rows[gone:][torn]])
                self._flag(rows, np.zeros(len(rows), bool))

    def release(self):
        """Apply the changes of ``valid`` postponed since :meth:`hold`."""
        held, self.held = self.held or [], None
        for rows, flags in held:
            self._flag(rows, flags)

    def valid_rows(self):
        """Return the rows that may be sampled, i64[M], ascending."""
        return np.flatnonzero(self.valid)

    def draw(self, rng, batch_size):
        """Sample rows uniformly with replacement, i64[B]; at least one row must be valid."""
        # most rows are valid once the lanes are full
        rows = rng.integers(self.capacity, size=batch_size + batch_size // 8 + 8)
        rows = rows[self.valid.take(rows)][:batch_size]
        if len(rows) < batch_size:
            valid = self.valid_rows()
            if not len(valid):
                raise ValueError("the replay buffer has no valid row to sample")
            rows = np.concatenate([rows, valid[rng.integers(len(valid), size=batch_size - len(rows))]])
        return rows

    def frames_of(self, batch_size):
        """Allocate ``out`` of :meth:`gather` for a batch of B, u8[B, stack + 1, side, side]."""
        return np.empty((batch_size, self.stack + 1, *self.shape), np.uint8)

    def gather(self, rows, out=None):
        """Return the :class:`Batch` in valid rows i64[B].

        The frames of both observations are gathered once: ``obs`` and ``next_obs`` are views of the same array, which
        is ``out``, contiguous u8[B, stack + 1, side, side], if given.
        """
        self._check_rows(rows)
        fields, out = self.fields, self.frames_of(len(rows)) if out is None else out
        slots, terminated = rows % self.length, fields["terminated"].take(rows)
        around = slots[:, None] + np.arange(1 - self.stack, 2)
        around %= self.length
        around += (rows - slots)[:, None]
        blank = np.arange(self.stack - 1, -2, -1) > fields["times"].take(rows)[:, None]
        blank[:, -1] = terminated
        around[blank] = self.capacity  # the row of zeros
        fields["frames"].take(around, axis=0, out=out, mode="clip")  # "raise" would gather into a copy of out
        actions, rewards = fields["actions"].take(rows), fields["rewards"].take(rows)
        return Batch(out[:, :-1], actions, rewards, out[:, 1:], terminated.astype(np.float32))

    def gather_one_by_one(self, rows):
        """Return the same as :meth:`gather`, stacking the frames of each transition separately."""
        self._check_rows(rows)
        frames, actions, rewards, terminated, times = self.fields.values()
        obs, next_obs, blank = [], [], frames[self.capacity]
        for row in rows.tolist():
            slot, stack = row % self.length, []
            for back in range(self.stack - 1, -1, -1):
                stack.append(blank if back > times[row] else frames[row - slot + (slot - back) % self.length])
            obs.append(np.stack(stack))
            newest = blank if terminated[row] else frames[row - slot + (slot + 1) % self.length]
            next_obs.append(np.stack([*stack[1:], newest]))
        return Batch(
            np.stack(obs), np.array([actions[row] for row in rows]), np.array([rewards[row] for row in rows]),
            np.stack(next_obs), np.array([terminated[row] for row in rows], np.float32),
        )  # fmt: skip

    def arrays(self):
        """Return a copy of the stored rows by field, and ``pushed`` i64[lanes], the steps ever pushed to each lane."""
        pushed = np.array([ring.pushed for ring in self.rings])
        rows = self._stored_rows(pushed)
        return {**{name: field[rows] for name, field in self.fields.items()}, PUSHED: pushed}

    def restore(self, arrays):
        """Replace the contents by what :meth:`arrays` returned."""
        self.clear()
        rows = self._stored_rows(arrays[PUSHED])
        for name, field in self.fields.items():
            field[rows] = arrays[name]
        for lane, (ring, pushed) in enumerate(zip(self.rings, arrays[PUSHED].tolist())):
            ring.pushed = pushed
            if pushed:
                rows = lane * self.length + np.arange(max(0, pushed - self.length), pushed) % self.length
                terminated, times = self.fields["terminated"][rows], self.fields["times"][rows]
                _, self.valid[rows], self.newest[lane] = follow(NONE, terminated, times, self.stack - 1)

    def _stored_rows(self, pushed):
        """Return the rows that are stored after ``pushed`` i64[lanes] steps per lane, ascending."""
        return np.flatnonzero(np.arange(self.length) < pushed[:, None])

    def _check_rows(self, rows):
        if not self.valid.take(rows).all():
            raise ValueError(f"rows {rows[~self.valid.take(rows)].tolist()} are not valid and cannot be sampled")

    def _mark(self, rows, flags):
        """Set ``valid`` of some rows, now or on release; if a row occurs twice, its last flag counts."""
        if self.held is None:
            self._flag(rows, flags)
        else:
            self.held.append((rows, flags))

    def _flag(self, rows, flags):
        self.valid[rows] = flags


class PrioritisedReplay(FrameReplay):
    """Replay sampled by priority: ``P(row) = p(row) / sum(p)``, ``p = (|error| + epsilon)^alpha``.

    Schaul et al. 2016, proportional variant. A row that becomes valid gets the largest priority so far, at first 1; an
    invalid row has priority 0. The other arguments are those of :class:`FrameReplay`.

    Args:
        alpha: priority exponent, from 0.0 (uniform) to 1.0.
        beta: importance-sampling exponent, from 0.0 to 1.0 (full correction).
        beta_increment: increase of beta after each draw, up to 1.0.
        epsilon: added to the absolute error, more than 0.0.
        literal: keep the priorities in a :class:`.sum_tree.LiteralSumTree`.
    """

    def __init__(
        self, capacity, lanes, side, stack=STACK,
        *, alpha=0.6, beta=0.4, beta_increment=1e-6, epsilon=1e-6, literal=False,
    ):  # fmt: skip
        super().__init__(capacity, lanes, side, stack)
        self.alpha, self.beta, self.beta_increment, self.epsilon = alpha, beta, beta_increment, epsilon
        self.tree, self.greatest = (LiteralSumTree if literal else SumTree)(self.capacity), 1.0
        self.first_beta = self.beta

    def draw(self, uniforms):
        """Sample rows by priority, one from each of B equal parts of the sum of priorities.

        ``uniforms``, f32 or f64[B] from 0 to 1, are the position of each sample in its part. Returns rows i64[B], and
        importance weights f32[B]: ``(N P(row))^-beta`` over the largest in the batch, N valid rows.
        """
        total, batch_size = self.tree.total, len(uniforms)
        if not total > 0:
            raise ValueError("the replay buffer has no valid row to sample")
        masses = np.minimum((np.arange(batch_size) + uniforms) * (total / batch_size), total)
        rows = self.tree.find(masses)
        priorities = self.tree.get(rows)
        weights = (priorities.min() / priorities) ** self.beta  # 1 for the rarest; N and the sum cancel out
        self.beta = min(1.0, self.beta + self.beta_increment)
        return rows, weights.astype(np.float32)

    def update(self, rows, errors):
        """Set the priorities of rows i64[B] from their TD errors, f32 or f64[B].

        If a row occurs more than once, its last error counts. Rows that have become invalid since they were sampled
        keep priority 0.

        Raises:
            FloatingPointError: an error is infinite or NaN; nothing is changed.
        """
        sizes = np.abs(errors, dtype=np.float64)
        sizes += self.epsilon
        if not sizes.max() <= GREATEST:  # also true for NaN
            raise FloatingPointError("a TD error became infinite or NaN")
        priorities = sizes**self.alpha
        priorities *= self.valid.take(rows)
        self.greatest = max(self.greatest, float(priorities.max()))
        self.tree.set(rows, priorities)

    def arrays(self):
        """Return the stored rows with ``priorities`` f64, ``beta`` f64[] and the largest priority f64[]."""
        found = super().arrays()
        priorities = self.tree.get(self._stored_rows(found[PUSHED]))
        return {**found, "priorities": priorities, "beta": np.array(self.beta), "greatest": np.array(self.greatest)}

    def restore(self, arrays):
        """Restore rows, priorities and beta."""
        super().restore(arrays)
        self.tree.set(self._stored_rows(arrays[PUSHED]), arrays["priorities"])
        self.beta, self.greatest = float(arrays["beta"]), float(arrays["greatest"])

    def clear(self):
        """Remove all rows; reset beta and the largest priority."""
        super().clear()
        self.beta, self.greatest = self.first_beta, 1.0

    def _flag(self, rows, flags):
        super()._flag(rows, flags)
        self.tree.set(np.asarray(rows), np.asarray(flags) * self.greatest)
