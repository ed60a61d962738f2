"""procgen: the net, advantages and updates of actors and critics on pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rl_impls.procgen import problem

from ..case import Case, Inputs, inputs_of

ENVS, BATCHES = (16, 32, 64, 112), (64, 256, 1024)
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LEARNING = ("torch", "torch-compile", "jax", *CUDA)
LAZY = ("torch-compile", "jax", *CUDA)  # no naive form
GAMES = (
    "coinrun", "bigfish", "bossfight", "caveflyer", "chaser", "climber", "dodgeball", "fruitbot", "heist", "jumper",
    "leaper", "maze", "miner", "ninja", "plunder", "starpilot",
)  # fmt: skip
ROUND = {"unroll": 8, "envs": 8}  # of the gate: a rollout of less than 50 ms on one core


def forward_flops(envs: int, net: str = "nature") -> float:
    """Return the FLOPs of a picture of each environment."""
    return problem.forward_flops(envs, net)


def forward_bytes(envs: int, net: str = "nature") -> float:
    """Return the bytes of the pictures, logits and values."""
    return problem.forward_bytes(envs)


def update_flops(batch: int, net: str = "nature") -> float:
    """Return the FLOPs of an update."""
    return problem.update_flops(batch, net)


def loop_items(envs: int, unroll: int, **sizes: int) -> int:
    """Return the environment frames of a rollout."""
    return envs * unroll


def loop_flops(envs: int, unroll: int, epochs: int = 1, **sizes: int) -> float:
    """Return the FLOPs of a rollout and the updates on it."""
    return problem.loop_flops(envs, unroll, epochs)


Loops = dict[str, tuple[Callable[..., Inputs], dict[str, tuple[int, ...]]]]
LOOPS: Loops = {
    "ppo": (inputs_of(problem.ppo), {"epochs": (1, 4)}),
    "a2c": (inputs_of(problem.a2c), {}),
    "impala": (inputs_of(problem.impala), {}),
}
PARALLEL: Loops = {
    "parallel_ppo": (inputs_of(problem.parallel_ppo), {"epochs": (1, 4), "actors": (2, 4, 8), "lag": (0, 1)}),
    "a3c": (inputs_of(problem.a3c), {"actors": (2, 4, 8)}),
    "parallel_impala": (inputs_of(problem.parallel_impala), {"actors": (2, 4, 8), "lag": (0, 1)}),
}
PLAYED = {"envs": (8, 32, 112), "unroll": (8, 16, 128)}
FEW: list[dict[str, Any]] = [
    dict(envs=8, unroll=(16, 128)),
    dict(envs=(32, 112), unroll=8),
    dict(envs=112, unroll=16),
]  # that do not exist
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
                cores="own", exclude=FEW, items=lambda **sizes: problem.ROLLOUTS * loop_items(**sizes),
                flops=lambda **sizes: problem.ROLLOUTS * loop_flops(**sizes),
                repeatable=lag == 0,  # actors that are ahead race for the weights, as A3C's workers do
                bench=[] if lag else [dict(form="full", backend="torch", envs=32, unroll=16, **SHORT[op])],
            )  # fmt: skip


CASES = (
    Case(
        "procgen", "forward", inputs_of(problem.forward), ("numpy", *LEARNING), "pictures",
        axes={"envs": ENVS}, items=lambda envs: envs, flops=forward_flops, bytes=forward_bytes,
        exclude=[dict(form="naive", backend=("numpy", *LAZY))],
        gate=[dict(form="full", backend=("torch", "jax"), envs=32)],
        bench=[dict(backend=("numpy", "torch", "jax"), envs=(32, 64))],
    ),
    Case(
        "procgen", "forward", inputs_of(problem.forward), ("torch", "jax", *CUDA), "pictures", reference=None,
        forms=("bfloat16",), axes={"envs": ENVS}, items=lambda envs: envs, flops=forward_flops, bytes=forward_bytes,
        bench=[dict(backend="torch", envs=(32, 64))],
    ),
    Case(
        "procgen", "forward", inputs_of(problem.forward), ("numpy", *LEARNING), "pictures", forms=("full",),
        axes={"envs": (16, 32, 64), "net": ("residual",)}, items=lambda envs, net: envs,
        flops=forward_flops, bytes=forward_bytes, bench=[dict(backend="torch", envs=32)],
    ),
    Case(
        "procgen", "ppo_update", inputs_of(problem.ppo_update), LEARNING, "updates", forms=("full",), reference="torch",
        tolerance=1e-4, axes={"batch": (64, 256), "net": ("residual",)}, items=lambda batch, net: 1,
        flops=update_flops,
    ),
    Case(
        "procgen", "ppo_update", inputs_of(problem.ppo_update), ("torch", *CUDA), "updates", forms=("bfloat16",),
        reference=None, axes={"batch": (64, 256), "net": ("residual",)}, items=lambda batch, net: 1,
        flops=update_flops,
    ),
    Case(
        "procgen", "gae", inputs_of(problem.gae), ("numpy", "torch", "jax", "torch-cuda", "jax-cuda"), "steps",
        axes={"envs": ENVS}, items=lambda envs: problem.STEPS * envs, bytes=lambda envs: problem.gae_bytes(envs),
        exclude=[dict(form="naive", backend=("jax", "torch-cuda", "jax-cuda"))],
        gate=[dict(form="full", backend="numpy", envs=32)], bench=[dict(envs=32)],
    ),
    Case(
        "procgen", "vtrace", inputs_of(problem.vtrace), ("numpy", "torch", "jax", "torch-cuda", "jax-cuda"), "steps",
        axes={"envs": ENVS}, items=lambda envs: problem.STEPS * envs, bytes=lambda envs: problem.vtrace_bytes(envs),
        exclude=[dict(form="naive", backend=("jax", "torch-cuda", "jax-cuda"))],
        gate=[dict(form="full", backend="torch", envs=32)], bench=[dict(envs=32)],
    ),
    Case(
        "procgen", "ppo_update", inputs_of(problem.ppo_update), LEARNING, "updates", reference="torch", tolerance=1e-4,
        axes={"batch": BATCHES}, items=lambda batch: 1, flops=update_flops,
        exclude=[dict(form="naive", backend=LAZY)],
        gate=[dict(form="full", backend="torch", batch=64)],
        bench=[dict(backend="torch", batch=(256, 1024)), dict(backend="jax", batch=64)],
    ),
    Case(
        "procgen", "a2c_update", inputs_of(problem.a2c_update), LEARNING, "updates", reference="torch", tolerance=1e-4,
        axes={"batch": BATCHES}, items=lambda batch: 1, flops=update_flops,
        exclude=[dict(form="naive", backend=LAZY)],
        bench=[dict(backend="torch", batch=256), dict(backend="jax", batch=64)],
    ),
    Case(
        "procgen", "impala_update", inputs_of(problem.impala_update), LEARNING, "updates", reference="torch",
        tolerance=1e-4, axes={"batch": BATCHES}, items=lambda batch: 1,
        flops=lambda batch: problem.impala_flops(batch),
        exclude=[dict(form="naive", backend=LAZY)],
        gate=[dict(form="full", backend="torch", batch=64)],
        bench=[dict(backend="torch", batch=256), dict(backend="jax", batch=64)],
    ),
    Case(
        "procgen", "ppo_update", inputs_of(problem.ppo_update), ("torch", "jax", *CUDA), "updates", reference=None,
        forms=("bfloat16",), axes={"batch": BATCHES}, items=lambda batch: 1, flops=update_flops,
        bench=[dict(backend="torch", batch=1024)],
    ),
    Case(
        "procgen", "a2c_update", inputs_of(problem.a2c_update), ("torch", "jax", *CUDA), "updates", reference=None,
        forms=("bfloat16",), axes={"batch": BATCHES}, items=lambda batch: 1, flops=update_flops,
    ),
    Case(
        "procgen", "impala_update", inputs_of(problem.impala_update), ("torch", "jax", *CUDA), "updates",
        reference=None, forms=("bfloat16",), axes={"batch": BATCHES}, items=lambda batch: 1,
        flops=lambda batch: problem.impala_flops(batch), bench=[dict(backend="torch", batch=256)],
    ),
    Case(
        "procgen", "env_step", inputs_of(problem.env_step), ("numpy",), "env frames", io="own",
        axes={"envs": (16, 32, 64, 112), "game": GAMES}, items=lambda envs, game: problem.STEPPED * envs,
        bytes=lambda envs, game: problem.step_bytes(envs),
        exclude=[dict(game=GAMES[1:], envs=(16, 32, 112)), dict(game=GAMES[1:], form="naive")],
        gate=[dict(form="full", envs=16, game="coinrun")], bench=[dict(envs=(16, 32, 64), game="coinrun")],
    ),
    *loop_cases(),
)  # fmt: skip
