"""The rules of the treasure hunt, for worlds of Python objects and of arrays; worlds are drawn in letters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests.treasurehunt.pictures import (
    ACTIONS,
    DRAWS,
    assert_same_state,
    drawn,
    hunt,
    make,
    no_items,
    seen,
    turn,
)

QUARTER = 536870911  # the draws of a quarter of all: 0 to this, without it
LAWFUL = {"crowd": (5, 3, 2), "pair": (2, 4, 5), "one": (1, 1, 1), "full": (4, 2, 2)}  # agents, height, width


@pytest.mark.parametrize(
    ("action", "wanted"), [("U", ".0. ... ..."), ("D", "... ... .0."), ("L", "... 0.. ..."), ("R", "... ..0 ...")]
)
def test_an_action_moves_one_cell(form, action, wanted):
    assert turn(hunt(form, "... .0. ..."), action) == ([[0]], [wanted])


@pytest.mark.parametrize(("item", "value"), [("g", 10), ("f", 5), ("b", -10)])
def test_an_item_is_worth_its_value_and_gone_for_good(form, item, value):
    worlds = hunt(form, f"0{item}.")
    assert turn(worlds, "R") == ([[value]], [".0."])
    assert turn(worlds, "R") == ([[0]], ["..0"])


@pytest.mark.parametrize("action", ACTIONS)
def test_a_wall_costs_one_and_stops(form, action):
    assert turn(hunt(form, "0"), action) == ([[-1]], ["0"])


def test_a_wall_inside_the_world_stops_too(form):
    assert turn(hunt(form, "0#"), "R") == ([[-1]], ["0#"])


def test_an_agent_stops_another_at_no_cost(form):
    assert turn(hunt(form, "01."), "RU") == ([[0, -1]], ["01."])


def test_of_two_that_want_an_item_the_lower_index_gets_it(form):
    assert turn(hunt(form, "0g1", "1g0"), "RL", "LR") == ([[10, 0], [10, 0]], [".01", "10."])


def test_an_agent_enters_the_cell_that_a_lower_index_has_left(form):
    assert turn(hunt(form, "10."), "RR") == ([[0, 0]], [".10"])


def test_an_agent_does_not_enter_the_cell_that_a_higher_index_will_leave(form):
    assert turn(hunt(form, "01."), "RR") == ([[0, 0]], ["0.1"])


def test_neighbours_do_not_swap(form):
    assert turn(hunt(form, "01", "10"), "RL", "LR") == ([[0, 0], [0, 0]], ["01", "10"])


def test_a_queue_moves_up_in_index_order(form):
    assert turn(hunt(form, "3210.", "0123."), "RRRR", "RRRR") == ([[0] * 4] * 2, [".3210", "012.3"])


def test_worlds_do_not_touch_each_other(form):
    worlds = hunt(form, "0g .1", "g. 10", "b1 0f")
    rewards, pictures = turn(worlds, "RL", "UU", "RL")
    assert rewards == [[10, 0], [0, 10], [5, -10]]
    assert pictures == [".0 1.", "10 ..", "1. .0"]


@pytest.mark.parametrize(
    ("spawn", "draw", "wanted"),
    [(0.25, QUARTER - 1, True), (0.25, QUARTER, False), (1.0, DRAWS - 1, True), (0.0, 0, False)],
)
def test_an_item_spawns_where_the_draw_is_below_the_threshold(form, spawn, draw, wanted):
    worlds = hunt(form, "0.", spawn=spawn)
    _, [picture] = turn(worlds, "U", draws=np.full((1, 2), draw, np.int32))
    assert (picture != "0.") == wanted


def test_the_kind_that_spawns_is_the_draw_modulo_three(form):
    worlds = hunt(form, "0...... .......", spawn=1.0)
    draws = np.array([[9, 0, 1, 2, 3, 4, 5, DRAWS - 1, 12, 13, 14, 15, 16, 17]], np.int32)
    assert turn(worlds, "U", draws=draws)[1] == ["0gfbgfb ggfbgfb"]


def test_items_spawn_in_empty_cells_only(form):
    worlds = hunt(form, "0g# fb1", "... .01", spawn=1.0)
    draws = np.full((2, 6), 2, np.int32)
    assert turn(worlds, "UR", "UR", draws=draws)[1] == ["0g# fb1", "b0b bb1"]


def test_items_spawn_after_the_agents_have_moved(form):
    worlds = hunt(form, "0g.", spawn=1.0)
    assert turn(worlds, "R", draws=np.array([[1, 1, 2]], np.int32)) == ([[10]], ["f0b"])


def test_a_reset_puts_agents_on_the_cells_of_the_smallest_draws(form):
    worlds = form(make(agents=3, height=2, width=3), 2)
    worlds.reset(np.array([[50, 10, 40, 20, 60, 30], [0, 1, 2, 3, 4, DRAWS - 1]], np.int32))
    assert drawn(worlds) == [".0. 1.2", "012 ..."]


def test_equal_draws_of_a_reset_are_taken_in_the_order_of_the_cells(form):
    worlds = form(make(agents=4, height=3, width=20), 1)
    draws = np.full((1, 60), 7, np.int32)
    draws[0, [25, 50]] = 3
    worlds.reset(draws)
    assert drawn(worlds) == ["23" + "." * 18 + " .....0" + "." * 14 + " " + "." * 10 + "1" + "." * 9]


def test_a_reset_empties_the_worlds_and_starts_at_turn_zero(form):
    worlds = hunt(form, "0g# fb.")
    turn(worlds, "U")
    obs = worlds.reset(np.arange(6, dtype=np.int32)[None, ::-1])
    assert drawn(worlds) == ["... ..0"]
    assert worlds.get_state()["turn"] == 0
    assert seen(obs[0, 0], worlds.settings) == "..# .@# ###"


def test_an_episode_is_truncated_after_its_turns(form):
    worlds = hunt(form, "0", turns=3)
    ends = []
    for played in range(1, 4):
        ends.append(worlds.advance(np.array([[0]]), no_items(worlds))[2])
        assert worlds.get_state()["turn"] == played
    assert ends == [False, False, True]


def test_a_corner_is_seen_with_walls_around_it(form):
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
    assert seen(obs[1, 0], make()) == "@g# f@# ###"


def test_a_corner_is_seen_in_colours(form):
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
    assert seen(obs[0, 0], worlds.settings) == "####### ####### ####### ###@g.. ###.f.b ###..@. ###...."
    assert seen(obs[1, 0], worlds.settings) == "####### #@g..## #.f.b## #..@.## #....## ####### #######"


def test_every_agent_of_every_world_has_its_own_view(form):
    worlds = hunt(form, "0.1", "1g0")
    obs = worlds.observe()
    views = [[seen(view, worlds.settings) for view in agent] for agent in obs]
    assert views == [["### #@. ###", "### g@# ###"], ["### .@# ###", "### #@g ###"]]
    for agent in range(2):
        np.testing.assert_array_equal(worlds.observe_agent(agent), obs[agent], strict=True)


def test_a_turn_ends_with_what_the_agents_see(form):
    worlds = hunt(form, "0.g", spawn=1.0)
    obs, _, _ = worlds.advance(np.array([[3]]), np.array([[2, 0, 0]], np.int32))
    assert seen(obs[0, 0], worlds.settings) == "### b@g ###"
    np.testing.assert_array_equal(worlds.observe(), obs, strict=True)


def test_in_interleaved_order_an_agent_sees_what_those_before_it_have_done(form):
    worlds = hunt(form, "0g1.")
    assert seen(worlds.observe_agent(1)[0], worlds.settings) == "### g@. ###"
    assert worlds.move_agent(0, np.array([3])).tolist() == [10]
    assert seen(worlds.observe_agent(1)[0], worlds.settings) == "### @@. ###"
    assert worlds.move_agent(1, np.array([3])).tolist() == [0]
    assert seen(worlds.observe_agent(1)[0], worlds.settings) == "### .@# ###"
    assert drawn(worlds) == [".0.1"]
    assert worlds.get_state()["turn"] == 0


def test_a_turn_is_its_moves_and_its_end(form):
    pictures, actions = ["0g1 .2f", "2b. 01g"], np.array([[3, 0], [2, 3], [3, 1]])
    draws = np.random.default_rng(0).integers(DRAWS, size=(2, 6), dtype=np.int32)
    whole, parts = (hunt(form, *pictures, spawn=0.5, turns=1) for _ in range(2))
    obs, rewards, truncated = whole.advance(actions, draws)
    np.testing.assert_array_equal([parts.move_agent(n, actions[n]) for n in range(3)], rewards)
    assert parts.end_turn(draws) is truncated is True
    np.testing.assert_array_equal(parts.observe(), obs, strict=True)
    assert_same_state(parts.get_state(), whole.get_state())


@pytest.mark.parametrize("shape", LAWFUL)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), spawn=st.sampled_from([0.0, 0.1, 0.6, 1.0]))
def test_nothing_appears_vanishes_or_pays_without_a_cause(shape, seed, spawn):
    from rl_impls.treasurehunt.vector_env import WORLDS

    rng, given, count = np.random.default_rng(seed), make(*LAWFUL[shape], spawn=spawn), 2
    cells = given.height * given.width
    for form in WORLDS.values():
        worlds = form(given, count)
        worlds.reset(rng.integers(DRAWS, size=(count, cells), dtype=np.int32))
        after = worlds.get_state()
        for _ in range(12):
            before = after
            actions = rng.integers(4, size=(given.agents, count))
            draws = rng.integers(DRAWS, size=(count, cells), dtype=np.int32)
            _, rewards, _ = worlds.advance(actions, draws)
            after = worlds.get_state()
            for k in range(count):
                check_laws(
                    given,
                    *((state["grid"][k], state["where"][:, k]) for state in (before, after)),
                    actions[:, k],
                    draws[k],
                    rewards[:, k],
                )


def check_laws(given, before, after, actions, draws, rewards):
    """Account for one turn of one world: i8[rows * columns] and i32[N] before and after."""
    (old_grid, old_where), (grid, where) = before, after
    aimed = old_where + np.array([-given.columns, given.columns, -1, 1])[actions]
    assert len(set(where.tolist())) == given.agents
    assert (grid[where] == 0).all()
    assert ((where == old_where) | (where == aimed)).all()
    values = np.array([0, -1, 10, 5, -10])
    bumped = old_grid[aimed] == 1
    assert rewards.sum() == values[old_grid[where]].sum() - bumped.sum()
    inside = grid.reshape(given.rows, given.columns)[given.radius : -given.radius, given.radius : -given.radius]
    free = old_grid.copy()
    free[where] = 5
    free = free.reshape(given.rows, given.columns)[given.radius : -given.radius, given.radius : -given.radius] == 0
    spawned = free.reshape(-1) & (draws < int(given.spawn * DRAWS))
    taken = (old_grid[where] > 1).sum()
    assert (grid > 1).sum() == (old_grid > 1).sum() - taken + spawned.sum()
    np.testing.assert_array_equal(inside.reshape(-1)[spawned], 2 + draws[spawned] % 3)


def test_a_state_put_back_goes_on_identically(form):
    rng, given = np.random.default_rng(1), make(agents=3, spawn=0.3)
    inputs = [(rng.integers(4, size=(3, 2)), rng.integers(DRAWS, size=(2, 12), dtype=np.int32)) for _ in range(20)]
    worlds, other = form(given, 2), form(given, 2)
    for turn_inputs in inputs:
        worlds.advance(*turn_inputs)
    state = worlds.get_state()
    wanted = [worlds.advance(*turn_inputs) for turn_inputs in inputs]
    last = worlds.get_state()
    for again in (worlds, other):
        again.set_state(state)
        for turn_inputs, outcome in zip(inputs, wanted):
            for got, array in zip(again.advance(*turn_inputs), outcome):
                np.testing.assert_array_equal(got, array)
        assert_same_state(again.get_state(), last)


def test_a_state_is_of_known_types_and_a_copy(form):
    worlds = hunt(form, "0gf")
    state = worlds.get_state()
    types = {name: (array.dtype.name, array.shape) for name, array in state.items()}
    assert types == {"grid": ("int8", (1, 15)), "where": ("int32", (1, 1)), "turn": ("int32", ())}
    copy = {name: array.copy() for name, array in state.items()}
    worlds.set_state(state)
    turn(worlds, "R")
    assert_same_state(state, copy)
    state["grid"][:], state["where"][:] = 1, 0
    assert drawn(worlds) == [".0f"]


def test_arrays_of_a_turn_are_new(form):
    worlds = hunt(form, "0gf")
    kept = worlds.advance(np.array([[3]]), no_items(worlds))[:2]
    copies = [array.copy() for array in kept]
    turn(worlds, "R")
    for array, copy in zip(kept, copies):
        np.testing.assert_array_equal(array, copy)
