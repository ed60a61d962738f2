"""The net: equations, batch norm, shapes and initial weights."""

import numpy as np
import pytest

from correctness_tests.draws import assert_distributed
from correctness_tests.mario.problem import SIDE
from correctness_tests.reference import in_float64, largest_difference
from rl_impls import backends
from rl_impls.mario import _numpy
from rl_impls.mario.net import KERNELS, STRIDES, has_norm, init_net, shapes
from rl_impls.mario.options import FORMS, Options
from rl_impls.mario.problem import net, pictures

NORMS = ("none", "batch")
TORCH = [{}, {"memory_format": "channels_last", "images": "uint8", "relu": "inplace"}]


def inputs(norm="none", seed=0, batch_size=3, side=SIDE):
    rng = np.random.default_rng(seed)
    return net(rng, side, norm), pictures(rng, batch_size, 4, side, side)


def torch_net(params, **options):
    """Return a net on torch that is naive except for these options."""
    from rl_impls.mario._torch import make_net

    return make_net(params, Options(**options), backends.get("torch").new_compiler())


def modules_of_torch(params, learning):
    """Return a function that computes the net with torch's own layers in float64, and its batch norms."""
    import torch
    from torch import nn

    layers, norms, weights = [], [], {name: torch.from_numpy(value) for name, value in in_float64(params).items()}
    for k, stride in enumerate(STRIDES):
        kernel = weights[f"w_conv{k}"].permute(3, 2, 0, 1)
        conv = nn.Conv2d(*kernel.shape[1::-1], kernel.shape[2], stride, bias=not has_norm(params)).double()
        conv.weight.data = kernel
        layers.append(conv)
        if has_norm(params):
            norm = nn.BatchNorm2d(len(kernel)).double()
            norm.weight.data, norm.bias.data = weights[f"g_conv{k}"], weights[f"b_conv{k}"]
            norm.running_mean, norm.running_var = weights[f"m_conv{k}"].clone(), weights[f"v_conv{k}"].clone()
            layers.append(norm.train(learning))
            norms.append(norm)
        else:
            conv.bias.data = weights[f"b_conv{k}"]
        layers.append(nn.ReLU())
    body = nn.Sequential(*layers)

    def values(obs):
        with torch.no_grad():
            h = body(torch.from_numpy(obs).double() / 255)
            h = torch.relu(h.permute(0, 2, 3, 1).flatten(1) @ weights["w_hidden"] + weights["b_hidden"])
            return (h @ weights["w_value"] + weights["b_value"]).numpy()

    return values, norms


@pytest.mark.parametrize(("norm", "learning"), [("none", False), ("batch", False), ("batch", True)])
def test_the_reference_is_the_net_of_torchs_own_layers(norm, learning):
    params, obs = inputs(norm)
    wanted, _ = modules_of_torch(params, learning)
    got = _numpy.q_values(in_float64(params), obs, learning)
    assert (got.shape, got.dtype) == ((3, 15), np.float64)
    assert largest_difference(got, wanted(obs)) < 1e-12


@pytest.mark.parametrize("options", TORCH, ids=" ".join)
def test_running_statistics_match_torchs_batch_norm(options):
    params, obs = inputs("batch")
    wanted, norms = modules_of_torch(params, learning=True)
    made = torch_net(in_float64(params), **options)
    import torch

    for _ in range(3):
        wanted(obs)
        made(torch.from_numpy(obs), learning=True)
    found = dict(made.named_buffers())
    for k, norm in enumerate(norms):
        for name, value in ((f"m_conv{k}", norm.running_mean), (f"v_conv{k}", norm.running_var)):
            assert largest_difference(found[name], value) < 1e-12
            assert largest_difference(found[name], params[name]) > 0.01


@pytest.mark.parametrize("form", ["naive", "full", "bfloat16", "float16"])  # float16 is float32 on a CPU
def test_an_actor_takes_the_actions_of_greatest_value_of_the_loaded_weights(form):
    from rl_impls.mario._torch import Actor

    options = FORMS[form]
    for norm in NORMS:
        params, obs = inputs(norm, batch_size=6)
        actor = Actor(params, obs, options, backends.get("torch").new_compiler())
        for seed in (0, 1):
            weights, _ = inputs(norm, seed)
            weights["b_value"] -= _numpy.q_values(weights, obs).mean(axis=0)  # else one action is best everywhere
            actor.load(weights)
            got, values = actor(obs), _numpy.q_values(in_float64(weights), obs)
            assert got.dtype == np.int64
            taken, tolerance = values[np.arange(6), got], 0.05 if form == "bfloat16" else 1e-5
            assert (taken >= values.max(axis=1) - tolerance * np.abs(values).max()).all()
            assert len(set(got.tolist())) > 1
        np.testing.assert_array_equal(actor(obs[2:4]), got[2:4])


def test_the_shapes_are_those_of_the_paper():
    assert shapes(84) == {
        "w_conv0": (8, 8, 4, 32), "b_conv0": (32,), "w_conv1": (4, 4, 32, 64), "b_conv1": (64,),
        "w_conv2": (3, 3, 64, 64), "b_conv2": (64,), "w_hidden": (3136, 512), "b_hidden": (512,),
        "w_value": (512, 15), "b_value": (15,),
    }  # fmt: skip
    more = {f"{name}_conv{k}": (outputs,) for k, outputs in enumerate((32, 64, 64)) for name in "gmv"}
    assert shapes(84, norm=True) == shapes(84) | more
    assert (KERNELS, STRIDES) == ((8, 4, 3), (4, 2, 1))
    assert [shapes(side)["w_hidden"][0] for side in (84, 128, 36)] == [3136, 9216, 64]


@pytest.mark.parametrize(("init", "scale"), [("he", 2), ("uniform", 1 / 3)])
def test_initial_weights_have_the_variance_of_their_scheme(init, scale):
    params = init_net(np.random.default_rng(0), 84, norm=True, init=init)
    assert {name: value.shape for name, value in params.items()} == shapes(84, norm=True)
    for name, value in params.items():
        assert value.dtype == np.float32
        if name.startswith("w_"):
            fan_in = int(np.prod(value.shape[:-1]))
            wanted = scale / fan_in
            deviation = (2 / value.size) ** 0.5 if init == "he" else (0.8 / value.size) ** 0.5  # of a sample's variance
            assert value.var(dtype=np.float64) == pytest.approx(wanted, rel=5 * deviation)
            distribution = "norm" if init == "he" else lambda x: np.clip((x + 1) / 2, 0, 1)
            unit = wanted**0.5 if init == "he" else fan_in**-0.5
            assert_distributed(value[..., :8].astype(float) / unit, distribution)
        else:
            assert set(value.tolist()) == {1.0 if name[0] in "gv" else 0.0}
