"""What the agents do around its loop: weights, random play, draws and evaluation, against plain worlds."""

from __future__ import annotations

import numpy as np
import pytest

from correctness_tests.draws import assert_as_often, assert_distributed, assert_each_for_itself
from correctness_tests.hearing import hear
from correctness_tests.treasurehunt.hunts import GREEDY, PlainHunt, lacking
from rl_impls.treasurehunt import agent as driver
from rl_impls.treasurehunt.agent import Config, TreasurehuntAgents, init_params
from rl_impls.treasurehunt.memory import Memory
from rl_impls.treasurehunt.spec import DRAWS, Settings
from rl_impls.treasurehunt.vector_env import ArrayWorlds, CellWorlds

SETTINGS = Settings(agents=3, height=6, width=6, turns=6, spawn=0.1)
SMALL = {"settings": SETTINGS, "worlds": 2, "hidden": 8, "batch": 8, "capacity": 64, "epsilon_step": 0.0}
DRAWN = "reset_draws", "draws", "taus", "explore", "random_actions", "rows", "train_taus", "noise"
TIMES = 300  # that an epoch is drawn, where shares are counted

pytestmark = pytest.mark.usefixtures("one_thread")


def silent(reset_draws, draws, taus, explore, random_actions, rows, train_taus, noise):
    """A loop in which nothing happens."""
    return random_actions, np.zeros(explore.shape, np.float32), np.zeros(len(rows), np.float32)


@pytest.fixture
def make(monkeypatch):
    """Return a function that makes agents whose loop does nothing."""
    hear(monkeypatch, "epoch", silent)
    return lambda **config: TreasurehuntAgents(**{**SMALL, **config}, seed=3)


class Noted(ArrayWorlds):
    """Worlds that note the draws of each episode, and its actions."""

    def __init__(self, *args):
        self.episodes = []
        super().__init__(*args)
        self.episodes.clear()  # a world resets itself when it is made

    def reset(self, draws):
        self.episodes.append((draws, []))
        return super().reset(draws)

    def advance(self, actions, draws):
        self.episodes[-1][1].append((actions, draws))
        return super().advance(actions, draws)


@pytest.mark.parametrize("worlds", [1, 3])
def test_random_play_stores_what_plain_worlds_show(make, monkeypatch, worlds):
    monkeypatch.setattr(driver, "ArrayWorlds", Noted)
    made = make(worlds=worlds, batch=24, capacity=63)
    plain, frame = CellWorlds(SETTINGS, worlds), SETTINGS.frame
    memory, paid = Memory(3, worlds, 63, frame, made.config.gamma), []
    for reset_draws, turns in made.worlds.episodes:
        obs = plain.reset(reset_draws)
        assert len(turns) == SETTINGS.turns
        for actions, draws in turns:
            after, rewards, _ = plain.advance(actions, draws)
            memory.push(obs, actions, rewards)
            paid.append(rewards)
            obs = after
        memory.finish(obs)
    assert len(made.worlds.episodes) > 1
    assert np.abs(paid).max() == 10
    np.testing.assert_equal(made.loop.spec["stored"], memory.arrays())
    np.testing.assert_equal(made.loop.spec["world_state"], plain.get_state())


def test_random_play_draws_for_each_agent_world_and_turn_anew(make, monkeypatch):
    monkeypatch.setattr(driver, "ArrayWorlds", Noted)
    made = make(worlds=8, batch=200, capacity=512)
    starts = np.array([draws for draws, _ in made.worlds.episodes])
    turns = [turn for _, episode in made.worlds.episodes for turn in episode]
    actions, draws = map(np.array, zip(*turns))
    assert_each_for_itself(actions, 1 / 4)
    assert_as_often(actions, 4)
    for sample in (starts, draws):
        assert_distributed(sample / DRAWS, "uniform")


def test_weights_are_uniform_and_the_spread_of_noise_is_half_their_bound():
    config = Config(settings=SETTINGS, hidden=32)
    params = init_params(np.random.default_rng(0), config)
    for layer, inputs in (("state", 5 * SETTINGS.frame), ("cos", 64), ("hidden", 32), ("heads", 32)):
        outputs = 5 if layer == "heads" else 32
        for kind, shape in (("w", (3, inputs, outputs)), ("b", (3, outputs))):
            value = params.pop(f"{kind}_{layer}")
            assert (value.shape, value.dtype) == (shape, np.float32)
            assert_distributed((value * inputs**0.5 + 1) / 2, "uniform")
            if layer in ("hidden", "heads"):
                spread = params.pop(f"s{kind}_{layer}")
                np.testing.assert_array_equal(spread, np.full(shape, 0.5 / inputs**0.5, np.float32))
    assert not params


def test_a_loop_is_built_of_the_configuration(make):
    given = {"learning_rate": 3e-4, "gamma": 0.9, "gradient_norm": 2.0, "soft_update": 0.02, "capacity": 72}
    made = make(**given)
    loop = made.loop
    assert {name: loop.spec[name] for name in given} == given
    assert Settings(**loop.spec["settings"]) == SETTINGS
    np.testing.assert_equal(loop.spec["target"], loop.spec["params"])
    made.run(1)
    [(drawn, _)] = loop.calls
    for array, example in zip(drawn, loop.example, strict=True):
        assert (array.shape, array.dtype) == (example.shape, example.dtype)


def drawn_epochs(made, epochs):
    """Everything that is drawn for some epochs, by name, each [epochs, ...]."""
    made.loop.calls.clear()
    made.run(epochs)
    return dict(zip(DRAWN, map(np.array, zip(*(args for args, _ in made.loop.calls)))))


def test_everything_is_drawn_anew_for_each_agent_world_turn_use_and_epoch(make):
    drawn = drawn_epochs(make(epsilon=0.3), 30)
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


@pytest.mark.parametrize("epochs", [1, 8])
def test_each_agent_draws_its_rows_from_all_starts_that_are_stored_then_and_none_twice(make, epochs):
    made = make(worlds=1)
    made.run(epochs)
    memory, blank = Memory(3, 1, 64, SETTINGS.frame), np.zeros((3, 1, SETTINGS.frame), np.float32)
    memory.restore(made.loop.spec["stored"])
    for _ in range(epochs):
        for _ in range(SETTINGS.turns):
            memory.push(blank, np.zeros((3, 1), np.int32), blank[..., 0])
        memory.finish(blank)
    assert (memory.pushed > memory.length) == (epochs == 8)
    rows = np.array([made.draw_epoch(0.5)[DRAWN.index("rows")] for _ in range(TIMES)])
    starts, chance = memory.starts(), 8 / len(memory.starts())
    assert np.diff(np.sort(rows), axis=-1).min() > 0
    for agent in range(3):
        found, times = np.unique(rows[:, agent], return_counts=True)
        np.testing.assert_array_equal(found, np.sort(starts))
        assert np.abs(times - TIMES * chance).max() < 5 * np.sqrt(TIMES * chance * (1 - chance))
        assert (rows[:, agent] != rows[:, agent - 1]).any(axis=-1).mean() > 0.99


def test_an_evaluation_pays_what_plain_worlds_do(monkeypatch):
    turns = hear(monkeypatch, "turn")
    made = TreasurehuntAgents(**{**SMALL, "learning_rate": 1e-2}, seed=3)
    made.run(3)
    returns = made.play(20, seed=0)
    [turn] = turns
    [(drawn, (actions, rewards))] = turn.calls
    np.testing.assert_equal(turn.spec["params"], made.loop.params)
    assert np.abs(turn.spec["params"]["w_state"] - made.spec["params"]["w_state"]).max() > 1e-3
    start = turn.spec["world_state"]
    assert start["turn"] == 0
    assert len(np.unique(start["where"], axis=1).T) > 15
    wanted, values = PlainHunt(turn.spec, 20).turns(actions, *drawn)
    assert lacking(actions, values).max() < GREEDY
    np.testing.assert_array_equal(rewards, wanted)
    assert wanted.shape == (SETTINGS.turns, 3, 20)
    assert returns.shape == (20, 3)
    for episode in range(20):
        for agent in range(3):
            assert returns[episode, agent] == sum(wanted[:, agent, episode])
    assert len(np.unique(returns)) > 3
