"""``python -m rl_impls.mario train|evaluate|compare``: train by the pipeline, save the agent, see how well it plays."""

from __future__ import annotations

from functools import partial

from ..backends import names_of
from ..common import command
from .agent import CHOICES, Config, MarioAgent

NAMES = {"backend": names_of("mario")} | {name: tuple(choices) for name, choices in CHOICES.items()}
main = partial(command.main, MarioAgent, Config, NAMES, steps=200_000)

if __name__ == "__main__":
    main()
