"""Other libraries do the same work as ours on the timed inputs."""

import json
import tomllib
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

from perf_tests.bench import leaves
from perf_tests.ops import build
from perf_tests.peers.test_mario_replay import FOR_CPPRB, cpprb_buffer, sb3_buffer
from perf_tests.peers.test_procgen_cluster import SyncEnvs
from perf_tests.peers.test_procgen_gym3 import Gym3
from perf_tests.peers.test_snake_sb3 import STEPS, TRAIN_FREQUENCY, make_dqn
from perf_tests.recorded import Recorder
from rl_impls.common.procgen_env import ACTIONS, NEW_EPISODE, PACKAGES, ProcgenVectorEnv
from rl_impls.mario.memory import FrameReplay, PrioritisedReplay
from rl_impls.mario.shared_ops import fill
from rl_impls.procgen import _numpy as reference
from rl_impls.procgen import problem as procgen
from rl_impls.snake import problem as snake

from .commands import ROOT, pytest_runs, python
from .procgen.problem import BATCH_SIZE, learner
from .procgen.problem import problem as update_of
from .reference import in_float64, largest_difference
from .updates import gradient_of

FILE = ROOT / "perf_tests/peers/comparisons.toml"
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
    """Return a recorder of a benchmark's call of ``bench``."""
    test, params = named(identity)
    recorder = Recorder()
    test(bench=recorder, seed=seed, **params)
    return recorder


def outputs_of(name, seed):
    """Yield the arrays that both sides of a comparison return; each is called twice, after a reset."""
    sides = [recorded(COMPARISONS[name][side], seed) for side in "ab"]
    assert sides[0].keywords["items"] == sides[1].keywords["items"]
    for _ in range(2):
        found = []
        for side in sides:
            side.keywords["reset"]()
            found.append(leaves(side.keywords["output"](side.function(*side.args))))
        yield from zip(*found, strict=True)


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_name_benchmarks_that_exist(name):
    one = COMPARISONS[name]
    for identity in (one["a"], one["b"]):
        named(identity)
    assert one["leaves_out"]


@pytest.mark.parametrize("suffix", ["bfloat16", "memory"])
def test_comparisons_of_memory_and_bfloat16_are_of_the_timed_loops(suffix):
    found = [name for name in COMPARISONS if name.endswith(f"-{suffix}")]
    assert len(found) == {"bfloat16": 3, "memory": 6}[suffix]
    for name in found:
        timed, one = COMPARISONS[name.removesuffix(f"-{suffix}")], COMPARISONS[name]
        assert one["a"] == timed["a"]
        if suffix == "memory":
            assert (one["b"], one["measure"]) == (timed["b"], "peak_rss")
        else:
            assert one["b"] in (timed["b"].replace("[full-", "[bfloat16-"), f"{timed['b']}_in_bfloat16")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "snake-plain" else slow)
        for name, one in COMPARISONS.items()
        if "outputs" not in one
    ],
)
def test_both_sides_give_the_same_outputs(name, seed):
    for theirs, ours in outputs_of(name, seed):
        assert largest_difference(theirs, ours) < 1e-5


def require_procgen():
    if missing := [package for package in PACKAGES if find_spec(package) is None]:
        pytest.skip(f"{missing[0]} is not installed")


@pytest.mark.parametrize("name", ["procgen-gym3", "procgen-gym3-reused"])
def test_gym3_plays_the_same_frames_by_the_same_actions(name, seed):
    require_procgen()
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


def gym3(config):
    """Return games in one gym3 environment that copies its arrays."""
    return Gym3(config, reuse=False)


def test_games_one_by_one_play_the_same_frames_beyond_the_end_of_an_episode(seed):
    require_procgen()
    rng, num_envs = np.random.default_rng(seed), 3
    config = procgen.games(rng, num_envs, "coinrun")
    together, alone = gym3(config), SyncEnvs(config)
    try:
        np.testing.assert_array_equal(alone.reset(), together.reset())
        for t in range(12):
            actions = rng.integers(ACTIONS, size=num_envs)
            actions[1] = NEW_EPISODE if t == 5 else actions[1]
            steps = alone.step(actions), together.step(actions)
            for one_by_one, all_at_once in zip(*steps, strict=True):
                np.testing.assert_array_equal(one_by_one, all_at_once)
            assert steps[0][2][1] or t != 5
    finally:
        together.close()
        alone.close()


@pytest.fixture
def loops():
    pytest.importorskip("torch")
    from perf_tests.peers import procgen_loops

    return procgen_loops


@pytest.mark.parametrize(("make", "game"), [(SyncEnvs, "coinrun"), (gym3, "starpilot")])
def test_rollout_of_a_peer_equals_ours(make, game, loops, seed):
    require_procgen()
    config = procgen.ppo(seed, 4, 16, epochs=2, game=game).config
    loop, envs = loops.Ppo(config, loops.nature(), make(config["env"]), False), ProcgenVectorEnv(**config["env"])
    try:
        loop.reset()
        loop.play()
        frames = envs.observe()
        for obs, actions, rewards, ended in zip(loop.obs, loop.actions, loop.rewards, loop.ended):
            np.testing.assert_array_equal(obs, frames)
            frames, our_rewards, our_ended = envs.advance(actions.numpy())
            np.testing.assert_array_equal(rewards, our_rewards)
            np.testing.assert_array_equal(ended, our_ended)
        np.testing.assert_array_equal(loop.obs[-1], frames)
    finally:
        loop.envs.close()
        envs.close()
    logits, values = reference.logits_and_values(config["params"], loop.obs.flatten(0, 1).numpy())
    log_probs, _ = reference.log_probs_and_entropy(logits[:-4], loop.actions.flatten().numpy())
    values = values.reshape(17, 4)
    assert largest_difference(loop.values, values[:-1]) < 1e-4
    assert largest_difference(loop.log_probs, log_probs.reshape(16, 4)) < 1e-4
    loop.ended[7, 2] = 1.0
    ended, constants = loop.ended.numpy() == 1, {name: config[name] for name in ("gamma", "gae_lambda")}
    wanted = reference.compute_gae(
        loop.rewards.numpy(), values[:-1], values[1:], ended, np.zeros_like(ended), **constants
    )
    for theirs, ours in zip(loop.advantages_and_returns(), wanted):
        assert largest_difference(theirs, ours) < 1e-4
    assert len(loop.learn()) == 2 * 4 * 16 // config["batch_size"]


def assert_same_gradient(agent, ours, loops):
    """Compare the gradients of an agent and of our update."""
    for parameter, wanted in zip(agent.parameters(), loops.in_torch_layout(gradient_of(ours.net)), strict=True):
        assert largest_difference(parameter.grad, wanted) < 1e-6


@pytest.mark.parametrize("net", ["nature", "residual"])
def test_ppo_loss_of_the_peers_equals_ours(net, loops, seed):
    from rl_impls.procgen._torch import ppo_loss

    problem = procgen.ppo_update(seed, BATCH_SIZE, net)
    config = in_float64(dict(problem.config))
    built = build(replace(problem, config=config, args=in_float64(problem.args)), "naive", "torch")
    ours, (obs, actions, log_probs, advantages, returns) = built.op, built.args
    constants = {name: config[name] for name in ("clip", "value_weight", "entropy_weight")}
    normalised = (advantages - advantages.mean()) / (advantages.std() + 1e-8)  # the peers use Bessel's correction
    logits, values = ours.run(ours.net, obs)
    wanted, _ = ppo_loss(logits, values, actions, log_probs, normalised, returns, **constants)
    wanted.backward()
    agent = {"nature": loops.nature, "residual": loops.impala_cnn}[net]().double()
    loops.load(agent, config["params"])
    of_rollout = values.detach()
    for clip_values in (True, False):  # values equal those of the rollout, so none is clipped
        agent.zero_grad()
        columns = obs.double(), actions, log_probs, of_rollout, advantages, returns
        loss = loops.ppo_loss(agent, config, clip_values, *columns)
        loss.backward()
        assert loss.item() == pytest.approx(wanted.item(), rel=1e-9)
        assert_same_gradient(agent, ours, loops)


def test_ppo_clips_how_far_values_move(loops):
    import torch

    class Constant(torch.nn.Module):
        def forward(self, obs):
            return torch.zeros(2, ACTIONS), torch.tensor([3.0, 3.0])

    config = {"clip": 0.2, "value_weight": 1.0, "entropy_weight": 0.0}
    ones = torch.ones(2)
    columns = ones, ones.long(), ones, ones, 0 * ones, 4 * ones  # values move from 1 to 3; returns are 4
    losses = [loops.ppo_loss(Constant(), config, clip_values, *columns) for clip_values in (False, True)]
    assert [loss.item() for loss in losses] == pytest.approx([(3 - 4) ** 2 / 2, (1.2 - 4) ** 2 / 2])


def test_impala_loss_of_the_peers_equals_ours(loops, seed):
    import torch

    config, batches = update_of("impala_update")
    obs, actions, log_probs, rewards, terminated, truncated = batches[0]
    ours, update = learner("impala_update", "torch", "naive", exact=True, max_grad_norm=1e9)
    wanted = update((obs, actions, log_probs, rewards, terminated, np.zeros_like(truncated)))
    agent = loops.nature().double()
    loops.load(agent, in_float64(config["params"]))
    floats = (torch.from_numpy(array).double() for array in (log_probs, rewards, terminated))
    loss = loops.impala_loss(agent, config, torch.from_numpy(obs).double(), torch.from_numpy(actions), *floats)
    loss.backward()
    assert loss.item() == pytest.approx(wanted, rel=1e-9)
    assert_same_gradient(agent, ours, loops)


@pytest.mark.parametrize("name", ["treasurehunt-sorrel", "treasurehunt-sorrel-sampled"])
def test_agents_of_sorrel_update_like_ours(name, seed):
    pytest.importorskip("torch")
    for theirs, ours in outputs_of(name, seed):
        off = np.abs(theirs - ours) > 1e-4 * np.abs(ours).max()
        assert off.mean() < 1e-3  # Adam's first step is +-lr even if a gradient is only rounding error


def test_dqn_of_stable_baselines3_has_our_net_and_learns_as_often(seed):
    config = dict(snake.collect_and_learn(seed, 1, TRAIN_FREQUENCY, 32).config)
    model = make_dqn(config, seed)
    sizes = sorted(parameter.numel() for parameter in model.q_net.parameters())
    assert sizes == sorted(array.size for array in config["params"].values())
    steps, updates = model.num_timesteps, model._n_updates
    model.learn(STEPS, reset_num_timesteps=False)
    assert (model.num_timesteps - steps, model._n_updates - updates) == (STEPS, STEPS // TRAIN_FREQUENCY)


def test_buffer_of_stable_baselines3_has_the_same_transitions():
    buffer, replay = sb3_buffer(REPLAY), fill(FrameReplay(REPLAY["capacity"], 1, REPLAY["side"]), REPLAY)
    rows = np.random.default_rng(0).choice(replay.valid_rows(), 64, replace=False)
    rows = rows[rows != buffer.pos]  # SB3 stores the newest next_obs there
    batch = replay.gather(rows)
    np.testing.assert_array_equal(buffer.observations[rows, 0], batch.obs)
    np.testing.assert_array_equal(buffer.actions[rows].reshape(-1), batch.actions)
    np.testing.assert_array_equal(buffer.rewards[rows, 0], batch.rewards)
    np.testing.assert_array_equal(buffer.dones[rows, 0], batch.terminated)
    going_on = rows[batch.terminated == 0]
    after = buffer.observations[(going_on + 1) % len(buffer.observations), 0]
    np.testing.assert_array_equal(after, batch.next_obs[batch.terminated == 0])


@pytest.mark.parametrize("once", FOR_CPPRB)
def test_buffer_of_cpprb_has_the_same_transitions_and_weights(once):
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


def test_peers_are_selected_by_the_full_tier_alone_and_threads_are_set_before_named_files_are_imported():
    named = "perf_tests/test_pirl.py", "perf_tests/peers/test_snake_plain.py", "--tier", "full"
    peers, torch = ("perf_tests/peers",), ("--tier", "full", "--backend", "torch")
    runs = {"named": named, "default": peers, "backend": peers + torch, "full": (*peers, "--tier", "full")}
    found, errors = pytest_runs({name: ("--collect-only", "-q", "--threads", "1", *run) for name, run in runs.items()})
    code, text = found.pop("named")  # the first, which imports torch
    assert (code, "before the number of threads was set" in text + errors) == (0, False), text + errors
    collected = {name: text.count("::test_") for name, (_, text) in found.items()}
    assert collected == {"default": 0, "backend": 0, "full": 26}, found


@slow
def test_comparison_whose_library_is_absent_is_skipped(tmp_path):
    if find_spec("cpprb"):
        pytest.skip("cpprb is installed")
    out = tmp_path / "peers.json"
    done = python("-m", "rlgauge", "compare", "--file", FILE, "--only", "mario-update", "--json", out, limit=300)
    assert done.returncode == 2, done.stderr
    assert "skipped: could not import 'cpprb'" in done.stdout
    assert "value" not in json.loads(out.read_text())["comparisons"]["mario-update"]
