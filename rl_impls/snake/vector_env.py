"""N games of Snake: a Gymnasium vector environment in a few NumPy passes, or N plain environments."""

from dataclasses import asdict
from numbers import Integral

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ..common.checks import check_integer
from .env import (
    ACTIONS,
    DEATH_REWARD,
    DRAWS,
    FOOD,
    FOOD_REWARD,
    HEAD,
    MOVES,
    RENDER_MODES,
    STEP_REWARD,
    Geometry,
    SnakeEnv,
    check_render_mode,
    draw_board,
)

STATE = "lifetimes", "head", "heading", "length", "food", "steps"


def neighbours(dim):
    """Return the cell next to each cell in each direction, -1 off the board.  -> int[4, dim * dim]"""
    row, column = (np.indices((dim, dim)).reshape(2, 1, -1) + MOVES.T[:, :, None]).astype(np.intp)
    inside = (row >= 0) & (row < dim) & (column >= 0) & (column < dim)
    return np.where(inside, row * dim + column, -1)


class SnakeVectorEnv(VectorEnv):
    """The game of :class:`.env.SnakeEnv` for N boards at once, with autoreset in the same step.

    ``lifetimes`` holds the number of steps that each cell remains part of the snake: the length at the head, 1 at the
    tail, 0 elsewhere. A move subtracts 1 from every cell of the snake, unless it eats or dies, and writes the
    length to the head.

    Infos follow Gymnasium's SyncVectorEnv in SAME_STEP mode: ``foods`` int[N], and ``final_obs`` and ``final_info``
    when a game ended, each with a mask bool[N] named ``_foods`` and so on. All arrays returned are new.

    All games share one random generator, ``np_random``. Gymnasium's vector wrappers that change observations reject
    SAME_STEP: pass single-environment wrappers to ``make_vec(..., vectorization_mode="sync", wrappers=...)``.

    The arguments are N, those of :class:`.env.Geometry`, and the ``render_mode`` of :class:`.env.SnakeEnv`.

    Raises:
        ValueError: invalid geometry, actions, draws or state; the games are left unchanged.
        gymnasium.error.ResetNeeded: a step, render or state access before the first reset.
    """

    metadata = {  # noqa: RUF012  (Gymnasium's own form)
        "autoreset_mode": AutoresetMode.SAME_STEP,
        "render_modes": [*RENDER_MODES],
        "render_fps": 10,
    }

    def __init__(self, num_envs, starting_blocks=3, dim=10, dist_to_border=3, max_steps=500, render_mode=None):
        self.geometry = Geometry(starting_blocks, dim, dist_to_border, max_steps)
        check_integer("num_envs", num_envs, 1, 2**31 - 1)
        self.num_envs, self.render_mode = num_envs, check_render_mode(render_mode)
        self.single_observation_space = gymnasium.spaces.Box(-1, 1, (dim, dim), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.neighbours = neighbours(dim)
        self.envs = np.arange(num_envs)
        self.lifetimes = None

    def reset(self, *, seed=None, options=None):
        """Start all games, or those selected by a mask.  -> boards f32[N, dim, dim], infos

        The other games keep their state and boards, and ``infos["_foods"]`` is False for them.

        Args:
            seed: seeds the shared generator, even with a mask; None keeps the current generator.
            options: ``{"reset_mask": mask}`` with a mask bool[N], at least one True.
        """
        mask = self.check_options(options)
        if seed is not None and not isinstance(seed, Integral):
            raise ValueError(f"seed={seed!r} should be one integer or None: all games share one generator")
        if not mask.all():
            self.check_started("reset of some games")
        super().reset(seed=None if seed is None else int(seed))
        if mask.all():
            return self.reset_with(self.draw())
        self.start(np.flatnonzero(mask), self.draw())
        return self.observe(), {"foods": np.zeros(self.num_envs, np.intp), "_foods": mask}

    def draw(self):
        """Sample the random integers for one step, i32[N, 3]: food, start, heading."""
        return self.np_random.integers(DRAWS, size=(self.num_envs, 3), dtype=np.int32)

    def reset_with(self, draws):
        """Start all games from `draws` i32[N, 3]: food, start, heading.  -> boards f32[N, dim, dim], infos"""
        draws = self.check_draws(draws)
        self.lifetimes = np.zeros((self.num_envs, self.geometry.cells), np.float32)
        self.head, self.heading, self.length, self.food, self.steps = np.zeros((5, self.num_envs), np.intp)
        self.start(self.envs, draws)
        return self.observe(), self.infos()

    def step(self, actions, draws=None):
        """Move by one cell.  -> boards f32[N, dim, dim], rewards f32[N], terminated bool[N], truncated bool[N], infos

        `actions` are int[N], see :class:`.env.SnakeEnv`. `draws` i32[N, 3] are sampled if None.
        """
        self.check_started("step")
        actions = self.check_actions(actions)
        draws = self.draw() if draws is None else self.check_draws(draws)
        obs, reward, terminated, truncated, final_obs = self.advance(actions, draws)
        infos, ended = {}, terminated | truncated
        if ended.any():
            infos["final_obs"], infos["_final_obs"] = np.full(self.num_envs, None, object), ended
            for i in np.flatnonzero(ended):
                infos["final_obs"][i] = final_obs[i]
            foods = np.where(ended, self.final_length - self.geometry.starting_blocks, 0)
            infos["final_info"], infos["_final_info"] = {"foods": foods, "_foods": ended.copy()}, ended.copy()
        return obs, reward, terminated, truncated, infos | self.infos()

    def advance(self, actions, draws):
        """Move by one cell without checking the arguments, which are those of :meth:`step`.

        -> obs f32[N, dim, dim], reward f32[N], terminated bool[N], truncated bool[N], final_obs f32[N, dim, dim]. Where
        a game ended, ``obs`` is the first board of the new game and ``final_obs`` the last of the old one. If no game
        ended, both are the same array.
        """
        reversal = actions == (self.heading + 2) % ACTIONS
        self.heading = np.where(reversal, self.heading, actions)
        ahead = self.neighbours[self.heading, self.head]
        dead = (ahead < 0) | (self.lifetimes[self.envs, ahead] > 1)
        self.head = np.where(dead, self.head, ahead)
        ate = self.head == self.food
        self.length += ate
        self.lifetimes -= (~(dead | ate)).astype(np.float32)[:, None]
        np.maximum(self.lifetimes, 0, out=self.lifetimes)
        self.lifetimes[self.envs, self.head] = self.length
        full = self.length == self.geometry.cells
        if ate.any():
            self.place_food(np.flatnonzero(ate & ~full), draws)
        self.steps += 1

        terminated = dead | full
        truncated = (self.steps == self.geometry.max_steps) & ~terminated
        reward = np.where(ate, FOOD_REWARD, np.where(dead, DEATH_REWARD, STEP_REWARD)).astype(np.float32)

        obs = final_obs = self.observe()
        ended = np.flatnonzero(terminated | truncated)
        self.final_length = self.length
        if len(ended):
            obs, self.final_length = obs.copy(), self.length.copy()
            self.start(ended, draws)
            obs[ended] = self.observe(ended)
        return obs, reward, terminated, truncated, final_obs

    def start(self, which, draws):
        """Restart games `which` int[n], each from its row of `draws` i32[N, 3]."""
        border, side, blocks = self.geometry.dist_to_border, self.geometry.side, self.geometry.starting_blocks
        row, column = np.divmod(draws[which, 1] % side**2, side)
        heading = draws[which, 2] % ACTIONS
        head = (border + row) * self.geometry.dim + border + column
        stride = (MOVES @ [self.geometry.dim, 1])[heading]
        self.lifetimes[which] = 0
        self.lifetimes[which[:, None], head[:, None] - stride[:, None] * np.arange(blocks)] = np.arange(blocks, 0, -1)
        self.head[which], self.heading[which], self.length[which], self.steps[which] = head, heading, blocks, 0
        self.place_food(which, draws)

    def place_food(self, which, draws):
        """Put food on a free cell in games `which` int[n], each from its row of `draws` i32[N, 3]."""
        free = self.lifetimes[which] == 0
        k = draws[which, 0] % (self.geometry.cells - self.length[which])
        self.food[which] = (free.cumsum(axis=1) > k[:, None]).argmax(axis=1)

    def observe(self, which=slice(None)):
        """Return the boards of games `which` int[n], by default of all.  -> f32[n, dim, dim]"""
        head, length, food = self.head[which], self.length[which], self.food[which]
        obs = self.lifetimes[which] / length[:, None].astype(np.float32)
        obs[np.arange(len(head)), food] = FOOD
        full = length == self.geometry.cells  # on a full board, the head covers the last food
        obs[full, head[full]] = HEAD
        return obs.reshape(-1, self.geometry.dim, self.geometry.dim)

    def infos(self):
        """Return the number of foods eaten in each game.  -> {"foods": int[N], "_foods": bool[N]}"""
        return {"foods": self.length - self.geometry.starting_blocks, "_foods": np.ones(self.num_envs, bool)}

    def render(self):
        """Return a picture of each game as in :meth:`.env.SnakeEnv.render`, or None without a render mode."""
        self.check_started("render")
        if self.render_mode is None:
            return None
        return tuple(draw_board(board, self.render_mode) for board in self.observe())

    def get_state(self):
        """Return copies of the games' arrays, without the random generator.

        ``lifetimes`` f32[N, dim * dim]; ``head``, ``food`` int[N], cells counted row by row; ``heading``, ``length``,
        ``steps`` int[N].
        """
        self.check_started("get_state")
        return {name: getattr(self, name).copy() for name in STATE}

    def set_state(self, state):
        """Restore a copy of a state from :meth:`get_state`; raise a ValueError for other names or shapes."""
        n, cells = self.num_envs, self.geometry.cells
        wanted = {name: (n, cells) if name == "lifetimes" else (n,) for name in STATE}
        shapes = {name: np.shape(array) for name, array in state.items()}
        if shapes != wanted:
            raise ValueError(f"state has the shapes {shapes}; they should be {wanted}")
        for name, array in state.items():
            setattr(self, name, np.array(array, np.float32 if name == "lifetimes" else np.intp))

    def check_started(self, name):
        """Raise ResetNeeded for the method `name` before the first reset."""
        if self.lifetimes is None:
            raise ResetNeeded(f"{name}: call reset() first")

    def check_options(self, options):
        """Return a new mask bool[N] of the games that ``reset(options=options)`` starts."""
        options = options or {}
        unknown = sorted(set(options) - {"reset_mask"})
        if unknown:
            raise ValueError(f"options: {', '.join(unknown)} is unknown; the only reset option is reset_mask")
        if "reset_mask" not in options:
            return np.ones(self.num_envs, bool)
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != (self.num_envs,):
            raise ValueError(f"reset_mask={mask!r} should be a NumPy array bool[{self.num_envs}]")
        if not mask.any():
            raise ValueError(f"reset_mask={mask!r} should select at least one game")
        return mask.copy()

    def check_actions(self, actions):
        """Return `actions` as int[N]; raise a ValueError unless they are N integers from 0 to 3."""
        actions = np.asarray(actions)
        right = actions.shape == (self.num_envs,) and actions.dtype.kind in "iu"
        if not right or actions.min() < 0 or actions.max() >= ACTIONS:
            raise ValueError(f"actions={actions!r} should be {self.num_envs} integers from 0 to {ACTIONS - 1}")
        return actions

    def check_draws(self, draws):
        """Return `draws` as an array; raise a ValueError unless they are integers [N, 3]."""
        draws = np.asarray(draws)
        if draws.shape != (self.num_envs, 3) or draws.dtype.kind not in "iu":
            raise ValueError(f"draws should be integers [{self.num_envs}, 3], not {draws.dtype} {list(draws.shape)}")
        return draws


class Draws:
    """A random generator for :class:`.env.SnakeEnv` that returns the preset numbers ``given``: food, start, heading."""

    def __init__(self):
        self.given = None

    def integers(self, high, size=None):
        """Return the food's number, or all three if `size` is given; `high` is ignored, as ``given`` is in range."""
        return self.given[0] if size is None else self.given


class PlainEnvs:
    """A list of `count` :class:`.env.SnakeEnv`, stepped one after another, with autoreset in the same step.

    Like :class:`VectorisedEnvs`, it exchanges states in the format of :meth:`SnakeVectorEnv.get_state`.
    """

    def __init__(self, count, geometry):
        self.envs, self.draws, self.geometry = [SnakeEnv(**asdict(geometry)) for _ in range(count)], Draws(), geometry
        for env in self.envs:
            env.np_random = self.draws

    def advance(self, actions, draws):
        """Step each environment with its draws; see :meth:`SnakeVectorEnv.advance`, but boards are f32[N, O]."""
        count = len(self.envs)
        obs, final_obs = np.empty((2, count, self.geometry.cells), np.float32)
        rewards, (terminated, truncated) = np.empty(count, np.float32), np.empty((2, count), bool)
        for i, (env, action, given) in enumerate(zip(self.envs, actions, draws)):
            self.draws.given = given
            board, rewards[i], terminated[i], truncated[i], _ = env.step(action)
            obs[i] = final_obs[i] = board.reshape(-1)
            if not env.running:
                obs[i] = env.reset()[0].reshape(-1)
        return obs, rewards, terminated, truncated, final_obs

    def observe(self):
        """Return the flattened boards, f32[N, O]."""
        return np.array([env.observation().reshape(-1) for env in self.envs])

    def get_state(self):
        dim, cells = self.geometry.dim, self.geometry.cells
        columns = {name: [] for name in STATE}
        for env in self.envs:
            snake, lifetimes = [row * dim + column for row, column in env.snake], np.zeros(cells, np.float32)
            lifetimes[snake] = np.arange(len(snake), 0, -1)
            food = env.food[0] * dim + env.food[1]
            values = lifetimes, snake[0], env.heading, len(snake), food, env.steps
            for column, value in zip(columns.values(), values):
                column.append(value)
        return {name: np.array(column) for name, column in columns.items()}

    def set_state(self, state):
        dim = self.geometry.dim
        for i, env in enumerate(self.envs):
            oldest_last = np.argsort(-state["lifetimes"][i], kind="stable")[: state["length"][i]]
            env.set_state(
                {
                    "snake": np.stack(np.divmod(oldest_last, dim), axis=1),
                    "food": np.array([divmod(int(state["food"][i]), dim)]),
                    "heading": state["heading"][i],
                    "steps": state["steps"][i],
                    "running": 1,
                }
            )


class VectorisedEnvs:
    """A :class:`SnakeVectorEnv` of `count` games with flattened boards f32[N, O]."""

    def __init__(self, count, geometry):
        self.env = SnakeVectorEnv(count, **asdict(geometry))
        self.get_state, self.set_state = self.env.get_state, self.env.set_state

    def advance(self, actions, draws):
        """Step all games at once; return the same as :meth:`PlainEnvs.advance`."""
        obs, rewards, terminated, truncated, final_obs = self.env.advance(actions, draws)
        count = len(obs)
        return obs.reshape(count, -1), rewards, terminated, truncated, final_obs.reshape(count, -1)

    def observe(self):
        """Return all boards, f32[N, O]."""
        return self.env.observe(self.env.envs).reshape(self.env.num_envs, -1)


ENVIRONMENTS = {"plain": PlainEnvs, "vectorised": VectorisedEnvs}
