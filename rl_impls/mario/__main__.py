"""``python -m rl_impls.mario train|evaluate|compare``: train an agent, evaluate it, and compare runs."""

from __future__ import annotations

from functools import partial

from ..backends import names_of
from ..common import command
from .agent import CHOICES, Config, MarioAgent

NAMES = {"backend": names_of("mario")} | {name: tuple(choices) for name, choices in CHOICES.items()}
main = partial(command.main, MarioAgent, Config, NAMES, steps=200_000)

if __name__ == "__main__":
    main()
