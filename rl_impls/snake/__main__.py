"""``python -m rl_impls.snake train|evaluate``: train and save a DQN, or measure how well it plays."""

from __future__ import annotations

from functools import partial

from ..backends import names_of
from ..common import command
from .agent import Config, SnakeAgent
from .options import FORMS

main = partial(command.main, SnakeAgent, Config, {"backend": names_of("snake"), "form": tuple(FORMS)})

if __name__ == "__main__":
    main()
