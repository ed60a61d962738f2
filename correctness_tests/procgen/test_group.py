"""Two processes of torchrun learn as one does: the same weights, the same play, the same state."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from correctness_tests.procgen.group_problem import LOOP, PPO_BATCH, PPO_LOOP, loop_of, update_of

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
def test_two_updates_on_half_batches_equal_two_on_the_whole(pair, one_thread):
    whole = update_of()
    losses = [float(whole(*whole.put(*batch))) for batch in PPO_BATCH]
    for name, value in whole.params.items():
        np.testing.assert_allclose(pair[f"train.{name}"], value, atol=2e-6)
    assert not np.allclose(pair["losses_of_half"], losses, rtol=1e-4)  # each saw its own half


@pytest.mark.slow
def test_a2c_in_two_processes_equals_a2c_in_one(pair, one_thread):
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
def test_ppo_in_two_processes_equals_ppo_in_one(pair, one_thread):
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
def test_one_process_that_stops_stops_all(pair):
    assert pair["agreed"].tolist() == [True, False]


@pytest.mark.slow
def test_training_in_two_processes_resumes_in_one(tmp_path):
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
def test_environments_that_processes_cannot_share_are_an_error(tmp_path):
    options = ["--steps", "60", "--envs", "3", "--unroll", "4", "--algorithm", "a2c", "--game", "leaper"]
    done = torchrun("rl_impls.procgen", "train", tmp_path / "it", *options)
    assert done.returncode
    assert "train: envs: got 3, wanted a multiple of 2 processes" in done.stderr
    assert not (tmp_path / "it").exists()


@pytest.mark.parametrize("algorithm", ["impala", "a3c"])
def test_impala_and_a3c_reject_several_processes(monkeypatch, algorithm):
    from rl_impls.procgen.agent import ProcgenAgent

    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        ValueError, match=f"^algorithm: got {algorithm} in 2 processes, wanted ppo or a2c without actors$"
    ):
        ProcgenAgent(seed=0, algorithm=algorithm)


def test_jax_rejects_several_processes():
    from rl_impls import backends

    with pytest.raises(ValueError, match=r"^backend of several processes: got jax, wanted torch or torch-compile$"):
        backends.get("jax").build(
            "procgen", "a2c", LOOP | {"rank": 0, "processes": 2}, (np.arange(1),), backends.forms("procgen")["full"]
        )
