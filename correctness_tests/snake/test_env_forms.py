"""The plain, vectorised and JAX forms of the game give equal results."""

import functools
from collections import Counter, namedtuple

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from correctness_tests.snake.games import (
    BOARDS,
    DRAWS,
    MOVES,
    N,
    Prescribed,
    make,
    make_vector,
    path,
    start,
    towards_food,
)

JAX_DTYPES = {"f": np.float32, "i": np.int32, "b": np.bool_}
Outcome = namedtuple("Outcome", "obs reward terminated truncated foods final_obs final_foods")


class Form:
    """Base class of the forms of the game, which take their random draws as arguments."""

    def __init__(self, board):
        from rl_impls.snake.env import Geometry

        self.blocks, self.dim = board[:2]
        self.geometry = Geometry(*board)


class Plain(Form):
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


class Vector(Form):
    def __init__(self, board):
        super().__init__(board)
        self.env = make_vector(board)

    def reset(self, draws):
        return self.env.reset_with(draws)[0]

    def step(self, actions, draws):
        *numbers, infos = self.env.step(actions, draws)
        obs, ended = numbers[0], numbers[2] | numbers[3]
        foods = final_foods = infos["foods"]
        final_obs = obs
        if ended.any():
            final_obs = np.stack([last if end else board for end, last, board in zip(ended, infos["final_obs"], obs)])
            final_foods = np.where(ended, infos["final_info"]["foods"], foods)
        return Outcome(*numbers, foods, final_obs, final_foods)


class Jax(Form):
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


class ThreeForms(RuleBasedStateMachine):
    seen = None  # counts of events over all examples

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
    options = {"max_examples": 20, "stateful_step_count": 12}
    run_state_machine_as_test(ThreeForms, settings=settings(phases=[Phase.generate], **options))
    for kind in ("ate", "died", "full", "late"):
        assert ThreeForms.seen[kind] > 20
