"""The loss and its derivatives: against finite differences, an autograd Hessian, and a diffusion solved by hand."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests import strategies
from correctness_tests.pirl.problem import CONSTANTS, build, slow, small_net, spec
from correctness_tests.reference import in_float64, largest_difference
from correctness_tests.strategies import SEEDS
from rl_impls.backends import get
from rl_impls.pirl import _numpy
from rl_impls.pirl.physics import DYNAMICS

VEHICLE = DYNAMICS["vehicle"]


def rough():
    """A vehicle noisy enough for the diffusion to weigh as much as the drift."""
    return replace(VEHICLE, sigma=3.0)


def gentle_states(rng, points):
    """States small enough that no unit is saturated, so that every derivative counts."""
    states = rng.uniform(-1, 1, (points, 16))
    states[:, 0] = rng.uniform(3, 6, points)
    states[:, 5:15] = rng.uniform(-0.02, 0.02, (points, 1)) * np.arange(2.0, 21.0, 2.0) ** 2 / 2
    states[:, 15] = rng.uniform(0, 1, points)
    return states


def torch_net(params):
    from rl_impls.pirl._torch import Net

    return Net(params)


@given(seed=SEEDS)
@settings(max_examples=10)
def test_hessian_and_gradient_match_autograd(seed):
    import torch

    rng = np.random.default_rng(seed)
    params, state = in_float64(small_net(rng)), gentle_states(rng, 1)
    _, jacobian, hessian = _numpy.derivatives(params, state, noisy=5)
    net = torch_net(params)
    for action in (0, 24):
        x = torch.from_numpy(state[0])
        exact = torch.autograd.functional.hessian(lambda s, a=action: net(s[None])[0, a], x).detach().numpy()
        slope = torch.autograd.functional.jacobian(lambda s, a=action: net(s[None])[0, a], x).detach().numpy()
        assert largest_difference(jacobian[0, :, action], slope) < 1e-10
        assert largest_difference(hessian[0, :, action], np.diag(exact)[:5]) < 1e-9


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_by_hand_equals_autograd_under_strong_noise(order):
    import torch

    from rl_impls import backends
    from rl_impls.pirl import _torch

    rng = np.random.default_rng(order)
    params, target, batch = in_float64(small_net(rng)), in_float64(small_net(rng)), batch64(rng)
    constants = {**CONSTANTS, "pde_weight": 1.0, "sigma": rough().sigma}
    knobs = replace(backends.forms("pirl")["full"], order=order)
    net, target_net = torch_net(params), torch_net(target)
    inputs = tuple(map(torch.as_tensor, batch))
    loss, found = _torch.make_gradient(net, target_net, constants, knobs, _torch.drift_vectorised)(*inputs)
    plain = _torch.make_loss(net, target_net, constants, replace(knobs, gradient="autograd"))(*inputs)
    plain.backward()
    assert abs(loss - plain.item()) < 1e-12 * plain.item()
    for parameter, gradient in zip(net.parameters(), found, strict=True):
        assert largest_difference(gradient, parameter.grad) < 1e-10


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("derivatives", ["autograd", "generator"])
@given(seed=SEEDS)
@settings(max_examples=10)
def test_torch_residual_matches_reference(derivatives, order, seed):
    import torch

    from rl_impls.pirl import _torch

    rng = np.random.default_rng(seed)
    params, states = in_float64(small_net(rng)), gentle_states(rng, 7)
    wanted = _numpy.pde_residual(params, states, rough(), order)
    x = torch.from_numpy(states)
    rows, got = _torch.EVALUATE[derivatives](torch_net(params), x[:3], x, rough(), order, _torch.drift_vectorised)
    assert largest_difference(got.detach(), wanted) < 1e-9
    assert largest_difference(rows.detach(), _numpy.q_values(params, states[:3])) < 1e-12


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("derivatives", "gradient"), [("autograd", "autograd"), ("generator", "autograd"), ("generator", "by_hand")]
)
@given(seed=SEEDS)
@settings(max_examples=4)
def test_jax_residual_matches_reference(derivatives, gradient, order, seed):
    import jax

    rng = np.random.default_rng(seed)
    params, states = in_float64(small_net(rng)), gentle_states(rng, 7)
    wanted = _numpy.pde_residual(params, states, rough(), order)
    with jax.enable_x64(True):
        rows, got = jitted_residual(derivatives, gradient, order)(params, states)
        assert got.dtype == np.float64
    assert largest_difference(got, wanted) < 1e-9
    assert largest_difference(rows, _numpy.q_values(params, states[:3])) < 1e-12


@functools.cache
def jitted_residual(derivatives, gradient, order):
    """Q-values of three rows and the residual of all, compiled once for all draws."""
    import jax

    from rl_impls.pirl import _jax

    def evaluate(params, x):
        args = params, x[:3], x, rough(), order, _jax.drift_by_row
        logits, residual = _jax.EVALUATE[derivatives, gradient](*args)
        return jax.nn.sigmoid(logits), residual

    return jax.jit(evaluate)


@given(seed=SEEDS)
@settings(max_examples=10)
def test_the_product_written_out_has_the_gradients_of_the_plain_one(seed):
    import jax
    import jax.numpy as jnp

    from rl_impls.pirl import _jax

    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        h, w, weights = (jnp.asarray(rng.normal(size=shape)) for shape in ((2, 7, 4), (4, 3), (2, 7, 3)))

        def gradients(product):
            return jax.grad(lambda h, w: jnp.sum(weights * jnp.sin(product(h, w))), argnums=(0, 1))(h, w)

        for got, wanted in zip(gradients(_jax.copying_product), gradients(jnp.matmul), strict=True):
            assert largest_difference(got, wanted) < 1e-12


def test_second_order_term_is_not_negligible_where_noise_is_strong():
    rng = np.random.default_rng(1)
    params, states = in_float64(small_net(rng)), gentle_states(rng, 50)
    first, second = (_numpy.pde_residual(params, states, rough(), order) for order in (1, 2))
    assert np.median(np.abs(second - first)) > 1e-2 * np.median(np.abs(first))


def batch64(rng, batch=12, points=5):
    expired, unsafe = gentle_states(rng, points), gentle_states(rng, points)
    expired[:, 15], unsafe[:, 3] = 0, rng.choice([-1.0, 1.0], points)
    return (
        gentle_states(rng, batch),
        rng.integers(0, 25, batch),
        rng.integers(0, 2, batch).astype(float),
        gentle_states(rng, batch),
        rng.integers(0, 2, batch).astype(float),
        gentle_states(rng, points),
        expired,
        unsafe,
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("form", "changed"),
    [("naive", {}), ("full", {}), ("full", {"gradient": "autograd"})],
    ids=["naive", "by_hand", "generator"],
)
def test_torch_gradient_matches_finite_differences_of_the_reference(form, changed, order):
    import torch

    from rl_impls import backends
    from rl_impls.pirl import _torch

    rng = np.random.default_rng(order)
    params, target, batch = in_float64(small_net(rng)), in_float64(small_net(rng)), batch64(rng)
    knobs = replace(backends.forms("pirl")[form], order=order)
    constants = {**CONSTANTS, "pde_weight": 1.0, "sigma": rough().sigma}
    knobs = replace(knobs, **changed)
    net, target_net = torch_net(params), torch_net(target)
    inputs = tuple(map(torch.as_tensor, batch))
    if knobs.gradient == "by_hand":
        loss, found = _torch.make_gradient(net, target_net, constants, knobs, _torch.drift_vectorised)(*inputs)
        for parameter, gradient in zip(net.parameters(), found):
            parameter.grad = gradient
    else:
        loss = _torch.make_loss(net, target_net, constants, knobs)(*inputs)
        loss.backward()
    assert all(parameter.grad is None for parameter in target_net.parameters())

    def reference(name, index, step):
        moved = {k: v.copy() for k, v in params.items()}
        moved[name][index] += step
        return _numpy.loss(moved, target, batch, dynamics=rough(), order=order, pde_weight=1.0, boundary_weight=1.0)

    assert abs(loss.item() - reference("w0", (0, 0), 0.0)) < 1e-10 * loss.item()
    scale = max(linear.weight.grad.abs().max().item() for linear in net.linears)
    for k, linear in enumerate(net.linears):
        for name, gradient in ((f"w{k}", linear.weight.grad.T), (f"b{k}", linear.bias.grad)):
            for _ in range(4):
                index = tuple(rng.integers(0, size) for size in gradient.shape)
                slope = (reference(name, index, 1e-6) - reference(name, index, -1e-6)) / 2e-6
                assert abs(gradient[index].item() - slope) < 1e-6 * scale


@pytest.mark.parametrize("backend", ["torch", "jax", slow("torch-compile")])
@given(data=st.data())
@settings(max_examples=5)
def test_weights_after_training_match_float64_torch(backend, unavailable, data):
    rng = np.random.default_rng(data.draw(SEEDS))
    batch = data.draw(strategies.training_batch(12, 5))
    params, target = small_net(rng), small_net(rng)
    wanted = build("train_step", "torch", in_float64(spec(params, target)), in_float64(batch), "naive", order=2)
    got = shared_step(backend, batch)
    restart(got, params, target)
    made = get(backend)
    device, exact = tuple(map(made.to_device, batch)), tuple(map(get("torch").to_device, in_float64(batch)))
    for _ in range(3):
        loss, exact_loss = made.to_host(got(*device)), get("torch").to_host(wanted(*exact))
        assert abs(loss - exact_loss) < 1e-3 * abs(exact_loss)
    difference = np.concatenate([np.abs(got.params[k] - wanted.params[k]).ravel() for k in params])
    assert np.quantile(difference, 0.9) < 0.05 * 3 * 5e-4
    assert difference.max() <= 2.1 * 3 * 5e-4


STEPS = {}


def shared_step(backend, batch):
    """One compiled step for all draws: only its weights change."""
    if backend not in STEPS:
        params = small_net(np.random.default_rng(0))
        STEPS[backend] = build("train_step", backend, spec(params), batch, order=2)
    return STEPS[backend]


def restart(step, params, target):
    """Give a step other weights to start from."""
    step.reset()
    given = {"online": params, "target": target}
    state = step.state()
    step.load_state(state | {f"{part}.{name}": net[name] for part, net in given.items() for name in net})


@pytest.mark.parametrize("backend", ["numpy", "torch", "torch-trace", slow("torch-compile"), "onnx", "jax"])
@pytest.mark.parametrize("batch", [slow(1), 3, slow(32)])
@given(data=st.data())
@settings(max_examples=10)
def test_forward_matches_float64_on_drawn_weights_and_states(backend, batch, data):
    states = data.draw(strategies.states(batch))
    params = data.draw(strategies.weights((16, 8, 8, 8, 25)))
    made = get(backend)
    if (backend, batch) not in STEPS:
        STEPS[backend, batch] = build("forward", backend, spec(params), (states,))
    net = STEPS[backend, batch]
    net.load(params)
    got = made.to_host(net(made.to_device(states)))
    assert got.dtype == np.float32
    assert got.shape == (batch, 25)
    assert largest_difference(got, _numpy.q_values(in_float64(params), in_float64(states))) < 1e-5


@pytest.mark.parametrize("backend", ["numpy", "torch", "torch-trace", "onnx", "jax"])
def test_act_is_greedy_or_the_drawn_action(backend):
    rng = np.random.default_rng(0)
    params, state = small_net(rng), gentle_states(rng, 1).astype(np.float32)
    act = build("act", backend, spec(params), (state, 0.5, 7))
    arg = get(backend).to_device(state)
    assert act(arg, 0.0999, 7) == 7
    assert act(arg, 0.1001, 7) == int(_numpy.q_values(params, state).argmax())


@pytest.mark.parametrize("form", ["naive", "full"])
def test_sync_target_copies_and_does_not_alias(form, monkeypatch):
    from rl_impls.pirl import _jax, _torch

    rng = np.random.default_rng(0)
    online, stale = small_net(rng), small_net(rng)
    made = []
    for module, name in ((_torch, "make_net"), (_jax, "put")):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, make=original: made.append(make(*args)) or made[-1])
    for backend in ("numpy", "torch", "jax"):
        given = {k: v.copy() for k, v in online.items()}
        made.clear()
        out = build("sync_target", backend, spec(given, stale), (), form)()
        source = given if backend == "numpy" else made[0].views() if backend == "torch" else made[0]
        for name in online:
            assert np.array_equal(get(backend).to_host(out[name]), online[name])
            assert address(out[name]) != address(source[name])


def address(array):
    """Return where an array's memory starts."""
    if isinstance(array, np.ndarray):
        return array.ctypes.data
    return array.data_ptr() if hasattr(array, "data_ptr") else array.unsafe_buffer_pointer()
