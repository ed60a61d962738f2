"""``python -m rl_impls.procgen train|evaluate|compare``: learn a game, save the agent, and see how well it plays."""

from __future__ import annotations

from functools import partial

from ..backends import names_of
from ..common import command
from ..common.procgen_env import GAMES, MODES
from .agent import ALGORITHMS, Config, ProcgenAgent
from .knobs import FORMS

CHOICES = {
    "backend": names_of("procgen"), "form": tuple(FORMS), "algorithm": tuple(ALGORITHMS), "game": tuple(GAMES),
    "mode": tuple(MODES),
}  # fmt: skip
main = partial(command.main, ProcgenAgent, Config, CHOICES, steps=1_000_000)

if __name__ == "__main__":
    main()
