"""``python -m rl_impls.snake train|evaluate``: train and save a DQN, or measure how well it plays."""

from __future__ import annotations

from functools import partial

from ..common import command
from .agent import SnakeAgent

main = partial(command.main, SnakeAgent)

if __name__ == "__main__":
    main()
