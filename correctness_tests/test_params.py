"""Weights on disk: written whole or not at all, read back bit for bit, damage detected."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rl_impls import params
from rl_impls.params import CheckpointError

NET = params.init_mlp(np.random.default_rng(0), (4, 3, 2))
ON_DISK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
dtypes = st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_])
arrays = dtypes.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, max_side=4)))


def assert_same(got, wanted):
    assert params.signature(got) == params.signature(wanted)
    for name in wanted:
        assert got[name].tobytes() == np.ascontiguousarray(wanted[name]).tobytes()


@ON_DISK
@given(st.dictionaries(st.text("abc.", min_size=1), arrays, max_size=4), st.text())
def test_arrays_and_metadata_come_back_bit_for_bit(tmp_path, tree, note):
    params.save(tmp_path / "net", tree, note=note)
    loaded, metadata = params.load_with_metadata(tmp_path / "net")
    assert_same(loaded, tree)
    assert metadata == {"note": note}


OTHERS = {
    "a layer of another width": params.init_mlp(np.random.default_rng(0), (4, 5, 2)),
    "a layer more": params.init_mlp(np.random.default_rng(0), (4, 3, 2, 2)),
    "float64": {name: value.astype(np.float64) for name, value in NET.items()},
}


@pytest.mark.parametrize("like", OTHERS.values(), ids=OTHERS.keys())
def test_weights_of_another_architecture_are_an_error(tmp_path, like):
    params.save(tmp_path / "net", NET)
    with pytest.raises(CheckpointError, match=r"another architecture .* should be "):
        params.load(tmp_path / "net", like=like)


def test_truncated_file_is_an_error_at_every_length(tmp_path):
    params.save(tmp_path / "net", NET)
    data = (tmp_path / "net").read_bytes()
    for length in range(len(data)):
        (tmp_path / "part").write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="part"):
            params.load(tmp_path / "part")


@ON_DISK
@given(st.data())
def test_changed_byte_is_an_error_or_changes_nothing(tmp_path, data):
    params.save(tmp_path / "net", NET, note="a note")
    content = bytearray((tmp_path / "net").read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "changed").write_bytes(content)
    try:
        loaded, _ = params.load_with_metadata(tmp_path / "changed")
    except CheckpointError:
        return
    assert_same(loaded, NET)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(0, 99))
def test_initial_weights_lie_within_one_over_the_root_of_fan_in(sizes, seed):
    net = params.init_mlp(np.random.default_rng(seed), sizes)
    assert params.layers(net) == len(sizes) - 1
    for k, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        assert net[f"w{k}"].shape == (fan_in, fan_out)
        assert net[f"b{k}"].shape == (fan_out,)
        for name in (f"w{k}", f"b{k}"):
            assert net[name].dtype == np.float32
            assert np.abs(net[name]).max() <= np.float32(fan_in**-0.5)
