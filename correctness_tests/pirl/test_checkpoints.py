"""A saved agent goes on where it was saved; what is no checkpoint of one is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rl_impls import params
from rl_impls.params import CheckpointError

from .agents import STATES, everything, live, load, make


@pytest.mark.parametrize(("form", "order"), [("naive", 1), ("full", 2)])
@pytest.mark.parametrize("updates", [0, 4])
def test_a_loaded_agent_goes_on_bit_for_bit(tmp_path, learner, form, order, updates):
    agent = make(learner, form, order=order)
    live(agent, 27)
    for _ in range(updates):
        agent.train()
    agent.save(tmp_path / "agent")
    saved = everything(agent)
    other = load(tmp_path / "agent")
    assert everything(other) == saved
    assert other.config == agent.config
    for _ in range(4):
        assert other.train() == agent.train()
        assert [other.act(state, 0.5) for state in STATES[:5]] == [agent.act(state, 0.5) for state in STATES[:5]]
        live(agent, 1, seed=7)
        live(other, 1, seed=7)
    assert everything(other) == everything(agent)


def test_a_checkpoint_is_made_by_none_and_taken_by_any_backend(tmp_path, learner):
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


def test_saving_changes_nothing_and_leaves_one_file(tmp_path):
    agent = make()
    live(agent, 9)
    before = everything(agent)
    for _ in range(2):
        agent.save(tmp_path / "agent")
    assert everything(agent) == before
    assert [path.name for path in tmp_path.iterdir()] == ["agent"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    agent = make()
    live(agent, 9)
    path = tmp_path_factory.mktemp("agent") / "agent"
    agent.save(path)
    return path.read_bytes()


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_truncated_checkpoint_is_refused(tmp_path, checkpoint, data):
    (tmp_path / "agent").write_bytes(checkpoint[: data.draw(st.integers(0, len(checkpoint) - 1))])
    with pytest.raises(CheckpointError):
        load(tmp_path / "agent")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_corrupt_checkpoint_is_refused(tmp_path, checkpoint, data):
    k = data.draw(st.integers(0, len(checkpoint) - 1))
    changed = bytes([checkpoint[k] ^ data.draw(st.integers(1, 255))])
    (tmp_path / "agent").write_bytes(checkpoint[:k] + changed + checkpoint[k + 1 :])
    try:
        agent = load(tmp_path / "agent")
    except CheckpointError:
        return
    (tmp_path / "good").write_bytes(checkpoint)
    assert everything(agent) == everything(load(tmp_path / "good"))


def edited(checkpoint, tmp_path, **changed):
    """Write a checkpoint that is whole, but says something else."""
    (tmp_path / "good").write_bytes(checkpoint)
    arrays, metadata = params.load_with_metadata(tmp_path / "good")
    for name, value in changed.items():
        if name == "arrays":
            arrays |= value
        elif value is None:
            del metadata[name]
        else:
            metadata[name] = value
    params.save(tmp_path / "edited", arrays, **metadata)
    return tmp_path / "edited"


def config(**changed):
    from dataclasses import asdict

    return json.dumps({**asdict(make().config), **changed})


EDITS = {
    "another architecture": lambda: {"config": config(hidden=[8, 9])},
    "another depth": lambda: {"config": config(hidden=[8, 8, 8])},
    "far too large": lambda: {"config": config(hidden=[10**9, 10**9])},
    "an unknown setting": lambda: {"config": config(colour="red")},
    "an unknown backend": lambda: {"config": config(backend="abacus")},
    "no configuration": lambda: {"config": None},
    "code instead of JSON": lambda: {"config": "__import__('os').abort()"},
    "another generator": lambda: {"rng": json.dumps({"bit_generator": "MT19937", "state": {}})},
    "no generator": lambda: {"rng": None},
    "a smaller memory": lambda: {"config": config(capacity=8)},
    "a field of another type": lambda: {"arrays": {"replay.action": np.zeros(9, np.float32)}},
    "a field too much": lambda: {"arrays": {"replay.colour": np.zeros(9)}},
    "memory of another length": lambda: {"arrays": {"replay.pushed": np.array(10)}},
    "an episode off the road": lambda: {"arrays": {"env.state": np.full(16, 2.0)}},
    "an episode of another shape": lambda: {"arrays": {"env.state": np.zeros(4)}},
    "no number of steps": lambda: {"step": "many"},
    "moments of another shape": lambda: {"arrays": {"first.w0": np.zeros((1, 1), np.float32)}},
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path, checkpoint, edit):
    path = edited(checkpoint, tmp_path, **edit())
    with pytest.raises(CheckpointError, match="edited"):
        load(path)


def test_a_checkpoint_of_an_agent_that_could_not_drive_yet_begins_with_the_first_step(tmp_path, checkpoint):
    from dataclasses import fields

    from rl_impls.pirl.agent import Config

    (tmp_path / "agent").write_bytes(checkpoint)
    named = [field.name for field in fields(Config)]
    older = {
        name: value for name, value in json.loads(config()).items() if named.index(name) <= named.index("capacity")
    }
    agent = load(edited(checkpoint, tmp_path, config=json.dumps(older), step=None))
    assert (agent.step, agent.env.running) == (0, False)
    assert everything(agent) == everything(load(tmp_path / "agent"))
    assert agent.config == make().config


def test_weights_alone_are_no_agent(tmp_path):
    params.save(tmp_path / "net", make().params)
    with pytest.raises(CheckpointError, match="not a checkpoint of this agent"):
        load(tmp_path / "net")


def test_an_unknown_backend_to_load_on_is_the_callers_mistake(tmp_path, checkpoint):
    (tmp_path / "agent").write_bytes(checkpoint)
    with pytest.raises(ValueError, match="unknown backend 'abacus'") as caught:
        load(tmp_path / "agent", backend="abacus")
    assert not isinstance(caught.value, CheckpointError)
