"""Problems of procgen: seeded inputs and costs of each op."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..common.problem import Problem
from ..common.procgen_env import ACTIONS
from .net import NETS

STEPS = 128  # T of the rollouts whose advantages are computed
IMPALA_STEPS = 16  # T of an update of IMPALA
ENV_STEPS = 8  # T of env_step
ROLLOUTS = 4  # per call of a parallel loop, so that actors can play ahead
MAX_BATCH_SIZE = 1024  # of PPO's loop
SEED = 0  # of the actions and minibatches of a loop

GAE = {"gamma": 0.999, "gae_lambda": 0.95}
VTRACE = {"gamma": 0.999, "rho_bar": 1.0, "c_bar": 1.0}
LOSSES = {"value_weight": 0.5, "entropy_weight": 0.01}
PPO = {"learning_rate": 5e-4, "eps": 1e-5, "clip": 0.2, "max_grad_norm": 0.5, **LOSSES}
A2C = {"learning_rate": 1e-4, "eps": 1e-5, "decay": 0.99, "max_grad_norm": 0.5, **LOSSES}
IMPALA = {"learning_rate": 3e-4, "eps": 0.01, "decay": 0.99, "max_grad_norm": 40.0, **LOSSES, **VTRACE}


def random_weights(rng: np.random.Generator, net: str = "nature") -> dict[str, Any]:
    """Return random weights and biases, with small logits, so that all actions are about equally likely."""
    params = {}
    for name, shape in NETS[net].items():
        gain = 0.1 if name == "logits" else 2**0.5
        scale = 0.5 if "block" in name else 1.0  # keeps what the residual blocks add small
        weight = rng.normal(0, gain * np.prod(shape[:-1]) ** -0.5, shape)
        params[f"w_{name}"] = (scale * weight).astype(np.float32)
        params[f"b_{name}"] = (scale * rng.normal(0, 0.1, shape[-1])).astype(np.float32)
    return params


def pictures(rng: np.random.Generator, *shape: int) -> Any:
    """Return images u8[..., 64, 64, 3] of 8 x 8 tiles of random colours."""
    return rng.integers(256, size=(*shape, 8, 8, 3), dtype=np.uint8).repeat(8, axis=-3).repeat(8, axis=-2)


def normals(rng: np.random.Generator, *shape: int) -> Any:
    """Sample standard normal numbers f32[*shape]."""
    return rng.standard_normal(shape).astype(np.float32)


def actions_and_log_probs(rng: np.random.Generator, *shape: int) -> tuple[Any, Any]:
    """Sample actions i32, and their log-probabilities f32 under a policy near the net's."""
    return rng.integers(ACTIONS, size=shape).astype(np.int32), 0.2 * normals(rng, *shape) - np.float32(np.log(ACTIONS))


def ends(rng: np.random.Generator, *shape: int) -> tuple[Any, Any]:
    """Sample terminated and truncated flags, bool; each is set in one step of fifty."""
    drawn = rng.random(shape)
    return drawn < 0.02, drawn > 0.98


def rollout(rng: np.random.Generator, num_envs: int) -> tuple[Any, ...]:
    """Sample rewards, values and next values f32[T, N], terminated and truncated bool[T, N]."""
    return *(normals(rng, STEPS, num_envs) for _ in range(3)), *ends(rng, STEPS, num_envs)


def games(rng: np.random.Generator, num_envs: int, game: str) -> dict[str, Any]:
    """Return the arguments of environments that play 200 easy levels."""
    return {"game": game, "num_envs": num_envs, "seed": int(rng.integers(2**31)), "mode": "easy", "num_levels": 200}


def pixels(layer: str) -> int:
    """Return the output pixels of a layer per image, without those that the next layer does not read."""
    if layer.startswith("stage"):
        return ((32 if "block" in layer else 64) >> int(layer[5])) ** 2  # each stage begins at half the size
    return {"conv0": 14 * 14, "conv1": 6 * 6, "conv2": 4 * 4}.get(layer, 1)


def multiplications(net: str) -> dict[str, int]:
    """Return the multiplications of each layer per image."""
    return {name: pixels(name) * math.prod(shape) for name, shape in NETS[net].items()}


def forward_flops(num_pictures: int, net: str = "nature") -> float:
    """Return the FLOPs of a forward pass."""
    return 2.0 * sum(multiplications(net).values()) * num_pictures


def forward_bytes(num_pictures: int) -> float:
    """Return the bytes of the images read, and of the logits and values written."""
    return num_pictures * (64 * 64 * 3 + 4.0 * (ACTIONS + 1))


def update_flops(num_pictures: int, net: str = "nature") -> float:
    """Return the FLOPs of the forward pass and of the gradients of weights and layer inputs, except the images'."""
    first, *others = multiplications(net).values()
    return 2.0 * (2 * first + 3 * sum(others)) * num_pictures


def impala_flops(batch_size: int) -> float:
    """Return the FLOPs of an update on a rollout; its last images are only evaluated, without a gradient."""
    return update_flops(batch_size) + forward_flops(batch_size // IMPALA_STEPS)


def gae_bytes(num_envs: int) -> float:
    """Return the bytes of three float and two bool arrays read, and of two float arrays written."""
    return STEPS * num_envs * (3 * 4.0 + 2 + 2 * 4)


def step_bytes(num_envs: int) -> float:
    """Return the bytes of the actions read, and of the frames, rewards and flags written."""
    return ENV_STEPS * num_envs * (4.0 + 64 * 64 * 3 + 4 + 1)


def loop_flops(num_envs: int, num_steps: int, epochs: int = 1, net: str = "nature") -> float:
    """Return the FLOPs of acting, of the values of the last images, and of one update per image and epoch."""
    acting = forward_flops(1, net)
    return num_envs * (num_steps * (acting + epochs * update_flops(1, net)) + acting)


def problem(op: str, config: dict[str, Any], *args: Any, **more: Any) -> Problem:
    """Return a problem of this workload."""
    return Problem("procgen", op, config, args, **more)


def update(op: str, config: dict[str, Any], *args: Any, flops: float) -> Problem:
    """Return the problem of one update."""
    return problem(op, config, *args, unit="updates", flops=flops, reference="torch", tolerance=1e-4)


def loop(
    op: str,
    rng: np.random.Generator,
    num_envs: int,
    num_steps: int,
    constants: dict[str, Any],
    rollouts: int = 1,
    repeatable: bool = True,
    game: str = "coinrun",
    net: str = "nature",
) -> Problem:
    """Return the problem of the first rollouts of a training run."""
    params, env = random_weights(rng, net), games(rng, num_envs, game)
    config = {"params": params, "env": env, "seed": SEED, "num_steps": num_steps, **constants}
    return problem(
        op, config, np.arange(rollouts), io="own", unit="environment frames", items=rollouts * num_envs * num_steps,
        flops=rollouts * loop_flops(num_envs, num_steps, constants.get("epochs", 1), net), max_calls=1,
        unreferenced="Rounding changes which actions are taken; the workload's own tests check the loop.",
        repeatable=repeatable,
    )  # fmt: skip


def ppo_constants(num_envs: int, num_steps: int, epochs: int) -> dict[str, Any]:
    """Return the constants of PPO's loop; a small rollout is split into two minibatches."""
    return {**PPO, **GAE, "batch_size": min(MAX_BATCH_SIZE, num_envs * num_steps // 2), "epochs": epochs}


def forward(seed: int, num_envs: int, net: str = "nature") -> Problem:
    """Logits and values of one image per environment."""
    rng = np.random.default_rng(seed)
    return problem(
        "forward", {"params": random_weights(rng, net)}, pictures(rng, num_envs), unit="pictures", items=num_envs,
        flops=forward_flops(num_envs, net), bytes=forward_bytes(num_envs),
    )  # fmt: skip


def gae(seed: int, num_envs: int) -> Problem:
    """Generalised advantages of a rollout."""
    rng = np.random.default_rng(seed)
    return problem("gae", GAE, *rollout(rng, num_envs), unit="steps", items=STEPS * num_envs, bytes=gae_bytes(num_envs))


def vtrace(seed: int, num_envs: int) -> Problem:
    """V-trace targets and advantages of a rollout by another policy."""
    rng = np.random.default_rng(seed)
    return problem(
        "vtrace", VTRACE, 0.2 * normals(rng, STEPS, num_envs), *rollout(rng, num_envs), unit="steps",
        items=STEPS * num_envs, bytes=gae_bytes(num_envs) + STEPS * num_envs * 4.0,  # with the log-ratios
    )  # fmt: skip


def ppo_update(seed: int, batch_size: int, net: str = "nature") -> Problem:
    """One update on a minibatch: images, actions, log-probabilities, advantages and returns."""
    rng = np.random.default_rng(seed)
    batch = pictures(rng, batch_size), *actions_and_log_probs(rng, batch_size)
    targets = normals(rng, batch_size), 1 + normals(rng, batch_size)
    config = {"params": random_weights(rng, net), **PPO}
    return update("ppo_update", config, *batch, *targets, flops=update_flops(batch_size, net))


def a2c_update(seed: int, batch_size: int) -> Problem:
    """One update on a batch: images, actions, advantages and returns."""
    rng = np.random.default_rng(seed)
    batch = pictures(rng, batch_size), actions_and_log_probs(rng, batch_size)[0]
    targets = normals(rng, batch_size), 1 + normals(rng, batch_size)
    config = {"params": random_weights(rng), **A2C}
    return update("a2c_update", config, *batch, *targets, flops=update_flops(batch_size))


def impala_update(seed: int, batch_size: int) -> Problem:
    """One update on B steps, 16 of each environment, and the images after them."""
    rng = np.random.default_rng(seed)
    shape = IMPALA_STEPS, batch_size // IMPALA_STEPS
    rewards = 1 + normals(rng, *shape)
    args = pictures(rng, IMPALA_STEPS + 1, shape[1]), *actions_and_log_probs(rng, *shape), rewards, *ends(rng, *shape)
    config = {"params": random_weights(rng), **IMPALA}
    return update("impala_update", config, *args, flops=impala_flops(batch_size))


def env_step(seed: int, num_envs: int, game: str) -> Problem:
    """Eight steps of each environment with random actions."""
    rng = np.random.default_rng(seed)
    config = {"env": games(rng, num_envs, game)}
    return problem(
        "env_step", config, rng.integers(ACTIONS, size=(ENV_STEPS, num_envs)).astype(np.int32), io="own",
        unit="env frames", items=ENV_STEPS * num_envs, bytes=step_bytes(num_envs),
    )  # fmt: skip


def ppo(
    seed: int, num_envs: int, num_steps: int, epochs: int, game: str = "coinrun", net: str = "nature", **changed: Any
) -> Problem:
    """One rollout, and PPO's updates on its minibatches; ``changed`` replaces constants."""
    rng, constants = np.random.default_rng(seed), ppo_constants(num_envs, num_steps, epochs) | changed
    return loop("ppo", rng, num_envs, num_steps, constants, game=game, net=net)


def a2c(seed: int, num_envs: int, num_steps: int) -> Problem:
    """One rollout, and one update of A2C."""
    rng = np.random.default_rng(seed)
    return loop("a2c", rng, num_envs, num_steps, A2C | GAE)


def impala(seed: int, num_envs: int, num_steps: int) -> Problem:
    """One rollout, and one update of IMPALA."""
    rng = np.random.default_rng(seed)
    return loop("impala", rng, num_envs, num_steps, IMPALA)


def parallel_ppo(seed: int, num_envs: int, num_steps: int, epochs: int, actors: int, lag: int) -> Problem:
    """Four rollouts by actor processes, and updates of PPO; with a lag, actors race for the weights."""
    rng = np.random.default_rng(seed)
    constants = ppo_constants(num_envs, num_steps, epochs) | {"actors": actors, "lag": lag}
    return loop("parallel_ppo", rng, num_envs, num_steps, constants, ROLLOUTS, repeatable=lag == 0)


def a3c(seed: int, num_envs: int, num_steps: int, actors: int) -> Problem:
    """Four rollouts by worker processes that race for the weights they update."""
    rng = np.random.default_rng(seed)
    constants = {**A2C, **GAE, "actors": actors, "ahead": 3}
    return loop("a3c", rng, num_envs, num_steps, constants, ROLLOUTS, repeatable=False)


def parallel_impala(seed: int, num_envs: int, num_steps: int, actors: int, lag: int) -> Problem:
    """Four rollouts by actor processes, one update of IMPALA each; a lag makes the result depend on timing."""
    rng = np.random.default_rng(seed)
    constants = {**IMPALA, "actors": actors, "lag": lag}
    return loop("parallel_impala", rng, num_envs, num_steps, constants, ROLLOUTS, repeatable=lag == 0)
