"""snake: every piece of a DQN loop, and the loop itself in all its forms."""

from __future__ import annotations

import functools

from rl_impls.snake import problem

from ..case import Case, inputs_of
from ..front import ByForm, Front

LOWERED = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax")
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LEARNING = ("torch", "torch-compile", "jax", *CUDA)
LOOPING = ("torch", "jax", "torch-cuda", "jax-cuda")  # whose loops are timed by default
BATCHES, SHOWN = (32, 64, 128, 256), (32, 64, 256)
ALONE = (
    "memory", "batches", "tensors", "zero_grad", "relu", "inference", "acting", "optimizer", "parameters", "gradient",
    "threads",
)  # fmt: skip
ONLY = tuple(f"only_{knob}" for knob in ALONE)
COMPILED = ("torch-compile", "torch-compile-cuda")
LAZY = tuple(name for name in LOWERED + CUDA if name not in ("torch", "torch-cuda"))  # no autograd to be left on
BEFORE = ("memory", "batches", "tensors", "inference", "acting")  # knobs of what comes before an update
TRAINED = tuple(f"only_{knob}" for knob in ALONE if knob not in BEFORE)
ELSEWHERE = tuple(name for name in LEARNING if name != "torch")


def loop_items(envs: int, every: int, batch: int, form: str = "full") -> int:
    """Return the environment steps of a call of the loop."""
    return problem.loop_steps(envs, form) * envs


def loop_flops(envs: int, every: int, batch: int, form: str = "full") -> float:
    """Return the FLOPs of a call of the loop."""
    return problem.loop_flops(problem.loop_steps(envs, form), envs, every, batch)


CASES = (
    Case(
        "snake", "forward", inputs_of(problem.forward), LOWERED + CUDA, "boards", io="host",
        axes={"envs": (1, 64, 1024)}, items=lambda envs: envs, flops=lambda envs: problem.forward_flops(envs),
        bytes=lambda envs: problem.forward_bytes(envs),
        exclude=[dict(form="naive", backend=LAZY)],
        bench=[dict(backend=("numpy", "torch", "torch-trace", "onnx", "jax", *CUDA))],
    ),
    Case(
        "snake", "act", inputs_of(problem.act), LOWERED + CUDA, "moves", io="own",
        axes={"envs": (1, 64, 1024)}, items=lambda envs: envs, flops=lambda envs: problem.forward_flops(envs),
        exclude=[dict(form="naive", backend=LAZY)],
        gate=[dict(form="full", backend=("torch", "jax"), envs=(1, 64))], bench=[{}],
    ),
    Case(
        "snake", "env_step", inputs_of(problem.env_step), ("numpy", "jax", "jax-cuda"), "environment steps", version=2,
        forms=("naive", "vectorised", "full"), axes={"envs": (1, 64, 1024)}, items=lambda envs: 8 * envs,
        bytes=lambda envs: problem.step_bytes(envs),
        exclude=[dict(form=("naive", "vectorised"), backend=("jax", "jax-cuda")), dict(form="full", backend="numpy")],
        gate=[dict(form=("vectorised", "full"), backend=("numpy", "jax"), envs=1024)], bench=[{}],
    ),
    Case(
        "snake", "remember", inputs_of(problem.remember), ("numpy",), "transitions",
        items=lambda: 64, bytes=lambda: problem.transition_bytes(64), bench=[{}],
    ),
    Case(
        "snake", "sample", inputs_of(problem.sample), ("numpy", "torch", "jax", "torch-cuda", "jax-cuda"),
        "transitions", forms=("naive", "only_memory", "only_batches", "full"), io="own", version=2,
        axes={"batch": BATCHES}, items=lambda batch: batch, bytes=lambda batch: problem.transition_bytes(batch),
        exclude=[dict(form=("only_memory", "only_batches"), backend=("numpy", "jax", "torch-cuda", "jax-cuda"))],
        gate=[dict(form="full", backend="torch", batch=32)], bench=[dict(batch=SHOWN)],
    ),
    Case(
        "snake", "train_step", inputs_of(problem.train_step), LEARNING, "updates", reference="torch", version=2,
        forms=("naive", "full", *ONLY), axes={"batch": BATCHES}, items=lambda batch: 1,
        flops=lambda batch: problem.train_flops(batch), tolerance=1e-4,
        exclude=[
            dict(form=tuple(form for form in ONLY if form not in TRAINED)), dict(form=TRAINED, backend=ELSEWHERE),
        ],
        gate=[dict(form="full", backend=("torch", "jax"), batch=32)],
        bench=[
            dict(form=TRAINED, batch=32), dict(form="full", batch=SHOWN),
            dict(form="naive", backend=tuple(name for name in LEARNING if name not in COMPILED), batch=SHOWN),
        ],
    ),
    Case(
        "snake", "train_step", inputs_of(problem.train_step), ("torch", "jax"), "updates", reference=None,
        forms=("bfloat16",), axes={"batch": SHOWN}, items=lambda batch: 1,
        flops=lambda batch: problem.train_flops(batch), bench=[dict(batch=256)],
    ),
    Case(
        "snake", "train_step", inputs_of(problem.train_step), ("torch-cuda", "torch-compile-cuda"), "updates",
        reference=None, forms=("tf32",), axes={"batch": BATCHES}, items=lambda batch: 1,
        flops=lambda batch: problem.train_flops(batch),
    ),
    Case(
        "snake", "train_step", inputs_of(problem.train_step), ("torch",), "updates", reference=None, cores="own",
        forms=("ddp",), axes={"batch": SHOWN}, items=lambda batch: 1,
        flops=lambda batch: problem.train_flops(batch), bench=[dict(batch=256)],
    ),
    Case(
        "snake", "forward", inputs_of(problem.forward), ("onnx",), "boards", io="host", reference=None,
        forms=("int8",), axes={"envs": (1, 64, 1024)}, items=lambda envs: envs, bench=[{}], version=2,
    ),
    Case(
        "snake", "collect_and_learn", inputs_of(problem.collect_and_learn), LEARNING, "environment steps", io="own",
        reference=None, forms=("naive", "plain", "full", "vectorised", *ONLY), most_calls=1, version=3,
        axes={"envs": (1, 64, 1024), "every": (1, 4, 8, 16), "batch": BATCHES}, items=loop_items, flops=loop_flops,
        exclude=[
            dict(form=("naive", "plain"), backend=tuple(name for name in LEARNING if name in LAZY)),
            dict(form=("naive", "plain", "full", *ONLY), envs=(64, 1024)),
            dict(form="vectorised", envs=1),
            dict(form=ONLY, backend=ELSEWHERE), dict(form=ONLY, every=(4, 8, 16)), dict(form=ONLY, batch=BATCHES[1:]),
        ],
        gate=[dict(form="full", backend="torch", envs=1, every=4, batch=32)],
        bench=[
            dict(backend=LOOPING, batch=32, envs=1, every=(1, 4)), dict(backend=LOOPING, batch=32, envs=64, every=4),
            dict(backend=LOOPING, batch=32, envs=1024, every=4, form="vectorised"),
        ],
    ),
    Case(
        "snake", "collect_and_learn", inputs_of(problem.collect_and_learn), LEARNING, "environment steps", io="own",
        reference=None, forms=("threaded",), most_calls=1, version=3, cores="own",
        axes={"envs": (64, 1024), "every": (1, 4, 8, 16), "batch": BATCHES}, items=loop_items, flops=loop_flops,
        bench=[dict(backend=LOOPING, batch=32, envs=64, every=4)],
    ),
    Case(
        "snake", "collect_and_learn", inputs_of(functools.partial(problem.collect_and_learn, form="compiled")),
        ("jax", "jax-cuda"), "environment steps", io="own", reference=None, forms=("compiled",), most_calls=1,
        version=3, axes={"envs": (1, 64, 1024), "every": (1, 4, 8, 16), "batch": BATCHES},
        items=functools.partial(loop_items, form="compiled"), flops=functools.partial(loop_flops, form="compiled"),
        gate=[dict(backend="jax", envs=1, every=4, batch=32)],
        bench=[dict(batch=32, envs=1, every=(1, 4)), dict(batch=32, envs=(64, 1024), every=4)],
    ),
)  # fmt: skip

FRONT = Front(
    "**snake, the whole loop** in torch: what each optimisation of a DQN is worth alone, and all together, per "
    "environment step, against `naive` and against `plain`:",
    [
        ByForm(
            dict(
                op="collect_and_learn", backend="torch", form=("naive", "plain", "full", *ONLY), envs=1, every=1,
                batch=32,
            ),
            "an update every step", "an environment step",
        )
    ],
)  # fmt: skip
