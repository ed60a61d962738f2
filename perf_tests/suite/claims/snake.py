"""What was published of a DQN that learns Snake: each of its optimisations, and all of them together."""

from __future__ import annotations

from typing import Any

from ..claim import Comparison, Side, alone, between, removed, stated_in

on = stated_in("snake-dqn.md")
EAGER = {"gradient": "autograd", "parameters": "separate"}  # full, differentiated by torch as the rest is


def loop(form: str, every: int = 1, batch: int = 32, envs: int = 1, backend: str = "torch") -> str:
    """Return the id of a loop.

    Args:
        form: its name.
        every: environment steps for each update.
        batch: transitions of an update.
        envs: environments.
        backend: its name.
    """
    return f"snake.collect_and_learn[{form}-{backend}-envs{envs}-every{every}-batch{batch}]"


def update(form: str, batch: int = 32, backend: str = "torch") -> str:
    """Return the id of an update.

    Args:
        form: its name.
        batch: transitions of it.
        backend: its name.
    """
    return f"snake.train_step[{form}-{backend}-batch{batch}]"


def batches(base: int, change: int, form: str, backend: str = "torch") -> Comparison:
    """Return updates of two batch sizes, compared by transitions a second.

    Args:
        base: transitions of an update.
        change: transitions of the other.
        form: of both.
        backend: of both.
    """
    first, second = (Side(update(form, batch, backend), work=batch) for batch in (base, change))
    return Comparison(first, second)


def both(base: int, change: int) -> dict[str, Comparison]:
    """Return the loops with an update every so many steps, naive and full.

    Args:
        base: environment steps for each update.
        change: the same of the other.
    """
    return {
        "alone": between(loop("naive", base), loop("naive", change)),
        "from full": between(loop("full", base), loop("full", change)),
    }


LESS_MEMORY: dict[str, Any] = {"zero_grad": "none", "relu": "inplace", "memory": "arrays"}
MORE_MEMORY: dict[str, Any] = {"zero_grad": "fill", "relu": "copy", "memory": "lists"}
FEWER: dict[str, Any] = {"zero_grad": "none", "relu": "inplace"}  # the memory is no part of an update
MORE: dict[str, Any] = {"zero_grad": "fill", "relu": "copy"}

CLAIMS = (
    on(
        "snake-overall",
        "all CPU optimisations together bring 4.7 times the steps a second on two cores",
        "CPU-only performance",
        promised="4.7 x (435 to 2,050 steps/s)",
        least=4.7,
        contexts={
            "alone": between(loop("naive", 1), loop("full", 4)),
            "from plain": between(loop("plain", 1), loop("full", 4)),
        },
        note="As the source counts: its optimised program learns from every fourth step, so that a step is less work.",
    ),
    on(
        "snake-overall-equal-work",
        "the same, with an update for every step on both sides",
        "CPU-only performance",
        promised="4.7 x, counted rightly",
        least=4.7,
        contexts={
            "alone": between(loop("naive", 1), loop("full", 1)),
            "from plain": between(loop("plain", 1), loop("full", 1)),
        },
    ),
    on(
        "snake-batched-tensors",
        "batches made of arrays at once in place of list comprehensions load 30 % faster",
        "2",
        promised="30 %",
        least=1.3,
        same="close",
        contexts={
            "alone": alone("snake.sample[naive-torch-batch32]", batches="stacked"),
            "from full": removed("snake.sample[full-torch-batch32]", batches="comprehension"),
        },
    ),
    on(
        "snake-memory-time",
        "gradients dropped, ReLU in place and transitions as arrays take a fifth less time",
        "3",
        promised="20 %",
        least=1.25,
        contexts={
            "alone": alone(loop("naive"), **LESS_MEMORY),
            "from full": removed(loop("full"), both=EAGER, **MORE_MEMORY),
        },
        note="The source says it of the time spent on memory alone, which cannot be told: this is a whole step's.",
    ),
    on(
        "snake-memory-bytes",
        "gradients dropped and ReLU in place allocate a fifth less",
        "3",
        promised="20 %",
        least=1.25,
        same="close",
        contexts={
            "alone": alone(update("naive"), "allocated", **FEWER),
            "from full": removed(update("full"), "allocated", both=EAGER, **MORE),
        },
        note="Bytes of all new arrays of an update, counted exactly.",
    ),
    on(
        "snake-inference-mode",
        "acting under inference_mode is 15 % faster than with gradients recorded",
        "4",
        promised="15 %",
        least=1.15,
        same="close",
        contexts={
            "alone": alone("snake.act[naive-torch-envs1]", inference="inference_mode"),
            "from full": removed("snake.act[full-torch-envs1]", both={"acting": "torch"}, inference="grad"),
        },
        note="`full` acts by NumPy, which records nothing; here it acts by torch on both sides.",
    ),
    on(
        "snake-train-every-4",
        "an update every fourth step finishes episodes three times as fast and learns as well",
        "5",
        promised="3 x, returns the same",
        least=3.0,
        contexts=both(1, 4),
        same="returns",
        evidence="snake-every-4",
    ),
    on(
        "snake-threads",
        "all cores in place of one are 50 % faster",
        "6",
        promised="50 %",
        least=1.5,
        contexts={"alone": alone(loop("naive"), threads="all"), "from full": removed(loop("full"), threads="one")},
    ),
    on(
        "snake-batch-gpu",
        "batches of 64 in place of 32 train 40 % faster on a GPU",
        "7",
        promised="40 %",
        least=1.4,
        contexts={
            name: batches(32, 64, form, "torch-cuda") for name, form in (("alone", "naive"), ("from full", "full"))
        },
    ),
    on(
        "snake-gpu",
        "a GPU is 10 to 50 times as fast as the CPU",
        "expected GPU performance",
        promised="10 to 50 x",
        least=10.0,
        contexts={
            "alone": between(loop("naive"), loop("naive", backend="torch-cuda")),
            "from full": between(loop("full"), loop("full", backend="torch-cuda")),
        },
    ),
    on(
        "snake-amp",
        "half precision is 2 to 3 times as fast on a GPU",
        "expected GPU performance",
        promised="2 to 3 x",
        least=2.0,
        contexts={
            "from full": Comparison(
                Side(update("full", 256, "torch-cuda"), EAGER),
                Side(update("full", 256, "torch-cuda"), EAGER | {"precision": "bfloat16"}),
            )
        },
        note="bfloat16 stands for FP16: it needs no scaled loss.",
    ),
    on(
        "snake-batch-128-256",
        "batches of 128 and 256 bring better throughput on a GPU",
        "expected GPU performance",
        promised="better",
        least=1.02,
        same="returns",
        evidence="snake-batch-256",
        contexts={
            "128 from full": batches(64, 128, "full", "torch-cuda"),
            "256 from full": batches(64, 256, "full", "torch-cuda"),
        },
    ),
    on(
        "snake-batch-128-256-cpu",
        "the same on a CPU",
        "for even faster training",
        contexts={"128 from full": batches(64, 128, "full"), "256 from full": batches(64, 256, "full")},
        same="returns",
        evidence="snake-batch-256",
        note="Transitions a second.",
    ),
    on(
        "snake-every-8-16",
        "an update every eighth or sixteenth step",
        "for even faster training",
        contexts={f"{every} {name}": pair for every in (8, 16) for name, pair in both(4, every).items()},
        same="returns",
        evidence="snake-every-16",
    ),
    on(
        "snake-vectorised",
        "64 environments in arrays in place of one in Python",
        "future optimizations",
        contexts={"from full": between(loop("full", 4), loop("vectorised", 4, envs=64))},
    ),
    on(
        "snake-async",
        "collecting in a thread of its own",
        "future optimizations",
        contexts={"from full": between(loop("vectorised", 4, envs=64), loop("threaded", 4, envs=64))},
    ),
    on(
        "snake-bf16-cpu",
        "bfloat16 on the CPU",
        "future optimizations",
        contexts={
            "alone": alone(update("naive", 256), precision="bfloat16"),
            "from full": alone(update("full", 256), both=EAGER, precision="bfloat16"),
        },
    ),
    on(
        "snake-int8",
        "a net that acts in 8-bit integers",
        "future optimizations",
        contexts={
            f"{envs} boards, from full": between(
                f"snake.forward[full-onnx-envs{envs}]", f"snake.forward[int8-onnx-envs{envs}]"
            )
            for envs in (1, 1024)
        },
    ),
    on(
        "snake-ddp",
        "an update shared by two processes",
        "future optimizations",
        contexts={"from full": Comparison(Side(update("full", 256), EAGER), Side(update("ddp", 256)))},
    ),
    on(
        "snake-tensors-on-device",
        "batches made on the device in place of made on the CPU and moved",
        "memory layout",
        contexts={"alone": alone(loop("naive"), tensors="direct"), "from full": removed(loop("full"), tensors="moved")},
    ),
    on(
        "snake-compile",
        "an update by torch.compile",
        "8",
        same="close",
        contexts={"from full": between(update("full"), update("full", backend="torch-compile"))},
    ),
    on(
        "snake-tf32-cudnn",
        "TF32 and cuDNN's search on a GPU",
        "8",
        contexts={"from full": between(update("full", 256, "torch-cuda"), update("tf32", 256, "torch-cuda"))},
    ),
)
