"""mario's replay buffers against those of Stable-Baselines3 and cpprb, with the same experiences.

Each buffer gets the data that its users have. Ours gets single frames in a collector's packets. The others get a stack
of four frames and the next stack for each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from rl_impls import backends
from rl_impls.common.old_gym import silent_gym
from rl_impls.mario import problem as mario
from rl_impls.mario.shared_ops import prioritised, stored

from ..bench import Bench

pytestmark = pytest.mark.peer
CAPACITY, SIDE, STACK, BATCH_SIZE = 50_000, 84, 4, 256
FOR_CPPRB = {  # cpprb's options, by what it deduplicates
    "nothing": {}, "stacks": {"next_of": "obs"}, "frames": {"next_of": "obs", "stack_compress": "obs"},
}  # fmt: skip


def stacks(frames: Any, ends: Any, times: Any) -> tuple[Any, Any]:
    """Return the stacked states before and after each step, u8[B, 4, S, S], zero-padded at episode boundaries.

    ``frames`` u8[B, S, S] are of whole episodes, ``times`` i32[B] the number of earlier steps in the episode.
    """
    back = np.arange(STACK - 1, -1, -1)
    states = frames[np.arange(len(frames))[:, None] - back]
    states[back > times[:, None]] = 0
    newest = np.roll(frames, -1, axis=0)
    newest[ends] = 0
    return states, np.concatenate([states[:, 1:], newest[:, None]], axis=1)


def one_by_one(columns: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Convert our columns to the arguments of ``add`` in Stable-Baselines3, step by step."""
    frames, actions, rewards, ends, times = columns
    for step in zip(*(column[:, None] for column in (*stacks(frames, ends, times), actions, rewards, ends))):
        yield (*step, [{}])


def sb3_buffer(config: Mapping[str, Any]) -> Any:
    """Return Stable-Baselines3's ReplayBuffer, which stores each stack once, filled like ours."""
    with silent_gym():  # Stable-Baselines3 imports gym if it is installed
        buffers = pytest.importorskip("stable_baselines3.common.buffers")
    from gymnasium import spaces

    stack = spaces.Box(0, 255, (STACK, config["side"], config["side"]), np.uint8)
    buffer = buffers.ReplayBuffer(
        config["capacity"], stack, spaces.Discrete(15), "cpu", optimize_memory_usage=True,
        handle_timeout_termination=False,
    )  # fmt: skip
    for columns in stored({"stored": 0, "seed": 0, **config}):
        for step in one_by_one(columns):
            buffer.add(*step)
    return buffer


def cpprb_buffer(config: Mapping[str, Any], once: str) -> Any:
    """Return cpprb's PrioritizedReplayBuffer filled like ours; ``once`` is what it deduplicates, see ``FOR_CPPRB``."""
    cpprb, side = pytest.importorskip("cpprb"), config["side"]
    last = once == "frames"  # stack_compress wants the stack on the last axis
    stack = {"shape": (side, side, STACK) if last else (STACK, side, side), "dtype": np.uint8}
    fields: dict[str, Any] = {"obs": stack, "act": {"dtype": np.int32}, "rew": {}, "done": {}}
    if once == "nothing":
        fields["next_obs"] = dict(stack)
    buffer = cpprb.PrioritizedReplayBuffer(
        config["capacity"], fields, alpha=config["alpha"], eps=1e-6, **FOR_CPPRB[once]
    )
    for frames, actions, rewards, ends, times in stored(config):
        obs, after = stacks(frames, ends, times)
        if last:
            obs, after = np.moveaxis(obs, 1, -1), np.moveaxis(after, 1, -1)
        bounds = np.flatnonzero(ends) + 1
        for start, end in zip([0, *bounds[:-1]], bounds):
            names, columns = ("obs", "act", "rew", "next_obs", "done"), (obs, actions, rewards, after, ends)
            buffer.add(**{name: column[start:end] for name, column in zip(names, columns)})
            buffer.on_episode_end()
    errors = np.random.default_rng(config["seed"]).standard_normal(config["stored"])
    buffer.update_priorities(np.arange(config["stored"]), np.abs(errors))
    return buffer


def test_sb3_push(bench: Bench, seed: int) -> None:
    """Add 1,000 experiences. Left out: stacking frames, which happens before timing."""
    problem = mario.push(seed, 1000, SIDE)
    buffer, steps = sb3_buffer(problem.config), list(one_by_one(problem.args))

    def push() -> None:
        for step in steps:
            buffer.add(*step)

    bench(push, reset=buffer.reset, **problem.cost)


def test_sb3_sample(bench: Bench, seed: int) -> None:
    """Sample a batch of 256. Theirs returns tensors, ours arrays."""
    problem = mario.sample(seed, BATCH_SIZE, CAPACITY, SIDE)
    buffer = sb3_buffer(problem.config)
    np.random.seed(seed)
    bench(buffer.sample, BATCH_SIZE, **problem.cost)


@pytest.mark.parametrize("once", FOR_CPPRB)
def test_cpprb_sample_and_update(bench: Bench, seed: int, once: str) -> None:
    """Sample a batch of 256 by priority, then update its priorities.

    Theirs allocates arrays for each batch, ours reuses them. Left out: computing the absolute errors.
    """
    problem = mario.per_sample(seed, BATCH_SIZE, CAPACITY, SIDE)
    buffer = cpprb_buffer(problem.config, once)
    errors = np.abs(mario.normals(np.random.default_rng(seed), BATCH_SIZE))
    np.random.seed(seed)

    def sample_and_update() -> None:
        batch = buffer.sample(BATCH_SIZE, beta=problem.config["beta"])
        buffer.update_priorities(batch["indexes"], errors)

    bench(sample_and_update, **problem.cost)


def test_our_sample_and_update(bench: Bench, seed: int) -> None:
    """Our prioritised replay, as the counterpart of cpprb's."""
    problem = mario.per_sample(seed, BATCH_SIZE, CAPACITY, SIDE)
    replay = prioritised(problem.config, backends.forms("mario")["full"])
    rng, out = np.random.default_rng(seed), replay.frames_of(BATCH_SIZE)
    errors = mario.normals(rng, BATCH_SIZE)

    def sample_and_update() -> None:
        rows, _ = replay.draw(rng.random(BATCH_SIZE))
        replay.gather(rows, out)
        replay.update(rows, errors)

    bench(sample_and_update, **problem.cost)


def test_cpprb_update(bench: Bench, seed: int) -> None:
    """Update 256 priorities. Left out: computing the absolute errors, and returning the new priorities."""
    problem = mario.per_update(seed, BATCH_SIZE, CAPACITY, SIDE)
    buffer, (rows, errors) = cpprb_buffer(problem.config, "stacks"), problem.args
    bench(partial(buffer.update_priorities, rows, np.abs(errors)), **problem.cost)
