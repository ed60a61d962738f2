"""Replay memory of N agents over K worlds in lockstep: a ring of frames, read as stacks and m-step returns.

Each world is a lane of L rows. Row ``lane * L + slot`` of an agent holds its frame in that world, the action taken
there and the reward that followed. The last row of an episode holds only the final observation.

JAX shares the fields, :func:`stack` and :func:`gather`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..common.checks import check_integer
from .spec import FRAMES

HORIZON = 3  # most rewards in a return
CAPACITY = 1024  # default number of frames per agent, over all lanes
LEAST = FRAMES + HORIZON + 1  # rows per lane: with one fewer, a full lane may have no valid start
MIDWAY, TRUNCATED, TERMINATED = range(3)
PUSHED = "pushed"


class Fields(NamedTuple):
    """The stored arrays, NumPy or JAX."""

    frames: Any  # f32[N, K * L, size]
    actions: Any  # i32[N, K * L]
    rewards: Any  # f32[N, K * L]
    time: Any  # i32[L]: turns since the episode began; like ``last``, the same in all lanes
    last: Any  # i8[L]: MIDWAY, or at the final row of an episode, TRUNCATED or TERMINATED


def stack(recent, frame, xp=np):
    """Return the states that agents act on, oldest frame first: f32[N, K, S], S = FRAMES * size.

    `recent` are the previous frames, f32[N, K, FRAMES - 1, size], zeros at the start of an episode; `frame` are the
    current ones, f32[N, K, size]. `xp` is numpy or jax.numpy.
    """
    frames = xp.concatenate([recent, frame[..., None, :]], axis=-2)
    return frames.reshape(*frame.shape[:-1], FRAMES * frame.shape[-1])


def push_recent(recent, frame, xp=np):
    """Append `frame`, f32[N, K, size], to the previous frames and drop the oldest: f32[N, K, FRAMES - 1, size]."""
    return xp.concatenate([recent[..., 1:, :], frame[..., None, :]], axis=-2)


def turns_ahead(last, slots, xp=np):
    """Return m, the number of turns to the next state: HORIZON, or fewer near the end of an episode.

    `last` is i8[L], see :class:`Fields`; `slots` int[...] are rows of a lane.
    """
    midway = last[(slots[..., None] + xp.arange(1, HORIZON)) % len(last)] == MIDWAY
    return 1 + xp.cumprod(midway, axis=-1).sum(-1)


def gather(fields, rows, gamma, xp=np):
    """Return the transitions that begin at `rows`, each of which must be a valid start; JAX can compile it.

    ``R_t = sum_{k<m} gamma^k r_{t+k}``; ``discount = gamma^m``, or 0 where the episode terminates at t + m: m-step
    returns (Sutton 1988), where m is HORIZON, or fewer if the episode ends before.

    Args:
        fields: the stored arrays.
        rows: int[N, B], separate for each agent.
        gamma: discount per turn.
        xp: numpy or jax.numpy, matching the fields.

    Returns:
        states f32[N, B, S], actions i32[N, B], returns f32[N, B], next_states f32[N, B, S] (at t + m), discounts
        f32[N, B]. A state is FRAMES frames, oldest first, zeros before the episode's start; S = FRAMES * size.
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
    """Replay memory with the last `capacity` frames of each agent.

    ``pushed`` counts the rows ever stored in each lane.

    Args:
        agents: number of agents, N.
        lanes: number of worlds, K.
        capacity: frames per agent over all worlds; a multiple of `lanes`.
        size: numbers per frame.
        gamma: discount per turn, from 0.0 to 1.0.

    Raises:
        ValueError: invalid arguments, here or in a method; the memory is left unchanged.
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
        return min(self.pushed, self.length)

    def push(self, frames, actions, rewards):
        """Store one turn in place of the oldest row: frames f32[N, K, size], actions i32[N, K], rewards f32[N, K]."""
        self._store(MIDWAY, frames=frames, actions=actions, rewards=rewards)

    def finish(self, frames, terminated=False):
        """Store the final observations of an episode, f32[N, K, size]; the next push starts a new one.

        `terminated` tells termination from truncation.
        """
        if not isinstance(terminated, bool | np.bool_):
            raise ValueError(f"terminated: got {terminated!r}, wanted True or False")
        if self._time() == 0:
            raise ValueError("frames: got the end of an episode of no turns, wanted a push before")
        last, shape = TERMINATED if terminated else TRUNCATED, (self.agents, self.lanes)
        self._store(last, frames=frames, actions=np.zeros(shape, np.int32), rewards=np.zeros(shape, np.float32))

    def starts(self):
        """Return the rows where a transition can begin, i64[M]: those whose frame stack and next state are stored.

        They are sorted by lane, oldest first.
        """
        age = np.arange(len(self))
        slots = (self.pushed - len(self) + age) % self.length
        ahead = age + turns_ahead(self.fields.last, slots) < len(self)
        behind = np.minimum(self.fields.time[slots], FRAMES - 1) <= age
        slots = slots[(self.fields.last[slots] == MIDWAY) & ahead & behind]
        return (np.arange(self.lanes)[:, None] * self.length + slots).reshape(-1)

    def draw(self, rng, batch):
        """Sample `batch` distinct starts for each agent uniformly, i64[N, B]."""
        starts = self.starts()
        check_integer("batch", batch, 1, len(starts), ", the number of starts")
        return np.stack([rng.choice(starts, batch, replace=False) for _ in range(self.agents)])

    def columns(self, rows):
        """Return the transitions that begin at `rows`, i64[N, B], after checking that each row is a start."""
        rows = np.asarray(rows)
        if rows.dtype != np.int64 or rows.ndim != 2 or len(rows) != self.agents:
            raise ValueError(f"rows: got {rows.dtype}{list(rows.shape)}, wanted int64[{self.agents}, B]")
        starts = self.starts()
        wrong = rows[~np.isin(rows, starts)]
        if wrong.size:
            raise ValueError(f"rows: got {wrong[0]}, wanted any of the {len(starts)} starts")
        return gather(self.fields, rows, self.gamma)

    def arrays(self):
        """Return a copy of every field and ``pushed``, for :meth:`restore`."""
        return {**{name: field.copy() for name, field in self.fields._asdict().items()}, PUSHED: np.array(self.pushed)}

    def restore(self, arrays):
        """Restore the arrays of a memory of the same size; raise ValueError if names, shapes or dtypes differ."""
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
        """Turns since the current episode began."""
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
    """Raise ValueError unless `got` has the shape and dtype of `wanted`."""
    got = np.asarray(got)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        raise ValueError(f"{name}: got {got.dtype}{list(got.shape)}, wanted {wanted.dtype}{list(wanted.shape)}")
