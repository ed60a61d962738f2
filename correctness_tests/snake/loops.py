"""The loops of the benchmarks, and a plain loop in float64 that replays their actions.

Rounding differences can change an action, and with it the rest of a run. The plain loop therefore replays the recorded
actions, and reports how far the value of each is from the best one.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from correctness_tests.snake.problem import assert_trained_alike, build, exact_trainer
from rl_impls import backends
from rl_impls.common.parts import part_of
from rl_impls.snake import _numpy
from rl_impls.snake.env import Geometry
from rl_impls.snake.loop import CHUNK
from rl_impls.snake.memory import DTYPES, FIELDS
from rl_impls.snake.problem import collect_and_learn
from rl_impls.snake.vector_env import PlainEnvs

# Largest relative difference of a loss; and largest difference of 99% of the weights, as a multiple of the learning
# rate times the number of updates.
# optax computes 1 - 0.999^t in float32: its first steps are off by 5e-5, which hundreds of updates amplify.
TOLERANCE = {"torch": (1e-4, 0.001), "jax": (2e-2, 0.1)}
LOOPS = [  # form, backend, num_envs
    ("naive", "torch", 1),
    ("plain", "torch", 1),
    ("full", "torch", 1),
    ("vectorised", "torch", 64),
    ("threaded", "torch", 1),
    ("threaded", "torch", 64),
    ("full", "jax", 1),
    ("threaded", "jax", 1),
    ("compiled", "jax", 1),
    ("compiled", "jax", 64),
]


@dataclass
class Inputs:
    config: dict
    args: tuple


@dataclass
class Outcome:
    """Results of the plain loop for the recorded actions."""

    rewards: np.ndarray
    ended: np.ndarray
    value_gaps: np.ndarray  # difference between the best value and that of the action, relative to the largest value
    losses: np.ndarray
    params: dict
    state: dict
    truncated: int


def follow(inputs, actions, train_frequency, threaded):
    """Play the recorded actions and learn in float64, step by step.

    If `threaded`, chunk k is played with the weights after the updates of chunk k - 2.
    """
    (_, _, draws, rows), config = inputs.args, inputs.config
    num_steps, num_envs = actions.shape
    chunk, lag = (max(1, CHUNK // num_envs), 1) if threaded else (1, 0)
    games = PlainEnvs(num_envs, config.get("geometry", Geometry()))
    games.set_state(config["env_state"])
    stored, step, due = list(zip(*config["stored"])), config["step"], iter(rows)
    learner, update = exact_trainer(config, batch_of(stored, rows[0] % 2))
    acting, rewards, ended, value_gaps, losses, num_truncated, due_to_sync = [], [], [], [], [], 0, False
    for t in range(num_steps):
        if t % chunk == 0:
            acting.append(learner.params)
        obs = games.observe()
        q = _numpy.q_values(acting[max(0, t // chunk - lag)], obs.astype(np.float64))
        value_gaps.append((q.max(axis=1) - q[np.arange(num_envs), actions[t]]) / np.abs(q).max())
        _, reward, terminated, truncated, final_obs = games.advance(actions[t], draws[t])
        rewards.append(reward)
        ended.append(terminated | truncated)
        num_truncated += truncated.sum()
        stored = [*stored, *zip(obs, actions[t], reward, final_obs, terminated)][-config["capacity"] :]
        updates = [k for k in range(step + 1, step + num_envs + 1) if k % train_frequency == 0]
        losses += [update(batch_of(stored, next(due))) for _ in updates]
        due_to_sync |= passes_a_multiple(step, step + num_envs, config["target_frequency"])
        step += num_envs
        if updates and due_to_sync:
            learner.sync_target()
            due_to_sync = False
    assert next(due, None) is None
    memory = dict(zip((f"replay_buffer.{name}" for name in FIELDS), batch_of(stored, range(len(stored)))))
    games = {f"env.{name}": value for name, value in games.get_state().items()}
    state = learner.state() | games | memory | {"global_step": step}
    return Outcome(*map(np.array, (rewards, ended, value_gaps, losses)), learner.params, state, num_truncated)


def passes_a_multiple(before, after, of):
    """Return whether a multiple of ``of`` lies in (before, after]; False if ``of`` is 0."""
    return of > 0 and any(k % of == 0 for k in range(before + 1, after + 1))


def batch_of(stored, rows):
    return [np.array([stored[row][k] for row in rows], dtype) for k, dtype in enumerate(DTYPES)]


def check(loop, inputs, options, backend):
    """Run a loop from its initial state, compare its outputs and state with the plain loop, and return both outputs."""
    explore, random_actions, _, rows = inputs.args
    out = actions, rewards, ended, losses = backends.get(backend).to_host(loop(*inputs.args))
    wanted = follow(inputs, actions, options.train_frequency, options.collection == "thread")
    np.testing.assert_array_equal(rewards, wanted.rewards)
    np.testing.assert_array_equal(ended, wanted.ended)
    np.testing.assert_array_equal(actions[explore], random_actions[explore])
    assert wanted.value_gaps[~explore].max() < 1e-3
    assert losses.shape == (len(rows),)
    rate = inputs.config["learning_rate"]
    later, most = TOLERANCE[backends.get(backend).library]
    np.testing.assert_allclose(losses[:8], wanted.losses[:8], rtol=1e-4)
    np.testing.assert_allclose(losses, wanted.losses, rtol=later)
    assert_trained_alike(loop.params, wanted.params, rate, len(rows), most)
    state = loop.state()
    assert state.keys() == wanted.state.keys()
    assert_played_alike(state, wanted.state)
    targets = (part_of(s, "target") for s in (state, wanted.state))
    assert_trained_alike(*targets, rate, len(rows), most)
    assert state["step"] == len(rows)
    return out, wanted


def assert_played_alike(got, wanted):
    """Assert that two states have equal games, replay buffers and step counts."""
    for name, value in wanted.items():
        if name == "global_step" or name.startswith(("env.", "replay_buffer.")):
            np.testing.assert_array_equal(got[name], value, err_msg=name)


def timed(form, num_envs, train_frequency=4, batch_size=32, seed=0):
    """Return a benchmark's inputs; a compiled loop gets no more steps than others, as rounding flips later moves."""
    form = "full" if form == "compiled" else form
    found = collect_and_learn(seed, num_envs, train_frequency, batch_size, form)
    return Inputs(dict(found.config), found.args)


def full_ring(inputs):
    """Return inputs with short games about to be truncated, a buffer about to be full, and batches of new rows."""
    rng, (explore, random_actions, draws, rows) = np.random.default_rng(9), inputs.args
    capacity = len(inputs.config["stored"][0]) + 3
    geometry = Geometry(max_steps=40)
    steps = geometry.max_steps - rng.integers(1, 8, explore.shape[1])
    games = inputs.config["env_state"] | {"steps": steps}
    newest = np.arange(capacity - 3 - 60, capacity - 3)
    rows = np.array([rng.choice(newest, len(row), replace=False) for row in rows])
    changed = {"capacity": capacity, "env_state": games, "geometry": geometry}
    return Inputs(inputs.config | changed, (explore, random_actions, draws, rows))


@functools.cache
def made(form, backend, num_envs):
    """Return a loop that tests share through :func:`fresh`, and its inputs."""
    inputs = full_ring(timed(form, num_envs))
    return build("collect_and_learn", backend, inputs.config, inputs.args, form, train_frequency=4), inputs


def fresh(form, backend, num_envs):
    loop, inputs = made(form, backend, num_envs)
    loop.reset()
    return loop, inputs


def options_of(form, train_frequency, batch_size=32):
    return replace(backends.forms("snake")[form], train_frequency=train_frequency, batch_size=batch_size)
