"""The timed loops, and a plain loop in float64 that replays their actions.

A loop acts on what it learns, so rounding may flip a move. Therefore the plain loop plays the recorded actions, and
reports how far each one is from the greedy action.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from correctness_tests.snake.problem import assert_trained_alike, build, exact_trainer, net_of
from rl_impls import backends
from rl_impls.snake import _numpy
from rl_impls.snake.loop import CHUNK
from rl_impls.snake.memory import DTYPES, FIELDS
from rl_impls.snake.problem import collect_and_learn
from rl_impls.snake.spec import Geometry
from rl_impls.snake.vector_env import PlainEnvs

# Largest relative difference of a loss, and of 99 % of the weights, in learning rates an update. optax computes
# 1 - 0.999^t in float32: its first steps are 5e-5 off, and hundreds of updates multiply that.
TOLERANCE = {"torch": (1e-4, 0.001), "jax": (2e-2, 0.1)}
LOOPS = [  # form, backend, envs
    ("naive", "torch", 1),
    ("plain", "torch", 1),
    ("full", "torch", 1),
    ("vectorised", "torch", 64),
    ("threaded", "torch", 64),
    ("full", "jax", 1),
    ("compiled", "jax", 1),
    ("compiled", "jax", 64),
]


@dataclass
class Inputs:
    """Configuration of a loop, and the arguments of a call."""

    spec: dict
    args: tuple


@dataclass
class Outcome:
    """What the reference returns for the recorded actions."""

    rewards: np.ndarray
    ended: np.ndarray
    greedy: np.ndarray  # how much less than the best move each action is worth, relative to the largest value
    losses: np.ndarray
    params: dict
    state: dict
    truncated: int


def follow(inputs, actions, every, threaded):
    """Play the recorded actions and learn in float64, step by step.

    A thread plays chunk k by the weights after chunk k - 2 was learned from.
    """
    (_, _, draws, rows), spec = inputs.args, inputs.spec
    steps, envs = actions.shape
    chunk, lag = (max(1, CHUNK // envs), 1) if threaded else (1, 0)
    games = PlainEnvs(envs, Geometry())
    games.set_state(spec["env_state"])
    stored, step, due = list(zip(*spec["stored"])), spec["step"], iter(rows)
    train, update = exact_trainer(spec, batch_of(stored, rows[0] % 2))
    acting, rewards, ended, lacking, losses, late = [], [], [], [], [], 0
    for t in range(steps):
        if t % chunk == 0:
            acting.append(train.params)
        obs = games.observe()
        q = _numpy.q_values(acting[max(0, t // chunk - lag)], obs.astype(np.float64))
        lacking.append((q.max(axis=1) - q[np.arange(envs), actions[t]]) / np.abs(q).max())
        _, reward, terminated, truncated, final_obs = games.advance(actions[t], draws[t])
        rewards.append(reward)
        ended.append(terminated | truncated)
        late += truncated.sum()
        stored = [*stored, *zip(obs, actions[t], reward, final_obs, terminated)][-spec["capacity"] :]
        updates = [k for k in range(step + 1, step + envs + 1) if k % every == 0]
        losses += [update(batch_of(stored, next(due))) for _ in updates]
        due_to_sync = passes_a_multiple(step, step + envs, spec["target_every"])
        step += envs
        if due_to_sync:
            assert updates
            train.sync_target()
    assert next(due, None) is None
    memory = dict(zip((f"memory.{name}" for name in FIELDS), batch_of(stored, range(len(stored)))))
    state = {f"env.{name}": value for name, value in games.get_state().items()} | memory | {"loop.step": step}
    state |= {f"train.{name}": value for name, value in train.state().items()}
    return Outcome(*map(np.array, (rewards, ended, lacking, losses)), train.params, state, late)


def passes_a_multiple(before, after, of):
    """Return whether a multiple of ``of`` lies in (before, after]; 0 has none."""
    return of > 0 and any(k % of == 0 for k in range(before + 1, after + 1))


def batch_of(stored, rows):
    return [np.array([stored[row][k] for row in rows], dtype) for k, dtype in enumerate(DTYPES)]


def check(loop, inputs, options, backend):
    """Run the loop from its start, and compare its outputs and its state with the reference; return both outputs."""
    explore, random_actions, _, rows = inputs.args
    out = actions, rewards, ended, losses = backends.get(backend).to_host(loop(*inputs.args))
    wanted = follow(inputs, actions, options.every, options.collection == "thread")
    np.testing.assert_array_equal(rewards, wanted.rewards)
    np.testing.assert_array_equal(ended, wanted.ended)
    np.testing.assert_array_equal(actions[explore], random_actions[explore])
    assert wanted.greedy[~explore].max() < 1e-3
    assert losses.shape == (len(rows),)
    rate = inputs.spec["learning_rate"]
    later, most = TOLERANCE[backends.get(backend).library]
    np.testing.assert_allclose(losses[:8], wanted.losses[:8], rtol=1e-4)
    np.testing.assert_allclose(losses, wanted.losses, rtol=later)
    assert_trained_alike(loop.params, wanted.params, rate, len(rows), most)
    state = loop.state()
    assert state.keys() == wanted.state.keys()
    for name, value in wanted.state.items():
        if name.partition(".")[0] in ("env", "memory", "loop"):
            np.testing.assert_array_equal(state[name], value, err_msg=name)
    targets = (net_of(s, "train.target") for s in (state, wanted.state))
    assert_trained_alike(*targets, rate, len(rows), most)
    assert state["train.step"] == len(rows)
    return out, wanted


def timed(form, envs, every=4, batch=32, seed=0):
    """Return the inputs of a benchmark; a compiled loop gets as few steps as the others: rounding flips later moves."""
    found = collect_and_learn(seed, envs, every, batch, "full" if form == "compiled" else form)
    return Inputs(dict(found.config), found.args)


def full_ring(inputs):
    """Return inputs with games about to be truncated, a memory about to be full, and batches of the newest rows."""
    rng, (explore, random_actions, draws, rows) = np.random.default_rng(9), inputs.args
    capacity = len(inputs.spec["stored"][0]) + 3
    steps = 500 - rng.integers(1, 8, explore.shape[1])
    games = inputs.spec["env_state"] | {"steps": steps}
    newest = np.arange(capacity - 3 - 60, capacity - 3)
    rows = np.array([rng.choice(newest, len(row), replace=False) for row in rows])
    changed = {"capacity": capacity, "env_state": games}
    return Inputs(inputs.spec | changed, (explore, random_actions, draws, rows))


@functools.cache
def made(form, backend, envs):
    """Return a loop that tests share, and its inputs."""
    inputs = full_ring(timed(form, envs))
    return build("collect_and_learn", backend, inputs.spec, inputs.args, form, every=4), inputs


def fresh(form, backend, envs):
    """Return the same after a reset."""
    loop, inputs = made(form, backend, envs)
    loop.reset()
    return loop, inputs


def options(form, every, batch=32):
    """Return a form's options with other numbers."""
    return replace(backends.forms("snake")[form], every=every, batch=batch)


def close(loop):
    """End the threads of a loop, if it has any."""
    getattr(loop, "close", int)()
