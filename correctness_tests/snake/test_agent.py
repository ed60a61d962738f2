"""The DQN as a whole: what it learns, saves, loads and refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.waiting import limit
from rl_impls import params
from rl_impls.params import CheckpointError
from rl_impls.snake.agent import SnakeAgent

limited = limit("training or playing")

SMALL = {"hidden": 16, "batch": 32, "warm_up": 64, "capacity": 500, "target_every": 256}


def make(backend="torch", form="full", **config):
    return SnakeAgent(backend, form, seed=3, **{**SMALL, **config})


def same(got, wanted):
    assert got.keys() == wanted.keys()
    return all(np.array_equal(got[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize(
    ("backend", "form", "envs"),
    quick(
        [("torch", "full", 1), ("torch", "threaded", 16)],
        [("torch", "naive", 1), ("torch", "full", 1), ("torch", "vectorised", 16), ("torch", "threaded", 16),
         ("jax", "full", 1), ("jax", "compiled", 1), ("jax", "compiled", 16)],
    ),
)  # fmt: skip
def test_a_loaded_agent_goes_on_bit_for_bit(tmp_path, backend, form, envs):
    agent = make(backend, form, envs=envs)
    for _ in range(2):
        agent.learn()
    agent.save(tmp_path / "agent")
    resumed = SnakeAgent.load(tmp_path / "agent")
    for _ in range(2):
        assert agent.learn() == resumed.learn()
    assert resumed.step == agent.step == 4 * agent.chunk
    assert same(resumed.loop.state(), agent.loop.state())
    for one in (agent, resumed):
        one.close()


@pytest.mark.parametrize(
    ("backend", "form"),
    quick(
        [("torch", "naive"), ("jax", "compiled")],
        [("torch-compile", "full"), ("torch", "naive"), ("jax", "full"), ("jax", "compiled")],
    ),
)
def test_a_checkpoint_loads_across_knobs(tmp_path, backend, form):
    agent = make()
    agent.learn()
    agent.save(tmp_path / "agent")
    other = SnakeAgent.load(tmp_path / "agent", backend=backend, form=form)
    assert same(other.loop.state(), agent.loop.state())
    assert other.config == replace(agent.config, backend=backend, form=form)
    played, wanted = other.evaluate(5, seed=1), agent.evaluate(5, seed=1)
    assert same(played, wanted)


def test_the_same_seed_learns_the_same_and_another_does_not():
    one, two, other = make(), make(), SnakeAgent("torch", "full", seed=4, **SMALL)
    assert one.learn() == two.learn()
    assert same(one.params, two.params)
    other.learn()
    assert not same(other.params, one.params)


def test_learn_counts_what_was_played():
    agent = make(envs=1)
    before = agent.loop.state()
    seen = agent.learn()
    after = agent.loop.state()
    assert agent.step == after["loop.step"] == 256
    rewards, ended = after["memory.reward"][-256:], after["memory.terminated"][-256:]
    assert seen["foods"] == (rewards == 1).sum()
    assert seen["episodes"] >= ended.sum() > 0
    assert after["train.step"] - before["train.step"] == 64


def test_epsilon_falls_in_a_straight_line():
    from rl_impls.snake.agent import epsilon

    assert np.allclose(epsilon(np.array([0, 10_000, 20_000, 10**6])), [1, 0.525, 0.05, 0.05])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"backend": "fortran"}, "unknown backend 'fortran'; known: numpy"),
        ({"form": "fastest"}, "unknown form 'fastest'; known: naive"),
        ({"every": 3}, "unknown value of knob every '3'; known: 1, 4, 8, 16"),
        ({"batch": 33}, "unknown value of knob batch '33'"),
        ({"envs": 6}, "envs: got 6 with an update every 4 steps"),
        ({"envs": True}, "envs: got True, wanted an integer from 1 to"),
        ({"hidden": 0}, "hidden: got 0, wanted an integer from 1 to"),
        ({"gamma": 1.5}, "gamma: got 1.5, wanted a number from 0 to 1"),
        ({"learning_rate": float("nan")}, "learning_rate: got nan, wanted a number of 0 or more"),
        ({"warm_up": 10}, "warm_up: got 10, wanted an integer from 32 to 500, the batch and the capacity"),
        ({"capacity": 50}, "warm_up: got 64, wanted an integer from 32 to 50, the batch and the capacity"),
        ({"capacity": 10}, "capacity: got 10, wanted an integer from 32 to"),
        ({"max_steps": 0}, "max_steps: got 0"),
        ({"form": "compiled"}, "loop: got 'scan' on torch, wanted jax"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(config, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        make(**config)


def damage_truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def damage_flipped(path):
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(bytes(data))


def damage_architecture(path):
    arrays, metadata = params.load_with_metadata(path)
    arrays["train.online.w1"] = np.zeros((16, 17), np.float32)
    metadata.pop(params.DIGEST, None)
    params.save(path, arrays, **metadata)


def damage_configuration(path):
    arrays, metadata = params.load_with_metadata(path)
    metadata.pop(params.DIGEST, None)
    params.save(path, arrays, **{**metadata, "config": metadata["config"].replace('"hidden": 16', '"hidden": 32')})


def damage_memory(path):
    arrays, metadata = params.load_with_metadata(path)
    metadata.pop(params.DIGEST, None)
    params.save(path, {k: v for k, v in arrays.items() if k != "memory.action"}, **metadata)


@pytest.mark.parametrize(
    "damage", [damage_truncated, damage_flipped, damage_architecture, damage_configuration, damage_memory]
)
def test_a_checkpoint_that_is_not_right_is_refused(tmp_path, damage):
    path = tmp_path / "agent"
    make().save(path)
    SnakeAgent.load(path)
    damage(path)
    with pytest.raises(CheckpointError, match="agent: "):
        SnakeAgent.load(path)
