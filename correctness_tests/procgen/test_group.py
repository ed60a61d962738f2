"""Two torchrun processes learn the same as one: equal weights, rollouts and states."""

import os
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from correctness_tests.procgen.group_member import LOOPS, loop, updates
from correctness_tests.procgen.loops import numbers
from correctness_tests.procgen.problem import build, learner, problem
from correctness_tests.updates import gradient_of
from rl_impls.common.ranks import launched
from rl_impls.procgen.actors import slice_state

SECONDS = 120


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return kept | {"OMP_NUM_THREADS": "1"}


def torchrun(*words):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", *map(str, words)]
    return subprocess.run(command, env=environment(), timeout=SECONDS, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    path = tmp_path_factory.mktemp("group") / "found.npz"
    done = torchrun("correctness_tests.procgen.group_member", path)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(np.load(path))


@pytest.mark.slow
def test_two_updates_on_half_batches_equal_two_on_the_whole(pair):
    losses, weights = updates()
    for name, value in weights.items():
        np.testing.assert_allclose(pair[f"update.{name}"], value, atol=2e-6)
    assert not np.allclose(pair["losses"], losses, rtol=1e-4)  # each process has its own half


@pytest.fixture
def silent_partner():
    """Join a group of two processes, of which the other one adds nothing to any sum."""
    from torch import distributed

    distributed.init_process_group("fake", rank=0, world_size=2)
    yield
    distributed.destroy_process_group()


def gradient(**changed):
    update, call = learner("a2c_update", "torch", **changed)
    call(problem("a2c_update")[1][0])
    return gradient_of(update.net)


@pytest.mark.usefixtures("silent_partner")
def test_the_average_of_all_gradients_is_clipped():
    found = gradient(processes=2, max_grad_norm=1e-4)
    norm = np.sqrt(sum(np.square(each).sum() for each in found.values()))
    assert norm == pytest.approx(1e-4, rel=0.02)


@pytest.mark.usefixtures("silent_partner")
def test_gradients_are_averaged_and_not_summed():
    alone, found = gradient(max_grad_norm=1e9), gradient(processes=2, max_grad_norm=1e9)
    for name, value in alone.items():
        np.testing.assert_allclose(found[name], value / 2, rtol=1e-4, atol=1e-6 * np.abs(value).max(), err_msg=name)


@pytest.mark.usefixtures("silent_partner")
def test_deviation_of_all_advantages_is_about_their_common_mean():
    import torch

    from rl_impls.procgen.group import mean_and_std

    mean, std = mean_and_std(torch.tensor([1.0, 3.0]))
    assert (float(mean), float(std)) == (1.0, 1.0)  # the mean is 2 / 2, and the squares around it add up to 0 + 4


@pytest.mark.usefixtures("silent_partner")
@pytest.mark.parametrize("algorithm", LOOPS)
def test_a_process_plays_and_restores_its_own_games_and_averages_losses_and_their_parts(algorithm):
    config, member = LOOPS[algorithm], {"rank": 1, "processes": 2}
    whole, half = (build(algorithm, "torch", config | more, (numbers(0),)) for more in ({}, member))
    for one in (whole, half):
        _, _, losses = one(numbers(0))
        total = one.parts @ [1, config["value_weight"], -config["entropy_weight"]]
        np.testing.assert_allclose(losses, total, rtol=1e-4)
    wanted, found = whole.storage.read(), half.storage.read()
    np.testing.assert_array_equal(found.obs, wanted.obs[:, 2:])
    np.testing.assert_array_equal(found.actions, wanted.actions[:, 2:])
    half.load_state(whole.state())
    np.testing.assert_equal(half.envs.get_state(), slice_state(whole.envs.get_state(), slice(2, 4)))
    for one in (whole, half):
        one.envs.close()


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "tolerance"), [("a2c", 2e-3), ("ppo", 0.02)])
def test_loop_in_two_processes_equals_that_in_one(algorithm, tolerance, pair):
    whole, start = loop(algorithm), LOOPS[algorithm]["params"]
    for name in ("rewards", "ended"):
        np.testing.assert_array_equal(pair[f"{algorithm}.{name}"], whole[f"{algorithm}.{name}"])
    np.testing.assert_allclose(pair[f"{algorithm}.losses"], whole[f"{algorithm}.losses"], rtol=1e-4, atol=1e-6)
    for name, value in start.items():
        key = f"{algorithm}.learner.online.{name}"
        moved = np.abs(whole[key] - value).max()
        np.testing.assert_allclose(pair[key], whole[key], atol=tolerance * moved, err_msg=name)
    for name in ("games", "returns", "lengths", "sizes"):
        np.testing.assert_array_equal(pair[f"{algorithm}.env.{name}"], whole[f"{algorithm}.env.{name}"])


@pytest.mark.slow
def test_a_stop_of_one_process_stops_all(pair):
    assert pair["agreed"].tolist() == [True, False]
    assert pair["count"] == 1


@pytest.mark.slow
def test_training_in_two_processes_resumes_in_one(tmp_path):
    options = ["--steps", "60", "--num-envs", "4", "--num-steps", "3", "--algorithm", "a2c", "--game", "leaper"]
    options += ["--batch-size", "25"]  # for PPO's minibatches: A2C ignores it, so two processes need not divide it
    done = torchrun("rl_impls.procgen", "train", "--output-dir", tmp_path / "run", *options)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("training from step 0 to 60") == 1
    words = [sys.executable, "-m", "rl_impls.procgen", "train", "--output-dir", str(tmp_path / "run"), "--resume"]
    one = subprocess.run(
        [*words, "--steps", "12"], env=environment(), timeout=SECONDS, capture_output=True, text=True, check=True
    )
    assert "72 environment frames" in one.stdout


def test_only_procgen_trains_under_torchrun(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SystemExit, match=r"^train: WORLD_SIZE=2 should be 1: only procgen can train under torchrun"):
        import_module("rl_impls.snake.__main__").main(["train", str(tmp_path / "it")])
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(ValueError, match=r"^WORLD_SIZE=two should be a number"):
        launched()
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setenv("RANK", "1")
    assert launched() == (0, 1)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--algorithm", "impala"), "algorithm='impala' with actors=0 cannot train in several processes; use "),
        (
            ("--algorithm", "a3c"),
            "algorithm='a3c' with actors=2 cannot train in several processes; use ppo or a2c ",
        ),
        (("--algorithm", "a2c", "--num-envs", "3"), "num_envs=3 should be a multiple of 2, the number of processes"),
    ],
)
def test_what_several_processes_cannot_train_is_refused(tmp_path, monkeypatch, options, message):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SystemExit, match=f"^train: {message}"):
        import_module("rl_impls.procgen.__main__").main(["train", str(tmp_path / "it"), *options])
    assert not list(tmp_path.iterdir())
