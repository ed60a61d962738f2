"""Checkpoints: any backend takes them, and a file that does not fit is refused."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from rl_impls import params
from rl_impls.params import CheckpointError

from .agents import STATES, everything, live, load, make


def test_a_checkpoint_of_one_backend_goes_on_with_another(tmp_path, learner):
    agent = make(learner)
    live(agent, 20)
    for _ in range(4):
        agent.train()
    agent.save(tmp_path / "agent")
    served = load(tmp_path / "agent", backend="numpy")
    np.testing.assert_allclose(served.get_qs(STATES[0]), agent.get_qs(STATES[0]), atol=1e-6)
    served.save(tmp_path / "again")
    assert everything(load(tmp_path / "again", backend=learner)) == everything(agent)
    resumed = load(tmp_path / "agent", backend="jax" if learner == "torch" else "torch")
    assert resumed.train() == pytest.approx(agent.train(), rel=1e-3)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    agent = make()
    live(agent, 9)
    path = tmp_path_factory.mktemp("agent") / "agent"
    agent.save(path)
    return path


def config(**changed):
    return json.dumps({**asdict(make().config), **changed})


EDITS = {
    "another architecture": lambda: {"config": config(hidden=[8, 9])},
    "far too large": lambda: {"config": config(hidden=[10**9, 10**9])},
    "an unknown setting": lambda: {"config": config(colour="red")},
    "no configuration": lambda: {"config": None},
    "code instead of JSON": lambda: {"config": "__import__('os').abort()"},
    "another generator": lambda: {"rng": json.dumps({"bit_generator": "MT19937", "state": {}})},
    "a smaller memory": lambda: {"config": config(capacity=8)},
    "memory of another length": lambda: {"arrays": {"replay.pushed": np.array(10)}},
    "an episode off the road": lambda: {"arrays": {"env.state": np.full(16, 2.0)}},
    "moments of another shape": lambda: {"arrays": {"first.w0": np.zeros((1, 1), np.float32)}},
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path, checkpoint, edit):
    arrays, metadata = params.load_with_metadata(checkpoint)
    changed = edit()
    arrays |= changed.pop("arrays", {})
    metadata = {name: value for name, value in (metadata | changed).items() if value is not None}
    params.save(tmp_path / "edited", arrays, **metadata)
    with pytest.raises(CheckpointError, match="edited"):
        load(tmp_path / "edited")


def test_a_file_of_weights_alone_is_refused(tmp_path):
    params.save(tmp_path / "net", make().params)
    with pytest.raises(CheckpointError, match="not a checkpoint of this agent"):
        load(tmp_path / "net")


def test_loading_on_an_unknown_backend_is_not_the_fault_of_the_file(checkpoint):
    with pytest.raises(ValueError, match="unknown backend 'abacus'") as caught:
        load(checkpoint, backend="abacus")
    assert not isinstance(caught.value, CheckpointError)
