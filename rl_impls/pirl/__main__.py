"""``python -m rl_impls.pirl train|evaluate``: train and save the agent, or measure how often it stays safe."""

from __future__ import annotations

from functools import partial

from ..backends import names_of
from ..common import command
from .agent import Config, PirlAgent
from .options import FORMS

main = partial(command.main, PirlAgent, Config, {"backend": names_of("pirl"), "form": tuple(FORMS)})

if __name__ == "__main__":
    main()
