"""The rules of the treasure hunt and rejected input, for worlds of objects and of arrays, drawn as text."""

import numpy as np
import pytest

from correctness_tests.treasurehunt.pictures import DRAWS, hunt, in_letters, make, no_items, turn, view_in_letters
from correctness_tests.updates import assert_same

QUARTER = 536870911  # a quarter of the possible draws are below this


@pytest.mark.parametrize(
    ("before", "actions", "rewards", "after"),
    [
        pytest.param("... .0. ...", "U", [0], ".0. ... ...", id="up"),
        pytest.param("... .0. ...", "D", [0], "... ... .0.", id="down"),
        pytest.param("... .0. ...", "L", [0], "... 0.. ...", id="left"),
        pytest.param("... .0. ...", "R", [0], "... ..0 ...", id="right"),
        pytest.param("0g", "R", [10], ".0", id="gem pays 10"),
        pytest.param("0f", "R", [5], ".0", id="food pays 5"),
        pytest.param("0b", "R", [-10], ".0", id="bone costs 10"),
        pytest.param("0.", "U", [-1], "0.", id="wall costs 1"),
        pytest.param("0#", "R", [-1], "0#", id="wall inside the world costs 1"),
        pytest.param("01.", "RU", [0, -1], "01.", id="agent blocks another at no cost"),
        pytest.param("0g1", "RL", [10, 0], ".01", id="lower index gets an item that two agents want"),
        pytest.param("1g0", "LR", [10, 0], "10.", id="lower index gets it from the right as well"),
        pytest.param("10.", "RR", [0, 0], ".10", id="agent enters a cell that a lower index has left"),
        pytest.param("01.", "RR", [0, 0], "0.1", id="agent does not enter a cell that a higher index will leave"),
        pytest.param("01", "RL", [0, 0], "01", id="neighbours do not swap"),
        pytest.param("3210.", "RRRR", [0] * 4, ".3210", id="queue moves up in index order"),
    ],
)
def test_rules_of_a_turn(form, before, actions, rewards, after):
    assert turn(hunt(form, before), actions) == ([rewards], [after])


def test_item_does_not_come_back_when_an_agent_leaves_its_cell(form):
    worlds = hunt(form, "0g.")
    assert turn(worlds, "R") == ([[10]], [".0."])
    assert turn(worlds, "R") == ([[0]], ["..0"])


def test_worlds_are_independent(form):
    worlds = hunt(form, "0g .1", "g. 10", "b1 0f")
    rewards, pictures = turn(worlds, "RL", "UU", "RL")
    assert rewards == [[10, 0], [0, 10], [5, -10]]
    assert pictures == [".0 1.", "10 ..", "1. .0"]


@pytest.mark.parametrize(
    ("spawn", "draw", "expected"),
    [(0.25, QUARTER - 1, True), (0.25, QUARTER, False), (1.0, DRAWS - 1, True), (0.0, 0, False)],
)
def test_item_spawns_where_the_draw_is_below_the_threshold(form, spawn, draw, expected):
    worlds = hunt(form, "0.", spawn=spawn)
    _, [picture] = turn(worlds, "U", draws=np.full((1, 2), draw, np.int32))
    assert (picture != "0.") == expected


def test_kind_of_a_spawned_item_is_the_draw_modulo_three(form):
    worlds = hunt(form, "0...... .......", spawn=1.0)
    draws = np.array([[9, 0, 1, 2, 3, 4, 5, DRAWS - 1, 12, 13, 14, 15, 16, 17]], np.int32)
    assert turn(worlds, "U", draws=draws)[1] == ["0gfbgfb ggfbgfb"]


def test_items_spawn_in_empty_cells_only(form):
    worlds = hunt(form, "0g# fb1", "... .01", spawn=1.0)
    draws = np.full((2, 6), 2, np.int32)
    assert turn(worlds, "UR", "UR", draws=draws)[1] == ["0g# fb1", "b0b bb1"]


def test_reset_puts_agents_on_the_cells_of_the_smallest_draws(form):
    worlds = form(make(3, height=2, width=3), 2)
    worlds.reset(np.array([[50, 10, 40, 20, 60, 30], [0, 1, 2, 3, 4, DRAWS - 1]], np.int32))
    assert in_letters(worlds) == [".0. 1.2", "012 ..."]


def test_reset_empties_the_worlds_and_starts_at_turn_zero(form):
    worlds = hunt(form, "0g# fb.")
    turn(worlds, "U")
    obs = worlds.reset(np.arange(6, dtype=np.int32)[None, ::-1])
    assert in_letters(worlds) == ["... ..0"]
    assert worlds.get_state()["turn"] == 0
    assert view_in_letters(obs[0, 0], worlds.settings) == "..# .@# ###"


def test_episode_is_truncated_after_its_turns(form):
    worlds = hunt(form, "0", turns=3)
    ends = []
    for played in range(1, 4):
        ends.append(worlds.advance(np.array([[0]]), no_items(worlds))[2])
        assert worlds.get_state()["turn"] == played
    assert ends == [False, False, True]


def test_observation_is_one_hot_with_walls_beyond_the_edge(form):
    obs = hunt(form, "0g f1").observe()
    assert obs.shape == (2, 1, 6 * 9)
    assert obs.dtype == np.float32
    planes = [
        [[0, 0, 0], [0, 0, 0], [0, 0, 0]],  # empty
        [[1, 1, 1], [1, 0, 0], [1, 0, 0]],  # wall
        [[0, 0, 0], [0, 0, 1], [0, 0, 0]],  # gem
        [[0, 0, 0], [0, 0, 0], [0, 1, 0]],  # food
        [[0, 0, 0], [0, 0, 0], [0, 0, 0]],  # bone
        [[0, 0, 0], [0, 1, 0], [0, 0, 1]],  # agent
    ]
    np.testing.assert_array_equal(obs[0, 0], np.ravel(planes))
    assert view_in_letters(obs[1, 0], make()) == "@g# f@# ###"


def test_rgb_observation_shows_colours(form):
    obs = hunt(form, "0g b.", observation="rgb").observe()
    assert obs.shape == (1, 1, 3 * 9)
    assert obs.dtype == np.float32
    planes = [
        [[70, 70, 70], [70, 220, 40], [70, 240, 200]],
        [[70, 70, 70], [70, 60, 90], [70, 240, 200]],
        [[70, 70, 70], [70, 60, 220], [70, 220, 200]],
    ]
    np.testing.assert_array_equal(obs[0, 0], (np.ravel(planes) / np.float32(255)).astype(np.float32))


def test_a_larger_radius_sees_further(form):
    worlds = hunt(form, "0g.. .f.b ..1. ....", radius=3)
    obs = worlds.observe()
    assert obs.shape == (2, 1, 6 * 49)
    assert view_in_letters(obs[0, 0], worlds.settings) == "####### ####### ####### ###@g.. ###.f.b ###..@. ###...."
    assert view_in_letters(obs[1, 0], worlds.settings) == "####### #@g..## #.f.b## #..@.## #....## ####### #######"


def test_every_agent_of_every_world_has_its_own_view(form):
    worlds = hunt(form, "0.1", "1g0")
    obs = worlds.observe()
    views = [[view_in_letters(view, worlds.settings) for view in agent] for agent in obs]
    assert views == [["### #@. ###", "### g@# ###"], ["### .@# ###", "### #@g ###"]]
    for agent in range(2):
        np.testing.assert_array_equal(worlds.observe_agent(agent), obs[agent], strict=True)


def test_advance_returns_observations_after_moves_and_spawns(form):
    worlds = hunt(form, "0.g", spawn=1.0)
    obs, _, _ = worlds.advance(np.array([[3]]), np.array([[2, 0, 0]], np.int32))
    assert view_in_letters(obs[0, 0], worlds.settings) == "### b@g ###"
    np.testing.assert_array_equal(worlds.observe(), obs, strict=True)


def test_observe_agent_shows_moves_made_earlier_in_the_turn(form):
    worlds = hunt(form, "0g1.")
    assert view_in_letters(worlds.observe_agent(1)[0], worlds.settings) == "### g@. ###"
    assert worlds.move_agent(0, np.array([3])).tolist() == [10]
    assert view_in_letters(worlds.observe_agent(1)[0], worlds.settings) == "### @@. ###"
    assert worlds.move_agent(1, np.array([3])).tolist() == [0]
    assert view_in_letters(worlds.observe_agent(1)[0], worlds.settings) == "### .@# ###"
    assert in_letters(worlds) == [".0.1"]
    assert worlds.get_state()["turn"] == 0


def test_restored_state_goes_on_identically(form):
    rng, settings = np.random.default_rng(1), make(3, spawn=0.3)
    inputs = [(rng.integers(4, size=(3, 2)), rng.integers(DRAWS, size=(2, 12), dtype=np.int32)) for _ in range(20)]
    worlds, other = form(settings, 2), form(settings, 2)
    for turn_inputs in inputs:
        worlds.advance(*turn_inputs)
    state = worlds.get_state()
    expected = [worlds.advance(*turn_inputs) for turn_inputs in inputs]
    last = worlds.get_state()
    for again in (worlds, other):
        again.set_state(state)
        for turn_inputs, outcome in zip(inputs, expected):
            for got, array in zip(again.advance(*turn_inputs), outcome):
                np.testing.assert_array_equal(got, array)
        assert_same(again.get_state(), last)


def test_states_and_results_are_copies(form):
    worlds = hunt(form, "0gf")
    state, kept = worlds.get_state(), worlds.advance(np.array([[3]]), no_items(worlds))[:2]
    copies = [array.copy() for array in kept]
    turn(worlds, "R")
    for array, copy in zip(kept, copies):
        np.testing.assert_array_equal(array, copy)
    worlds.set_state(state)
    state["grid"][:], state["where"][:] = 1, 0
    assert in_letters(worlds) == ["0gf"]


def test_bad_actions_and_draws_are_refused_and_change_nothing(form):
    worlds = hunt(form, "0g1f", spawn=1.0)
    before = worlds.get_state()
    for actions in ([[-1], [4]], [[0.0], [1.0]]):
        with pytest.raises(ValueError, match=r"^actions should be (integers \[2, 1\]|from 0 to 3), not "):
            worlds.advance(actions, no_items(worlds))
    for use in (worlds.reset, worlds.end_turn, lambda draws: worlds.advance([[3], [3]], draws)):
        with pytest.raises(ValueError, match=r"^draws should be integers \[1, 4\], not "):
            use(np.zeros((1, 3), int))
    assert_same(worlds.get_state(), before)


def test_bad_actions_and_index_of_one_agent_are_refused(form):
    worlds = hunt(form, "0g1f")
    with pytest.raises(ValueError, match=r"^actions should be from 0 to 3, not 4 to 4$"):
        worlds.move_agent(1, [4])
    for use in (lambda agent: worlds.move_agent(agent, [0]), worlds.observe_agent):
        with pytest.raises(ValueError, match=r"^agent=2 should be an integer from 0 to 1"):
            use(2)
    assert in_letters(worlds) == ["0g1f"]


BAD_STATES = {
    "no wall at the edge": ("grid", lambda state: state["grid"].__setitem__((0, 0), 0)),
    "two agents in one cell": ("where", lambda state: state["where"].__setitem__((0, 0), 9)),
    "a negative turn": ("turn", lambda state: state.update(turn=-1)),
}


@pytest.mark.parametrize(("name", "spoil"), BAD_STATES.values(), ids=BAD_STATES.keys())
def test_impossible_state_is_refused_and_changes_nothing(form, name, spoil):
    worlds = hunt(form, "0g1f")
    before, state = worlds.get_state(), worlds.get_state()
    spoil(state)
    with pytest.raises(ValueError, match=rf"^{name}\b.* should "):
        worlds.set_state(state)
    assert_same(worlds.get_state(), before)
