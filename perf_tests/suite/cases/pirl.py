"""pirl: the physics-informed Q-agent, inference over nine batch sizes and training with and without the diffusion."""

from __future__ import annotations

from rl_impls.pirl import problem

from ..case import Case, inputs_of
from ..front import ByBackend, Front

BATCHES = (1, 8, 16, 32, 64, 128, 512, 1024, 2048)
LOWERED = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax", "neuron")
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LEARNING = ("torch", "torch-compile", "jax", *CUDA)
EAGER = ("torch", "torch-cuda")


def train_flops(batch: int, order: int, hidden: int = 32) -> float:
    """Return the FLOPs of an update."""
    return problem.train_flops(batch, order, hidden)


COMPILED = ("torch-compile", "torch-compile-cuda")
CPU = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax")
GATED = ("numpy", "torch", "torch-trace", "onnx", "jax")
LAZY = tuple(name for name in LOWERED + CUDA if name not in EAGER)  # where autograd cannot be left on
FEWER = (1, 32, 128, 512, 1024, 2048)

CASES = (
    Case(
        "pirl", "forward", inputs_of(problem.forward), LOWERED + CUDA, "samples",
        axes={"batch": BATCHES, "io": ("host", "device"), "hidden": (32, 128, 512)},
        items=lambda batch, **_: batch,
        flops=lambda batch, io, hidden: problem.forward_flops(batch, hidden),
        bytes=lambda batch, **_: problem.forward_bytes(batch),
        exclude=[dict(form="naive", backend=LAZY), dict(io="device", backend=("numpy", "onnx", "neuron"))],
        gate=[
            dict(form="full", hidden=32, io="host", backend="torch-compile", batch=32),
            dict(form="full", hidden=32, io="host", backend=GATED, batch=(1, 32, 2048)),
        ],
        bench=[
            dict(form="full", hidden=32, io="host", backend=CPU),
            dict(form="full", hidden=32, io="host", batch=FEWER),
            dict(form="naive", hidden=32, io="host", batch=(1, 32, 2048)),
            dict(hidden=32, io="device", backend=("torch", "torch-trace", "jax"), batch=(1, 2048)),
            dict(form="full", io="host", backend=("numpy", "torch", "onnx", "jax"), batch=(32, 2048)),
        ],
    ),
    Case(
        "pirl", "act", inputs_of(problem.act), LOWERED + CUDA, "actions", forms=("full",), io="host",
        items=lambda: 1, flops=lambda: problem.forward_flops(1, 32), bench=[{}],
    ),
    Case(
        "pirl", "act", inputs_of(problem.act), LOWERED + CUDA, "actions", forms=("full",), io="host",
        axes={"hidden": (128, 512)}, items=lambda hidden: 1, flops=lambda hidden: problem.forward_flops(1, hidden),
    ),
    Case(
        "pirl", "pde_loss", inputs_of(problem.pde_loss),
        ("numpy", "torch", "torch-compile", "jax", "torch-cuda", "jax-cuda"), "points",
        axes={"order": (1, 2)}, items=lambda order: problem.POINTS, flops=problem.pde_flops, version=2,
        # NumPy has the reference alone; nested differentiation cannot be compiled
        exclude=[dict(form="full", backend="numpy"), dict(form="naive", backend="torch-compile")],
        gate=[dict(form="full", backend=("torch", "jax"), order=2)], bench=[{}],
    ),
    Case(
        "pirl", "train_step", inputs_of(problem.train_step), LEARNING, "updates", reference="torch", version=3,
        axes={"batch": (32, 256, 1024), "order": (1, 2)},
        items=lambda batch, order: 1, flops=train_flops, tolerance=1e-4,
        exclude=[dict(form="naive", backend=COMPILED)],
        gate=[
            dict(form="full", backend=("torch", "torch-compile", "jax"), batch=256, order=2),
            dict(form="naive", backend="torch", batch=256, order=2),
        ],
        bench=[dict(batch=256)],
    ),
    Case(
        "pirl", "train_step", inputs_of(problem.train_step), LEARNING, "updates", reference="torch", version=2,
        axes={"batch": (256,), "order": (1, 2), "hidden": (128, 512)},
        items=lambda batch, order, hidden: 1, flops=train_flops, tolerance=1e-4,
        exclude=[dict(form="naive", backend=COMPILED)],
    ),
    Case(
        "pirl", "sync_target", inputs_of(problem.sync_target), ("numpy", "torch", "jax"), "copies",
        axes={"hidden": (32, 512)}, items=lambda hidden: 1,
        exclude=[dict(form="naive", backend=("numpy", "jax"))], bench=[{}],
    ),
    Case(
        "pirl", "sustained", inputs_of(problem.sustained), LOWERED + CUDA, "samples", forms=("full",), io="own",
        axes={"batch": (512, 1024, 2048)}, items=lambda batch: 16 * batch,
        flops=lambda batch: 16 * problem.forward_flops(batch, 32),
        bytes=lambda batch: 16 * problem.forward_bytes(batch), bench=[dict(batch=2048)],
    ),
    Case(
        "pirl", "serve", inputs_of(problem.serve), LOWERED + CUDA, "requests", io="own", cores="own",
        axes={"clients": (1, 32)}, items=lambda clients: 4 * clients,
        exclude=[dict(form="naive", backend=COMPILED)],  # its guards fail in a thread that did not compile
        bench=[dict(clients=1, backend="torch"), dict(clients=32, backend=("numpy", "torch", "onnx", "jax"))],
    ),
    Case(
        "pirl", "hybrid", inputs_of(problem.hybrid), ("torch", "jax"), "updates", forms=("full",), io="own",
        tolerance=1e-4, reference="torch", version=2,
        axes={"serve": ("numpy", "torch-trace", "onnx", "jax", "neuron"), "every": (1, 10)},
        items=lambda serve, every: 10, bench=[dict(every=10)],
    ),
)  # fmt: skip

FRONT = Front(
    "**pirl, forward pass** of the 16-32-32-32-25 net in float32, NumPy arrays in and out, by batch size; `use` names "
    "all backends that cannot be told apart from the fastest:",
    [ByBackend(dict(op="forward", form="full", io="host", hidden=32), by="batch")],
)
