"""``python -m rl_impls.procgen train|evaluate|compare|advise``: train an agent on a game and evaluate it."""

from __future__ import annotations

from functools import partial

from ..backends import names_of
from ..common import command
from .advice import advice
from .agent import CHOICES, Config, ProcgenAgent

NAMES = {"backend": names_of("procgen")} | {name: tuple(choices) for name, choices in CHOICES.items()}
main = partial(command.main, ProcgenAgent, Config, NAMES, steps=1_000_000, others={"advise": advice})

if __name__ == "__main__":
    main()
