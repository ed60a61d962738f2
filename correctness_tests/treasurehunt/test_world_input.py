"""Settings, actions, draws and states that cannot be are refused, and nothing is changed."""

from __future__ import annotations

import numpy as np
import pytest

from correctness_tests.treasurehunt.pictures import (
    assert_same_state,
    hunt,
    make,
    no_items,
)

BAD_SETTINGS = {
    "no agents": dict(agents=0),
    "part of an agent": dict(agents=2.5),
    "more agents than cells": dict(agents=13),
    "a negative height": dict(height=-1),
    "no width": dict(width=0),
    "a radius of nothing": dict(radius=0),
    "a radius larger than the world": dict(radius=5),
    "no turns": dict(turns=0),
    "more than certain": dict(spawn=2.0),
    "a negative chance": dict(spawn=-0.1),
    "a chance that is no number": dict(spawn=float("nan")),
    "an observation not known": dict(observation="smell"),
}


@pytest.mark.parametrize("options", BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
def test_impossible_settings_are_refused(options):
    [(name, value)] = options.items()
    with pytest.raises(ValueError, match=f"^{name}: got {value!r}, wanted "):
        make(**options)


def test_a_world_may_be_full_of_agents():
    assert make(agents=12).agents == 12


@pytest.mark.parametrize("count", [0, -1, 2.0, True])
def test_a_bad_number_of_worlds_is_refused(form, count):
    with pytest.raises(ValueError, match=f"^worlds: got {count}, wanted an integer from 1"):
        form(make(), count)


BAD_ACTIONS = [[[0], [4]], [[-1], [0]], [[0.0], [1.0]], [[True], [False]], [0, 1], [[0, 1]], [[0], [1], [2]]]


@pytest.mark.parametrize("actions", BAD_ACTIONS, ids=str)
def test_bad_actions_are_refused_and_change_nothing(form, actions):
    worlds = hunt(form, "0g1f", spawn=1.0)
    before = worlds.get_state()
    with pytest.raises(ValueError, match=r"^actions: got .*, wanted integers \[2, 1\] from 0 to 3$"):
        worlds.advance(actions, no_items(worlds))
    assert_same_state(worlds.get_state(), before)


@pytest.mark.parametrize("actions", [[4], [-1], [1.0], [0, 1], 0], ids=str)
def test_bad_actions_of_one_agent_are_refused_and_change_nothing(form, actions):
    worlds = hunt(form, "0g1f")
    before = worlds.get_state()
    with pytest.raises(ValueError, match=r"^actions: got .*, wanted integers \[1\] from 0 to 3$"):
        worlds.move_agent(1, actions)
    assert_same_state(worlds.get_state(), before)


@pytest.mark.parametrize("agent", [-1, 2, 1.0])
def test_an_agent_that_is_none_is_refused(form, agent):
    worlds = hunt(form, "0g1f")
    with pytest.raises(ValueError, match=f"^agent: got {agent}, wanted an integer from 0 to 1"):
        worlds.move_agent(agent, [0])
    with pytest.raises(ValueError, match=f"^agent: got {agent}, wanted an integer from 0 to 1"):
        worlds.observe_agent(agent)


@pytest.mark.parametrize("draws", [np.zeros((1, 3), int), np.zeros((2, 4), int), np.zeros(4, int), np.zeros((1, 4))])
def test_bad_draws_are_refused_and_change_nothing(form, draws):
    worlds = hunt(form, "0g1f", spawn=1.0)
    before = worlds.get_state()
    for use in (worlds.reset, worlds.end_turn, lambda draws: worlds.advance([[3], [3]], draws)):
        with pytest.raises(ValueError, match=r"^draws: got .*, wanted integers \[1, 4\]$"):
            use(draws)
    assert_same_state(worlds.get_state(), before)


BAD_STATES = {
    "a part missing": ("state", lambda state: state.pop("turn")),
    "another world's size": ("grid", lambda state: state.update(grid=np.ones((1, 20), np.int8))),
    "an agent in the grid": ("grid", lambda state: state["grid"].__setitem__((0, 7), 5)),
    "a grid of floats": ("grid", lambda state: state.update(grid=state["grid"] * 1.0)),
    "no wall at the edge": ("grid", lambda state: state["grid"].__setitem__((0, 0), 0)),
    "an agent too many": ("where", lambda state: state.update(where=np.array([[7], [9], [10]]))),
    "an agent nowhere": ("where", lambda state: state["where"].__setitem__((0, 0), 99)),
    "an agent in a wall": ("where", lambda state: state["where"].__setitem__((0, 0), 0)),
    "an agent on an item": ("where", lambda state: state["where"].__setitem__((0, 0), 8)),
    "two agents in one cell": ("where", lambda state: state["where"].__setitem__((0, 0), 9)),
    "a negative turn": ("turn", lambda state: state.update(turn=-1)),
    "a turn and a half": ("turn", lambda state: state.update(turn=1.5)),
}


@pytest.mark.parametrize(("name", "spoil"), BAD_STATES.values(), ids=BAD_STATES.keys())
def test_an_impossible_state_is_refused_and_changes_nothing(form, name, spoil):
    worlds = hunt(form, "0g1f")
    before, state = worlds.get_state(), worlds.get_state()
    spoil(state)
    with pytest.raises(ValueError, match=f"^{name}: got .*, wanted "):
        worlds.set_state(state)
    assert_same_state(worlds.get_state(), before)
