"""The game: its rules, and that its plain, vectorised and JAX forms agree on every number."""

from __future__ import annotations

import functools
from collections import Counter, namedtuple

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

UP, RIGHT, DOWN, LEFT = range(4)
MOVES = {UP: (-1, 0), RIGHT: (0, 1), DOWN: (1, 0), LEFT: (0, -1)}
DRAWS = 2**31 - 1
JAX_DTYPES = {"f": np.float32, "i": np.int32, "b": np.bool_}
N = 3
BOARDS = [  # starting_blocks, dim, dist_to_border, max_steps
    (3, 10, 3, 40),
    (3, 5, 2, 25),
    (2, 4, 1, 30),
    (1, 3, 0, 60),
    (1, 2, 0, 12),
]
Outcome = namedtuple("Outcome", "obs reward terminated truncated foods final_obs final_foods")


class Prescribed:
    """Stands in for a generator: gives out one row of draws (food, start, heading)."""

    def __init__(self, draws):
        self.draws = draws

    def integers(self, high, size=None):
        assert high == DRAWS
        assert size in (None, 3)
        return self.draws[0] if size is None else self.draws


class Dice:
    """The forms of the game that take a number of draws share what a test asks of them."""

    def __init__(self, board):
        from rl_impls.snake.env import Geometry

        self.blocks, self.dim = board[:2]
        self.geometry = Geometry(*board)


class Plain(Dice):
    def __init__(self, board):
        super().__init__(board)
        self.envs = [make(board) for _ in range(N)]

    def reset(self, draws):
        return np.stack([start(env, *row)[0] for env, row in zip(self.envs, draws)])

    def step(self, actions, draws):
        outcomes = []
        for env, action, row in zip(self.envs, actions, draws):
            env.np_random = Prescribed(row)
            final_obs, reward, terminated, truncated, final_info = env.step(action)
            obs, info = start(env, *row) if terminated or truncated else (final_obs, final_info)
            numbers = obs, np.float32(reward), terminated, truncated, info["foods"], final_obs, final_info["foods"]
            outcomes.append(numbers)
        return Outcome(*map(np.array, zip(*outcomes)))


class Vector(Dice):
    def __init__(self, board):
        super().__init__(board)
        self.env = make_vector(board)

    def reset(self, draws):
        obs, infos = self.env.reset_with(draws)
        assert infos["foods"].tolist() == [0] * N
        return obs

    def step(self, actions, draws):
        *numbers, infos = self.env.step_with(actions, draws)
        obs, ended = numbers[0], numbers[2] | numbers[3]
        assert ("final_obs" in infos) == ended.any()
        assert infos["_foods"].all()
        foods = final_foods = infos["foods"]
        final_obs = obs
        if ended.any():
            assert [board is not None for board in infos["final_obs"]] == ended.tolist()
            for mask in (infos["_final_obs"], infos["_final_info"], infos["final_info"]["_foods"]):
                np.testing.assert_array_equal(mask, ended)
            final_obs = np.stack([last if end else board for end, last, board in zip(ended, infos["final_obs"], obs)])
            final_foods = np.where(ended, infos["final_info"]["foods"], foods)
        return Outcome(*numbers, foods, final_obs, final_foods)


class Jax(Dice):
    def __init__(self, board):
        super().__init__(board)
        self.jit_reset, self.jit_step = compiled(self.geometry)

    def reset(self, draws):
        self.state, obs = self.jit_reset(draws)
        return np.asarray(obs)

    def step(self, actions, draws):
        self.state, obs, *numbers, final_obs = self.jit_step(self.state, actions.astype(np.int32), draws)
        final_foods = (final_obs > 0).sum((1, 2)) - self.blocks
        return Outcome(*map(np.asarray, (obs, *numbers, self.state.length - self.blocks, final_obs, final_foods)))


@functools.cache
def compiled(geometry):
    import jax

    from rl_impls.snake import jax_env

    reset, step = (jax.jit(functools.partial(f, geometry)) for f in (jax_env.reset, jax_env.step))
    return reset, step


def make(board=(), **options):
    from rl_impls.snake.env import SnakeEnv

    return SnakeEnv(*board, **options)


def make_vector(board=(), n=N, **options):
    from rl_impls.snake.vector_env import SnakeVectorEnv

    return SnakeVectorEnv(n, *board, **options)


def start(env, food, start, heading):
    """Reset a plain environment with the given draws."""
    env.np_random = Prescribed(np.array([food, start, heading]))
    return env.reset()


def play(env, actions):
    """Give the rewards of some actions, and what the last of them returned."""
    outcomes = [env.step(action) for action in actions]
    return [outcome[1] for outcome in outcomes], outcomes[-1]


def path(obs):
    """Read the snake off a board: its cells, head first."""
    cells = np.argwhere(obs > 0)
    return cells[np.argsort(-obs[obs > 0])]


def towards_food(obs, heading):
    """Give the action that leads nearer to the food and does not die at once, where there is one."""
    head, food = path(obs)[0], np.argwhere(obs == -1)[0]

    def cost(action):
        row, column = head + MOVES[action]
        outside = not (0 <= row < len(obs) and 0 <= column < len(obs))
        hit = outside or obs[row, column] > obs[obs > 0].min() or action == (heading + 2) % 4
        return hit, abs(food - (row, column)).sum()

    return min(MOVES, key=cost)


class ThreeForms(RuleBasedStateMachine):
    seen = None  # counts of what happened, over all examples

    @initialize(board=st.sampled_from(BOARDS), seed=st.integers(0, 2**32 - 1))
    def begin(self, board, seed):
        self.board = board
        self.forms = [form(board) for form in (Plain, Vector, Jax)]
        self.outcome = None
        draws = np.random.default_rng(seed).integers(DRAWS, size=(N, 3), dtype=np.int32)
        plain, *others = (form.reset(draws) for form in self.forms)
        for other in others:
            np.testing.assert_array_equal(other, plain, strict=True)
        self.obs = plain

    @rule(seed=st.integers(0, 2**32 - 1), steps=st.integers(10, 30), greed=st.sampled_from([1.0, 0.9, 0.0]))
    def walk(self, seed, steps, greed):
        rng = np.random.default_rng(seed)
        for _ in range(steps):
            actions = rng.integers(4, size=N)
            for i, env in enumerate(self.forms[0].envs):
                if rng.random() < greed:
                    actions[i] = towards_food(self.obs[i], env.heading)
            self.step(actions, rng.integers(DRAWS, size=(N, 3), dtype=np.int32))

    @rule(actions=st.tuples(*[st.sampled_from(list(MOVES))] * N), draw=st.sampled_from([0, 1, DRAWS - 1]))
    def move(self, actions, draw):
        self.step(np.array(actions), np.full((N, 3), draw, np.int32))

    def step(self, actions, draws):
        plain, vector, jax = (form.step(actions, draws) for form in self.forms)
        for name, wanted, got, got_jax in zip(Outcome._fields, plain, vector, jax):
            np.testing.assert_array_equal(got, wanted, err_msg=name, strict=True)
            np.testing.assert_array_equal(got_jax, wanted.astype(JAX_DTYPES[wanted.dtype.kind]), name, strict=True)
        self.obs, self.outcome = plain.obs, plain
        full = plain.terminated & (plain.reward == 1)
        happened = {"ate": plain.reward == 1, "died": plain.reward == -1, "full": full, "late": plain.truncated}
        self.seen.update({kind: int(where.sum()) for kind, where in happened.items()})

    @precondition(lambda self: self.outcome is not None)
    @invariant()
    def boards_hold_one_whole_snake_and_one_food(self):
        blocks, dim, *_ = self.board
        full = self.outcome.terminated & (self.outcome.reward == 1)
        games = [(self.outcome.obs, self.outcome.foods, np.zeros(N, bool))]
        games += [(self.outcome.final_obs, self.outcome.final_foods, full)]
        for boards, foods, fulls in games:
            for obs, food, filled in zip(boards, foods, fulls):
                length = blocks + food
                values = np.sort(obs[obs > 0])
                np.testing.assert_array_equal(values, (np.arange(1, length + 1) / length).astype(np.float32))
                assert (abs(np.diff(path(obs), axis=0)).sum(1) == 1).all()
                assert (obs == -1).sum() == (0 if filled else 1)
                assert filled == (length == dim**2)


def test_all_forms_agree_on_every_number():
    ThreeForms.seen = Counter()
    options = {"max_examples": 30, "stateful_step_count": 12, "deadline": None, "derandomize": True}
    run_state_machine_as_test(ThreeForms, settings=settings(phases=[Phase.generate], **options))
    for kind in ("ate", "died", "full", "late"):
        assert ThreeForms.seen[kind] > 20


def test_jax_form_scans_over_many_steps():
    import jax

    from rl_impls.snake import jax_env

    board = BOARDS[1]
    draws = np.random.default_rng(0).integers(DRAWS, size=(60, N, 3), dtype=np.int32)
    actions = draws[:, :, 0] // 7 % 4
    games = Jax(board)
    games.reset(draws[0])

    def body(state, inputs):
        state, obs, *_ = jax_env.step(games.geometry, state, *inputs)
        return state, obs

    _, scanned = jax.lax.scan(body, games.state, (actions, draws))
    stepped = [games.step(*inputs).obs for inputs in zip(actions, draws)]
    np.testing.assert_array_equal(scanned, stepped)


def test_environment_is_registered_once_and_keeps_to_the_gymnasium_api():
    import importlib

    import gymnasium
    from gymnasium.utils.env_checker import check_env

    from rl_impls.snake import env

    importlib.reload(env)
    made = gymnasium.make("rlgauge/Snake-v0", dim=8)
    assert made.observation_space == gymnasium.spaces.Box(-1, 1, (8, 8), np.float32)
    assert made.action_space.n == 4
    check_env(gymnasium.make("rlgauge/Snake-v0", render_mode="ansi").unwrapped)
    games = gymnasium.make_vec("rlgauge/Snake-v0", num_envs=5, dim=8)
    assert games.unwrapped.__class__.__name__ == "SnakeVectorEnv"
    assert games.reset(seed=0)[0].shape == (5, 8, 8)


def test_a_reset_draws_start_heading_and_food():
    env = make((3, 8, 2, 500))
    obs, info = start(env, food=0, start=16 + 6, heading=UP)  # cell 6 of the square [2, 5] x [2, 5]
    np.testing.assert_array_equal(path(obs), [(3, 4), (4, 4), (5, 4)])
    assert obs[0, 0] == -1
    assert info == {"foods": 0}
    obs, _ = start(env, food=20, start=16 + 15, heading=4 + LEFT)
    np.testing.assert_array_equal(path(obs), [(5, 5), (5, 6), (5, 7)])
    assert obs[2, 4] == -1
    obs, _ = start(env, food=43, start=15, heading=LEFT)  # of 40 cells before the snake and 21 after it
    assert obs[5, 3] == -1
    obs, _ = start(env, food=45, start=15, heading=LEFT)
    assert obs[6, 0] == -1
    assert env.observation_space.contains(obs)


def test_values_fall_from_head_to_tail():
    env = make((4, 7, 3, 500))
    obs, _ = start(env, food=0, start=0, heading=RIGHT)
    assert obs.dtype == np.float32
    assert obs[3, :5].tolist() == [0.25, 0.5, 0.75, 1, 0]
    assert (obs == 0).sum() == 49 - 5


@pytest.mark.parametrize("action", list(MOVES))
def test_a_move_goes_one_cell_ahead_and_costs_a_little(action):
    env = make((1, 5, 2, 500))
    start(env, food=0, start=0, heading=action)
    obs, reward, terminated, truncated, info = env.step(action)
    np.testing.assert_array_equal(path(obs), [np.add((2, 2), MOVES[action])])
    assert (reward, terminated, truncated, info) == (-0.01, False, False, {"foods": 0})


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("heading", list(MOVES))
def test_a_reversal_keeps_the_heading(blocks, heading):
    env, other = make((blocks, 9, 4, 500)), make((blocks, 9, 4, 500))
    start(env, food=0, start=0, heading=heading)
    start(other, food=0, start=0, heading=heading)
    reverse = (heading + 2) % 4
    for action in (reverse, reverse):
        np.testing.assert_array_equal(env.step(action)[0], other.step(heading)[0])


def square_snake():
    """A snake of four on a 7 x 7 board, its head next to its tail."""
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


@pytest.mark.parametrize("form", [Plain, Vector, Jax])
def test_a_full_board_ends_with_a_reward_and_no_food(form):
    games = form((1, 2, 0, 500))
    draws = np.zeros((N, 3), np.int32)  # food on the first free cell, the head on the first of all
    games.reset(draws)
    for action, food, length in ((RIGHT, 1, 2), (DOWN, 0, 3)):
        outcome = games.step(np.full(N, action), draws + np.int32([food, 0, 0]))
        assert outcome.reward.tolist() == [1] * N
        assert not outcome.terminated.any()
        assert outcome.foods.tolist() == [length - 1] * N
    outcome = games.step(np.full(N, LEFT), draws)
    assert outcome.reward.tolist() == [1] * N
    assert outcome.terminated.all()
    assert not outcome.truncated.any()
    assert outcome.final_foods.tolist() == [3] * N
    np.testing.assert_array_equal(outcome.final_obs, [[[0.25, 0.5], [1, 0.75]]] * N)
    np.testing.assert_array_equal(outcome.obs, [[[1, -1], [0, 0]]] * N)
    assert outcome.foods.tolist() == [0] * N


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


def test_one_seed_gives_one_episode():
    def episode(seed):
        env = make()
        boards, rng = [env.reset(seed=seed)[0]], np.random.default_rng(0)
        while env.running:
            boards.append(env.step(towards_food(boards[-1], env.heading) if rng.random() < 0.9 else 0)[0])
        return np.array(boards)

    np.testing.assert_array_equal(episode(3), episode(3))
    assert not np.array_equal(episode(3)[0], episode(4)[0])


def test_one_seed_gives_one_course_of_all_games():
    def course(seed):
        env, rng = make_vector(n=16), np.random.default_rng(0)
        return np.array([env.reset(seed=seed)[0], *(env.step(rng.integers(4, size=16))[0] for _ in range(50))])

    np.testing.assert_array_equal(course(3), course(3))
    assert not np.array_equal(course(3)[0], course(4)[0])
    assert len(np.unique(course(3)[0], axis=0)) > 8


def test_arrays_of_a_step_are_new():
    env = make_vector(n=4)
    kept = [env.reset(seed=0)[0]]
    copies = [kept[0].copy()]
    for _ in range(30):
        obs, *others = env.step(np.zeros(4, int))[:4]
        kept += [obs, *others]
        copies += [array.copy() for array in (obs, *others)]
    for array, copy in zip(kept, copies):
        np.testing.assert_array_equal(array, copy)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30))
def test_a_state_put_back_goes_on_identically(seed, steps):
    env = make_vector(BOARDS[1], n=8)
    rng = np.random.default_rng(seed)
    actions, draws = rng.integers(4, size=(60, 8)), rng.integers(DRAWS, size=(60, 8, 3), dtype=np.int32)
    env.reset_with(draws[0])
    for inputs in zip(actions[:steps], draws[:steps]):
        env.step_with(*inputs)
    state = env.get_state()

    def rest(env):
        return [env.step_with(*inputs)[:4] for inputs in zip(actions[steps:], draws[steps:])]

    wanted = rest(env)
    other = make_vector(BOARDS[1], n=8)
    for again in (env, other):
        again.set_state(state)
        for outcome, outcome_again in zip(wanted, rest(again)):
            for array, array_again in zip(outcome, outcome_again):
                np.testing.assert_array_equal(array_again, array)


def test_a_plain_state_put_back_goes_on_identically():
    actions = [UP, RIGHT, RIGHT, DOWN, DOWN, DOWN, LEFT, LEFT, UP]
    env = make(BOARDS[3])
    env.reset(seed=1)
    env.step(UP if env.heading != DOWN else RIGHT)
    state, draws = env.get_state(), env.np_random.bit_generator.state

    def rest(env):
        env.np_random = np.random.default_rng()
        env.np_random.bit_generator.state = draws
        outcomes = []
        for action in actions:
            if env.running:
                outcomes.append(env.step(action))
        return outcomes, env.get_state()

    wanted, last = rest(env)
    assert wanted
    for again in (env, make(BOARDS[3])):
        again.set_state(state)
        outcomes, last_again = rest(again)
        for outcome, outcome_again in zip(wanted, outcomes, strict=True):
            np.testing.assert_array_equal(outcome_again[0], outcome[0])
            assert outcome_again[1:] == outcome[1:]
        for name in last:
            np.testing.assert_array_equal(last_again[name], last[name])


def test_a_full_board_can_be_put_back():
    env = make((1, 2, 0, 500))
    start(env, food=0, start=0, heading=UP)
    env.np_random = Prescribed(np.array([1, 0, 0]))
    play(env, [RIGHT, DOWN, LEFT])
    other = make((1, 2, 0, 500))
    other.set_state(env.get_state())
    np.testing.assert_array_equal(other.observation(), env.observation())
    assert not other.running


def test_a_board_is_drawn_in_letters():
    env = make((3, 5, 2, 500), render_mode="ansi")
    start(env, food=0, start=0, heading=RIGHT)
    assert env.render() == "*....\n.....\noo@..\n.....\n....."


def test_a_board_is_drawn_in_colours():
    env = make((3, 5, 2, 500), render_mode="rgb_array")
    start(env, food=0, start=0, heading=RIGHT)
    image = env.render()
    assert image.shape == (80, 80, 3)
    assert image.dtype == np.uint8
    cells = image.reshape(5, 16, 5, 16, 3)
    assert (cells == cells[:, :1, :, :1]).all()
    food, empty, body, tail, head = (tuple(cells[i, 0, j, 0]) for i, j in ((0, 0), (0, 1), (2, 1), (2, 0), (2, 2)))
    assert body == tail
    assert len({food, empty, body, head}) == 4


def test_without_a_render_mode_nothing_is_drawn():
    env = make()
    env.reset(seed=0)
    assert env.render() is None


BAD_GEOMETRIES = {
    "no snake": ("starting_blocks", dict(starting_blocks=0)),
    "a snake that would leave the board": ("starting_blocks", dict(starting_blocks=5, dist_to_border=3)),
    "a snake that fills the board": ("starting_blocks", dict(starting_blocks=4, dim=2, dist_to_border=0)),
    "a board of one cell": ("dim", dict(dim=1, dist_to_border=0, starting_blocks=1)),
    "no cell to start on": ("dist_to_border", dict(dim=6, dist_to_border=3)),
    "a negative distance": ("dist_to_border", dict(dist_to_border=-1, starting_blocks=1)),
    "no steps": ("max_steps", dict(max_steps=0)),
    "part of a step": ("max_steps", dict(max_steps=2.5)),
    "a board of floats": ("dim", dict(dim=10.0)),
    "a truth for a number": ("starting_blocks", dict(starting_blocks=True)),
}


@pytest.mark.parametrize(("name", "options"), BAD_GEOMETRIES.values(), ids=BAD_GEOMETRIES.keys())
@pytest.mark.parametrize("maker", [make, make_vector])
def test_an_impossible_geometry_is_refused(maker, name, options):
    with pytest.raises(ValueError, match=f"^{name}: got {options[name]}, wanted an integer from"):
        maker(**options)


def test_an_unknown_render_mode_is_refused():
    with pytest.raises(ValueError, match=r"^render_mode: got 'human', wanted None, 'ansi' or 'rgb_array'"):
        make(render_mode="human")


@pytest.mark.parametrize("n", [0, -1, 2.0])
def test_a_bad_number_of_games_is_refused(n):
    with pytest.raises(ValueError, match=f"^num_envs: got {n}, wanted an integer from 1"):
        make_vector(n=n)


@pytest.mark.parametrize("action", [-1, 4, 1.0, "2", None, [1]])
def test_a_bad_action_is_refused_and_changes_nothing(action):
    env = make()
    obs, _ = env.reset(seed=0)
    draws = env.np_random.bit_generator.state
    with pytest.raises(ValueError, match=r"^action: got .*wanted an integer from 0 to 3"):
        env.step(action)
    np.testing.assert_array_equal(env.observation(), obs)
    assert int(env.get_state()["steps"]) == 0
    assert env.np_random.bit_generator.state == draws


BAD_ACTIONS = [[0, 1], [0, 1, 4], [-1, 0, 1], [0.0, 1.0, 2.0], [[0, 1, 2]], [True, False, True], 1]


@pytest.mark.parametrize("actions", BAD_ACTIONS, ids=str)
def test_bad_actions_are_refused_and_change_nothing(actions):
    env = make_vector()
    env.reset(seed=0)
    before, draws = env.get_state(), env.np_random.bit_generator.state
    with pytest.raises(ValueError, match=r"^actions: got .*wanted 3 integers from 0 to 3"):
        env.step(actions)
    assert env.np_random.bit_generator.state == draws
    for name, array in env.get_state().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("draws", [np.zeros((N, 2), int), np.zeros((N, 3)), np.zeros((N + 1, 3), int)])
def test_bad_draws_are_refused_and_change_nothing(draws):
    env = make_vector()
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(ValueError, match=r"^draws: got .*wanted integers \[3, 3\]"):
        env.reset_with(draws)
    with pytest.raises(ValueError, match=r"^draws: got .*wanted integers \[3, 3\]"):
        env.step_with(np.zeros(N, int), draws)
    for name, array in env.get_state().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("maker", [make, make_vector])
def test_a_bad_state_is_refused(maker):
    env = maker()
    env.reset(seed=0)
    state = env.get_state()
    del state["food"]
    with pytest.raises(ValueError, match=r"^state: got .* wanted"):
        env.set_state(state)


def test_a_state_of_other_boards_is_refused():
    env = make_vector()
    other = make_vector(BOARDS[1])
    other.reset(seed=0)
    with pytest.raises(ValueError, match=r"^state: got shapes .*25.* wanted .*100"):
        env.set_state(other.get_state())


def test_a_step_outside_an_episode_is_refused():
    from gymnasium.error import ResetNeeded

    env = make((1, 3, 0, 500), render_mode="ansi")
    for use in (env.render, env.get_state, functools.partial(env.step, UP)):
        with pytest.raises(ResetNeeded, match="wanted reset"):
            use()
    start(env, food=5, start=0, heading=UP)
    last, _, terminated, *_ = env.step(UP)
    assert terminated
    with pytest.raises(ResetNeeded, match="wanted reset"):
        env.step(RIGHT)
    np.testing.assert_array_equal(env.observation(), last)
    start(env, food=5, start=0, heading=UP)
    env.step(RIGHT)


def test_games_are_reset_before_their_first_step():
    from gymnasium.error import ResetNeeded

    env = make_vector()
    draws = np.zeros((N, 3), np.int32)
    actions = np.zeros(N, int)
    uses = env.get_state, functools.partial(env.step, actions), functools.partial(env.step_with, actions, draws)
    for use in uses:
        with pytest.raises(ResetNeeded, match="wanted reset"):
            use()
