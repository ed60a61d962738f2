"""The game: rules, Gymnasium API, and rejected input."""

import numpy as np
import pytest

from correctness_tests.snake.games import DOWN, LEFT, MOVES, RIGHT, UP, Prescribed, make, make_vector, path, start


def play(env, actions):
    outcomes = [env.step(action) for action in actions]
    return [outcome[1] for outcome in outcomes], outcomes[-1]


def test_a_reset_draws_start_heading_and_food():
    env = make((3, 8, 2, 500))
    obs, info = start(env, food=0, start=16 + 6, heading=UP)  # cell 6 of the square [2, 5] x [2, 5]
    np.testing.assert_array_equal(path(obs), [(3, 4), (4, 4), (5, 4)])
    assert obs[0, 0] == -1
    assert info == {"foods": 0}
    obs, _ = start(env, food=20, start=16 + 15, heading=4 + LEFT)
    np.testing.assert_array_equal(path(obs), [(5, 5), (5, 6), (5, 7)])
    assert obs[2, 4] == -1
    obs, _ = start(env, food=43, start=15, heading=LEFT)  # 45 free cells precede the snake, and 16 follow it
    assert obs[5, 3] == -1
    obs, _ = start(env, food=45, start=15, heading=LEFT)
    assert obs[6, 0] == -1
    assert env.observation_space.contains(obs)


@pytest.mark.parametrize("action", list(MOVES))
def test_a_move_goes_one_cell_ahead_and_costs_a_little(action):
    env = make((1, 5, 2, 500))
    start(env, food=0, start=0, heading=action)
    obs, reward, terminated, truncated, info = env.step(action)
    np.testing.assert_array_equal(path(obs), [np.add((2, 2), MOVES[action])])
    assert (reward, terminated, truncated, info) == (-0.01, False, False, {"foods": 0})


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("heading", [UP, LEFT])
def test_a_reversal_keeps_the_heading(blocks, heading):
    env, other = make((blocks, 9, 4, 500)), make((blocks, 9, 4, 500))
    start(env, food=0, start=0, heading=heading)
    start(other, food=0, start=0, heading=heading)
    reverse = (heading + 2) % 4
    for action in (reverse, reverse):
        np.testing.assert_array_equal(env.step(action)[0], other.step(heading)[0])


def square_snake():
    """Return a game with a snake of four on a 7 x 7 board, its head next to its tail."""
    env = make((4, 7, 3, 500))
    start(env, food=0, start=0, heading=RIGHT)
    play(env, [DOWN, LEFT])
    np.testing.assert_array_equal(env.snake, [(4, 2), (4, 3), (3, 3), (3, 2)])
    return env


def test_the_cell_that_the_tail_leaves_is_free():
    rewards, (obs, *_) = play(square_snake(), [UP, RIGHT, DOWN, LEFT])
    assert rewards == [-0.01] * 4
    np.testing.assert_array_equal(path(obs), [(4, 2), (4, 3), (3, 3), (3, 2)])


@pytest.mark.parametrize(("on_the_way", "deadly"), [([DOWN, LEFT], UP), ([UP] * 4, UP), ([RIGHT] * 4, RIGHT)])
def test_death_costs_one_and_leaves_the_snake_where_it_was(on_the_way, deadly):
    env = make((5, 9, 4, 500))
    start(env, food=0, start=0, heading=RIGHT)
    rewards, (last, *_) = play(env, on_the_way)
    assert rewards == [-0.01] * len(on_the_way)
    obs, reward, terminated, truncated, _ = env.step(deadly)
    assert (reward, terminated, truncated) == (-1, True, False)
    np.testing.assert_array_equal(obs, last)


def test_food_is_worth_one_and_a_block_and_is_put_elsewhere():
    env = make((3, 10, 3, 500))
    obs, _ = start(env, food=33, start=0, heading=RIGHT)  # the snake ends on cell 33
    assert obs[3, 6] == -1
    env.np_random = Prescribed(np.array([33, 0, 0]))
    rewards, (obs, _, terminated, truncated, info) = play(env, [RIGHT] * 3)
    assert rewards == [-0.01, -0.01, 1]
    assert (terminated, truncated, info) == (False, False, {"foods": 1})
    np.testing.assert_array_equal(path(obs), [(3, 6), (3, 5), (3, 4), (3, 3)])
    assert obs[3, 7] == -1


def test_an_episode_is_truncated_after_max_steps():
    env = make((3, 9, 2, 6))
    start(env, food=0, start=0, heading=RIGHT)
    ends = [env.step(action)[2:4] for action in (RIGHT, DOWN, LEFT, UP, RIGHT, DOWN)]
    assert ends == [(False, False)] * 5 + [(False, True)]


def test_death_in_the_last_step_is_no_truncation():
    env = make((1, 3, 0, 2))
    start(env, food=8, start=3, heading=UP)
    play(env, [UP])
    assert env.step(UP)[1:4] == (-1, True, False)


def test_a_board_is_drawn_in_letters():
    env = make((3, 5, 2, 500), render_mode="ansi")
    start(env, food=0, start=0, heading=RIGHT)
    assert env.render() == "*....\n.....\noo@..\n.....\n....."


@pytest.mark.parametrize("maker", [make, make_vector])
def test_a_bad_state_is_refused(maker):
    env = maker()
    env.reset(seed=0)
    state = env.get_state()
    del state["food"]
    with pytest.raises(ValueError, match=r"^state has .* should "):
        env.set_state(state)


def test_an_episode_goes_on_from_its_state():
    from gymnasium.error import ResetNeeded

    env, other, third = (make((3, 9, 2, 8)) for _ in range(3))
    start(env, food=0, start=0, heading=RIGHT)
    play(env, [RIGHT, DOWN])
    other.set_state(env.get_state())
    for action in (UP, LEFT, LEFT, UP, UP, RIGHT):  # the first is a reversal
        (obs, *got), (wanted, *expected) = other.step(action), env.step(action)
        np.testing.assert_array_equal(obs, wanted)
        assert got == expected
    assert got == [-0.01, False, True, {"foods": 0}]  # truncated after eight steps in all
    with pytest.raises(ResetNeeded, match="call reset"):
        make().get_state()
    third.set_state(env.get_state())
    with pytest.raises(ResetNeeded, match="call reset"):
        third.step(UP)
