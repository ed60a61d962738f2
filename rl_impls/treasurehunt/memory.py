"""Replay memory of N agents over K worlds in lockstep: a ring of frames, read as stacks and n-step returns.

Each world has L rows. Row ``world * L + slot`` of an agent holds its frame in that world, the action that it took and
the reward that followed. The last row of an episode holds only the final observation.

JAX shares the fields, :func:`stack` and :func:`gather`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..common.checks import check_integer

FRAMES = 5  # stacked frames per state
N_STEP = 3  # rewards per return, fewer at the end of an episode
MIN_ROWS = FRAMES + N_STEP + 1  # per world: with one fewer, a full memory may have no valid start
PUSHED = "pushed"


class Fields(NamedTuple):
    """The stored arrays, NumPy or JAX."""

    frames: Any  # f32[N, K * L, F]
    actions: Any  # i32[N, K * L]
    rewards: Any  # f32[N, K * L]
    time: Any  # i32[L]: turns since the episode began; like ``last``, the same in all worlds
    last: Any  # bool[L]: whether this is the final row of an episode, which was truncated there


def stack(recent, frame, xp=np):
    """Return the states that agents act on, oldest frame first: f32[N, K, S], S = FRAMES * F.

    `recent` are the previous frames, f32[N, K, FRAMES - 1, F], zeros at the start of an episode, and `frame` the
    current ones, f32[N, K, F]. `xp` is numpy or jax.numpy.
    """
    frames = xp.concatenate([recent, frame[..., None, :]], axis=-2)
    return frames.reshape(*frame.shape[:-1], FRAMES * frame.shape[-1])


def push_recent(recent, frame, xp=np):
    """Append `frame`, f32[N, K, F], to the previous frames and drop the oldest: f32[N, K, FRAMES - 1, F]."""
    return xp.concatenate([recent[..., 1:, :], frame[..., None, :]], axis=-2)


def turns_ahead(last, slots, xp=np):
    """Return m, the number of turns to the next state: N_STEP, or fewer near the end of an episode.

    `last` is bool[L], see :class:`Fields`; `slots` int[...] are rows of a world.
    """
    midway = ~last[(slots[..., None] + xp.arange(1, N_STEP)) % len(last)]
    return 1 + xp.cumprod(midway, axis=-1).sum(-1)


def can_start(fields, pushed, xp=np):
    """Return in which rows of a world a transition can begin, bool[L]: its frame stack and next state are stored.

    `pushed` counts the rows ever stored in each world; JAX can compile it.
    """
    length = len(fields.time)
    stored, slots = xp.minimum(pushed, length), xp.arange(length)
    age = (slots - (pushed - stored)) % length  # 0 for the oldest row, `stored` or more where nothing is stored
    ahead = age + turns_ahead(fields.last, slots, xp) < stored
    behind = xp.minimum(fields.time, FRAMES - 1) <= age
    return ~fields.last & ahead & behind


def gather(fields, rows, gamma, xp=np):
    """Return the transitions that begin at `rows`, each of which must be a valid start; JAX can compile it.

    ``R_t = sum_{k<m} gamma^k r_{t+k}`` and ``discount = gamma^m``: m-step returns (Sutton 1988), where m is N_STEP, or
    fewer if the episode ends before. Episodes are truncated, never terminated, so the value of the final state counts.

    `rows` int[N, B] are separate for each agent; `xp` is numpy or jax.numpy, matching the fields.

    Returns:
        states f32[N, B, S], actions i32[N, B], returns f32[N, B], next_states f32[N, B, S] (at t + m), discounts
        f32[N, B]. A state is FRAMES frames, oldest first, zeros before the episode's start; S = FRAMES * F.
    """
    length, size = len(fields.time), fields.frames.shape[-1]
    agents, slots = xp.arange(len(rows))[:, None], rows % length
    first = rows - slots  # first row of the world
    back, ahead = xp.arange(FRAMES - 1, -1, -1), xp.arange(N_STEP)
    powers = xp.asarray([gamma**k for k in range(N_STEP + 1)], np.float32)

    def around(slots, offsets):
        return agents[..., None], first[..., None] + (slots[..., None] + offsets) % length

    def stacks(slots):
        within = (back <= fields.time[slots][..., None])[..., None]
        return xp.where(within, fields.frames[around(slots, -back)], 0).reshape(*rows.shape, FRAMES * size)

    m = turns_ahead(fields.last, slots, xp)
    rewards = xp.where(ahead < m[..., None], fields.rewards[around(slots, ahead)], 0)
    returns = (powers[:N_STEP] * rewards).sum(-1)
    return stacks(slots), fields.actions[agents, rows], returns, stacks((slots + m) % length), powers[m]


class Memory:
    """Replay memory with the last `capacity` frames, of `size` numbers each, of each agent over all worlds.

    ``pushed`` counts the rows ever stored in each world.

    Raises:
        ValueError: invalid arguments, here or in a method; the memory is left unchanged.
    """

    def __init__(self, num_agents, num_worlds, capacity, size):
        if capacity % num_worlds or capacity < MIN_ROWS * num_worlds:
            raise ValueError(
                f"capacity={capacity} should be a multiple of num_worlds={num_worlds}, at least {MIN_ROWS} per world"
            )
        self.num_agents, self.num_worlds, self.length, self.pushed = num_agents, num_worlds, capacity // num_worlds, 0
        self.fields = Fields(
            frames=np.zeros((num_agents, capacity, size), np.float32),
            actions=np.zeros((num_agents, capacity), np.int32),
            rewards=np.zeros((num_agents, capacity), np.float32),
            time=np.zeros(self.length, np.int32),
            last=np.zeros(self.length, np.bool_),
        )

    def push(self, frames, actions, rewards):
        """Store one turn in place of the oldest row: frames f32[N, K, F], actions i32[N, K], rewards f32[N, K]."""
        self._store(False, frames=frames, actions=actions, rewards=rewards)

    def finish(self, frames):
        """Store the final observations of a truncated episode, f32[N, K, F]; the next push starts a new one."""
        if self._time() == 0:
            raise ValueError("finish() was called before the first push() of an episode")
        shape = self.num_agents, self.num_worlds
        self._store(True, frames=frames, actions=np.zeros(shape, np.int32), rewards=np.zeros(shape, np.float32))

    def starts(self):
        """Return the rows where a transition can begin, see :func:`can_start`, i64[M], by world and oldest first."""
        slots = (self.pushed + np.arange(self.length)) % self.length
        slots = slots[can_start(self.fields, self.pushed)[slots]]
        return (np.arange(self.num_worlds)[:, None] * self.length + slots).reshape(-1)

    def arrays(self):
        """Return a copy of every field and ``pushed``, for :meth:`restore`."""
        return {**{name: field.copy() for name, field in self.fields._asdict().items()}, PUSHED: np.array(self.pushed)}

    def restore(self, arrays):
        """Restore the arrays of a memory of the same size; raise ValueError if names, shapes or dtypes differ."""
        fields = self.fields._asdict()
        if arrays.keys() != fields.keys() | {PUSHED}:
            raise ValueError(f"arrays should be {', '.join(fields)} and {PUSHED}, not {', '.join(arrays)}")
        check_integer(PUSHED, int(arrays[PUSHED]), 0)
        for name, field in fields.items():
            check_like(name, arrays[name], field)
        for name, field in fields.items():
            field[:] = arrays[name]
        self.pushed = int(arrays[PUSHED])

    def _time(self):
        """Turns since the current episode began."""
        newest = (self.pushed - 1) % self.length
        return 0 if self.pushed == 0 or self.fields.last[newest] else int(self.fields.time[newest]) + 1

    def _store(self, last, **row):
        slot, time = self.pushed % self.length, self._time()
        slices = {name: getattr(self.fields, name)[:, slot :: self.length] for name in row}
        for name, part in slices.items():
            check_like(name, row[name], part)
        for name, part in slices.items():
            part[:] = row[name]
        self.fields.time[slot], self.fields.last[slot] = time, last
        self.pushed += 1


def check_like(name, array, like):
    """Raise ValueError unless `array` has the shape and dtype of `like`."""
    array = np.asarray(array)
    if array.shape != like.shape or array.dtype != like.dtype:
        raise ValueError(f"{name} should be {like.dtype}{list(like.shape)}, not {array.dtype}{list(array.shape)}")
