"""Helpers for the tests of the game: boards, prescribed draws, and a greedy player."""

import numpy as np

UP, RIGHT, DOWN, LEFT = range(4)
MOVES = {UP: (-1, 0), RIGHT: (0, 1), DOWN: (1, 0), LEFT: (0, -1)}
DRAWS = 2**31 - 1
N = 3
BOARDS = [  # starting_blocks, dim, dist_to_border, max_steps
    (3, 10, 3, 40),
    (3, 5, 2, 25),
    (2, 4, 1, 30),
    (1, 3, 0, 60),
    (1, 2, 0, 12),
]


class Prescribed:
    """A random generator that returns the given draws: food, start, heading."""

    def __init__(self, draws):
        self.draws = draws

    def integers(self, high, size=None):
        assert high == DRAWS
        assert size in (None, 3)
        return self.draws[0] if size is None else self.draws


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


def path(obs):
    """Return the cells of the snake on a board, head first."""
    cells = np.argwhere(obs > 0)
    return cells[np.argsort(-obs[obs > 0])]


def towards_food(obs, heading):
    """Return an action that moves towards the food, and avoids immediate death if possible."""
    head, food = path(obs)[0], np.argwhere(obs == -1)[0]

    def cost(action):
        row, column = head + MOVES[action]
        outside = not (0 <= row < len(obs) and 0 <= column < len(obs))
        hit = outside or obs[row, column] > obs[obs > 0].min() or action == (heading + 2) % 4
        return hit, abs(food - (row, column)).sum()

    return min(MOVES, key=cost)
