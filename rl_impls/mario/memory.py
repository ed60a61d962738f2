"""The replay of single frames from several collectors: a ring in each lane, read as stacks; uniform or by priority.

Each collector has a lane of L rows; row ``lane * L + slot`` is a frame, the action taken there, the reward, whether the
episode ended with that step, and the number of the step in its episode. A frame is stored once, however many stacks it
is in. A row follows the one before it where that did not end an episode and its step is the next: nothing else shows
that an item was lost on its way, or that a collector was replaced. A row is valid, and may be sampled, where all of
its stack that lies in its episode is stored, and what came of it too: its episode ended there, or the next row follows.
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
    """Transitions: a state is a stack of frames, oldest first, zeros for those before its episode began.

    The next state of a step that ended an episode has zeros as its newest frame.
    """

    states: Any  # u8[B, stack, side, side]
    actions: Any  # i32[B]
    rewards: Any  # f32[B]
    next_states: Any  # u8[B, stack, side, side]
    ends: Any  # f32[B], 1 where the episode ended


class Newest(NamedTuple):
    """What is known of the newest row of a lane: whatever comes next follows it, or does not."""

    time: int
    end: bool
    run: int  # rows in a row before it of which each follows the one before, of ``stack - 1`` that a stack needs


NONE = Newest(-1, True, 0)


def follow(newest, ends, times, behind):
    """Tell which rows of a lane are linked: what was there before them, and what they are good for.

    Args:
        newest: the :class:`Newest` row before them.
        ends: whether an episode ended with each, bool[n], n > 0.
        times: the number of each step in its episode, i32[n].
        behind: rows before it that a stack needs, at most.

    Returns:
        whether the row before them is valid now, and was not before; whether each is valid, bool[n], all rows before
        them being stored; the newest of them.
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
    """The last ``capacity`` steps of some collectors, as many of each; transitions are drawn uniformly.

    Args:
        capacity: rows that are kept; a multiple of ``lanes``.
        lanes: number of collectors.
        side: of a frame, in pixels.
        stack: frames of a state.
        planes: pictures of what comes as one frame, [planes, side, side], as where collectors hand over stacks; 0 for a
            frame that is one picture, [side, side].

    Attributes:
        fields: by name, all rows of each of :data:`FIELDS`; to the frames belongs one more row, of zeros.
        valid: which rows may be sampled, bool[capacity].
        held: what is to be noted of rows on :meth:`release`; None where it is noted at once.

    Raises:
        ValueError: here and in the methods, for arguments that do not fit; nothing is changed.
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
        """Return the number of rows that are stored, in all lanes."""
        return sum(map(len, self.rings))

    def push(self, lane, frame, action, reward, end, time):
        """Store one step in place of the oldest of its lane.

        Args:
            lane: number of the collector.
            frame: what it saw, u8[side, side].
            action: what it did then.
            reward: what followed.
            end: whether the episode ended with that.
            time: steps of the episode before this one.
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
        """Store n steps in place of the oldest of their lane, as that many pushes would.

        Args:
            lane: number of the collector.
            frames: what it saw, oldest first, u8[n, side, side]; n may be 0, or more than the lane has rows.
            actions: what it did then, i32[n].
            rewards: what followed, f32[n].
            ends: whether the episode ended with that, bool[n].
            times: steps of the episode before each, i32[n].
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
        """Forget all that is stored."""
        for ring in self.rings:
            ring.pushed = 0
        self.newest, self.held = [NONE] * self.lanes, None
        self._flag(np.arange(self.capacity), np.zeros(self.capacity, bool))

    def hold(self, incoming):
        """Fix which rows are valid until :meth:`release`: none of those that come, nor any that makes room for them.

        What is drawn meanwhile does not depend on how much has come.

        Args:
            incoming: steps that are pushed to each lane until then, at most.
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
        """Let all that was pushed since :meth:`hold` be drawn."""
        held, self.held = self.held or [], None
        for rows, flags in held:
            self._flag(rows, flags)

    def valid_rows(self):
        """Return the rows that may be sampled, ascending.  -> i64[M]"""
        return np.flatnonzero(self.valid)

    def draw(self, rng, batch):
        """Return valid rows, drawn uniformly with replacement.  -> i64[B]

        Args:
            rng: generator that draws them.
            batch: how many.

        Raises:
            ValueError: a batch below 1, or no row is valid.
        """
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
        """Return an array for the frames of a batch, the ``out`` of :meth:`gather`.  -> u8[B, stack + 1, side, side]

        Args:
            batch: number of transitions, B.
        """
        return np.empty((check_integer("batch", batch, 1), self.stack + 1, *self.shape), np.uint8)

    def gather(self, rows, out=None):
        """Return the transitions in some rows: the frames of both states are gathered once, as views of one array.

        Args:
            rows: i64[B], valid ones.
            out: where their frames go, u8[B, stack + 1, side, side]; a new array if it is None.
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
        fields["frames"].take(around, axis=0, out=out, mode="clip")  # with "raise" it would gather into a copy of out
        return Batch(
            out[:, :-1], fields["actions"].take(rows), fields["rewards"].take(rows), out[:, 1:], ends.astype(np.float32)
        )

    def gather_one_by_one(self, rows):
        """Return the transitions in some rows as :meth:`gather` does, each of them put together by itself.

        Args:
            rows: i64[B], valid ones.
        """
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
        """Return transitions, drawn uniformly.

        Args:
            rng: generator that draws them.
            batch: how many.
            out: where their frames go, as of :meth:`gather`.
        """
        return self.gather(self.draw(rng, batch), out)

    def arrays(self):
        """Return a copy of all that is stored, lane by lane in the order of the rows, for :meth:`restore`."""
        pushed = np.array([ring.pushed for ring in self.rings])
        rows = np.flatnonzero(self._stored(pushed))
        return {**{name: field[rows] for name, field in self.fields.items()}, PUSHED: pushed}

    def restore(self, arrays):
        """Put back what :meth:`arrays` returned, in place of all that is stored.

        Args:
            arrays: by the name of a field, its stored rows; and ``pushed`` i64[lanes], items ever pushed to each lane.

        Raises:
            ValueError: names, shapes or dtypes that are not this replay's, or times that cannot be.
        """
        self._put_back(arrays, *self._read(arrays))

    def _stored(self, pushed):
        """Which rows are stored once so many items were pushed to each lane.  -> bool[capacity]"""
        return (np.arange(self.length) < pushed[:, None]).reshape(-1)

    def _read(self, arrays, more=()):
        """Check arrays; return what follows from them: which rows are stored, which are valid, and each lane's newest.

        The oldest row of a lane follows none: what was before it is not stored.
        """
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
        inside = rows.view(np.uint64).max() < self.capacity  # of which a negative one is a very large one
        if not inside or not self.valid.take(rows).all():
            wrong = rows[~np.isin(rows, self.valid_rows())][0]
            raise ValueError(f"rows: got {wrong}, wanted any of the {int(self.valid.sum())} valid rows")
        return rows

    def _mark(self, rows, flags):
        """Note which of some rows are valid, at once or on release; where one comes twice, the last flag counts."""
        if self.held is None:
            self._flag(rows, flags)
        else:
            self.held.append((rows, flags))

    def _flag(self, rows, flags):
        self.valid[rows] = flags


class PrioritisedReplay(FrameReplay):
    """The same, drawn by priority (Schaul et al. 2016): ``P(row) = p(row) / sum(p)``, ``p = (|error| + epsilon)^alpha``

    A row that becomes valid has the greatest priority that there has been, 1 at first; one that is not valid has 0.

    Args:
        capacity: rows that are kept; a multiple of ``lanes``.
        lanes: number of collectors.
        side: of a frame, in pixels.
        stack: frames of a state.
        alpha: how much priorities count, from 0.0, uniform, to 1.0.
        beta: how much weights make up for them, from 0.0 to 1.0.
        beta_increment: what beta grows by after each draw, up to 1.0.
        epsilon: added to the size of an error, more than 0.0.
        literal: whether priorities are in a tree of plain Python, one leaf at a time.

    Raises:
        ValueError: here and in the methods, for arguments that do not fit; nothing is changed.
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
        """Return rows drawn by priority, one from each of B equal parts of the sum, and their importance weights.

        Args:
            uniforms: where in its part each is, f32 or f64[B], from 0 to 1.

        Returns:
            rows i64[B], and weights f32[B]: ``(N P(row))^-beta`` over the greatest in the batch, with N valid rows.

        Raises:
            ValueError: uniforms that are none, or no row is valid.
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
        weights = (priorities.min() / priorities) ** self.beta  # of the rarest it is 1; N and the sum cancel out
        self.beta = min(1.0, self.beta + self.beta_increment)
        return rows, weights.astype(np.float32)

    def sample(self, rng, batch, out=None):
        """Return transitions drawn by priority, their rows i64[B] for :meth:`update`, and their weights f32[B].

        Args:
            rng: generator that draws them.
            batch: how many.
            out: where their frames go, as of :meth:`gather`.
        """
        rows, weights = self.draw(rng.random(check_integer("batch", batch, 1)))
        return self.gather(rows, out), rows, weights

    def update(self, rows, errors):
        """Give rows the priorities of their errors; where one comes more than once, the last error counts.

        Those that have stopped being valid since they were drawn keep the priority 0.

        Args:
            rows: i64[B].
            errors: of any sign, f32 or f64[B].
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
        if not largest <= GREATEST:  # nor is it where any is not a number
            raise ValueError(f"errors: got {errors[~(sizes <= GREATEST)][0]}, wanted finite numbers to {GREATEST:g}")
        priorities = sizes**self.alpha
        priorities *= self.valid.take(rows)
        self.greatest = max(self.greatest, float(priorities.max()))
        self.tree.put(rows, priorities)

    def arrays(self):
        """Return a copy of all that is stored, with priorities f64, ``beta`` and the greatest priority f64[]."""
        found = super().arrays()
        priorities = self.tree.get(np.flatnonzero(self._stored(found[PUSHED])))
        return {**found, PRIORITIES: priorities, BETA: np.array(self.beta), GREATEST_YET: np.array(self.greatest)}

    def restore(self, arrays):
        """Put back what :meth:`arrays` returned, in place of all that is stored.

        Args:
            arrays: by name, as they were returned.

        Raises:
            ValueError: names, shapes or dtypes that are not this replay's, or numbers that cannot be.
        """
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
        """Forget all that is stored, and its priorities."""
        super().clear()
        self.beta, self.greatest = self.first_beta, 1.0

    def _flag(self, rows, flags):
        super()._flag(rows, flags)
        self.tree.put(np.asarray(rows), np.asarray(flags) * self.greatest)


def check_like(name, value, dtype, shape):
    """Return a value as an array where it has a dtype and a shape.

    Args:
        name: of the array, for the error.
        value: the array.
        dtype: what it has to have.
        shape: what it has to have.

    Raises:
        ValueError: it has another shape or dtype.
    """
    array = np.asarray(value)
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name}: got {array.dtype}{list(array.shape)}, wanted {np.dtype(dtype)}{list(shape)}")
    return array


def check_times(times):
    """Check the numbers of steps in their episodes.

    Args:
        times: i32[n], n > 0.

    Raises:
        ValueError: one is negative.
    """
    if times.min() < 0:
        raise ValueError(f"times: got {times.min()}, wanted 0 or more")


def check_rewards(rewards):
    """Check rewards.

    Args:
        rewards: f32[n], n > 0.

    Raises:
        ValueError: one is infinite, or no number.
    """
    if not np.isfinite(rewards).all():
        raise ValueError(f"rewards: got {rewards[~np.isfinite(rewards)][0]}, wanted finite numbers")
