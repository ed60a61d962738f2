"""Replay buffer of single frames, with one lane per stream of experience; uniform or prioritised.

A lane is a ring buffer of L rows. Row ``lane * L + slot`` stores a frame, the action, the reward, whether the episode
ended with that step, and the step's index in its episode. A frame is stored once, however many stacks contain it.

A row is linked to the row before it if that one did not end an episode and its index is one lower; otherwise an
experience was lost in between, or a collector was replaced. A row is valid, and may be sampled, if the part of its
stack that lies in its episode is stored and its outcome is known: the episode ended there, or the next row is linked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..common.checks import LARGEST, check_integer, check_number
from ..common.replay import PUSHED, Replay
from .sum_tree import GREATEST, LiteralSumTree, SumTree

STACK = 4
FIELDS = ("frames", "actions", "rewards", "ends", "times")
DTYPES = (np.uint8, np.int32, np.float32, np.bool_, np.int32)
LARGEST_REWARD = float(np.finfo(np.float32).max)
PRIORITIES, BETA, GREATEST_YET = "priorities", "beta", "greatest"


class Batch(NamedTuple):
    """Transitions. A state is a stack of frames, oldest first, with zeros before the start of its episode.

    The next state of a step that ended an episode has zeros as its newest frame.
    """

    states: Any  # u8[B, stack, side, side]
    actions: Any  # i32[B]
    rewards: Any  # f32[B]
    next_states: Any  # u8[B, stack, side, side]
    ends: Any  # f32[B], 1 where the episode ended


class Newest(NamedTuple):
    """The newest row of a lane, to which the next row may be linked."""

    time: int
    end: bool
    run: int  # linked rows directly before it, counted up to ``stack - 1``


NONE = Newest(-1, True, 0)


def follow(newest, ends, times, behind):
    """Link new rows of a lane to the row before them, and decide which rows are valid.

    Args:
        newest: the :class:`Newest` row before them.
        ends: bool[n], n > 0, whether each step ended its episode.
        times: i32[n], index of each step in its episode.
        behind: number of earlier rows in a full stack, ``stack - 1``.

    Returns:
        whether the row before them becomes valid; bool[n], whether each new row is valid, provided that all rows before
        it are stored; and the new newest row.
    """
    linked = np.empty(len(times), bool)
    linked[0] = not newest.end and times[0] == newest.time + 1
    np.equal(times[1:], times[:-1] + 1, out=linked[1:])
    linked[1:] &= ~ends[:-1]
    places = np.arange(len(times))
    runs = places - np.maximum.accumulate(np.where(linked, -1 - newest.run, places))
    whole = runs >= np.minimum(times, behind)
    known = ends.copy()
    known[:-1] |= linked[1:]
    gained = bool(linked[0]) and newest.run >= min(newest.time, behind)
    return gained, whole & known, Newest(int(times[-1]), bool(ends[-1]), min(int(runs[-1]), behind))


class FrameReplay:
    """Uniform replay of the last ``capacity`` steps of several streams, the same number for each.

    Args:
        capacity: number of rows; a multiple of ``lanes``, and at least ``(stack + 1) * lanes``.
        lanes: number of streams.
        side: height and width of a frame in pixels.
        stack: frames per state.
        planes: pictures per stored frame, [planes, side, side], for collectors that send stacks; 0 for [side, side].

    Attributes:
        fields: the arrays of all rows, by the names in :data:`FIELDS`; ``frames`` has one more row, of zeros.
        valid: bool[capacity], which rows may be sampled.
        held: changes of ``valid`` postponed until :meth:`release`; None unless :meth:`hold` is in force.

    Raises:
        ValueError: invalid argument, here and in the methods; nothing is changed.
    """

    def __init__(self, capacity, lanes, side, stack=STACK, planes=0):
        capacity = check_integer("capacity", capacity, 1)
        lanes, side = check_integer("lanes", lanes, 1), check_integer("side", side, 1)
        stack, planes = check_integer("stack", stack, 1), check_integer("planes", planes, 0)
        if capacity % lanes or capacity < (stack + 1) * lanes:
            raise ValueError(
                f"capacity: got {capacity}, wanted as many rows in each of {lanes} lanes, {stack + 1} or more"
            )
        self.capacity, self.lanes, self.stack, self.length = capacity, lanes, stack, capacity // lanes
        self.shape = (planes, side, side) if planes else (side, side)
        shapes = ((capacity + 1, *self.shape), *[(capacity,)] * 4)
        self.fields = {name: np.zeros(shape, dtype) for name, shape, dtype in zip(FIELDS, shapes, DTYPES)}
        bases = range(0, capacity, self.length)
        self.rings = [
            Replay.over(**{name: field[base : base + self.length] for name, field in self.fields.items()})
            for base in bases
        ]
        self.valid, self.newest, self.held = np.zeros(capacity, bool), [NONE] * lanes, None

    def __len__(self):
        """Return the number of stored rows in all lanes."""
        return sum(map(len, self.rings))

    def push(self, lane, frame, action, reward, end, time):
        """Store one step, in place of the lane's oldest row once the lane is full.

        ``frame`` is u8[side, side], or u8[planes, side, side]; ``time`` is the step's index in its episode, from 0.
        """
        lane = check_integer("lane", lane, 0, self.lanes - 1)
        frame = check_like("frame", frame, np.uint8, self.shape)
        action, time = check_integer("action", action, -LARGEST - 1), check_integer("time", time, 0)
        reward = check_number("reward", reward, -LARGEST_REWARD, LARGEST_REWARD)
        if not isinstance(end, bool | np.bool_):
            raise ValueError(f"end: got {end!r}, wanted True or False")
        ring, behind, base, before = self.rings[lane], self.stack - 1, lane * self.length, self.newest[lane]
        slot = ring.pushed % self.length
        for field, value in zip(ring.fields.values(), (frame, action, reward, end, time)):
            field[slot] = value
        ring.pushed += 1
        linked = not before.end and time == before.time + 1
        run = min(before.run + 1, behind) if linked else 0
        self.newest[lane] = Newest(time, bool(end), run)
        rows, flags = [base + slot], [bool(end) and run >= min(time, behind)]
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

    def push_batch(self, lane, frames, actions, rewards, ends, times):
        """Store n steps of a stream, as n calls of :meth:`push` would.

        Args:
            lane: index of the stream.
            frames: u8[n, side, side], oldest first; n may be 0, or larger than the lane.
            actions: i32[n].
            rewards: f32[n].
            ends: bool[n], whether each step ended its episode.
            times: i32[n], index of each step in its episode.
        """
        lane = check_integer("lane", lane, 0, self.lanes - 1)
        given = [np.asarray(column) for column in (frames, actions, rewards, ends, times)]
        count = len(given[0]) if given[0].ndim else 0
        for name, column, dtype in zip(FIELDS, given, DTYPES):
            check_like(name, column, dtype, (count, *self.shape) if name == "frames" else (count,))
        *_, ends, times = given
        if not count:
            return
        check_times(times)
        check_rewards(given[2])
        ring, behind, base = self.rings[lane], self.stack - 1, lane * self.length
        ring.store(*given)
        gained, flags, self.newest[lane] = follow(self.newest[lane], ends, times, behind)
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
        check_integer("incoming", incoming, 0, self.length)
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

    def draw(self, rng, batch):
        """Sample ``batch`` rows uniformly with replacement, i64[B]; at least one row must be valid."""
        check_integer("batch", batch, 1)
        rows = rng.integers(self.capacity, size=batch + batch // 8 + 8)  # most are valid once the lanes are full
        rows = rows[self.valid.take(rows)][:batch]
        if len(rows) < batch:
            valid = self.valid_rows()
            if not len(valid):
                raise ValueError(f"batch: got {batch}, wanted a replay of one valid row or more")
            rows = np.concatenate([rows, valid[rng.integers(len(valid), size=batch - len(rows))]])
        return rows

    def frames_of(self, batch):
        """Allocate ``out`` of :meth:`gather` for a batch of B, u8[B, stack + 1, side, side]."""
        return np.empty((check_integer("batch", batch, 1), self.stack + 1, *self.shape), np.uint8)

    def gather(self, rows, out=None):
        """Return the :class:`Batch` in valid rows i64[B].

        The frames of both states are gathered once: ``states`` and ``next_states`` are views of the same array, which
        is ``out`` u8[B, stack + 1, side, side] if given.
        """
        rows, fields = self._check_rows(rows), self.fields
        shape = (len(rows), self.stack + 1, *self.shape)
        if out is None:
            out = np.empty(shape, np.uint8)
        elif check_like("out", out, np.uint8, shape) is not out or not out.flags.carray:
            raise ValueError("out: got an array that is not contiguous, or is read only, wanted one as of frames_of")
        slots, ends = rows % self.length, fields["ends"].take(rows)
        around = slots[:, None] + np.arange(1 - self.stack, 2)
        around %= self.length
        around += (rows - slots)[:, None]
        blank = np.arange(self.stack - 1, -2, -1) > fields["times"].take(rows)[:, None]
        blank[:, -1] = ends
        around[blank] = self.capacity  # the row of zeros
        fields["frames"].take(around, axis=0, out=out, mode="clip")  # "raise" would gather into a copy of out
        return Batch(
            out[:, :-1], fields["actions"].take(rows), fields["rewards"].take(rows), out[:, 1:], ends.astype(np.float32)
        )

    def gather_one_by_one(self, rows):
        """Return the same as :meth:`gather`, stacking the frames of each transition separately."""
        frames, actions, rewards, ends, times = self.fields.values()
        states, next_states, blank = [], [], frames[self.capacity]
        for row in self._check_rows(rows).tolist():
            slot, stack = row % self.length, []
            for back in range(self.stack - 1, -1, -1):
                stack.append(blank if back > times[row] else frames[row - slot + (slot - back) % self.length])
            states.append(np.stack(stack))
            newest = blank if ends[row] else frames[row - slot + (slot + 1) % self.length]
            next_states.append(np.stack([*stack[1:], newest]))
        return Batch(
            np.stack(states), np.array([actions[row] for row in rows]), np.array([rewards[row] for row in rows]),
            np.stack(next_states), np.array([ends[row] for row in rows], np.float32),
        )  # fmt: skip

    def sample(self, rng, batch, out=None):
        """Sample a :class:`Batch` uniformly; for ``out`` see :meth:`gather`."""
        return self.gather(self.draw(rng, batch), out)

    def arrays(self):
        """Return a copy of the stored rows by field, and ``pushed`` i64[lanes], the steps ever pushed to each lane."""
        pushed = np.array([ring.pushed for ring in self.rings])
        rows = np.flatnonzero(self._stored(pushed))
        return {**{name: field[rows] for name, field in self.fields.items()}, PUSHED: pushed}

    def restore(self, arrays):
        """Replace the contents by those of :meth:`arrays`; raise a ValueError if they do not fit this replay."""
        self._put_back(arrays, *self._read(arrays))

    def _stored(self, pushed):
        """Return which rows are stored after ``pushed`` i64[lanes] steps per lane, bool[capacity]."""
        return (np.arange(self.length) < pushed[:, None]).reshape(-1)

    def _read(self, arrays, more=()):
        """Check arrays; return which rows are stored, which of them are valid, and each lane's newest row."""
        wanted = {*FIELDS, PUSHED, *more}
        if arrays.keys() != wanted:
            raise ValueError(f"arrays: got {sorted(arrays)}, wanted {sorted(wanted)}")
        pushed = check_like(PUSHED, arrays[PUSHED], np.int64, (self.lanes,))
        if pushed.min() < 0:
            raise ValueError(f"{PUSHED}: got {pushed.min()}, wanted 0 or more")
        stored = self._stored(pushed)
        for name, dtype in zip(FIELDS, DTYPES):
            check_like(name, arrays[name], dtype, (int(stored.sum()), *self.fields[name].shape[1:]))
        if len(arrays["times"]):
            check_times(arrays["times"])
            check_rewards(arrays["rewards"])
        ends, times, valid = np.zeros(self.capacity, bool), np.zeros(self.capacity, np.int32), np.zeros_like(self.valid)
        ends[stored], times[stored] = arrays["ends"], arrays["times"]
        newest = [NONE] * self.lanes
        for lane, count in enumerate(pushed.tolist()):
            if count:
                rows = lane * self.length + np.arange(max(0, count - self.length), count) % self.length
                _, valid[rows], newest[lane] = follow(NONE, ends[rows], times[rows], self.stack - 1)
        return stored, valid, newest

    def _put_back(self, arrays, stored, valid, newest):
        rows = np.flatnonzero(stored)
        for name in FIELDS:
            self.fields[name][rows] = arrays[name]
        self.valid[:], self.newest = valid, newest
        for ring, pushed in zip(self.rings, arrays[PUSHED].tolist()):
            ring.pushed = pushed

    def _check_rows(self, rows):
        rows = np.asarray(rows)
        if rows.dtype != np.int64 or rows.ndim != 1 or not rows.size:
            raise ValueError(f"rows: got {rows.dtype}{list(rows.shape)}, wanted int64[B], B of 1 or more")
        inside = rows.view(np.uint64).max() < self.capacity  # a negative row becomes a very large one
        if not inside or not self.valid.take(rows).all():
            wrong = rows[~np.isin(rows, self.valid_rows())][0]
            raise ValueError(f"rows: got {wrong}, wanted any of the {int(self.valid.sum())} valid rows")
        return rows

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
        self.alpha, self.beta = check_number("alpha", alpha, 0.0, 1.0), check_number("beta", beta, 0.0, 1.0)
        self.beta_increment = check_number("beta_increment", beta_increment, 0.0, 1.0)
        self.epsilon = check_number("epsilon", epsilon, 0.0)
        if not 0 < self.epsilon <= GREATEST:
            raise ValueError(f"epsilon: got {epsilon}, wanted more than 0, to {GREATEST:g}")
        super().__init__(capacity, lanes, side, stack)
        self.tree, self.greatest = (LiteralSumTree if literal else SumTree)(self.capacity), 1.0
        self.first_beta = self.beta

    def draw(self, uniforms):
        """Sample rows by priority, one from each of B equal parts of the sum of priorities.

        Args:
            uniforms: f32 or f64[B] from 0 to 1, the position of each sample in its part.

        Returns:
            rows i64[B], and importance weights f32[B]: ``(N P(row))^-beta`` over the largest in the batch, N valid
            rows.

        Raises:
            ValueError: invalid ``uniforms``, or no row is valid.
        """
        uniforms = np.asarray(uniforms)
        if uniforms.ndim != 1 or not uniforms.size or uniforms.dtype not in (np.float32, np.float64):
            raise ValueError(f"uniforms: got {uniforms.dtype}{list(uniforms.shape)}, wanted float32 or float64[B]")
        if not (uniforms.min() >= 0 and uniforms.max() <= 1):
            raise ValueError(f"uniforms: got {uniforms.min()} to {uniforms.max()}, wanted 0 to 1")
        total, batch = self.tree.total, len(uniforms)
        if not total > 0:
            raise ValueError(f"uniforms: got {batch}, wanted a replay of one valid row or more")
        masses = np.minimum((np.arange(batch) + uniforms) * (total / batch), total)
        rows = self.tree.find(masses)
        priorities = self.tree.get(rows)
        weights = (priorities.min() / priorities) ** self.beta  # 1 for the rarest; N and the sum cancel out
        self.beta = min(1.0, self.beta + self.beta_increment)
        return rows, weights.astype(np.float32)

    def sample(self, rng, batch, out=None):
        """Sample a batch by priority; also return its rows i64[B], for :meth:`update`, and weights f32[B]."""
        rows, weights = self.draw(rng.random(check_integer("batch", batch, 1)))
        return self.gather(rows, out), rows, weights

    def update(self, rows, errors):
        """Set the priorities of rows i64[B] from their TD errors, f32 or f64[B].

        If a row occurs more than once, its last error counts. Rows that have become invalid since they were sampled
        keep priority 0.
        """
        rows, errors = np.asarray(rows), np.asarray(errors)
        if rows.dtype != np.int64 or rows.ndim != 1:
            raise ValueError(f"rows: got {rows.dtype}{list(rows.shape)}, wanted int64[B]")
        if errors.shape != rows.shape or errors.dtype not in (np.float32, np.float64):
            raise ValueError(f"errors: got {errors.dtype}{list(errors.shape)}, wanted float32 or float64[{len(rows)}]")
        if not rows.size:
            return
        if rows.view(np.uint64).max() >= self.capacity:
            raise ValueError(f"rows: got {rows.min()} to {rows.max()}, wanted 0 to {self.capacity - 1}")
        sizes = np.abs(errors, dtype=np.float64)
        sizes += self.epsilon
        largest = sizes.max()
        if not largest <= GREATEST:  # also true for NaN
            raise ValueError(f"errors: got {errors[~(sizes <= GREATEST)][0]}, wanted finite numbers to {GREATEST:g}")
        priorities = sizes**self.alpha
        priorities *= self.valid.take(rows)
        self.greatest = max(self.greatest, float(priorities.max()))
        self.tree.put(rows, priorities)

    def arrays(self):
        """Return the stored rows with ``priorities`` f64, ``beta`` f64[] and the largest priority f64[]."""
        found = super().arrays()
        priorities = self.tree.get(np.flatnonzero(self._stored(found[PUSHED])))
        return {**found, PRIORITIES: priorities, BETA: np.array(self.beta), GREATEST_YET: np.array(self.greatest)}

    def restore(self, arrays):
        """Restore rows, priorities and beta from :meth:`arrays`, after checking that they fit."""
        stored, valid, newest = self._read(arrays, (PRIORITIES, BETA, GREATEST_YET))
        rows = np.flatnonzero(stored)
        priorities = check_like(PRIORITIES, arrays[PRIORITIES], np.float64, rows.shape)
        beta, greatest = (float(check_like(name, arrays[name], np.float64, ())) for name in (BETA, GREATEST_YET))
        if not 0 <= beta <= 1:
            raise ValueError(f"{BETA}: got {beta}, wanted 0 to 1")
        if not 1 <= greatest <= GREATEST:
            raise ValueError(f"{GREATEST_YET}: got {greatest}, wanted 1 to {GREATEST:g}")
        right = np.where(valid[rows], (priorities > 0) & (priorities <= greatest), priorities == 0)
        if not right.all():
            wanted = f"more than 0 to {greatest} for a valid row, 0 for any other"
            raise ValueError(f"{PRIORITIES}: got {priorities[~right][0]}, wanted {wanted}")
        self._put_back(arrays, stored, valid, newest)
        full = np.zeros(self.capacity)
        full[rows] = priorities
        self.tree.put(np.arange(self.capacity), full)
        self.beta, self.greatest = beta, greatest

    def clear(self):
        """Remove all rows; reset beta and the largest priority."""
        super().clear()
        self.beta, self.greatest = self.first_beta, 1.0

    def _flag(self, rows, flags):
        super()._flag(rows, flags)
        self.tree.put(np.asarray(rows), np.asarray(flags) * self.greatest)


def check_like(name, value, dtype, shape):
    """Return ``value`` as an array; raise a ValueError unless it has this dtype and shape."""
    array = np.asarray(value)
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name}: got {array.dtype}{list(array.shape)}, wanted {np.dtype(dtype)}{list(shape)}")
    return array


def check_times(times):
    """Raise a ValueError if a step's index i32[n], n > 0, is negative."""
    if times.min() < 0:
        raise ValueError(f"times: got {times.min()}, wanted 0 or more")


def check_rewards(rewards):
    """Raise a ValueError if a reward f32[n], n > 0, is infinite or NaN."""
    if not np.isfinite(rewards).all():
        raise ValueError(f"rewards: got {rewards[~np.isfinite(rewards)][0]}, wanted finite numbers")
