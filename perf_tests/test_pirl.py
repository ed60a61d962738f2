"""pirl: the physics-informed Q-agent: inference at nine batch sizes, training with and without diffusion."""

import pytest

from rl_impls.pirl import problem as pirl

from .grid import grid
from .ops import build

FORMS = ("naive", "full")
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
BACKENDS = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax", "neuron", *CUDA)
LEARNING = ("torch", "torch-compile", "jax", *CUDA)
COMPILED = ("torch-compile", "torch-compile-cuda")
NO_GRADIENTS = tuple(name for name in BACKENDS if name not in ("torch", "torch-cuda"))  # naive and full are alike


@grid(
    form=FORMS, backend=BACKENDS, batch_size=(1, 8, 16, 32, 64, 128, 512, 1024, 2048), io=("host", "device"),
    hidden=(32, 128, 512),
    exclude=[dict(form="naive", backend=NO_GRADIENTS), dict(io="device", backend=("numpy", "onnx", "neuron"))],
    gate=[
        dict(form="full", hidden=32, io="host", backend="torch-compile", batch_size=32),
        dict(
            form="full", hidden=32, io="host", backend=("numpy", "torch", "torch-trace", "onnx", "jax"),
            batch_size=(1, 32, 2048),
        ),
    ],
    bench=[
        dict(form="full", hidden=32, io="host", batch_size=(1, 32, 128, 512, 2048)),  # other sizes lie between these
        dict(form="naive", hidden=32, io="host", batch_size=(1, 2048)),
        dict(form="full", hidden=32, io="device", backend=("torch", "torch-trace", "jax"), batch_size=2048),
        dict(form="full", hidden=512, io="host", backend=("numpy", "torch", "onnx", "jax"), batch_size=2048),
    ],
)  # fmt: skip
def test_forward(bench, seed, form, backend, batch_size, io, hidden):
    op = build(pirl.forward(seed, batch_size, hidden, io), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(form=("full",), backend=BACKENDS, hidden=(32, 128, 512), bench=[dict(hidden=32)])
def test_act(bench, seed, form, backend, hidden):
    op = build(pirl.act(seed, hidden), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=("numpy", "torch", "torch-compile", "jax", "torch-cuda", "jax-cuda"), order=(1, 2),
    # NumPy has only the naive reference; torch.compile does not support nested differentiation
    exclude=[dict(form="full", backend="numpy"), dict(form="naive", backend="torch-compile")],
    gate=[dict(form="full", backend=("torch", "jax"), order=2)], bench=[{}],
)  # fmt: skip
def test_pde_loss(bench, seed, form, backend, order):
    op = build(pirl.pde_loss(seed, order), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=LEARNING, batch_size=(32, 256, 1024), order=(1, 2), hidden=(32, 128, 512),
    exclude=[dict(form="naive", backend=COMPILED), dict(batch_size=(32, 1024), hidden=(128, 512))],
    gate=[
        dict(form="full", backend=("torch", "torch-compile", "jax"), batch_size=256, order=2, hidden=32),
        dict(form="naive", backend="torch", batch_size=256, order=2, hidden=32),
    ],
    bench=[  # naive JAX, which compiles slowly, only with diffusion
        dict(batch_size=256, hidden=32, order=2),
        dict(form="full", batch_size=256, hidden=32, order=1),
        dict(form="naive", batch_size=256, hidden=32, order=1, backend="torch"),
    ],
)  # fmt: skip
def test_train_step(bench, seed, form, backend, batch_size, order, hidden):
    op = build(pirl.train_step(seed, batch_size, order, hidden), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=LEARNING, batch_size=(32, 256), order=(1, 2), exclude=[dict(form="naive", backend=COMPILED)],
    bench=[dict(batch_size=256, order=1)],
)  # fmt: skip
def test_loss_and_backward(bench, seed, form, backend, batch_size, order):
    op = build(pirl.loss_and_backward(seed, batch_size, order), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=("numpy", "torch", "jax"), hidden=(32, 512),
    exclude=[dict(form="naive", backend=("numpy", "jax"))], bench=[dict(hidden=512)],  # small nets time call overhead
)  # fmt: skip
def test_sync_target(bench, seed, form, backend, hidden):
    op = build(pirl.sync_target(seed, hidden), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("full",), backend=BACKENDS, batch_size=(512, 1024, 2048),
    bench=[dict(batch_size=2048, backend=("numpy", "torch", "onnx", "jax", *CUDA))],  # the highest rate
)  # fmt: skip
def test_sustained(bench, seed, form, backend, batch_size):
    op = build(pirl.sustained(seed, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(
    form=FORMS, backend=BACKENDS, clients=(1, 32),
    exclude=[dict(form="naive", backend=COMPILED)],  # guards fail in threads other than the compiling one
    bench=[dict(clients=32, backend=("numpy", "torch", "onnx", "jax"))],  # a single client never fills a batch
)  # fmt: skip
def test_serve(bench, seed, form, backend, clients):
    op = build(pirl.serve(seed, clients), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("full",), backend=("torch", "jax"), serve=("numpy", "torch-trace", "onnx", "jax", "neuron"),
    sync_frequency=(1, 10),
    bench=[  # other backends serve more slowly; the time depends more on the serving than on the learning backend
        dict(backend="torch", sync_frequency=10, serve=("torch-trace", "onnx", "jax")),
        dict(backend="jax", sync_frequency=10, serve="jax"),
    ],
)  # fmt: skip
def test_hybrid(bench, seed, form, backend, serve, sync_frequency):
    op = build(pirl.hybrid(seed, serve, sync_frequency), form, backend)
    bench(op.call, *op.args, **op.keywords)
