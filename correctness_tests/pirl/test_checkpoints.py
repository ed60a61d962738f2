"""Checkpoints: any backend loads them, and mismatched arrays are rejected."""

import json

import numpy as np
import pytest

from rl_impls.pirl.__main__ import main
from rl_impls.pirl.agent import PirlAgent

from .agents import STATES, everything, fill, make


def test_a_checkpoint_of_one_backend_goes_on_with_another(tmp_path, learner):
    agent = make(learner)
    fill(agent, 20)
    for _ in range(4):
        agent.train()
    agent.save(tmp_path / "agent")
    served = PirlAgent.load(tmp_path / "agent", backend="numpy")
    np.testing.assert_allclose(served.get_qs_batch(STATES), agent.get_qs_batch(STATES), atol=1e-6)
    served.save(tmp_path / "again")
    assert everything(PirlAgent.load(tmp_path / "again", backend=learner)) == everything(agent)
    resumed = PirlAgent.load(tmp_path / "agent", backend="jax" if learner == "torch" else "torch")
    assert resumed.train() == pytest.approx(agent.train(), rel=1e-3)


def test_an_evaluation_on_another_backend_also_acts_on_it(tmp_path):
    PirlAgent("torch", seed=0, serve="onnx", hidden=(8,)).save(tmp_path / "agent")
    main(["evaluate", str(tmp_path / "agent"), "--episodes", "1", "--backend", "numpy"])
    (file,) = tmp_path.glob("evaluation-*.json")
    config = json.loads(file.read_text())["config"]
    assert (config["backend"], config["serve"]) == ("numpy", "same")


def test_a_state_loaded_into_an_agent_that_has_driven_replaces_all_of_its_own():
    agent, start = make("torch", warm_up=1000), make("torch", warm_up=1000, seed=1)
    agent.learn()
    while "episode" not in agent.state():
        agent.learn()
    agent.get_qs_batch(STATES)
    agent.load_state(start.state())
    agent.rng.bit_generator.state, agent.step = start.rng.bit_generator.state, 0
    assert everything(agent) == everything(start)
    np.testing.assert_array_equal(agent.get_qs_batch(STATES), start.get_qs_batch(STATES))
    np.testing.assert_equal(agent.learn(), start.learn())


def test_a_state_with_a_wrong_replay_buffer_changes_nothing():
    agent, other = make("torch"), make("torch", seed=1)
    fill(agent, 9)
    before = everything(agent)
    with pytest.raises(ValueError, match="pushed"):
        agent.load_state(other.state() | {"replay.pushed": np.array(-1)})
    assert everything(agent) == before
