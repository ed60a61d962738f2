"""The DQN as a whole: what it learns, saves, loads and refuses."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.waiting import limit, started
from rl_impls import params
from rl_impls.params import CheckpointError
from rl_impls.snake.__main__ import main
from rl_impls.snake.agent import SnakeAgent

limited = limit("training, playing or a command")

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
        ({"envs": True}, "envs: got True, wanted an integer of 1 or more"),
        ({"hidden": 0}, "hidden: got 0, wanted an integer of 1 or more"),
        ({"gamma": 1.5}, "gamma: got 1.5, wanted more than 0, at most 1"),
        ({"learning_rate": float("nan")}, "learning_rate: got nan, wanted a finite number above 0"),
        ({"warm_up": 10}, "warm_up: got 10, wanted at least the batch, 32"),
        ({"capacity": 10}, "warm_up: got 64, wanted at least the batch, 32, and at most the capacity, 10"),
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


def run(capsys, *arguments):
    """Run a command in this process; return what it prints."""
    main(list(map(str, arguments)))
    return capsys.readouterr().out


def test_the_command_line_trains_resumes_and_evaluates(tmp_path, capsys):
    path = tmp_path / "agent"
    text = run(capsys, "train", path, "--steps", 300, "--seed", 1, "--hidden", 16, "--warm-up", 64)
    assert "512 environment steps" in text
    text = run(capsys, "train", path, "--steps", 1, "--resume", "--form", "naive")
    assert "768 environment steps" in text
    text = run(capsys, "evaluate", path, "--episodes", 3)
    assert [line.split()[0] for line in text.splitlines()] == ["foods", "returns", "lengths"]
    assert "n = 3 episodes" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", "nowhere"), "nowhere"),
        (("train", "agent", "--steps", "0"), "steps: got 0, wanted 1 or more"),
        (("train", "folder/agent"), "checkpoint: got folder/agent, wanted a file in a folder that exists"),
        (("train", "agent", "--every", "5"), "unknown value of knob every '5'"),
        (("train", "agent", "--resume", "--hidden", "3"), "changes: got ['hidden'], wanted backend and form alone"),
        (("train", "agent", "--resume"), "agent"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run(capsys, *arguments)
    assert message in ended.value.code  # which Python prints, and exits with 1
    assert len(ended.value.code.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_an_interrupted_training_is_saved(tmp_path):
    path = tmp_path / "agent"
    command = [sys.executable, "-m", "rl_impls.snake", "train", str(path), "--hidden", "16", "--steps", "10000000"]
    with started([*command, "--threads", "1", "--inter-op-threads", "1"]) as process:
        assert process.stdout.readline().startswith("training from step 0")
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130
    saved = SnakeAgent.load(path)
    assert saved.step % saved.chunk == 0
    assert saved.step < 10_000_000
