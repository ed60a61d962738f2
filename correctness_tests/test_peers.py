"""Other libraries do the same work as ours on the timed inputs."""

from __future__ import annotations

import tomllib
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from perf_tests.bench import close_to, leaves
from perf_tests.peers.__main__ import FILE
from perf_tests.peers.test_mario_replay import FOR_CPPRB, cpprb_buffer, sb3_buffer
from perf_tests.peers.test_snake_sb3 import STEPS, TRAIN_FREQUENCY, make_dqn
from perf_tests.recorded import Recorder
from rl_impls.common.procgen_env import PACKAGES
from rl_impls.mario.memory import FrameReplay, PrioritisedReplay
from rl_impls.mario.shared_ops import fill
from rl_impls.snake import problem as snake

from .commands import python

COMPARISONS = {one["name"]: one for one in tomllib.loads(FILE.read_text())["comparison"]}
REPLAY = {"side": 8, "capacity": 600, "stored": 600, "seed": 3, "alpha": 0.6, "beta": 0.4}
slow = pytest.mark.slow


def named(identity):
    """Return a benchmark's function and its parameters, given its id."""
    path, _, name = identity.partition("::")
    name, _, case = name.rstrip("]").partition("[")
    test = getattr(import_module(path.removesuffix(".py").replace("/", ".")), name)
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            for values in mark.args[1]:
                values = getattr(values, "values", (values,))
                if "-".join(map(str, values)) == case:
                    return test, dict(zip(mark.args[0].split(","), values))
    assert not case, f"{identity}: no such parameters"
    return test, {}


def recorded(identity, seed):
    """Return what a benchmark hands to ``bench``."""
    test, params = named(identity)
    recorder = Recorder()
    test(bench=recorder, seed=seed, **params)
    return recorder


def sample(recorder):
    """Return the output of one call after a reset."""
    recorder.keywords["reset"]()
    return recorder.keywords["output"](recorder.function(*recorder.args))


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_name_benchmarks_that_exist(name):
    one = COMPARISONS[name]
    for identity in (one["a"], one["b"]):
        named(identity)
    assert one["leaves_out"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "snake-plain" else slow)
        for name, one in COMPARISONS.items()
        if "outputs" not in one
    ],
)
def test_both_sides_give_the_same_outputs(name, seed):
    first, second = (recorded(COMPARISONS[name][side], seed) for side in "ab")
    assert first.keywords["items"] == second.keywords["items"]
    for _ in range(2):
        for theirs, ours in zip(*map(leaves, (sample(first), sample(second))), strict=True):
            assert close_to(theirs, ours)


@pytest.mark.parametrize("name", ["procgen-gym3", "procgen-gym3-reused"])
def test_gym3_plays_the_same_frames_by_the_same_actions(name, seed):
    if missing := [package for package in PACKAGES if find_spec(package) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    theirs, ours = (recorded(COMPARISONS[name][side], seed) for side in "ab")
    try:
        for _ in range(2):
            for side in (theirs, ours):
                side.keywords["reset"]()
            for _ in range(2):
                their_frames, their_rewards, their_ends = theirs.function(*theirs.args)
                frames, rewards, ends = ours.function(*ours.args)
                np.testing.assert_array_equal(their_frames, frames)
                np.testing.assert_array_equal(their_rewards, rewards[-1])
                np.testing.assert_array_equal(their_ends, ends[-1])
    finally:
        theirs.keywords["close"]()
        ours.keywords["close"]()


def test_dqn_of_stable_baselines3_has_our_net_and_learns_as_often(seed):
    config = dict(snake.collect_and_learn(seed, 1, TRAIN_FREQUENCY, 32).config)
    model = make_dqn(config, seed)
    sizes = sorted(parameter.numel() for parameter in model.q_net.parameters())
    assert sizes == sorted(array.size for array in config["params"].values())
    steps, updates = model.num_timesteps, model._n_updates
    model.learn(STEPS, reset_num_timesteps=False)
    assert (model.num_timesteps - steps, model._n_updates - updates) == (STEPS, STEPS // TRAIN_FREQUENCY)


def ours():
    """Return our replay, filled, and rows of it that may be drawn."""
    replay = fill(FrameReplay(REPLAY["capacity"], 1, REPLAY["side"]), REPLAY)
    return replay, np.random.default_rng(0).choice(replay.valid_rows(), 64, replace=False)


def test_buffer_of_stable_baselines3_holds_what_ours_holds():
    buffer, (replay, rows) = sb3_buffer(REPLAY), ours()
    rows = rows[rows != buffer.pos]  # there it has the state after the newest one
    batch = replay.gather(rows)
    np.testing.assert_array_equal(buffer.observations[rows, 0], batch.obs)
    np.testing.assert_array_equal(buffer.actions[rows].reshape(-1), batch.actions)
    np.testing.assert_array_equal(buffer.rewards[rows, 0], batch.rewards)
    np.testing.assert_array_equal(buffer.dones[rows, 0], batch.terminated)
    going_on = rows[batch.terminated == 0]
    after = buffer.observations[(going_on + 1) % len(buffer.observations), 0]
    np.testing.assert_array_equal(after, batch.next_obs[batch.terminated == 0])


@pytest.mark.parametrize("once", FOR_CPPRB)
def test_buffer_of_cpprb_holds_what_ours_holds_with_the_same_weights(once):
    buffer = cpprb_buffer(REPLAY, once)
    replay = fill(PrioritisedReplay(REPLAY["capacity"], 1, REPLAY["side"], beta_increment=0.0), REPLAY)
    replay.update(np.arange(600), np.random.default_rng(REPLAY["seed"]).standard_normal(600))
    got = buffer.sample(256, beta=REPLAY["beta"])
    kept = np.isin(got["indexes"], replay.valid_rows())
    rows = got["indexes"][kept].astype(np.int64)
    batch = replay.gather(rows)
    names = {"obs": "obs", "actions": "act", "rewards": "rew", "next_obs": "next_obs", "terminated": "done"}
    for name, theirs in names.items():
        wanted, array = getattr(batch, name), got[theirs][kept]
        if once == "frames" and array.ndim == 4:
            array = np.moveaxis(array, -1, 1)
        np.testing.assert_array_equal(array.reshape(wanted.shape), wanted, name)
    weights, priorities = got["weights"][kept], replay.tree.get(rows)
    np.testing.assert_allclose(
        weights.reshape(-1) / weights.max(), (priorities.min() / priorities) ** REPLAY["beta"], rtol=1e-3
    )


@pytest.mark.parametrize(
    ("options", "collected"),
    [((), 0), (("--tier", "full", "--backend", "torch"), 0), (("--tier", "full"), 18)],
)
def test_peers_are_selected_by_the_full_tier_alone(options, collected):
    done = python("-m", "pytest", "perf_tests/peers", "--collect-only", "-q", *options)
    assert done.stdout.count("::test_") == collected, done.stdout


def test_unknown_comparison_is_one_line():
    done = python("-m", "perf_tests.peers", "--only", "snake")
    assert done.returncode == 2
    assert "argument --only: invalid choice: 'snake' (choose from" in done.stderr.splitlines()[-1]


@slow
def test_comparison_whose_library_is_absent_is_skipped(tmp_path):
    if find_spec("cpprb"):
        pytest.skip("cpprb is installed")
    done = python("-m", "perf_tests.peers", "--only", "mario-update", f"--json={tmp_path / 'peers.json'}", limit=300)
    assert done.returncode == 0, done.stderr
    assert "could not import 'cpprb'" in done.stdout
    assert (tmp_path / "peers.json").read_text() == "[]"
