"""The Neuron adapter: on real hardware where there is some, and always on stand-ins for both of its lines."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_impls import backends, neuron
from rl_impls.common.batching import BatchGrid
from rl_impls.params import CheckpointError, init_mlp
from rl_impls.pirl._numpy import q_values

from .neuron_standin import INSTALL, install_xla, stand_in_module

WIDTHS = (16, 32, 32, 32, 25)
SIZES = (1, 4, 8)
TOLERANCE = 1e-6


@pytest.fixture(params=[*INSTALL, "hardware"])
def line(request, monkeypatch, unavailable):
    """Each line of torch-neuronx: stand-ins, and the installed one where there is a device. -> what it has compiled"""
    if request.param == "hardware":
        try:
            backends.get("neuron").require()
        except backends.BackendUnavailable as error:
            unavailable(error)
        return None
    return INSTALL[request.param](monkeypatch)


@pytest.fixture(params=INSTALL)
def stand_in(request, monkeypatch):
    """A stand-in for each line. -> what it has compiled"""
    return INSTALL[request.param](monkeypatch)


@pytest.fixture
def xla(monkeypatch):
    """The stand-in for the XLA line. -> what it has traced"""
    return install_xla(monkeypatch)


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


def model(params, sizes=SIZES, **options):
    return neuron.NeuronModel(net(params), tensor(batch(1)), sizes, **options)


def difference(out, params, states):
    """Largest difference to the reference in float64."""
    exact = {name: value.astype(np.float64) for name, value in params.items()}
    return np.abs(out.numpy() - q_values(exact, states.astype(np.float64))).max()


# why Neuron cannot run here


class Importing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An installed torch_neuronx whose import raises an error."""

    def __init__(self, error):
        self.error = error

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "torch_neuronx" else None

    def exec_module(self, module):
        raise self.error


@pytest.fixture
def installed(monkeypatch):
    """Return a function that makes the import of torch_neuronx raise an error."""

    def install(error):
        monkeypatch.delitem(sys.modules, "torch_neuronx", raising=False)
        monkeypatch.setattr(sys, "meta_path", [Importing(error), *sys.meta_path])

    return install


def real(monkeypatch, **attributes):
    """Install a module that does not say it is a stand-in."""
    module = stand_in_module(**attributes)
    del module.STAND_IN
    monkeypatch.setitem(sys.modules, "torch_neuronx", module)


def test_absent_package_is_reported_as_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_neuronx", None)
    assert neuron.missing() == "torch_neuronx is not installed"


def test_placeholder_is_found_but_reported_as_a_placeholder(installed):
    installed(ImportError("WRONG PACKAGE. Please install the package from AWS's own index."))
    assert importlib.util.find_spec("torch_neuronx") is not None
    assert neuron.missing() == "torch_neuronx is the public index's placeholder, not AWS's package"


def test_xla_line_without_device_files_is_reported_as_without_a_device(monkeypatch, tmp_path):
    real(monkeypatch, trace=lambda: None)
    monkeypatch.setattr(neuron, "DEVICE_FILES", str(tmp_path / "neuron*"))
    assert neuron.missing() == "torch_neuronx is installed but finds no Neuron device"
    (tmp_path / "neuron0").touch()
    assert neuron.missing() is None


@pytest.mark.parametrize(("devices", "reason"), [(0, "installed but finds no Neuron device"), (1, None)])
def test_native_line_is_available_with_a_device_only(monkeypatch, devices, reason):
    import torch

    real(monkeypatch)
    monkeypatch.setattr(
        torch, "neuron", type("neuron", (), {"device_count": staticmethod(lambda: devices)}), raising=False
    )
    found = neuron.missing()
    assert found is None if reason is None else reason in found


@pytest.mark.parametrize("error", [ImportError("libneuronxla.so: no such file"), ModuleNotFoundError(name="torch_xla")])
def test_broken_install_raises_its_own_error(installed, error):
    installed(error)
    with pytest.raises(ImportError) as caught:
        neuron.missing()
    assert caught.value is error


@pytest.mark.usefixtures("stand_in")
def test_stand_in_is_refused():
    with pytest.raises(backends.BackendUnavailable, match="stand-in: its timings mean nothing"):
        backends.get("neuron").require()


def test_stand_in_has_the_recorded_signature(xla):
    import torch_neuronx

    assert list(inspect.signature(torch_neuronx.trace).parameters) == [
        "func",
        "example_inputs",
        "_",
        "input_output_aliases",
        "compiler_workdir",
        "compiler_args",
        "partitioner_config",
        "inline_weights_to_neff",
        "cpu_backend",
    ]
    assert list(inspect.signature(torch_neuronx.replace_weights).parameters) == ["neuron_model", "weights"]


def test_stand_in_refuses_a_shape_it_has_not_traced(xla):
    import torch

    compiled = model(weights()).compiled.models[4]
    with pytest.raises(torch.jit.Error, match="not the shape this model was traced for"):
        compiled(tensor(batch(3)))


# the grid of batch sizes

GRIDS = st.lists(st.integers(1, 64), min_size=1, max_size=6)


@settings(deadline=None)
@given(sizes=GRIDS, n=st.integers(1, 300))
def test_chunks_cover_every_row_once_in_the_smallest_sizes_that_fit(sizes, n):
    chunks = BatchGrid(sizes).chunks(n)
    assert [row for start, stop, _ in chunks for row in range(start, stop)] == list(range(n))
    assert all(stop - start == size == max(sizes) for start, stop, size in chunks[:-1])
    start, stop, size = chunks[-1]
    assert size == min(s for s in sizes if s >= stop - start)


@settings(deadline=None)
@given(sizes=GRIDS, n=st.integers(1, 300))
def test_padding_and_cutting_changes_no_row(sizes, n):
    rows, out = np.arange(n), []
    for start, stop, size in BatchGrid(sizes).chunks(n):
        padded = np.resize(rows[start:stop], size)
        out.append((padded**2)[: stop - start])
    np.testing.assert_array_equal(np.concatenate(out), rows**2)


@pytest.mark.parametrize("sizes", [(), (0, 4), (-1,)])
def test_grid_without_sizes_or_with_one_below_1_is_refused(sizes):
    with pytest.raises(ValueError, match=r"sizes: got .*, wanted one or more batch sizes of 1 or more"):
        BatchGrid(sizes)


@pytest.mark.parametrize("n", [0, -1, 9])
def test_rows_that_fit_no_size_are_refused(n):
    with pytest.raises(ValueError, match=rf"n: got {n}, wanted 1 to 8 rows"):
        BatchGrid(SIZES).fit(n)


def test_no_rows_have_no_chunks():
    with pytest.raises(ValueError, match=r"n: got 0, wanted 1 or more rows"):
        BatchGrid(SIZES).chunks(0)


# the model


@pytest.mark.usefixtures("line")
def test_batches_of_any_size_match_the_numpy_reference():
    params = weights()
    compiled = model(params)
    for rows in (1, 2, 4, 7, 8, 9, 21):
        states = batch(rows)
        out = compiled(tensor(states))
        assert out.device.type == "cpu"
        assert out.shape == (rows, WIDTHS[-1])
        assert difference(out, params, states) <= TOLERANCE


@pytest.mark.usefixtures("line")
def test_padded_rows_get_the_very_answers_of_a_full_batch():
    compiled, states = model(weights(), sizes=(8,)), tensor(batch(8))
    full = compiled(states)
    for rows in (1, 3, 8):
        assert compiled(states[:rows]).equal(full[:rows])


@pytest.mark.usefixtures("line")
def test_call_leaves_its_input_alone_and_its_output_can_be_learnt_from():
    import torch

    compiled, states = model(weights(), sizes=(4,)), tensor(batch(4))
    before = states.clone()
    out = compiled(states)
    assert states.equal(before)
    scale = torch.ones(1, requires_grad=True)
    (scale * out).sum().backward()
    assert scale.grad.item() == pytest.approx(out.sum().item(), rel=1e-5)


def test_every_size_is_compiled_once_when_built(stand_in):
    import torch

    compiled = model(weights(), sizes=range(1, 12))
    assert len(stand_in) == 11
    for rows in (1, 5, 11, 30):
        compiled(tensor(batch(rows)))
        with torch.inference_mode():
            compiled(tensor(batch(rows)) + 0)
    assert len(stand_in) == 11


def test_native_call_waits_for_the_device(monkeypatch):
    import torch

    INSTALL["native"](monkeypatch)
    compiled, waits = model(weights(), sizes=(4,)), []
    monkeypatch.setattr(torch.neuron, "synchronize", lambda: waits.append(1))
    compiled(tensor(batch(9)))
    assert len(waits) == 3


def test_new_weights_are_used_without_compiling_again(line):
    old, new, states = weights(0), weights(5), batch(5)
    compiled = model(old)
    before, count = compiled(tensor(states)), line and len(line)
    compiled.load(new)
    after = compiled(tensor(states))
    assert (line and len(line)) == count
    assert np.abs(after.numpy() - before.numpy()).max() > 0.01
    assert difference(after, new, states) <= TOLERANCE


@pytest.mark.parametrize(
    ("make", "got"),
    [
        (lambda: batch(2), r"ndarray float32\[2, 16\]"),
        (lambda: tensor(batch(0)), r"Tensor float32\[0, 16\]"),
        (lambda: tensor(batch(2)[:, :15]), r"Tensor float32\[2, 15\]"),
        (lambda: tensor(batch(2)[0]), r"Tensor float32\[16\]"),
        (lambda: tensor(batch(2)).double(), r"Tensor float64\[2, 16\]"),
        (lambda: [[0.0] * 16], "list"),
    ],
    ids=["numpy", "empty", "narrow", "one row", "float64", "list"],
)
@pytest.mark.usefixtures("xla")
def test_other_states_than_those_compiled_for_are_refused(make, got):
    compiled = model(weights())
    with pytest.raises(ValueError, match=rf"states: got {got}, wanted a tensor float32\[1 or more, 16\]"):
        compiled(make())


@pytest.mark.usefixtures("xla")
def test_example_that_is_no_batch_is_refused():
    with pytest.raises(ValueError, match=r"example: got Tensor float32\[16\], wanted a tensor \[B, S\]"):
        neuron.NeuronModel(net(weights()), tensor(batch(1))[0], SIZES)


@pytest.mark.usefixtures("xla")
def test_unknown_api_is_refused():
    with pytest.raises(ValueError, match="unknown api 'cuda'; known: xla, native"):
        model(weights(), api="cuda")


# auto-cast


@pytest.mark.parametrize(
    ("options", "mode"), [({}, "none"), ({"autocast": False}, "none"), ({"autocast": True}, "matmult")]
)
def test_compiler_casts_down_only_when_asked(xla, options, mode):
    model(weights(), **options)
    assert [traced["compiler_args"] for traced in xla] == [["--auto-cast", mode]] * len(SIZES)


def test_native_autocast_computes_in_bfloat16_and_returns_float32(monkeypatch):
    import torch

    INSTALL["native"](monkeypatch)
    params, states = weights(), batch(8)
    out = model(params, autocast=True)(tensor(states))
    assert out.dtype == torch.float32
    assert TOLERANCE < difference(out, params, states) < 0.02


# save and restore


@pytest.mark.usefixtures("line")
def test_restored_model_gives_the_same_answers(tmp_path):
    old, new, states = weights(0), weights(5), tensor(batch(11))
    saved = model(old)
    saved.load(new)
    saved.save(tmp_path / "model")
    restored = neuron.NeuronModel.restore(tmp_path / "model", net(weights(9)))
    assert restored(states).equal(saved(states))
    assert (restored.grid.sizes, restored.width, restored.dtype) == (SIZES, 16, states.dtype)
    restored.load(old)
    assert difference(restored(states), old, states.numpy()) <= TOLERANCE


@pytest.mark.usefixtures("stand_in")
def test_saved_weights_replace_those_in_the_traced_files(tmp_path):
    new, states = weights(5), batch(5)
    saved = model(weights(0))
    saved.module.load(new)
    saved.save(tmp_path / "model")
    restored = neuron.NeuronModel.restore(tmp_path / "model", net(weights(9)))
    assert difference(restored(tensor(states)), new, states) <= TOLERANCE


def test_restoring_traces_nothing(xla, tmp_path):
    model(weights()).save(tmp_path / "model")
    count = len(xla)
    neuron.NeuronModel.restore(tmp_path / "model", net(weights(9)))
    assert len(xla) == count


@pytest.mark.usefixtures("stand_in")
def test_restored_model_keeps_autocast(tmp_path):
    model(weights(), autocast=True).save(tmp_path / "model")
    assert neuron.NeuronModel.restore(tmp_path / "model", net(weights())).autocast is True


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


DAMAGE = {
    "flipped": flip,
    "cut": cut,
    "emptied": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "added": lambda path: path.with_name("another").touch(),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["model.json", "weights.safetensors", "4.pt", "SHA256SUMS"])
def test_damaged_save_is_refused_and_loads_nothing(xla, tmp_path, name, damage):
    folder = tmp_path / "model"
    model(weights(0)).save(folder)
    DAMAGE[damage](folder / name)
    module, states, count = net(weights(9)), tensor(batch(3)), len(xla)
    with pytest.raises(ValueError, match=r"not a (whole )?saved model"):
        neuron.NeuronModel.restore(folder, module)
    assert difference(module(states).detach(), weights(9), states.numpy()) <= TOLERANCE
    assert len(xla) == count


@pytest.mark.usefixtures("xla")
def test_folder_that_is_no_save_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(ValueError, match="not a saved model"):
            neuron.NeuronModel.restore(folder, net(weights()))


@pytest.mark.usefixtures("stand_in")
def test_save_of_another_architecture_is_refused_and_loads_nothing(tmp_path):
    model(weights()).save(tmp_path / "model")
    other = weights(9, (16, 64, 32, 32, 25))
    module, states = net(other), tensor(batch(3))
    with pytest.raises(CheckpointError, match="of another architecture"):
        neuron.NeuronModel.restore(tmp_path / "model", module)
    assert difference(module(states).detach(), other, states.numpy()) <= TOLERANCE


@pytest.mark.usefixtures("xla")
def test_save_of_the_other_api_is_refused(tmp_path):
    model(weights()).save(tmp_path / "model")
    with pytest.raises(ValueError, match="got a model of the api 'xla', wanted 'native'"):
        neuron.NeuronModel.restore(tmp_path / "model", net(weights()), api="native")


@pytest.mark.usefixtures("xla")
def test_save_of_another_format_is_refused(tmp_path):
    folder = tmp_path / "model"
    model(weights()).save(folder)
    about = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**about, "format": 2}))
    (folder / "SHA256SUMS").write_text("".join(neuron._sums(folder)))
    with pytest.raises(ValueError, match="got format 2, wanted 1"):
        neuron.NeuronModel.restore(folder, net(weights()))


@pytest.mark.usefixtures("xla")
def test_failed_save_leaves_nothing_behind(monkeypatch, tmp_path):
    def full(*args):
        raise OSError("no space left")

    compiled = model(weights())
    monkeypatch.setattr(neuron.weights, "save", full)
    with pytest.raises(OSError, match="no space left"):
        compiled.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("stand_in")
def test_save_overwrites_nothing(tmp_path):
    with pytest.raises(FileExistsError, match="wanted a new one"):
        model(weights()).save(tmp_path)
    assert list(tmp_path.iterdir()) == []
