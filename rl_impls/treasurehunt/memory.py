"""The replay of N agents over K worlds that run in lockstep: a ring of frames, read as stacks and n-step returns.

Each world is a lane of L rows; row ``lane * L + slot`` of an agent is its frame in that world, with the action it took
there and the reward that followed. An episode ends with a row that has a frame only, its final observation.

It is a ring of its own, not another workload's, as JAX shares its fields, :func:`stack` and :func:`gather`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..common.checks import check_integer
from .spec import FRAMES

HORIZON = 3  # rewards in a return
CAPACITY = 1024  # frames of each agent, over all lanes, where nothing else is asked for
LEAST = FRAMES + HORIZON + 1  # rows of a lane: with one fewer a full lane can be without a start
MIDWAY, TRUNCATED, TERMINATED = range(3)
PUSHED = "pushed"


class Fields(NamedTuple):
    """All that is stored, as arrays of NumPy or of JAX."""

    frames: Any  # f32[N, K * L, size]
    actions: Any  # i32[N, K * L]
    rewards: Any  # f32[N, K * L]
    time: Any  # i32[L]: turns since the episode began; as ``last`` the same in all lanes
    last: Any  # i8[L]: MIDWAY, or how the episode ended that this row is the final one of


def stack(recent, frame, xp=np):
    """Return the states that agents act on, oldest frame first.  -> f32[N, K, S], S = FRAMES * size

    Args:
        recent: the frames before, f32[N, K, FRAMES - 1, size], zeros at the start of an episode.
        frame: the present ones, f32[N, K, size].
        xp: numpy or jax.numpy, that of the arrays.
    """
    frames = xp.concatenate([recent, frame[..., None, :]], axis=-2)
    return frames.reshape(*frame.shape[:-1], FRAMES * frame.shape[-1])


def push_recent(recent, frame, xp=np):
    """Return the frames with one appended and the oldest dropped.  -> f32[N, K, FRAMES - 1, size]

    Args:
        recent: the frames before, f32[N, K, FRAMES - 1, size].
        frame: the new ones, f32[N, K, size].
        xp: numpy or jax.numpy, that of the arrays.
    """
    return xp.concatenate([recent[..., 1:, :], frame[..., None, :]], axis=-2)


def turns_ahead(last, slots, xp=np):
    """Return m, the turns to the next state: HORIZON, or fewer to the final row of an episode.  -> int[...]

    Args:
        last: i8[L], see :class:`Fields`.
        slots: int[...], rows of a lane.
        xp: numpy or jax.numpy, that of the arrays.
    """
    midway = last[(slots[..., None] + xp.arange(1, HORIZON)) % len(last)] == MIDWAY
    return 1 + xp.cumprod(midway, axis=-1).sum(-1)


def gather(fields, rows, gamma, xp=np):
    """Return the transitions that begin in some rows, each of which must be a start; JAX can compile it.

    ``R_t = sum_{k<m} gamma^k r_{t+k}``; ``discount = gamma^m``, or 0 where the episode terminates at t + m: m-step
    returns (Sutton 1988), m being HORIZON, or fewer where the episode ends before.

    Args:
        fields: what is stored.
        rows: int[N, B], for each agent its own.
        gamma: discount of one turn.
        xp: numpy or jax.numpy, that of the fields.

    Returns:
        states f32[N, B, S], actions i32[N, B], returns f32[N, B], next_states f32[N, B, S] (those at t + m), discounts
        f32[N, B]; a state is FRAMES frames, oldest first, zeros before the episode's start; S = FRAMES * size.
    """
    length, size = len(fields.time), fields.frames.shape[-1]
    agents, slots = xp.arange(len(rows))[:, None], rows % length
    lanes = rows - slots
    back, ahead = xp.arange(FRAMES - 1, -1, -1), xp.arange(HORIZON)
    powers = xp.asarray([gamma**k for k in range(HORIZON + 1)], np.float32)

    def around(slots, offsets):
        return agents[..., None], lanes[..., None] + (slots[..., None] + offsets) % length

    def stacks(slots):
        within = (back <= fields.time[slots][..., None])[..., None]
        return xp.where(within, fields.frames[around(slots, -back)], 0).reshape(*rows.shape, FRAMES * size)

    m = turns_ahead(fields.last, slots, xp)
    next_slots = (slots + m) % length
    rewards = xp.where(ahead < m[..., None], fields.rewards[around(slots, ahead)], 0)
    returns = (powers[:HORIZON] * rewards).sum(-1)
    discounts = xp.where(fields.last[next_slots] == TERMINATED, 0, powers[m])
    return stacks(slots), fields.actions[agents, rows], returns, stacks(next_slots), discounts


class Memory:
    """The last ``capacity`` frames of each of ``agents`` agents, over ``lanes`` worlds.

    ``pushed`` counts the rows each lane was ever given.

    Args:
        agents: number of agents, N.
        lanes: number of worlds, K.
        capacity: frames that the memory of an agent keeps, over all worlds; a multiple of ``lanes``.
        size: numbers of a frame.
        gamma: discount of one turn, from 0.0 to 1.0.

    Raises:
        ValueError: here and in the methods, for arguments that do not fit; nothing is changed.
    """

    def __init__(self, agents, lanes, capacity, size, gamma=0.99):
        for name, value in (("agents", agents), ("lanes", lanes), ("capacity", capacity), ("size", size)):
            check_integer(name, value, 1, 2**31 - 1)
        if capacity % lanes or capacity < LEAST * lanes:
            raise ValueError(f"capacity: got {capacity}, wanted as many rows in each of {lanes} lanes, {LEAST} or more")
        if not isinstance(gamma, float) or not 0 <= gamma <= 1:
            raise ValueError(f"gamma: got {gamma!r}, wanted a discount from 0.0 to 1.0")
        self.agents, self.lanes, self.length, self.gamma, self.pushed = agents, lanes, capacity // lanes, gamma, 0
        self.fields = Fields(
            frames=np.zeros((agents, capacity, size), np.float32),
            actions=np.zeros((agents, capacity), np.int32),
            rewards=np.zeros((agents, capacity), np.float32),
            time=np.zeros(self.length, np.int32),
            last=np.zeros(self.length, np.int8),
        )

    def __len__(self):
        """Return the number of rows stored in each lane."""
        return min(self.pushed, self.length)

    def push(self, frames, actions, rewards):
        """Store one turn in place of the oldest row.

        Args:
            frames: what the agents saw, f32[N, K, size].
            actions: what they did then, i32[N, K].
            rewards: what followed, f32[N, K].
        """
        self._store(MIDWAY, frames=frames, actions=actions, rewards=rewards)

    def finish(self, frames, terminated=False):
        """Store the final observations of an episode; what is pushed next begins another.

        Args:
            frames: what the agents saw last, f32[N, K, size].
            terminated: whether the episode terminated; it was truncated otherwise.
        """
        if not isinstance(terminated, bool | np.bool_):
            raise ValueError(f"terminated: got {terminated!r}, wanted True or False")
        if self._time() == 0:
            raise ValueError("frames: got the end of an episode of no turns, wanted a push before")
        last, shape = TERMINATED if terminated else TRUNCATED, (self.agents, self.lanes)
        self._store(last, frames=frames, actions=np.zeros(shape, np.int32), rewards=np.zeros(shape, np.float32))

    def starts(self):
        """Return the rows where a transition can begin, those whose stack and next state are stored.  -> i64[M]

        They come lane by lane, oldest first.
        """
        age = np.arange(len(self))
        slots = (self.pushed - len(self) + age) % self.length
        ahead = age + turns_ahead(self.fields.last, slots) < len(self)
        behind = np.minimum(self.fields.time[slots], FRAMES - 1) <= age
        slots = slots[(self.fields.last[slots] == MIDWAY) & ahead & behind]
        return (np.arange(self.lanes)[:, None] * self.length + slots).reshape(-1)

    def draw(self, rng, batch):
        """Return ``batch`` different starts for each agent, drawn uniformly.  -> i64[N, B]

        Args:
            rng: generator that draws them.
            batch: number of transitions, B.

        Raises:
            ValueError: more than there are starts, or fewer than 1.
        """
        starts = self.starts()
        check_integer("batch", batch, 1, len(starts), ", the number of starts")
        return np.stack([rng.choice(starts, batch, replace=False) for _ in range(self.agents)])

    def columns(self, rows):
        """Return the transitions that begin in some rows, as :func:`gather` does.

        Args:
            rows: i64[N, B], starts.

        Raises:
            ValueError: a row that is no start, or another shape or dtype.
        """
        rows = np.asarray(rows)
        if rows.dtype != np.int64 or rows.ndim != 2 or len(rows) != self.agents:
            raise ValueError(f"rows: got {rows.dtype}{list(rows.shape)}, wanted int64[{self.agents}, B]")
        starts = self.starts()
        wrong = rows[~np.isin(rows, starts)]
        if wrong.size:
            raise ValueError(f"rows: got {wrong[0]}, wanted any of the {len(starts)} starts")
        return gather(self.fields, rows, self.gamma)

    def arrays(self):
        """Return a copy of every field, and ``pushed``, for ``restore``."""
        return {**{name: field.copy() for name, field in self.fields._asdict().items()}, PUSHED: np.array(self.pushed)}

    def restore(self, arrays):
        """Go on from the arrays of a memory of this size.

        Args:
            arrays: by name, as :meth:`arrays` returned them.

        Raises:
            ValueError: names, shapes or dtypes that are not this memory's.
        """
        fields = self.fields._asdict()
        if arrays.keys() != fields.keys() | {PUSHED}:
            raise ValueError(f"arrays: got {sorted(arrays)}, wanted {sorted(fields.keys() | {PUSHED})}")
        pushed = np.asarray(arrays[PUSHED])
        if pushed.shape != () or pushed.dtype != np.int64 or pushed < 0:
            raise ValueError(f"{PUSHED}: got {pushed!r}, wanted an int64 of 0 or more")
        for name, field in fields.items():
            check_like(name, arrays[name], field)
        for name, field in fields.items():
            field[:] = arrays[name]
        self.pushed = int(pushed)

    def _time(self):
        """Turns since the present episode began."""
        newest = (self.pushed - 1) % self.length
        return 0 if self.pushed == 0 or self.fields.last[newest] else int(self.fields.time[newest]) + 1

    def _store(self, last, **row):
        slot, time = self.pushed % self.length, self._time()
        places = {name: getattr(self.fields, name)[:, slot :: self.length] for name in row}
        for name, place in places.items():
            check_like(name, row[name], place)
        for name, place in places.items():
            place[:] = row[name]
        self.fields.time[slot], self.fields.last[slot] = time, last
        self.pushed += 1


def check_like(name, got, wanted):
    """Check that an array has the shape and dtype of another.

    Args:
        name: of the array, for the error.
        got: the array.
        wanted: the other.

    Raises:
        ValueError: it has another shape or dtype.
    """
    got = np.asarray(got)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        raise ValueError(f"{name}: got {got.dtype}{list(got.shape)}, wanted {wanted.dtype}{list(wanted.shape)}")
