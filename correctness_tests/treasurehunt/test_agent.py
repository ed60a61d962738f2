"""The agents as a whole: seeds, random draws, evaluation, and configurations that are refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from correctness_tests.draws import assert_as_often, assert_distributed, assert_each_for_itself
from correctness_tests.quick import quick
from rl_impls.treasurehunt.agent import Config, TreasurehuntAgents, init_params
from rl_impls.treasurehunt.spec import DRAWS, Settings

SETTINGS = Settings(agents=2, height=6, width=6, turns=6, spawn=0.1)
SMALL = {"settings": SETTINGS, "hidden": 8, "batch": 8, "capacity": 64, "learning_rate": 1e-2}
KINDS = [("full", "torch"), ("full", "jax"), ("compiled", "jax")]
DRAWN = "reset_draws", "draws", "taus", "explore", "random_actions", "rows", "train_taus", "noise"

pytestmark = pytest.mark.usefixtures("one_thread")


def make(seed=3, **config):
    return TreasurehuntAgents(**{**SMALL, **config}, seed=seed)


def listen(agents):
    """Record the arguments and the result of every call of the agents' loop."""
    loop, calls = agents.loop, []

    def call(*drawn):
        out = loop(*drawn)
        calls.append((dict(zip(DRAWN, drawn, strict=True)), out))
        return out

    agents.loop = call
    return calls


@pytest.mark.parametrize(("form", "backend"), quick(KINDS[:1], KINDS))
def test_same_seed_learns_the_same_and_another_seed_does_not(form, backend):
    one, two, other = (make(seed, form=form, backend=backend, worlds=4) for seed in (3, 3, 4))
    whole, halves = one.run(5), np.concatenate([two.run(2), two.run(3)])
    assert (whole.shape, whole.dtype) == ((5, 2), np.float32)
    np.testing.assert_array_equal(whole, halves)
    np.testing.assert_equal(one.loop.params, two.loop.params)
    assert one.step == two.step == 5
    assert (other.run(5) != whole).any()


OPTIONS = [{"learning_rate": 1e-3}, {"gamma": 0.5}, {"gradient_norm": 0.01}, {"soft_update": 0.5}]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: next(iter(option)))
def test_each_training_option_changes_what_is_learned(option):
    usual, changed = make(), make(**option)
    for agents in (usual, changed):
        agents.run(2)
    state = usual.loop.state()
    assert any((value != state[name]).any() for name, value in changed.loop.state().items())


def test_initial_weights_are_uniform_and_sigma_is_half_their_bound():
    params = init_params(np.random.default_rng(0), Config(settings=SETTINGS, hidden=32))
    for layer, inputs in (("state", 5 * SETTINGS.frame), ("cos", 64), ("hidden", 32), ("heads", 32)):
        outputs = 5 if layer == "heads" else 32
        for kind, shape in (("w", (2, inputs, outputs)), ("b", (2, outputs))):
            value = params.pop(f"{kind}_{layer}")
            assert (value.shape, value.dtype) == (shape, np.float32)
            assert_distributed((value * inputs**0.5 + 1) / 2, "uniform")
            if layer in ("hidden", "heads"):
                sigma = params.pop(f"s{kind}_{layer}")
                np.testing.assert_array_equal(sigma, np.full(shape, 0.5 / inputs**0.5, np.float32))
    assert not params


def test_memory_is_filled_by_random_play_as_far_as_a_batch_needs():
    for batch, episodes in ((6, 1), (7, 2), (24, 4)):
        stored = make(batch=batch).spec["stored"]
        assert stored["pushed"] == 7 * episodes
        assert (stored["last"] > 0).sum() == episodes


def test_random_play_stores_each_action_with_the_reward_of_the_cell_it_led_to():
    settings = Settings(agents=1, height=6, width=6, turns=6, spawn=0.3)
    stored = make(settings=settings, batch=60, capacity=128).spec["stored"]
    rows = np.flatnonzero((np.arange(128) < stored["pushed"]) & (stored["last"] == 0))
    actions, rewards = stored["actions"][0, rows], stored["rewards"][0, rows]
    views = stored["frames"][0, rows].reshape(-1, 6, 5, 5)
    row, column = np.array([[1, 2], [3, 2], [2, 1], [2, 3]])[actions].T  # up, down, left, right of the centre
    kinds = views[np.arange(len(rows)), :, row, column].argmax(axis=1)
    np.testing.assert_array_equal(rewards, np.array([0, -1, 10, 5, -10])[kinds])
    assert len(np.unique(rewards)) == 5
    assert_as_often(actions, 4)


def test_every_draw_is_fresh_for_each_agent_world_turn_and_epoch():
    agents = make(settings=Settings(agents=3, height=6, width=6, turns=6, spawn=0.1), worlds=2)
    drawn = dict(zip(DRAWN, map(np.array, zip(*(agents.draw_epoch(0.3) for _ in range(30))))))
    shapes = {name: array.shape[1:] for name, array in drawn.items()}
    assert shapes == {
        "reset_draws": (2, 36), "draws": (6, 2, 36), "taus": (6, 3, 2, 12), "explore": (6, 3, 2),
        "random_actions": (6, 3, 2), "rows": (3, 8), "train_taus": (3, 3, 8, 12), "noise": (3, 2, 3 * 8 + 5),
    }  # fmt: skip
    for name in ("reset_draws", "draws"):
        assert_distributed(drawn[name] / DRAWS, "uniform")
    for name, distribution in (("taus", "uniform"), ("train_taus", "uniform"), ("noise", "norm")):
        assert_distributed(drawn[name], distribution)
    assert_as_often(drawn["random_actions"], 4)
    assert_each_for_itself(drawn["random_actions"], 1 / 4)
    assert_each_for_itself(drawn["explore"], 0.3**2 + 0.7**2)
    assert drawn["explore"].mean() == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("worlds", [1, 4])
def test_batches_are_drawn_from_all_starts_in_memory_without_repeats(worlds):
    agents = make(worlds=worlds)
    memory, calls = agents.loop.team.memory, listen(agents)
    for _ in range(8):
        agents.run(1)
        assert np.isin(calls[-1][0]["rows"], memory.starts()).all()
    assert memory.pushed > memory.length
    rows = np.array([agents.draw_epoch(0.5)[DRAWN.index("rows")] for _ in range(300)])
    assert np.diff(np.sort(rows), axis=-1).min() > 0
    for agent in range(2):
        np.testing.assert_array_equal(np.unique(rows[:, agent]), np.sort(memory.starts()))
    assert (rows[:, 0] != rows[:, 1]).any(axis=-1).mean() > 0.99


@pytest.mark.parametrize("worlds", [1, 4])
def test_returns_are_summed_over_turns_and_averaged_over_worlds(worlds):
    agents = make(worlds=worlds)
    calls = listen(agents)
    returns = agents.run(3)
    rewards = np.array([rewards for _, (_, rewards, _) in calls])
    assert rewards.shape == (3, 6, 2, worlds)
    np.testing.assert_allclose(returns, rewards.sum(axis=1).mean(axis=2), rtol=1e-6)


def test_epsilon_falls_from_epoch_to_epoch_but_not_below_zero():
    agents = make(worlds=4, epsilon=1.0, epsilon_step=0.4)
    calls = listen(agents)
    agents.run(2)
    agents.run(3)
    shares = np.array([drawn["explore"].mean() for drawn, _ in calls])
    assert np.abs(shares - [1, 0.6, 0.2, 0, 0]).max() < 0.2
    assert shares[0] == 1
    assert (shares[3:] == 0).all()


@pytest.mark.parametrize(("form", "backend"), quick(KINDS[:1], KINDS))
def test_evaluation_plays_greedily_by_the_present_weights_each_episode_in_its_own_world(form, backend):
    settings = Settings(agents=1, height=6, width=6, turns=6, spawn=0.0)
    agents = make(settings=settings, form=form, backend=backend)
    always_up = {
        "train.online.w_heads": np.zeros((1, 8, 5), np.float32),
        "train.online.b_heads": np.array([[0, 1, 0, 0, 0]], np.float32),
    }
    agents.loop.load_state(agents.loop.state() | always_up)
    returns = agents.play(100, seed=0)
    assert returns.shape == (100, 1)
    assert np.unique(returns).tolist() == [-6, -5, -4, -3, -2, -1]  # up to the wall from each row, then into it
    assert (agents.play(100, seed=0, explore=1.0) != returns).any()


def test_evaluation_names_the_returns_of_each_agent():
    agents = make()
    returns, figures = agents.play(7, seed=0), agents.evaluate(7, seed=0)
    wanted = {"returns": returns.mean(axis=1), "agent_0": returns[:, 0], "agent_1": returns[:, 1]}
    np.testing.assert_equal(figures, wanted)
    assert (returns[:, 0] != returns[:, 1]).any()


BAD = [
    ({"batch": 65}, "batch: got 65, wanted an integer from 1 to 64"),
    ({"batch": 60}, "batch: got 60, wanted at most"),
    ({"capacity": 63, "worlds": 4}, "capacity: got 63"),
    ({"form": "fastest"}, "unknown form 'fastest'; known: naive"),
    ({"form": "compiled"}, "loop: got 'scan' on torch, wanted jax"),
]


@pytest.mark.parametrize(("config", "message"), BAD)
def test_impossible_configuration_is_refused(config, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        make(**config)


def test_zero_epochs_are_refused():
    with pytest.raises(ValueError, match=r"^epochs: got 0"):
        make().run(0)
