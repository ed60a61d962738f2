"""Two processes of torchrun learn as one does: the same weights, the same play, the same state."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from correctness_tests.procgen.group_problem import LOOP, PPO_BATCH, PPO_LOOP, SHARE, loop_of, update_of

SECONDS = 120


def quiet():
    """The environment of a command, without what pytest put there."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")} | {
        "OMP_NUM_THREADS": "1"
    }


def torchrun(*words):
    """Run a module in two processes of torchrun."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", *map(str, words)]
    return subprocess.run(command, env=quiet(), timeout=SECONDS, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """What two processes came to."""
    path = tmp_path_factory.mktemp("group") / "found.npz"
    done = torchrun("correctness_tests.procgen.group_member", path)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(np.load(path))


@pytest.mark.slow
def test_two_updates_on_halves_are_two_on_the_whole(pair, one_thread):
    whole = update_of()
    losses = [float(whole(*whole.put(*batch))) for batch in PPO_BATCH]
    for name, value in whole.params.items():
        np.testing.assert_allclose(pair[f"train.{name}"], value, atol=2e-6)
    assert not np.allclose(pair["losses_of_half"], losses, rtol=1e-4)  # each saw its own half


@pytest.mark.slow
def test_a_loop_in_two_processes_plays_and_learns_as_in_one(pair, one_thread):
    loop = loop_of(LOOP)
    rewards, ended, losses = loop(np.arange(3))
    state = loop.state()
    loop.close()
    np.testing.assert_array_equal(pair["rewards"], rewards)
    np.testing.assert_array_equal(pair["ended"], ended)
    np.testing.assert_allclose(pair["losses"], losses, rtol=1e-4)
    for name, value in state.items():
        np.testing.assert_allclose(pair[f"loop.{name}"], value, atol=2e-6, err_msg=name)


@pytest.mark.slow
def test_ppo_in_two_processes_learns_as_one_whose_minibatches_are_drawn_from_the_shares(pair, one_thread, monkeypatch):
    from rl_impls.procgen import learners, rollouts

    def of_both(seed, number, frames, batch, epochs):
        rows = rollouts.minibatches(seed, number, frames // 2, batch // 2, epochs)
        steps, envs = np.divmod(rows, SHARE)
        return np.concatenate([steps * 2 * SHARE + rank * SHARE + envs for rank in range(2)], axis=1)

    monkeypatch.setattr(learners, "minibatches", of_both)
    loop = loop_of(PPO_LOOP, "ppo")
    rewards, ended, losses = loop(np.arange(3))
    state = loop.state()
    loop.close()
    np.testing.assert_array_equal(pair["ppo.rewards"], rewards)
    np.testing.assert_array_equal(pair["ppo.ended"], ended)
    np.testing.assert_allclose(pair["ppo.losses"], losses, rtol=1e-4)
    moved = {name: np.abs(state[f"train.online.{name}"] - value).max() for name, value in PPO_LOOP["params"].items()}
    for name, most in moved.items():
        np.testing.assert_allclose(pair[f"ppo.train.online.{name}"], state[f"train.online.{name}"], atol=0.02 * most)


@pytest.mark.slow
def test_one_that_wants_to_stop_stops_all(pair):
    assert pair["agreed"].tolist() == [True, False]


@pytest.mark.slow
def test_a_training_in_two_processes_goes_on_in_one(tmp_path):
    options = ["--steps", "60", "--envs", "4", "--unroll", "3", "--algorithm", "a2c", "--game", "leaper"]
    done = torchrun("rl_impls.procgen", "train", "--output-dir", tmp_path / "run", *options)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("training from step 0 to 60") == 1
    words = [sys.executable, "-m", "rl_impls.procgen", "train", "--output-dir", str(tmp_path / "run"), "--resume"]
    one = subprocess.run(
        [*words, "--steps", "12"], env=quiet(), timeout=SECONDS, capture_output=True, text=True, check=True
    )
    assert "72 environment frames" in one.stdout


@pytest.mark.slow
def test_what_processes_cannot_share_is_said_by_each(tmp_path):
    options = ["--steps", "60", "--envs", "3", "--unroll", "4", "--algorithm", "a2c", "--game", "leaper"]
    done = torchrun("rl_impls.procgen", "train", tmp_path / "it", *options)
    assert done.returncode
    assert "train: envs: got 3, wanted a multiple of 2 processes" in done.stderr
    assert not (tmp_path / "it").exists()


def test_moments_are_those_of_the_batches_of_all(monkeypatch):
    import torch

    from rl_impls.procgen import group

    batch = torch.from_numpy(np.random.default_rng(0).normal(3, 2, 64).astype(np.float32))
    shares = torch.cat([batch[:32] + 5, batch[32:]]).split(32)  # of means far apart
    meeting, given = threading.Barrier(2, timeout=SECONDS), {}

    def mean_of_all(tensor):
        given[threading.get_ident()] = tensor
        meeting.wait()
        mean = sum(given.values()) / 2
        meeting.wait()
        return mean

    monkeypatch.setattr(group, "mean_of_all", mean_of_all)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(group.moments_of_all, shares))
    whole = torch.cat(shares)
    for mean, deviation in found:
        assert mean.item() == pytest.approx(whole.mean().item(), rel=1e-5)
        assert deviation.item() == pytest.approx(whole.std(correction=0).item(), rel=1e-5)


def test_gradients_are_the_means_over_all_before_they_are_clipped(monkeypatch):
    import torch

    from rl_impls.procgen import group

    parameters, clipped = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((2, 3), (4,))], []
    for k, parameter in enumerate(parameters):
        parameter.grad = torch.full_like(parameter, k + 1.0)
    train = SimpleNamespace(parameters=parameters)
    train.clip = lambda: clipped.append([parameter.grad.clone() for parameter in parameters])
    monkeypatch.setattr(group, "mean_of_all", lambda flat: (flat + torch.arange(10.0)) / 2)  # with those of another
    group.average_gradients(train)
    train.clip()
    ((first, second),) = clipped
    torch.testing.assert_close(first, (1 + torch.arange(6.0).view(2, 3)) / 2)
    torch.testing.assert_close(second, (2 + torch.arange(6.0, 10.0)) / 2)


@pytest.mark.parametrize("algorithm", ["impala", "a3c"])
def test_other_algorithms_are_not_for_several_processes(monkeypatch, algorithm):
    from rl_impls.procgen.agent import ProcgenAgent

    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        ValueError, match=f"^algorithm: got {algorithm} in 2 processes, wanted ppo or a2c without actors$"
    ):
        ProcgenAgent(seed=0, algorithm=algorithm)


def test_jax_is_not_for_several_processes():
    from rl_impls import backends

    with pytest.raises(ValueError, match=r"^backend of several processes: got jax, wanted torch or torch-compile$"):
        backends.get("jax").build(
            "procgen", "a2c", LOOP | {"rank": 0, "processes": 2}, (np.arange(1),), backends.forms("procgen")["full"]
        )
