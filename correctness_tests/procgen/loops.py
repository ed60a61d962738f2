"""What the tests of loops share: a game that is about to be lost, a plain loop on it, and how far weights are apart."""

from __future__ import annotations

import contextlib
import functools

import numpy as np

from correctness_tests.procgen.problem import build
from rl_impls.common.procgen_env import ProcgenVectorEnv
from rl_impls.procgen._numpy import gae_of, logits_and_values, sample_actions
from rl_impls.procgen.problem import A2C, GAE, IMPALA, PPO, random_weights
from rl_impls.procgen.rollouts import Rollout, minibatches, uniforms_of
from rl_impls.procgen.spec import PICTURE

ALGORITHMS = ("ppo", "a2c", "impala")
CONSTANTS = {"ppo": PPO | GAE, "a2c": A2C | GAE, "impala": IMPALA}
ENVS, STEPS = 4, 5
ENV = {"game": "starpilot", "num_envs": ENVS, "seed": 5, "mode": "easy", "num_levels": 20}
SIZES = {"unroll": STEPS, "seed": 3, "batch": 10, "epochs": 2, "actors": 2, "lag": 0}


@functools.cache
def played():
    """The state of the games after 38 drawn steps, shortly before some of them are lost, and a net."""
    rng, envs = np.random.default_rng(0), ProcgenVectorEnv(**ENV, threads=1)
    for _ in range(38):
        envs.advance(rng.integers(15, size=ENVS).astype(np.int32))
    state = envs.get_state()
    envs.close()
    return state, random_weights(rng)


def spec_of(algorithm, **changed):
    """What a loop is built from."""
    state, params = played()
    return {"params": params, "env": ENV, "env_state": state} | CONSTANTS[algorithm] | SIZES | changed


@contextlib.contextmanager
def made(op, spec, backend="torch", form="full"):
    """Yield a loop, which is closed afterwards."""
    loop = build(op, backend, spec, (np.zeros(1, np.int64),), form)
    loop.goes_on = True  # as an agent has it
    try:
        yield loop
    finally:
        loop.close()


def numbers(*of):
    """The argument of a loop."""
    return np.array(of, np.int64)


def act(envs, params, spec, number, share=slice(None)):
    """Play a rollout step by step, by the net in NumPy, with a share of the environments or all."""
    frames, columns = [envs.observe()], []
    for uniforms in uniforms_of(spec["seed"], number, spec["unroll"], spec["env"]["num_envs"])[:, share]:
        logits, values = logits_and_values(params, frames[-1])
        actions, log_probs = sample_actions(logits, uniforms)
        after, rewards, ended = envs.advance(actions)
        frames.append(after)
        columns.append((actions, log_probs, values, rewards, ended))
    return Rollout(np.array(frames), *map(np.array, zip(*columns)))


def batches_of(algorithm, spec, rollout, params, number):
    """The arguments of each update that learns from a rollout."""
    frames, actions, log_probs, values, rewards, ended = rollout
    never = np.zeros_like(ended)
    if algorithm == "impala":
        return [(frames, actions, log_probs, rewards, ended, never)]
    after = np.vstack([values[1:], logits_and_values(params, frames[-1])[1]])
    found = gae_of(rewards, values, after, ended, never, gamma=spec["gamma"], lam=spec["lam"])
    pictures = frames[:-1].reshape(-1, *PICTURE)
    if algorithm == "a2c":
        return [(pictures, actions.ravel(), *(each.ravel() for each in found))]
    columns = pictures, *(column.ravel() for column in (actions, log_probs, *found))
    rows = minibatches(spec["seed"], number, len(pictures), spec["batch"], spec["epochs"])
    return [tuple(column[chosen] for column in columns) for chosen in rows]


def plain(algorithm, spec, of):
    """Play rollouts and learn from each by the naive update.  -> rollouts, losses f64[I, U], weights after each"""
    envs, step = ProcgenVectorEnv(**spec["env"], threads=1), None
    envs.set_state(spec["env_state"])
    params, rollouts, losses, weights = spec["params"], [], [], []
    for number in of:
        rollouts.append(act(envs, params, spec, number))
        batches = batches_of(algorithm, spec, rollouts[-1], params, number)
        step = step or build(f"{algorithm}_update", "torch", spec, batches[0], "naive")
        losses.append([float(step(*step.put(*batch))) for batch in batches])
        params = {name: value.copy() for name, value in step.params.items()}
        weights.append(params)
    envs.close()
    return rollouts, np.array(losses), weights


def apart(got, wanted, start):
    """How far nearly all weights ended from each other, measured by the longest way that one of their array went."""
    far = [np.abs(got[name] - wanted[name]).ravel() / np.abs(wanted[name] - start[name]).max() for name in wanted]
    return max(*(np.median(each) for each in far), np.quantile(np.concatenate(far), 0.99))


def heard(loop):
    """Return the list of copies of all rollouts that a loop learns from from now on."""
    rollouts, learn = [], loop.learner.learn

    def noted(rollout, number):
        rollouts.append(Rollout(*(array.copy() for array in rollout)))
        return learn(rollout, number)

    loop.learner.learn = noted
    return rollouts


def assert_same(got, wanted):
    """All arrays are the same, bit for bit, and of the same type."""
    if isinstance(wanted, dict):
        assert got.keys() == wanted.keys()
        got, wanted = [got[name] for name in wanted], wanted.values()
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
