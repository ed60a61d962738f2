"""Invalid settings, actions, draws and states are rejected and change nothing."""

import numpy as np
import pytest

from correctness_tests.treasurehunt.pictures import hunt, in_letters, make, no_items
from correctness_tests.updates import assert_same


@pytest.mark.parametrize("option", [{"num_agents": 13}, {"radius": 5}], ids=str)
def test_impossible_settings_are_refused(option):
    [(name, value)] = option.items()
    with pytest.raises(ValueError, match=f"^{name}={value!r} should be "):
        make(**option)


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
