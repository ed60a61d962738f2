"""Models on Neuron, with stand-ins for both versions of torch-neuronx, and on hardware if available."""

import os

import numpy as np
import pytest

from rl_impls import backends, neuron
from rl_impls.params import CheckpointError, init_mlp
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


def test_lazy_model_compiles_a_size_when_a_batch_needs_it(stand_in, tmp_path):
    params, states = weights(), batch(3)
    lazy = model(params, SIZES, lazy=True)
    assert not stand_in
    assert difference(lazy(tensor(states)), params, states) <= TOLERANCE
    assert len(stand_in) == 1
    lazy.save(tmp_path / "model")
    assert neuron.NeuronModel.restore(tmp_path / "model", net(weights(9))).grid.sizes == (4,)


def test_new_weights_are_used_without_compiling_again(line):
    old, new, states = weights(0), weights(5), batch(5)
    compiled = model(old)
    before, count = compiled(tensor(states)), line and len(line)
    compiled.load(new)
    after = compiled(tensor(states))
    assert (line and len(line)) == count
    assert np.abs(after.numpy() - before.numpy()).max() > 0.01
    assert difference(after, new, states) <= TOLERANCE


# auto-cast


def test_native_autocast_computes_in_bfloat16_before_and_after_a_restore(monkeypatch, tmp_path):
    import torch

    INSTALL["native"](monkeypatch)
    params, states = weights(), batch(8)
    saved = model(params, autocast=True)
    out = saved(tensor(states))
    assert out.dtype == torch.float32
    assert TOLERANCE < difference(out, params, states) < 0.02
    saved.save(tmp_path / "model")
    restored = neuron.NeuronModel.restore(tmp_path / "model", net(weights(9)))
    assert restored(tensor(states)).equal(out)


# save and restore


@pytest.mark.usefixtures("line")
def test_restored_model_gives_the_same_answers(tmp_path):
    old, new, states = weights(0), weights(5), tensor(batch(11))
    saved = model(old, SIZES)
    saved.load(new)
    saved.save(tmp_path / "model")
    restored = neuron.NeuronModel.restore(tmp_path / "model", net(weights(9)))
    assert restored(states).equal(saved(states))
    assert (restored.grid.sizes, restored.width, restored.dtype) == (SIZES, 16, states.dtype)
    restored.load(old)
    assert difference(restored(states), old, states.numpy()) <= TOLERANCE


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (flip, "weights.safetensors"),
        (flip, "4.pt"),
        (lambda path: path.write_bytes(b""), "SHA256SUMS"),
        (lambda path: path.unlink(), "4.pt"),
    ],
    ids=["flipped", "flipped program", "emptied", "gone"],
)
def test_damaged_save_is_an_error_and_loads_nothing(xla, tmp_path, damage, name):
    folder = tmp_path / "model"
    model(weights(0)).save(folder)
    damage(folder / name)
    module, states, count = net(weights(9)), tensor(batch(3)), len(xla)
    with pytest.raises(ValueError, match=r"not a (whole )?saved model"):
        neuron.NeuronModel.restore(folder, module)
    assert difference(module(states).detach(), weights(9), states.numpy()) <= TOLERANCE
    assert len(xla) == count


@pytest.mark.usefixtures("stand_in")
def test_save_of_another_architecture_is_an_error_and_loads_nothing(tmp_path):
    model(weights()).save(tmp_path / "model")
    other = weights(9, (16, 64, 32, 32, 25))
    module, states = net(other), tensor(batch(3))
    with pytest.raises(CheckpointError, match="of another architecture"):
        neuron.NeuronModel.restore(tmp_path / "model", module)
    assert difference(module(states).detach(), other, states.numpy()) <= TOLERANCE


@pytest.mark.usefixtures("xla")
def test_save_of_the_other_api_is_an_error(tmp_path):
    model(weights()).save(tmp_path / "model")
    with pytest.raises(ValueError, match="saved for the api 'xla', not 'native'"):
        neuron.NeuronModel.restore(tmp_path / "model", net(weights()), api="native")


@pytest.mark.usefixtures("xla")
def test_failed_save_leaves_nothing_behind(monkeypatch, tmp_path):
    def full(*args):
        raise OSError("no space left")

    compiled = model(weights())
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        compiled.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("stand_in")
def test_save_overwrites_nothing(tmp_path):
    with pytest.raises(FileExistsError, match="exists already"):
        model(weights()).save(tmp_path)
    assert list(tmp_path.iterdir()) == []
