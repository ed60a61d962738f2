"""Optimisation options of all workloads: they have their effect, and impossible ones are refused."""

from dataclasses import replace
from functools import partial

import pytest

from perf_tests.bench import leaves
from perf_tests.ops import build
from rl_impls import backends
from rl_impls.mario import problem as mario
from rl_impls.pirl import problem as pirl
from rl_impls.procgen import problem as procgen
from rl_impls.snake import problem as snake
from rl_impls.treasurehunt import problem as treasurehunt

from .reference import largest_difference

UPDATES = {
    "pirl": partial(pirl.train_step, 0, batch_size=8, order=1, hidden=8),
    "snake": partial(snake.train_step, 0, batch_size=32),
    "mario": partial(mario.train_step, 0, batch_size=8, side=36),
    "procgen": partial(procgen.a2c_update, 0, batch_size=32),
    "treasurehunt": partial(treasurehunt.train_step, 0, num_agents=2, batch_size=8),
}
FORWARDS = {
    "procgen": partial(procgen.forward, 0, num_envs=8),
    "treasurehunt": partial(treasurehunt.forward, 0, num_agents=2, batch_size=6),
}

pytestmark = pytest.mark.usefixtures("one_thread")


def update(workload, **options):
    """Return an update on torch that is naive except for these options, and nets of several agents in one."""
    return build(UPDATES[workload](), "full" if workload == "treasurehunt" else "naive", "torch", **options)


@pytest.mark.parametrize("workload", UPDATES)
@pytest.mark.parametrize(("optimizer", "at_once"), [("loop", False), ("fused", True)])
def test_optimizer_decides_whether_all_arrays_are_updated_at_once(workload, optimizer, at_once):
    defaults = update(workload, optimizer=optimizer).op.optimizer.defaults
    assert bool(defaults.get("fused", defaults["foreach"])) == at_once  # torch's RMSProp is never fused


@pytest.mark.parametrize("workload", [name for name in UPDATES if name != "pirl"])
@pytest.mark.parametrize(("zero_grad", "kept"), [("fill", True), ("none", False)])
def test_zero_grad_decides_whether_gradients_stay_where_they_are(workload, zero_grad, kept):
    op = update(workload, zero_grad=zero_grad)
    op.call(*op.args)
    before = [parameter.grad for parameter in op.op.parameters]
    op.call(*op.args)
    assert {parameter.grad is gradient for parameter, gradient in zip(op.op.parameters, before)} == {kept}


@pytest.mark.parametrize("workload", FORWARDS)
@pytest.mark.parametrize(("inference", "expected"), [("grad", (True, False)), ("inference_mode", (False, True))])
def test_inference_decides_whether_autograd_records(workload, inference, expected):
    op = build(FORWARDS[workload](), "full", "torch", inference=inference)
    found = op.call(*op.args)
    out = found if hasattr(found, "requires_grad") else found[0]
    assert (out.requires_grad, out.is_inference()) == expected


@pytest.mark.parametrize(("images", "dtype"), [("float", "torch.float32"), ("uint8", "torch.uint8")])
def test_images_stay_bytes_until_they_reach_the_net_if_the_option_says_so(images, dtype):
    op = update("procgen", images=images)
    assert str(op.op.to_device(*op.problem.args)[0].dtype) == dtype


@pytest.mark.parametrize("workload", FORWARDS)
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_bfloat16_is_close_to_float32(workload, backend):
    problem = FORWARDS[workload]()
    ops = build(problem, "bfloat16", backend), build(problem, "naive", "numpy")
    rounded, exact = (leaves(op.backend.to_host(op.call(*op.args))) for op in ops)
    for one, other in zip(rounded, exact, strict=True):
        assert one.dtype == "float32"
        assert 1e-4 < largest_difference(one, other) < 3e-2


IMPOSSIBLE = [  # workload, form, other options, message
    ("snake", "naive", {"relu": "nonsense"}, "relu='nonsense' should be 'copy' or 'inplace'"),
    ("snake", "naive", {"gradient": "by_hand", "processes": 2},
     "gradient='by_hand' needs precision='float32' and processes=1"),
    ("snake", "naive", {"parameters": "flat", "zero_grad": "none"},
     "parameters='flat' needs gradient='by_hand' or zero_grad='fill'"),
    ("snake", "naive", {"loop": "scan", "collection": "thread"}, "loop='scan' needs collection='inline'"),
    ("treasurehunt", "full", {"draws": "key"}, "loop='python' should be 'scan' with draws='key'"),
    ("treasurehunt", "processes", {"order": "interleaved"}, "processes='per_agent' should be 'one' with order="),
]  # fmt: skip


@pytest.mark.parametrize(("workload", "form", "changed", "message"), IMPOSSIBLE)
def test_options_that_exclude_each_other_are_refused(workload, form, changed, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        replace(backends.forms(workload)[form], **changed)


PROBLEMS = {
    "snake": partial(snake.forward, 0, num_envs=4),
    "mario": UPDATES["mario"],
    "treasurehunt": partial(treasurehunt.epoch, 0, num_agents=2, num_worlds=1),
}
UNSUPPORTED = [  # workload, form, backend, message
    ("snake", "float16", "jax", "precision='float16' is not available on jax, only on torch and "),
    ("snake", "tf32", "torch", "tf32=True is not available on torch, only on torch-cuda and torch-compile-cuda; "),
    ("snake", "int8", "torch", "quantised='int8' is not available on torch, only on onnx$"),
    ("mario", "float16", "jax", "precision='float16' is not available on jax, only on torch with CUDA$"),
    ("mario", "cache_cleared", "torch", "gpu_cache='cleared' is not available on torch, "),
    ("mario", "reduce_overhead", "torch-compile", "compile_mode='reduce_overhead' is not available on torch-compile, "),
    ("treasurehunt", "compiled", "torch", "loop='scan' needs a JAX backend, not torch"),
]


@pytest.mark.parametrize(("workload", "form", "backend", "message"), UNSUPPORTED)
def test_form_that_a_backend_lacks_is_refused(workload, form, backend, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        build(PROBLEMS[workload](), form, backend)
