"""procgen: the net, advantages and updates of actors and critics on pictures."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..case import Case, Inputs

SHAPES = {
    "conv0": (8, 8, 3, 32), "conv1": (4, 4, 32, 64), "conv2": (3, 3, 64, 64), "policy": (1024, 512),
    "logits": (512, 15), "value": (1024, 512), "return": (512, 1),
}  # fmt: skip
PLACES = {"conv0": 14 * 14, "conv1": 6 * 6, "conv2": 4 * 4}  # of a layer in one picture, which the next one sees
PRODUCTS = {name: PLACES.get(name, 1) * int(np.prod(shape)) for name, shape in SHAPES.items()}
FORWARD = sum(PRODUCTS.values())  # multiplications for one picture
TRAINED = 3 * FORWARD - PRODUCTS["conv0"]  # the same of an update: nothing goes back to the picture

STAGES = ((3, 16, 32), (16, 32, 16), (32, 32, 8))  # of the residual net: inputs, outputs, pixels along a side after it
BLOCKS = ("block0_conv0", "block0_conv1", "block1_conv0", "block1_conv1")
RESIDUAL: dict[str, tuple[int, ...]] = {
    **{f"stage{k}": (3, 3, inputs, outputs) for k, (inputs, outputs, _) in enumerate(STAGES)},
    **{f"stage{k}_{conv}": (3, 3, outputs, outputs) for k, (_, outputs, _) in enumerate(STAGES) for conv in BLOCKS},
    "hidden": (2048, 256), "logits": (256, 15), "return": (256, 1),
}  # fmt: skip
RESIDUAL_PLACES = {
    **{f"stage{k}": (2 * side) ** 2 for k, (*_, side) in enumerate(STAGES)},
    **{f"stage{k}_{conv}": side**2 for k, (*_, side) in enumerate(STAGES) for conv in BLOCKS},
}
RESIDUAL_PRODUCTS = {name: RESIDUAL_PLACES.get(name, 1) * int(np.prod(shape)) for name, shape in RESIDUAL.items()}
RESIDUAL_FORWARD = sum(RESIDUAL_PRODUCTS.values())
RESIDUAL_TRAINED = 3 * RESIDUAL_FORWARD - RESIDUAL_PRODUCTS["stage0"]

ACTIONS = 15
STEPS = 128  # of a rollout, T
UNROLL = 16  # the same of IMPALA
ENVS, BATCHES = (16, 32, 64, 112), (64, 256, 1024)
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LEARNING = ("torch", "torch-compile", "jax", *CUDA)
LAZY = ("torch-compile", "jax", *CUDA)  # nothing is timed on them that is naive
GAE = {"gamma": 0.999, "lam": 0.95}
VTRACE = {"gamma": 0.999, "rho_bar": 1.0, "c_bar": 1.0}
LOSSES = {"value_weight": 0.5, "entropy_weight": 0.01}
PPO = {"learning_rate": 5e-4, "clip": 0.2, "gradient_norm": 0.5, **LOSSES}
A2C = {"learning_rate": 1e-4, "gradient_norm": 0.5, **LOSSES}
IMPALA = {"learning_rate": 3e-4, "gradient_norm": 40.0, **LOSSES, **VTRACE}


def net(rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]] = SHAPES) -> dict[str, Any]:
    """Weights of a net, and biases; the logits are so small that all actions are about as likely.

    Args:
        rng: the generator of all that is drawn.
        shapes: of the weights, by the name of the layer.
    """
    params = {}
    for name, shape in shapes.items():
        gain = 0.1 if name == "logits" else 2**0.5
        params[f"w_{name}"] = rng.normal(0, gain * np.prod(shape[:-1]) ** -0.5, shape).astype(np.float32)
        params[f"b_{name}"] = rng.normal(0, 0.1, shape[-1]).astype(np.float32)
    return params


def pictures(rng: np.random.Generator, *shape: int) -> Any:
    """Pictures u8[..., 64, 64, 3] of 8 x 8 tiles of drawn colours.

    Args:
        rng: the generator of all that is drawn.
        shape: how many, along each axis before those of a picture.
    """
    return rng.integers(256, size=(*shape, 8, 8, 3), dtype=np.uint8).repeat(8, axis=-3).repeat(8, axis=-2)


def normals(rng: np.random.Generator, *shape: int) -> Any:
    """Draws of a standard normal distribution, f32.

    Args:
        rng: the generator of all that is drawn.
        shape: of the array.
    """
    return rng.standard_normal(shape).astype(np.float32)


def behaviour(rng: np.random.Generator, *shape: int) -> tuple[Any, Any]:
    """Actions i32 and the logarithms of their probabilities f32, by a policy near the net's.

    Args:
        rng: the generator of all that is drawn.
        shape: of both arrays.
    """
    return rng.integers(ACTIONS, size=shape).astype(np.int32), 0.2 * normals(rng, *shape) - np.float32(np.log(ACTIONS))


def ends(rng: np.random.Generator, *shape: int) -> tuple[Any, Any]:
    """Where episodes were terminated, one step in fifty, and truncated, as many; bool both.

    Args:
        rng: the generator of all that is drawn.
        shape: of both arrays.
    """
    drawn = rng.random(shape)
    return drawn < 0.02, drawn > 0.98


def forward_inputs(rng: np.random.Generator, envs: int) -> Inputs:
    """A picture of each environment.

    Args:
        rng: the generator of all that is drawn.
        envs: environments N that are played at once.
    """
    return Inputs({"params": net(rng)}, (pictures(rng, envs),))


def gae_inputs(rng: np.random.Generator, envs: int) -> Inputs:
    """Rewards, values, those of the next states, and ends of a rollout.

    Args:
        rng: the generator of all that is drawn.
        envs: environments N that are played at once.
    """
    return Inputs(GAE, (*(normals(rng, STEPS, envs) for _ in range(3)), *ends(rng, STEPS, envs)))


def vtrace_inputs(rng: np.random.Generator, envs: int) -> Inputs:
    """Logarithms of ratios between policies, and what advantages are computed from.

    Args:
        rng: the generator of all that is drawn.
        envs: environments N that are played at once.
    """
    return Inputs(VTRACE, (0.2 * normals(rng, STEPS, envs), *gae_inputs(rng, envs).args))


def ppo_inputs(rng: np.random.Generator, batch: int) -> Inputs:
    """A batch of pictures, actions, logarithms of their probabilities, advantages and returns.

    Args:
        rng: the generator of all that is drawn.
        batch: pictures of an update.
    """
    args = pictures(rng, batch), *behaviour(rng, batch), normals(rng, batch), 1 + normals(rng, batch)
    return Inputs({"params": net(rng), **PPO}, args)


def a2c_inputs(rng: np.random.Generator, batch: int) -> Inputs:
    """A batch of pictures, actions, advantages and returns.

    Args:
        rng: the generator of all that is drawn.
        batch: pictures of an update.
    """
    args = pictures(rng, batch), behaviour(rng, batch)[0], normals(rng, batch), 1 + normals(rng, batch)
    return Inputs({"params": net(rng), **A2C}, args)


def impala_inputs(rng: np.random.Generator, batch: int) -> Inputs:
    """A rollout of 16 steps: pictures, actions, logarithms of their probabilities, rewards and ends.

    Args:
        rng: the generator of all that is drawn.
        batch: steps of an update, those of all environments.
    """
    shape = UNROLL, batch // UNROLL
    rewards = 1 + normals(rng, *shape)
    args = pictures(rng, UNROLL + 1, shape[1]), *behaviour(rng, *shape), rewards, *ends(rng, *shape)
    return Inputs({"params": net(rng), **IMPALA}, args)


def residual_forward_inputs(rng: np.random.Generator, envs: int, net: str) -> Inputs:
    """A picture of each environment, and the residual net.

    Args:
        rng: the generator of all that is drawn.
        envs: environments N that are played at once.
        net: the name of the net.
    """
    return Inputs({"params": residual_net(rng)}, (pictures(rng, envs),))


def residual_ppo_inputs(rng: np.random.Generator, batch: int, net: str) -> Inputs:
    """What :func:`ppo_inputs` returns, with the residual net.

    Args:
        rng: the generator of all that is drawn.
        batch: pictures of an update.
        net: the name of the net.
    """
    made = ppo_inputs(rng, batch)
    return Inputs({**made.spec, "params": residual_net(rng)}, made.args)


def residual_net(rng: np.random.Generator) -> dict[str, Any]:
    """Weights of the residual net, so that what blocks add stays small.

    Args:
        rng: the generator of all that is drawn.
    """
    return {name: value / 2 if "block" in name else value for name, value in net(rng, RESIDUAL).items()}


def forward_flops(envs: int) -> float:
    """FLOPs of a picture of each environment.

    Args:
        envs: environments N that are played at once.
    """
    return 2.0 * FORWARD * envs


def forward_bytes(envs: int) -> float:
    """Bytes of the pictures read, and of the logits and values written.

    Args:
        envs: environments N that are played at once.
    """
    return envs * (64 * 64 * 3 + 4.0 * (ACTIONS + 1))


def gae_bytes(envs: int) -> float:
    """Bytes of three arrays of numbers and two of ends, read, and of two arrays of numbers, written.

    Args:
        envs: environments N that are played at once.
    """
    return STEPS * envs * (3 * 4.0 + 2 + 2 * 4)


def vtrace_bytes(envs: int) -> float:
    """Bytes of four arrays of numbers and two of ends, read, and of two arrays of numbers, written.

    Args:
        envs: environments N that are played at once.
    """
    return gae_bytes(envs) + STEPS * envs * 4


def update_flops(batch: int) -> float:
    """FLOPs of the net forward, back to its weights and back to its inputs.

    Args:
        batch: pictures of an update.
    """
    return 2.0 * TRAINED * batch


def impala_flops(batch: int) -> float:
    """FLOPs of an update on a rollout, whose last pictures are seen, and nothing is learned from them.

    Args:
        batch: steps of an update, those of all environments.
    """
    return 2.0 * (TRAINED * batch + FORWARD * batch // UNROLL)


GAMES = (
    "coinrun", "bigfish", "bossfight", "caveflyer", "chaser", "climber", "dodgeball", "fruitbot", "heist", "jumper",
    "leaper", "maze", "miner", "ninja", "plunder", "starpilot",
)  # fmt: skip
STEPPED = 8  # steps of each environment in one call of env_step


def step_inputs(rng: np.random.Generator, envs: int, game: str) -> Inputs:
    """A game on 200 easy levels; drawn actions.

    Args:
        rng: the generator of all that is drawn.
        envs: environments N that are stepped at once.
        game: of Procgen.
    """
    return Inputs({"env": env_of(rng, envs, game)}, (rng.integers(15, size=(STEPPED, envs)).astype(np.int32),))


def step_items(envs: int, game: str) -> int:
    """Frames of a call.

    Args:
        envs: environments N that are stepped at once.
        game: of Procgen.
    """
    return STEPPED * envs


def step_bytes(envs: int, game: str) -> float:
    """Bytes of the actions, read, and of frames, rewards and ends, written.

    Args:
        envs: environments N that are stepped at once.
        game: of Procgen.
    """
    return STEPPED * envs * (4.0 + 64 * 64 * 3 + 4 + 1)


ROUND = {"unroll": 8, "envs": 8}  # what the gate compares: a rollout that takes less than 50 ms on one core
SEED = 0  # of actions and minibatches
ROLLOUTS = 4  # of a call of a parallel loop: actors play ahead of each but the last


def env_of(rng: np.random.Generator, envs: int, game: str) -> dict[str, Any]:
    """What the environments are made of: a game on 200 easy levels.

    Args:
        rng: the generator of all that is drawn.
        envs: environments N that are stepped at once.
        game: of Procgen.
    """
    return {"game": game, "num_envs": envs, "seed": int(rng.integers(2**31)), "mode": "easy", "num_levels": 200}


def loop_inputs(
    rng: np.random.Generator, constants: dict[str, Any], envs: int, unroll: int, rollouts: int = 1, **sizes: int
) -> Inputs:
    """The first rollouts of a training of coinrun, with a net that has not learned.

    Args:
        rng: the generator of all that is drawn.
        constants: of the algorithm.
        envs: environments N that are played at once.
        unroll: steps T of each.
        rollouts: of a call.
        sizes: actors and lag of a parallel loop, epochs of PPO.
    """
    spec = {"params": net(rng), "env": env_of(rng, envs, "coinrun"), "seed": SEED, "unroll": unroll}
    return Inputs(spec | constants | sizes, (np.arange(rollouts),))


def ppo_loop_inputs(rng: np.random.Generator, envs: int, unroll: int, **sizes: int) -> Inputs:
    """The same of PPO, whose updates take 1024 pictures, or half of a small rollout.

    Args:
        rng: the generator of all that is drawn.
        envs: environments N that are played at once.
        unroll: steps T of each.
        sizes: actors and lag of a parallel loop, epochs.
    """
    return loop_inputs(rng, PPO | GAE | {"batch": min(1024, envs * unroll // 2)}, envs, unroll, **sizes)


def loop_items(envs: int, unroll: int, **sizes: int) -> int:
    """Environment frames of a call.

    Args:
        envs: environments N that are played at once.
        unroll: steps T of each.
        sizes: of no account.
    """
    return envs * unroll


def loop_flops(envs: int, unroll: int, epochs: int = 1, **sizes: int) -> float:
    """FLOPs of a call: each picture forward to act, and forward and back in each epoch; the last ones for their values.

    Args:
        envs: environments N that are played at once.
        unroll: steps T of each.
        epochs: of PPO.
        sizes: of no account.
    """
    return envs * (unroll * (forward_flops(1) + epochs * update_flops(1)) + forward_flops(1))


Loops = dict[str, tuple[Callable[..., Inputs], dict[str, tuple[int, ...]]]]
LOOPS: Loops = {
    "ppo": (ppo_loop_inputs, {"epochs": (1, 4)}),
    "a2c": (functools.partial(loop_inputs, constants=A2C | GAE), {}),
    "impala": (functools.partial(loop_inputs, constants=IMPALA), {}),
}
PARALLEL: Loops = {
    "parallel_ppo": (
        functools.partial(ppo_loop_inputs, rollouts=ROLLOUTS),
        {"epochs": (1, 4), "actors": (2, 4, 8), "lag": (0, 1)},
    ),
    "a3c": (functools.partial(loop_inputs, constants=A2C | GAE, rollouts=ROLLOUTS), {"actors": (2, 4, 8)}),
    "parallel_impala": (
        functools.partial(loop_inputs, constants=IMPALA, rollouts=ROLLOUTS),
        {"actors": (2, 4, 8), "lag": (0, 1)},
    ),
}
PLAYED = {"envs": (8, 32, 112), "unroll": (8, 16, 128)}
FEW: list[dict[str, Any]] = [
    dict(envs=8, unroll=(16, 128)),
    dict(envs=(32, 112), unroll=8),
    dict(envs=112, unroll=16),
]  # not timed
SHORT = {"ppo": {"epochs": 1}, "parallel_ppo": {"epochs": 1, "actors": 2, "lag": 0},
         "parallel_impala": {"actors": 2, "lag": 0}, "a3c": {"actors": 2}}  # fmt: skip


def loop_cases() -> Iterator[Case]:
    """Yield the cases of all loops: sequential ones, the same in bfloat16, and parallel ones."""
    for op, (inputs, axes) in LOOPS.items():
        short: dict[str, Any] = SHORT.get(op, {})
        common: dict[str, Any] = {"items": loop_items, "flops": loop_flops, "io": "own", "reference": None}
        yield Case(
            "procgen", op, inputs, LEARNING, "environment frames", axes={**PLAYED, **axes}, most_calls=1, **common,
            exclude=[*FEW, dict(form="naive", backend=LAZY), dict(form="naive", envs=112)],
            gate=[dict(form="full", backend="torch", **ROUND, **short)],
            bench=[dict(backend="torch", envs=32, unroll=16, **short)],
        )  # fmt: skip
        yield Case(
            "procgen", op, inputs, ("torch", "jax", *CUDA), "environment frames", forms=("bfloat16",), most_calls=1,
            axes={**PLAYED, **axes}, **common, exclude=FEW, bench=[dict(backend="torch", envs=32, unroll=16, **short)],
        )  # fmt: skip
    for op, (inputs, axes) in PARALLEL.items():
        for lag in axes.get("lag", (None,)):
            yield Case(
                "procgen", op, inputs, ("torch",), "environment frames", forms=("full", "bfloat16"), most_calls=1,
                io="own", axes={**PLAYED, **axes} | ({} if lag is None else {"lag": (lag,)}), reference=None,
                cores="own", exclude=FEW, items=lambda **sizes: ROLLOUTS * loop_items(**sizes),
                flops=lambda **sizes: ROLLOUTS * loop_flops(**sizes),
                repeatable=lag == 0,  # actors that are ahead race for the weights, as A3C's workers do
                bench=[] if lag else [dict(form="full", backend="torch", envs=32, unroll=16, **SHORT[op])],
            )  # fmt: skip


CASES = (
    Case(
        "procgen", "forward", forward_inputs, ("numpy", *LEARNING), "pictures",
        axes={"envs": ENVS}, items=lambda envs: envs, flops=forward_flops, bytes=forward_bytes,
        exclude=[dict(form="naive", backend=("numpy", *LAZY))],
        gate=[dict(form="full", backend=("torch", "jax"), envs=32)],
        bench=[dict(backend=("numpy", "torch", "jax"), envs=(32, 64))],
    ),
    Case(
        "procgen", "forward", forward_inputs, ("torch", "jax", *CUDA), "pictures", reference=None,
        forms=("bfloat16",), axes={"envs": ENVS}, items=lambda envs: envs, flops=forward_flops, bytes=forward_bytes,
        bench=[dict(backend="torch", envs=(32, 64))],
    ),
    Case(
        "procgen", "forward", residual_forward_inputs, ("numpy", *LEARNING), "pictures", forms=("full",),
        axes={"envs": (16, 32, 64), "net": ("residual",)}, items=lambda envs, net: envs,
        flops=lambda envs, net: 2.0 * RESIDUAL_FORWARD * envs, bytes=lambda envs, net: forward_bytes(envs),
        bench=[dict(backend="torch", envs=32)],
    ),
    Case(
        "procgen", "ppo_update", residual_ppo_inputs, LEARNING, "updates", forms=("full",), reference="torch",
        tolerance=1e-4, axes={"batch": (64, 256), "net": ("residual",)}, items=lambda batch, net: 1,
        flops=lambda batch, net: 2.0 * RESIDUAL_TRAINED * batch,
    ),
    Case(
        "procgen", "ppo_update", residual_ppo_inputs, ("torch", *CUDA), "updates", forms=("bfloat16",), reference=None,
        axes={"batch": (64, 256), "net": ("residual",)}, items=lambda batch, net: 1,
        flops=lambda batch, net: 2.0 * RESIDUAL_TRAINED * batch,
    ),
    Case(
        "procgen", "gae", gae_inputs, ("numpy", "torch", "jax", "torch-cuda", "jax-cuda"), "steps",
        axes={"envs": ENVS}, items=lambda envs: STEPS * envs, bytes=gae_bytes,
        exclude=[dict(form="naive", backend=("jax", "torch-cuda", "jax-cuda"))],
        gate=[dict(form="full", backend="numpy", envs=32)], bench=[dict(envs=32)],
    ),
    Case(
        "procgen", "vtrace", vtrace_inputs, ("numpy", "torch", "jax", "torch-cuda", "jax-cuda"), "steps",
        axes={"envs": ENVS}, items=lambda envs: STEPS * envs, bytes=vtrace_bytes,
        exclude=[dict(form="naive", backend=("jax", "torch-cuda", "jax-cuda"))],
        gate=[dict(form="full", backend="torch", envs=32)], bench=[dict(envs=32)],
    ),
    Case(
        "procgen", "ppo_update", ppo_inputs, LEARNING, "updates", reference="torch", tolerance=1e-4,
        axes={"batch": BATCHES}, items=lambda batch: 1, flops=update_flops,
        exclude=[dict(form="naive", backend=LAZY)],
        gate=[dict(form="full", backend="torch", batch=64)],
        bench=[dict(backend="torch", batch=(256, 1024)), dict(backend="jax", batch=64)],
    ),
    Case(
        "procgen", "a2c_update", a2c_inputs, LEARNING, "updates", reference="torch", tolerance=1e-4,
        axes={"batch": BATCHES}, items=lambda batch: 1, flops=update_flops,
        exclude=[dict(form="naive", backend=LAZY)],
        bench=[dict(backend="torch", batch=256), dict(backend="jax", batch=64)],
    ),
    Case(
        "procgen", "impala_update", impala_inputs, LEARNING, "updates", reference="torch", tolerance=1e-4,
        axes={"batch": BATCHES}, items=lambda batch: 1, flops=impala_flops,
        exclude=[dict(form="naive", backend=LAZY)],
        gate=[dict(form="full", backend="torch", batch=64)],
        bench=[dict(backend="torch", batch=256), dict(backend="jax", batch=64)],
    ),
    Case(
        "procgen", "ppo_update", ppo_inputs, ("torch", "jax", *CUDA), "updates", reference=None, forms=("bfloat16",),
        axes={"batch": BATCHES}, items=lambda batch: 1, flops=update_flops, bench=[dict(backend="torch", batch=1024)],
    ),
    Case(
        "procgen", "a2c_update", a2c_inputs, ("torch", "jax", *CUDA), "updates", reference=None, forms=("bfloat16",),
        axes={"batch": BATCHES}, items=lambda batch: 1, flops=update_flops,
    ),
    Case(
        "procgen", "impala_update", impala_inputs, ("torch", "jax", *CUDA), "updates", reference=None,
        forms=("bfloat16",), axes={"batch": BATCHES}, items=lambda batch: 1, flops=impala_flops,
        bench=[dict(backend="torch", batch=256)],
    ),
    Case(
        "procgen", "env_step", step_inputs, ("numpy",), "env frames", io="own",
        axes={"envs": (16, 32, 64, 112), "game": GAMES}, items=step_items, bytes=step_bytes,
        exclude=[dict(game=GAMES[1:], envs=(16, 32, 112)), dict(game=GAMES[1:], form="naive")],
        gate=[dict(form="full", envs=16, game="coinrun")], bench=[dict(envs=(16, 32, 64), game="coinrun")],
    ),
    *loop_cases(),
)  # fmt: skip
