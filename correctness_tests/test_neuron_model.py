"""Models on Neuron, with stand-ins for both versions of torch-neuronx, and on hardware if available."""

import numpy as np
import pytest

from rl_impls import backends, neuron
from rl_impls.params import init_mlp
from rl_impls.pirl._numpy import q_values

from .neuron_standin import INSTALL

WIDTHS = (16, 32, 32, 32, 25)
SIZES, ONE = (1, 4, 8), (4,)  # compiling one takes a tenth of a second
TOLERANCE = 1e-6


@pytest.fixture(params=[*INSTALL, "hardware"])
def line(request, monkeypatch, needed):
    """Install each stand-in and return the list of its compilations, or use the hardware and return None."""
    if request.param == "hardware":
        needed(backends.get("neuron").require)
        return None
    return INSTALL[request.param](monkeypatch)


def weights(seed=0, widths=WIDTHS):
    return init_mlp(np.random.default_rng(seed), widths)


def net(params):
    from rl_impls.pirl._torch import Net

    return Net(params)


def batch(rows, seed=1):
    return np.random.default_rng(seed).uniform(-1, 1, (rows, WIDTHS[0])).astype(np.float32)


def tensor(array):
    import torch

    return torch.from_numpy(array)


def model(params, sizes=ONE, **options):
    return neuron.NeuronModel(net(params), tensor(batch(1)), sizes, **options)


def difference(out, params, states):
    exact = {name: value.astype(np.float64) for name, value in params.items()}
    return np.abs(out.numpy() - q_values(exact, states.astype(np.float64))).max()


def test_batches_of_any_size_match_the_reference_and_each_size_is_compiled_once(line):
    import torch

    params = weights()
    compiled = model(params, SIZES)
    assert line is None or len(line) == len(SIZES)  # before the first call
    for rows in (1, 2, 4, 7, 8, 9, 21):
        states = batch(rows)
        out = compiled(tensor(states))
        assert out.device.type == "cpu"
        assert out.shape == (rows, WIDTHS[-1])
        assert difference(out, params, states) <= TOLERANCE
        with torch.inference_mode():
            compiled(tensor(states) + 0)
    assert line is None or len(line) == len(SIZES)


def test_lazy_model_compiles_a_size_when_a_batch_needs_it(stand_in):
    params, states = weights(), batch(3)
    lazy = model(params, SIZES, lazy=True)
    assert not stand_in
    assert difference(lazy(tensor(states)), params, states) <= TOLERANCE
    assert len(stand_in) == 1


def test_new_weights_are_used_without_compiling_again(line):
    old, new, states = weights(0), weights(5), batch(5)
    compiled = model(old)
    before, count = compiled(tensor(states)), line and len(line)
    compiled.load(new)
    after = compiled(tensor(states))
    assert (line and len(line)) == count
    assert np.abs(after.numpy() - before.numpy()).max() > 0.01
    assert difference(after, new, states) <= TOLERANCE


def test_native_autocast_computes_in_bfloat16(monkeypatch):
    import torch

    INSTALL["native"](monkeypatch)
    params, states = weights(), batch(8)
    out = model(params, autocast=True)(tensor(states))
    assert out.dtype == torch.float32
    assert TOLERANCE < difference(out, params, states) < 0.02
