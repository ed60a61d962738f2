"""The agents as a whole: what its seed decides, what it draws and what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest

from correctness_tests.quick import quick
from rl_impls.treasurehunt.agent import TreasurehuntAgents
from rl_impls.treasurehunt.spec import Settings

SETTINGS = Settings(agents=2, height=6, width=6, turns=6, spawn=0.1)
SMALL = {"settings": SETTINGS, "hidden": 8, "batch": 8, "capacity": 64, "learning_rate": 1e-2}
KINDS = [("full", "torch"), ("full", "jax"), ("compiled", "jax")]

pytestmark = pytest.mark.usefixtures("one_thread")


def make(seed=3, **config):
    return TreasurehuntAgents(**{**SMALL, **config}, seed=seed)


def listen(agents):
    """Keep what the loop is called with and what it returns.  -> [(drawn, out)]"""
    loop, calls = agents.loop, []

    def call(*drawn):
        out = loop(*drawn)
        calls.append((drawn, out))
        return out

    call.params = loop.params
    agents.loop = call
    return calls


@pytest.mark.parametrize("worlds", [1, 4])
@pytest.mark.parametrize(("form", "backend"), quick(KINDS[:1], KINDS))
def test_the_same_seed_plays_and_learns_the_same_and_another_does_not(form, backend, worlds):
    one, two, other = (make(seed, form=form, backend=backend, worlds=worlds) for seed in (3, 3, 4))
    whole, halves = one.run(5), np.concatenate([two.run(2), two.run(3)])
    assert (whole.shape, whole.dtype) == ((5, 2), np.float32)
    np.testing.assert_array_equal(whole, halves)
    np.testing.assert_equal(one.loop.params, two.loop.params)
    assert one.step == two.step == 5
    assert (other.run(5) != whole).any()
    assert any(np.abs(one.loop.params[name] - value).max() > 1e-3 for name, value in one.spec["params"].items())
    before = one.loop.params
    played = one.play(7, 0), one.play(3, 0, explore=1.0)
    assert [returns.shape for returns in played] == [(7, 2), (3, 2)]
    np.testing.assert_equal(one.loop.params, before)
    assert np.isfinite(one.run(1)).all()


def test_forms_and_backends_draw_the_same():
    drawn = []
    for form, backend in KINDS:
        agents = make(form=form, backend=backend)
        calls = listen(agents)
        agents.run(3)
        drawn.append([call for call, _ in calls])
    np.testing.assert_equal(drawn[1:], drawn[:1] * 2)


@pytest.mark.parametrize("worlds", [1, 4])
def test_returns_are_the_mean_over_worlds_of_what_an_episode_paid(worlds):
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
    shares = np.array([drawn[3].mean() for drawn, _ in calls])
    assert np.abs(shares - [1, 0.6, 0.2, 0, 0]).max() < 0.2
    assert shares[0] == 1
    assert (shares[3:] == 0).all()
    assert make().draw_turns(np.random.default_rng(0), 0.25, 1000)[2].mean() == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("worlds", [1, 4])
def test_rows_are_starts_of_the_memory_also_when_it_is_full(worlds):
    agents = make(worlds=worlds)
    memory, used = agents.loop.team.memory, set()
    calls = listen(agents)
    for _ in range(8):
        agents.run(1)
        rows = calls[-1][0][5]
        assert np.isin(rows, memory.starts()).all()
        assert all(len(set(agent)) == 8 for agent in rows.tolist())
        used |= set(rows.ravel().tolist())
    assert memory.pushed > memory.length
    assert len(used) > 32
    assert agents.mirror.pushed == memory.pushed


def test_the_memory_is_filled_by_random_play_as_far_as_a_batch_needs():
    for batch, episodes in ((6, 1), (7, 2), (24, 4)):
        stored = make(batch=batch).spec["stored"]
        assert stored["pushed"] == 7 * episodes
        assert (stored["last"] > 0).sum() == episodes
        assert set(np.unique(stored["rewards"])) <= {-10, -1, 0, 5, 10}
        assert np.abs(stored["rewards"]).max() > 0


def test_evaluation_plays_greedily_each_episode_in_a_world_of_its_own():
    agents = make(form="compiled", backend="jax")
    agents.run(2)
    draw, drawn = agents.draw_turns, []
    agents.draw_turns = lambda *args: drawn.append(draw(*args)) or drawn[-1]
    returns = agents.play(50, 0)
    assert len(np.unique(returns[:, 0])) > 5
    assert drawn[0][0].shape == (6, 50, 36)
    assert not drawn[0][2].any()
    agents.play(2, 0, explore=1.0)
    assert drawn[1][2].all()


def test_evaluation_plays_by_what_was_learned():
    agents, returns = make(), []
    for _ in range(2):
        for _ in range(2):
            returns.append(agents.play(30, 5))
        agents.run(20)
    np.testing.assert_array_equal(returns[0], returns[1])
    np.testing.assert_array_equal(returns[2], returns[3])
    assert (returns[0] != returns[2]).any()


BAD = [
    ({"batch": 65}, "batch: got 65, wanted an integer from 1 to 64"),
    ({"batch": 60}, "batch: got 60, wanted at most"),
    ({"batch": 0}, "batch: got 0"),
    ({"worlds": 0}, "worlds: got 0"),
    ({"hidden": 0}, "hidden: got 0"),
    ({"learning_rate": -1e-3}, "learning_rate: got -0.001, wanted a number of 0 or more"),
    ({"learning_rate": float("nan")}, "learning_rate: got nan"),
    ({"gradient_norm": -1.0}, "gradient_norm: got -1.0"),
    ({"soft_update": -0.1}, "soft_update: got -0.1"),
    ({"epsilon": -0.1}, "epsilon: got -0.1"),
    ({"epsilon_step": float("inf")}, "epsilon_step: got inf"),
    ({"gamma": 1.5}, "gamma: got 1.5"),
    ({"capacity": 63, "worlds": 4}, "capacity: got 63"),
    ({"form": "fastest"}, "unknown form 'fastest'; known: naive"),
    ({"backend": "fortran"}, "unknown backend 'fortran'; known: numpy"),
    ({"form": "compiled"}, "loop: got 'scan' on torch, wanted jax"),
]


@pytest.mark.parametrize(("config", "message"), BAD)
def test_a_configuration_that_makes_no_sense_is_refused(config, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        make(**config)


@pytest.mark.parametrize(("method", "name"), [("run", "epochs"), ("play", "episodes"), ("evaluate", "episodes")])
def test_no_epochs_or_episodes_are_refused(method, name):
    agents = make()
    for value in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=f"^{name}: got {value}"):
            getattr(agents, method)(**{name: value} | ({} if method == "run" else {"seed": 0}))
