"""``python -m rl_impls.treasurehunt train|evaluate|compare``: train and evaluate agents, and compare runs."""

from __future__ import annotations

from functools import partial

from ..backends import names_of
from ..common import command
from .agent import Config, TreasurehuntAgents
from .options import FORMS
from .spec import OBSERVATIONS

CHOICES = {"backend": names_of("treasurehunt"), "form": tuple(FORMS), "observation": tuple(OBSERVATIONS)}
main = partial(command.main, TreasurehuntAgents, Config, CHOICES, steps=600)

if __name__ == "__main__":
    main()
