"""What was published of the experience pipeline: queues without locks, batches, precision, fewer publications."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from rl_impls import backends
from rl_impls.mario import problem
from rl_impls.mario.knobs import OF_SOURCE
from rl_impls.mario.problem import STACK, net, pictures

from ..case import Inputs, inputs_of
from ..claim import Comparison, Figure, Side, alone, between, removed, stated_in

on = stated_in("mario-pipeline.md")
BATCH, SIDE, STATES = 256, 84, 64
SHORT = {"collectors": 2, "batch": 64, "updates": 4, "prioritised": 0}
EPOCHS = 5  # of a call, where what is published every fifth epoch is published once
pipeline_inputs = inputs_of(problem.pipeline)


def pipeline(form: str) -> str:
    """Return the id of a short epoch of two collectors: of one environment each where the form is naive, or of eight.

    Args:
        form: its name.
    """
    envs = 1 if form == "naive" else 8
    return f"mario.pipeline[{form}-torch-collectors2-envs{envs}-batch64-updates4-publish1-prioritised0]"


def update(form: str, batch: int = BATCH, norm: str = "none", accumulate: int = 1, backend: str = "torch") -> str:
    """Return the id of an update.

    Args:
        form: its name.
        batch: experiences.
        norm: ``batch`` or ``none``.
        accumulate: parts of the batch.
        backend: its name.
    """
    return f"mario.train_step[{form}-{backend}-batch{batch}-side84-norm{norm}-accumulate{accumulate}]"


def epochs(rng: Any) -> Inputs:
    """Return what five epochs of the naive pipeline take, for which weights are published once.

    Args:
        rng: the generator of all that is drawn.
    """
    return pipeline_inputs(rng, envs=1, publish=EPOCHS, **SHORT)


def as_counted(form: str, batch: int) -> list[Figure]:
    """Return the batches a second of an epoch, as the source counts them, and the experiences a second beside them.

    Args:
        form: its name; environments of a collector are one where it is naive, or eight.
        batch: experiences of an update: the source's before it was optimised, or after.
    """
    updates, envs = 2, 1 if form == "naive" else 8
    sizes: dict[str, Any] = SHORT | {"batch": batch, "updates": updates, "envs": envs, "publish": 1}
    given = functools.partial(pipeline_inputs, **sizes)
    theirs = {256: ("4 batches/s", "1,000 exp/s"), 512: ("10 batches/s", "1,800 exp/s")}[batch]
    return [
        Figure(f"{form}, batches of {batch}: {what}", side, there, unit=unit)
        for what, unit, work, there in (
            ("batches", "batches", updates, theirs[0]),
            ("learned from, and consumed", "experiences", updates * batch, theirs[1]),
        )
        for side in [Side(pipeline(form), given=given, words=f"{updates} batches of {batch}", work=work)]
    ]


def publishing() -> Comparison:
    """Return an epoch of the naive pipeline, and five of them for which weights are published once, by the epoch."""
    five = Side(pipeline("naive"), given=epochs, words="five epochs, weights published once", work=EPOCHS)
    return Comparison(Side(pipeline("naive"), work=1), five)


def network(direction: str, form: str, backend: str = "torch", **knobs: Any) -> Side:
    """Return a pass of the net over 64 states.

    Args:
        direction: ``forward`` or ``backward``.
        form: named setting of the knobs.
        backend: that computes.
        knobs: values that are not the form's.
    """
    make = functools.partial(passing, direction=direction, form=form, backend=backend, knobs=knobs)
    changed = "".join(f", {name}={value}" for name, value in knobs.items())
    return Side(f"mario.{direction}[{form}-{backend}]{changed}", make=make, backend=backend)


def passing(rng: Any, direction: str, form: str, backend: str, knobs: dict[str, Any]) -> Callable[[], Any]:
    """Return a function that passes 64 states through the net, or the gradient of its mean square back.

    Args:
        rng: the generator of all that is drawn.
        direction: ``forward`` or ``backward``.
        form: named setting of the knobs.
        backend: that computes.
        knobs: values that are not the form's.
    """
    import torch

    source: Any = import_module("rl_impls.mario._torch")
    chosen, target = replace(backends.forms("mario")[form], **knobs), backends.get(backend).lowering_here()
    made = source.make_net(net(rng, SIDE), chosen, target)
    states = source.Pictures(made, chosen, target)("states", torch.from_numpy(pictures(rng, STATES, STACK, SIDE, SIDE)))
    call = target.lower(made, (states,), guard=torch.enable_grad if direction == "backward" else torch.no_grad)

    def forward() -> Any:
        with source.autocast(chosen, target):
            return call(states)

    if direction == "forward":
        return forward
    mean = forward().square().mean()

    def backward() -> Any:
        made.zero_grad(set_to_none=True)
        mean.backward(retain_graph=True)
        return [weight.grad for weight in made.parameters()]

    return backward


def stored(dtype: str) -> Side:
    """Return 10,000 frames, kept in a type.

    Args:
        dtype: of NumPy.
    """
    return Side(f"mario.frames[10,000 in {dtype}]", make=functools.partial(storing, dtype=dtype))


def storing(rng: Any, dtype: str) -> Callable[[], Any]:
    """Return a function that keeps 10,000 frames.

    Args:
        rng: the generator of all that is drawn.
        dtype: of NumPy.
    """
    frames = pictures(rng, 100, SIDE, SIDE)

    def store() -> Any:
        import numpy as np

        return np.concatenate([frames.astype(dtype)] * 100)

    return store


def moving(transport: str, measure: str = "seconds") -> dict[str, Comparison]:
    """Return the pipeline with another way for experiences, in place of one queue behind a lock.

    Args:
        transport: value of the knob.
        measure: see :class:`.claim.Comparison`.
    """
    full = pipeline("full")
    locked = Side(full, {"transport": "locked_queue"})
    other = Side(full) if transport == "shared_ring" else Side(full, {"transport": transport})
    return {
        "alone": alone(pipeline("naive"), measure, transport=transport),
        "from full": Comparison(locked, other, measure),
    }


BLOCKED = "noted:blocked_lock+blocked_full"
OVERALL = {
    "naive to the source's": Comparison(Side(pipeline("naive")), Side(pipeline("naive"), OF_SOURCE)),
    "naive to full": Comparison(Side(pipeline("naive")), Side(pipeline("full"))),
    "naive to bfloat16": Comparison(Side(pipeline("naive")), Side(pipeline("bfloat16"))),
}
WORK = "Batches of 64 on every side, and as many experiences learned from as are played."
FORWARD = {
    "alone": Comparison(network("forward", "naive"), network("forward", "naive", precision="bfloat16")),
    "from full": Comparison(network("forward", "full"), network("forward", "full", precision="bfloat16")),
}
BACKWARD = {
    "alone": Comparison(network("backward", "naive"), network("backward", "naive", precision="bfloat16")),
    "from full": Comparison(network("backward", "full"), network("backward", "full", precision="bfloat16")),
}

CLAIMS = (
    on(
        "mario-lock-wait-local",
        "a queue of each collector in place of a locked one takes 85 % of the time blocked away",
        "1",
        promised="-85 to -90 %",
        least=1 / 0.15,
        contexts=moving("local_queues", BLOCKED),
        note="Seconds that all collectors wait for a lock or for room, of an epoch; no wait at all counts as 1 us.",
    ),
    on(
        "mario-lock-wait-ring",
        "the same by rings in shared memory",
        "1",
        promised="-85 to -90 %",
        least=1 / 0.15,
        contexts=moving("shared_ring", BLOCKED),
        note="The source's queues are not lock-free: each has a lock. The rings are.",
    ),
    on(
        "mario-collection-local",
        "a queue of each collector brings 60 % more experiences a second",
        "1",
        promised="+60 to +80 % (1,000 to 1,800 exp/s)",
        least=1.6,
        contexts=moving("local_queues"),
    ),
    on(
        "mario-collection-ring",
        "rings in shared memory bring 60 % more experiences a second",
        "1",
        promised="+60 to +80 %",
        least=1.6,
        contexts=moving("shared_ring"),
    ),
    on(
        "mario-amp-forward",
        "autocast makes forward passes 30 % faster",
        "3",
        promised="30 to 40 %",
        least=1.3,
        contexts=FORWARD,
        note="bfloat16 on the CPU; the source's is FP16 on a GPU.",
    ),
    on(
        "mario-amp-backward",
        "autocast makes backward passes 25 % faster",
        "3",
        promised="25 to 30 %",
        least=1.25,
        contexts=BACKWARD,
        note="bfloat16 on the CPU; the source's is FP16 on a GPU.",
    ),
    on(
        "mario-amp-memory",
        "autocast needs less memory of a GPU",
        "3",
        promised="less",
        least=1.02,
        contexts={
            "from full": between(
                update("full", backend="torch-cuda"), update("bfloat16", backend="torch-cuda"), "allocated"
            )
        },
    ),
    on(
        "mario-compile",
        "torch.compile makes forward passes 10 % faster",
        "5",
        promised="10 to 15 %",
        least=1.1,
        same="close",
        contexts={
            name: Comparison(network("forward", form), network("forward", form, "torch-compile"))
            for name, form in (("alone", "naive"), ("from full", "full"))
        },
    ),
    on(
        "mario-sync",
        "weights sent to collectors every fifth epoch in place of every one cost 80 % less",
        "6",
        promised="-80 %, returns the same",
        least=1 / 0.205,
        same="returns",
        evidence="mario-publish-5",
        contexts={"alone": replace(publishing(), measure="noted:publishing")},
        note="Seconds of publishing, of an epoch. 80 % as rounded: at least 79.5.",
    ),
    on(
        "mario-sync-epoch",
        "the same, and what it is worth for the whole of an epoch",
        "6",
        contexts={"alone": publishing()},
    ),
    on(
        "mario-accumulate",
        "four parts of 512 give the gradient of a batch of 2,048 in less memory",
        "2",
        promised="equal gradients, less memory",
        least=1.02,
        same="close",
        contexts={
            "from full": Comparison(
                Side(update("full", 2048)), Side(update("full", 2048), {"accumulate": 4}), "resident"
            )
        },
    ),
    on(
        "mario-uint8",
        "frames kept as bytes in place of float32 take 75 % less memory",
        "8",
        promised="-75 %",
        least=1 / 0.255,
        contexts={"alone": Comparison(stored("float32"), stored("uint8"), "resident")},
        note="75 % as rounded: at least 74.5.",
    ),
    on(
        "mario-prealloc",
        "tensors of a batch kept in place of new ones",
        "8",
        same="close",
        contexts={"alone": alone(update("naive"), tensors="kept"), "from full": removed(update("full"), tensors="new")},
    ),
    on(
        "mario-threads",
        "one thread of each operation in place of all, beside two collectors",
        "7",
        contexts={"alone": alone(pipeline("naive"), threads="one")},
    ),
    on(
        "mario-threads-variance",
        "the same: epochs' times are spread less",
        "7",
        promised="smaller",
        least=1.02,
        contexts={"alone": alone(pipeline("naive"), "spread", threads="one")},
    ),
    on(
        "mario-batchnorm",
        "batch norm and no biases of convolutions: time of an update",
        "4",
        contexts={
            name: between(update(form), update(form, norm="batch"))
            for name, form in (("alone", "naive"), ("from full", "full"))
        },
    ),
    on(
        "mario-batchnorm-convergence",
        "with batch norm a return is reached in fewer updates",
        "4",
        promised="faster",
        same="returns",
        evidence="mario-batch-norm",
        contexts={"from full": between(update("full"), update("full", norm="batch"))},
        note="The ratio is of an update's time; what is learned in as many updates is the evidence.",
    ),
    on(
        "mario-gpu-utilisation",
        "the optimised pipeline keeps a GPU busy for 85 % of the time in place of 60",
        "2",
        promised="60 to 85 %",
        least=1.02,
        contexts={
            "naive to full": Comparison(
                Side(pipeline("full").replace("torch", "torch-cuda"), {"transport": "locked_queue"}),
                Side(pipeline("full").replace("torch", "torch-cuda")),
            )
        },
        note="Judged by experiences a second on the GPU, which a busy share is for.",
    ),
    on(
        "mario-batches",
        "the optimised pipeline makes 2.5 times the batches a second",
        "performance metrics",
        promised="+150 % (4 to 10 batches/s)",
        least=2.5,
        contexts=OVERALL,
        figures=[*as_counted("naive", 256), *as_counted("full", 512)],
        note=f"{WORK} The source counts batches of 256 before and of 512 after: beside ours, not judged.",
    ),
    on(
        "mario-epoch",
        "an epoch takes 60 % less time",
        "performance metrics",
        promised="-60 % (30 to 12 s)",
        least=2.5,
        contexts=OVERALL,
        note=f"{WORK} An epoch is as many updates on either side.",
    ),
    on(
        "mario-overall",
        "the optimised pipeline is 2 to 3 times as fast",
        "conclusion",
        promised="2 to 3 x",
        least=2.0,
        contexts=OVERALL,
        note=WORK,
    ),
    on(
        "mario-gain-precision",
        "bfloat16 alone, the whole of an epoch",
        "3",
        contexts={"alone": alone(pipeline("naive"), precision="bfloat16")},
    ),
    on(
        "mario-lockfree-most",
        "of all changes queues without locks gain most",
        "conclusion",
        promised="the most",
        least=1.0,
        contexts={"alone": alone(pipeline("naive"), transport="local_queues")},
        most_of=("mario-gain-precision", "mario-threads", "mario-sync-epoch"),
        note="Its gain over the best of the other single gains; 1 is a tie.",
    ),
)
