"""Snake as a Gymnasium environment, in plain Python."""

from __future__ import annotations

from collections import deque

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from ..common.config import Field, config

ACTIONS = 4
MOVES = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])  # row, column: up, right, down, left
FOOD, EMPTY, HEAD = -1, 0, 1  # values of an observation
FOOD_REWARD, DEATH_REWARD, STEP_REWARD = 1.0, -1.0, -0.01
DRAWS = 2**31 - 1  # a draw is an integer from 0 to DRAWS - 1
SYMBOLS = np.array([".", "o", "@", "*"])  # empty, body, head, food
COLOURS = np.array([[24, 24, 24], [60, 140, 60], [120, 220, 120], [220, 60, 60]], np.uint8)
PIXELS = 16  # per side of a cell, in rgb_array
RENDER_MODES = "ansi", "rgb_array"


@config
class Geometry:
    """Board and start of a snake; hashable, so that it can be a static argument of ``jax.jit``.

    The head starts on one of ``side**2`` cells, at least ``dist_to_border`` cells from every border, with the body
    straight behind it. A valid geometry always leaves a free cell for the first food; others raise a ValueError.

    Attributes:
        starting_blocks: initial length of a snake, in cells.
        dim: number of rows and of columns.
        dist_to_border: minimum number of cells between the initial head and the border.
        max_steps: environment steps after which an episode is truncated.
    """

    starting_blocks: int = Field(3, ge=1)
    dim: int = Field(10, ge=2, le=1024)
    dist_to_border: int = Field(3, ge=0)
    max_steps: int = Field(500, ge=1)

    def __post_init__(self):
        border, blocks = (self.dim - 1) // 2, self.dist_to_border + 1
        if self.dist_to_border > border:
            raise ValueError(
                f"dist_to_border={self.dist_to_border} should be at most {border}, to leave a cell to start on"
            )
        if self.starting_blocks > blocks:
            raise ValueError(
                f"starting_blocks={self.starting_blocks} should be at most {blocks}, to fit on the board in any heading"
            )

    @property
    def cells(self):
        """Number of cells of the board."""
        return self.dim**2

    @property
    def side(self):
        """Side length of the square of cells where a head may start."""
        return self.dim - 2 * self.dist_to_border


def check_render_mode(mode):
    """Return `mode` if it is None, ``ansi`` or ``rgb_array``; raise a ValueError otherwise."""
    if mode not in (None, *RENDER_MODES):
        raise ValueError(f"render_mode={mode!r} should be None, 'ansi' or 'rgb_array'")
    return mode


def draw_board(board, mode):
    """Return a board f32[dim, dim] as text of ``dim`` lines (``ansi``) or as u8[16 dim, 16 dim, 3] (``rgb_array``)."""
    kinds = np.select([board == EMPTY, board == HEAD, board == FOOD], [0, 2, 3], 1)
    if mode == "ansi":
        return "\n".join("".join(row) for row in SYMBOLS[kinds])
    return COLOURS[kinds].repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)


class SnakeEnv(gymnasium.Env):
    """Eat food, grow, and hit neither the border nor your own body.

    Observation f32[dim, dim]: food -1, empty 0, and (L - i) / L for segment i of a snake of length L; the head is 1.
    Actions: 0 up, 1 right, 2 down, 3 left; a reversal keeps the heading. The cell that the tail leaves is free.
    Reward: 1 for food, -1 for death, which leaves the snake where it was, -0.01 for any other step. Terminated by death
    or when the snake fills the board; truncated after ``max_steps``. Info: ``foods``, eaten in this episode.

    Random draws are integers from 0 to ``DRAWS`` - 1: three per reset (food, start, heading), and one per food eaten.
    Food is placed on free cell number ``draw % free cells``, row by row; the start cell and the heading are chosen in
    the same way.

    The arguments are those of :class:`Geometry`, two of them also in camel case, and ``render_mode``: ``ansi``,
    ``rgb_array``, or None for no rendering.

    Raises:
        ValueError: invalid geometry, render mode, action or state; the environment is left unchanged.
        gymnasium.error.ResetNeeded: a step outside an episode, or render or state access before the first reset.
    """

    metadata = {"render_modes": [*RENDER_MODES], "render_fps": 10}  # noqa: RUF012  (Gymnasium's own form)

    def __init__(
        self, starting_blocks=3, dim=10, dist_to_border=3, max_steps=500, render_mode=None,
        *, startingBlocks=None, distToBorder=None,
    ):  # fmt: skip
        blocks = starting_blocks if startingBlocks is None else startingBlocks
        border = dist_to_border if distToBorder is None else distToBorder
        self.geometry = Geometry(starting_blocks=blocks, dim=dim, dist_to_border=border, max_steps=max_steps)
        self.render_mode = check_render_mode(render_mode)
        self.observation_space = gymnasium.spaces.Box(-1, 1, (dim, dim), np.float32)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)
        self.snake, self.running = None, False

    def reset(self, *, seed=None, options=None):
        """Start an episode; there are no `options`.  -> obs f32[dim, dim], info {"foods": 0}

        `seed` seeds all draws from here on; None keeps the current generator.
        """
        if options:
            raise ValueError(f"options={options!r} should be None: there are no reset options")
        super().reset(seed=seed)
        food, start, heading = self.np_random.integers(DRAWS, size=3)
        border, side = self.geometry.dist_to_border, self.geometry.side
        row, column = divmod(int(start) % side**2, side)
        self.heading = int(heading) % ACTIONS
        down, right = MOVES[self.heading].tolist()
        blocks = range(self.geometry.starting_blocks)
        self.snake = deque((border + row - i * down, border + column - i * right) for i in blocks)  # head first
        self.place_food(food)
        self.steps, self.running = 0, True
        return self.observation(), self.info()

    def step(self, action):
        """Move by one cell.  -> obs f32[dim, dim], reward float, terminated bool, truncated bool, {"foods": int}"""
        if not self.running:
            raise ResetNeeded("step: call reset() to start an episode")
        if not self.action_space.contains(action):
            raise ValueError(f"action={action!r} should be an integer from 0 to {ACTIONS - 1}")
        if action != (self.heading + 2) % ACTIONS:
            self.heading = int(action)
        (row, column), (down, right), dim = self.snake[0], MOVES[self.heading].tolist(), self.geometry.dim
        head = row + down, column + right
        on_board = 0 <= head[0] < dim and 0 <= head[1] < dim
        terminated = not on_board or (head in self.snake and head != self.snake[-1])
        reward = DEATH_REWARD if terminated else STEP_REWARD
        if not terminated:
            self.snake.appendleft(head)
            if head != self.food:
                self.snake.pop()
            else:
                reward = FOOD_REWARD
                terminated = len(self.snake) == self.geometry.cells
                self.food = None
                if not terminated:
                    self.place_food(self.np_random.integers(DRAWS))
        self.steps += 1
        truncated = self.steps == self.geometry.max_steps and not terminated
        self.running = not (terminated or truncated)
        return self.observation(), reward, terminated, truncated, self.info()

    def place_food(self, draw):
        """Put food on a free cell, see the class docstring."""
        dim, taken = self.geometry.dim, set(self.snake)
        free = [(row, column) for row in range(dim) for column in range(dim) if (row, column) not in taken]
        self.food = free[draw % len(free)]

    def observation(self):
        """Return the board, f32[dim, dim]."""
        board = np.zeros(self.observation_space.shape, np.float32)
        length = len(self.snake)
        for i, cell in enumerate(self.snake):
            board[cell] = (length - i) / length
        if self.food is not None:
            board[self.food] = FOOD
        return board

    def info(self):
        """Return the number of foods eaten in this episode, ``{"foods": int}``."""
        return {"foods": len(self.snake) - self.geometry.starting_blocks}

    def render(self):
        """Return text of ``dim`` lines, an image u8[16 dim, 16 dim, 3], or None without a render mode."""
        self.check_started("render")
        if self.render_mode is None:
            return None
        return draw_board(self.observation(), self.render_mode)

    def get_state(self):
        """Return the episode as arrays by name, without the random generator.

        ``snake`` int[L, 2] row and column, head first; ``food`` int[1, 2], or int[0, 2] on a full board; ``heading``,
        ``steps``, ``running`` int[].
        """
        self.check_started("get_state")
        return {
            "snake": np.array(self.snake),
            "food": np.array([] if self.food is None else [self.food], np.int64).reshape(-1, 2),
            "heading": np.array(self.heading),
            "steps": np.array(self.steps),
            "running": np.array(self.running, np.int64),
        }

    def set_state(self, state):
        """Restore a state from :meth:`get_state`; raise a ValueError for unknown or missing names."""
        names = {"snake", "food", "heading", "steps", "running"}
        if set(state) != names:
            raise ValueError(f"state has {', '.join(sorted(state))}; it should have {', '.join(sorted(names))}")
        snake, food = ([tuple(cell) for cell in np.asarray(state[name]).tolist()] for name in ("snake", "food"))
        self.snake, self.food = deque(snake), food[0] if food else None
        self.heading, self.steps, self.running = (int(state["heading"]), int(state["steps"]), bool(state["running"]))

    def check_started(self, name):
        """Raise ResetNeeded, naming the caller, before the first reset."""
        if self.snake is None:
            raise ResetNeeded(f"{name}: call reset() first")


if "rlgauge/Snake-v0" not in gymnasium.registry:
    gymnasium.register(
        "rlgauge/Snake-v0",
        entry_point=f"{__name__}:SnakeEnv",
        vector_entry_point="rl_impls.snake.vector_env:SnakeVectorEnv",
    )
