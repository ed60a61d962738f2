"""The agent as users see it: output of training, checkpoints, and evaluation."""

import contextlib
import io
import json
import re

import numpy as np
import pytest

from correctness_tests.waiting import children
from correctness_tests.workload_agents import FIGURES, SMALL, as_options, make
from rl_impls import params
from rl_impls.common import runs
from rl_impls.common.workers import WorkersEnded
from rl_impls.mario.__main__ import main
from rl_impls.mario.agent import MarioAgent

pytestmark = pytest.mark.usefixtures("torch")  # collectors act on it


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train a small agent with batch norm and prioritised replay; return the folder of the run, and the output."""
    folder, printed = tmp_path_factory.mktemp("mario") / "run", io.StringIO()
    args = ["--norm", "batch", "--sampling", "prioritised", "--beta-increment", "0.01", "--steps", "80", "--seed", "3"]
    with contextlib.redirect_stdout(printed):
        main(["train", "--output-dir", str(folder), *as_options(SMALL["mario"]), *args])
    return folder, printed.getvalue()


@pytest.fixture(scope="module")
def checkpoint(trained):
    """Return the checkpoint of the run."""
    return trained[0] / runs.CHECKPOINT


@pytest.fixture(scope="module")
def loaded(checkpoint):
    """Yield the agent loaded from the checkpoint."""
    agent = MarioAgent.load(checkpoint)
    yield agent
    agent.close()


def test_seed_and_initialisation_set_the_weights_at_the_start():
    first, again, other, uniform = (
        make("mario", seed=seed, init=init) for seed, init in ((1, "he"), (1, "he"), (2, "he"), (1, "uniform"))
    )
    np.testing.assert_equal(again.state(), first.state())
    assert other.seed != first.seed  # that of the games
    assert (other.params["w_hidden"] != first.params["w_hidden"]).any()
    bound = 3136**-0.5  # of the hidden layer's inputs
    assert np.abs(first.params["w_hidden"]).max() > 2 * bound > 1.99 * np.abs(uniform.params["w_hidden"]).max()
    for name, value in first.params.items():
        np.testing.assert_array_equal(first.state()[f"target.{name}"], value)


def test_training_prints_counts_of_the_transport_and_of_the_learner(trained):
    _, printed = trained
    for line in (
        r"^\[transport\] 80 experiences received \(.*\), 0 lost, 0 waiting, 88 in the replay buffer; blocked: lock ",
        r"^\[learner\] epoch 10: loss .*, epsilon 0\.100, .*, policy lag 4 updates$",
    ):
        assert re.search(line, printed, re.MULTILINE)


def test_columns_of_the_curve(trained):
    points = runs.points(trained[0])
    assert list(points[0]) == [
        "step", "seconds", "fps", "memory", "return", "length", "episodes", "distance", "stored", "policy_lag", "lost",
        "replaced_collectors", "loss", "td_error", "epsilon",
    ]  # fmt: skip
    assert all((point["return"] == point["return"]) == (point["episodes"] > 0) for point in points)
    assert sum(point["episodes"] for point in points) > 0


def test_beta_grows_by_its_increment_with_each_update(checkpoint):
    arrays, _ = params.load_with_metadata(checkpoint)
    assert arrays["beta"] == pytest.approx(0.4 + 20 * 0.01)  # ten epochs of two updates


def test_each_episode_after_the_first_chunk_is_counted_once(trained, checkpoint):
    arrays, _ = params.load_with_metadata(checkpoint)
    returns = []
    for rewards, terminated in zip(*(arrays[name].reshape(2, 44) for name in ("rewards", "terminated"))):
        ends = np.flatnonzero(terminated) + 1
        whole = np.split(rewards, ends)[:-1]
        returns += [each.sum(dtype=float) for each, end in zip(whole, ends) if end > 4]
    points = [point for point in runs.points(trained[0]) if point["episodes"]]
    assert sum(point["episodes"] for point in points) == len(returns)
    assert sum(point["return"] * point["episodes"] for point in points) == pytest.approx(sum(returns))


def test_a_loaded_agent_resumes_with_batch_norm_and_priorities(trained, checkpoint, loaded):
    first, second = loaded, MarioAgent.load(checkpoint)
    assert first.config.sampling == "prioritised"
    printed = re.findall(r"return (-?\d+\.\d\d), distance (\d\.\d\d), ", trained[1])[-1]
    assert tuple(f"{value:.2f}" for value in second.last) == printed, "the checkpoint lacks the last episodes' results"
    got = [first.learn() for _ in range(3)]
    wanted = [second.learn() for _ in range(3)]
    np.testing.assert_equal(got, wanted)
    assert any(name.startswith("m_") for name in first.params)
    for name, value in second.params.items():
        np.testing.assert_array_equal(first.params[name], value)
    second.close()


def test_rates_are_those_of_all_epochs_since_the_last_lines(loaded):
    loaded.lines(loaded.learn(), 1.0)
    loaded.learn()
    transport, learner = loaded.lines(loaded.learn(), 2.0)
    assert " received (8/s, " in transport
    assert ", 8 experiences/s sampled, 2.00 updates/s, 1.00 s per epoch, " in learner


def test_the_seed_of_an_evaluation_sets_its_episodes(loaded):
    first, again, other = (loaded.evaluate(3, seed) for seed in (0, 0, 1))
    assert list(first) == FIGURES["mario"]
    assert set(first["distance"]) <= {0.0, 1.0}
    assert (first["length"] >= 1).all()
    np.testing.assert_equal(again, first)
    assert any((other[name] != first[name]).any() for name in first)


def test_evaluating_a_checkpoint_starts_no_processes(checkpoint, loaded):
    before = children()
    agent = MarioAgent.load(checkpoint)
    assert (agent.config, agent.step, agent.seed) == (loaded.config, 80, loaded.seed)
    arrays, _ = params.load_with_metadata(checkpoint)
    np.testing.assert_equal(agent.params, {name: arrays[f"online.{name}"] for name in loaded.params})
    assert len(agent.evaluate(3, seed=0)["return"]) == 3
    assert set(children()) <= set(before)
    agent.close()


@pytest.mark.parametrize("change", ["no weights", "fewer frames", "games of other levels"])
def test_a_checkpoint_that_does_not_fit_is_refused(checkpoint, tmp_path, change):
    arrays, metadata = params.load_with_metadata(checkpoint)
    if change == "no weights":
        del arrays["target.w_value"]
    elif change == "fewer frames":
        arrays["frames"] = arrays["frames"][5:]
    else:
        metadata["config"] = metadata["config"].replace('"levels": 10', '"levels": 9')
    params.save(tmp_path / "agent", arrays, **metadata)
    before = children()
    with pytest.raises((ValueError, WorkersEnded)):
        MarioAgent.load(tmp_path / "agent").prepare()
    assert set(children()) <= set(before)


def test_a_running_agent_takes_the_state_that_is_loaded(loaded):
    loaded.prepare()
    before, state = children(), loaded.state()
    loaded.learn()
    learned = loaded.params
    loaded.load_state(state)
    assert len(children()) < len(before)
    for name, value in loaded.params.items():
        np.testing.assert_array_equal(value, state[f"online.{name}"])
        assert (learned[name] != value).any(), name


def test_an_evaluation_acts_on_torch_whatever_learned(trained, checkpoint, tmp_path, capsys):
    arrays, metadata = params.load_with_metadata(checkpoint)
    config = {**json.loads(metadata["config"]), "backend": "torch-cuda"}
    params.save(tmp_path / "agent", arrays, **{**metadata, "config": json.dumps(config)})
    main(["evaluate", str(tmp_path / "agent"), "--episodes", "2"])
    assert "torch on cpu" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["evaluate", str(trained[0]), "--backend", "jax"])
