"""Helpers for the tests of loops: games that are about to be lost, a plain loop, and comparisons of results."""

import contextlib
import functools

import numpy as np

from correctness_tests.procgen.problem import build
from rl_impls.common.procgen_env import FRAME, ProcgenVectorEnv
from rl_impls.procgen._numpy import compute_gae, logits_and_values, sample_actions
from rl_impls.procgen.problem import A2C, GAE, IMPALA, PPO, random_weights
from rl_impls.procgen.rollouts import Rollout, draw_uniforms, minibatches

ALGORITHMS = ("ppo", "a2c", "impala")
CONSTANTS = {"ppo": PPO | GAE, "a2c": A2C | GAE, "impala": IMPALA}
ENVS, STEPS = 4, 5
ENV = {"game": "starpilot", "num_envs": ENVS, "seed": 5, "mode": "easy", "num_levels": 20}
SIZES = {"num_steps": STEPS, "seed": 3, "batch_size": 10, "epochs": 2, "actors": 2, "lag": 0, "ahead": 3}


@functools.cache
def played():
    """Return the state of the games after 38 random steps, shortly before some of them are lost, and weights."""
    rng, envs = np.random.default_rng(0), ProcgenVectorEnv(**ENV, threads=1)
    for _ in range(38):
        envs.advance(rng.integers(15, size=ENVS).astype(np.int32))
    state = envs.get_state()
    envs.close()
    return state, random_weights(rng)


def config_of(algorithm, **changed):
    state, params = played()
    start = {"params": params, "env": ENV, "env_state": state, "keep_acting": True}
    return start | CONSTANTS[algorithm] | SIZES | changed


@contextlib.contextmanager
def made(op, config, backend="torch", form="full"):
    with contextlib.closing(build(op, backend, config, (np.zeros(1, np.int64),), form)) as loop:
        yield loop


def numbers(*of):
    return np.array(of, np.int64)


def act(envs, params, config, number, share=slice(None)):
    """Play a rollout step by step with the NumPy net, in the slice `share` of the environments."""
    obs, columns = [envs.observe()], []
    for uniforms in draw_uniforms(config["seed"], number, config["num_steps"], config["env"]["num_envs"])[:, share]:
        logits, values = logits_and_values(params, obs[-1])
        actions, log_probs = sample_actions(logits, uniforms)
        next_obs, rewards, ended = envs.advance(actions)
        obs.append(next_obs)
        columns.append((actions, log_probs, values, rewards, ended))
    return Rollout(np.array(obs), *map(np.array, zip(*columns)))


def batches_of(algorithm, config, rollout, params, number):
    """Return the arguments of each update that learns from a rollout."""
    obs, actions, log_probs, values, rewards, ended = rollout
    truncated = np.zeros_like(ended)
    if algorithm == "impala":
        return [(obs, actions, log_probs, rewards, ended, truncated)]
    next_values = np.vstack([values[1:], logits_and_values(params, obs[-1])[1]])
    constants = {name: config[name] for name in ("gamma", "gae_lambda")}
    found = compute_gae(rewards, values, next_values, ended, truncated, **constants)
    images = obs[:-1].reshape(-1, *FRAME)
    if algorithm == "a2c":
        return [(images, actions.ravel(), *(each.ravel() for each in found))]
    columns = images, *(column.ravel() for column in (actions, log_probs, *found))
    rows = minibatches(config["seed"], number, len(images), config["batch_size"], config["epochs"])
    return [tuple(column[chosen] for column in columns) for chosen in rows]


def plain(algorithm, config, of):
    """Learn with the naive update; return the rollouts, the losses f64[I, U], and the weights after each rollout."""
    envs, update = ProcgenVectorEnv(**config["env"], threads=1), None
    envs.set_state(config["env_state"])
    params, rollouts, losses, weights = config["params"], [], [], []
    for number in of:
        rollouts.append(act(envs, params, config, number))
        batches = batches_of(algorithm, config, rollouts[-1], params, number)
        update = update or build(f"{algorithm}_update", "torch", config, batches[0], "naive")
        losses.append([float(update(*update.to_device(*batch))) for batch in batches])
        params = {name: value.copy() for name, value in update.params.items()}
        weights.append(params)
    envs.close()
    return rollouts, np.array(losses), weights
