"""``python -m rl_impls.pirl train|evaluate``: train the agent, save it, and see how often it stays on the road."""

from __future__ import annotations

from functools import partial

from ..backends import names_of
from ..common import command
from .agent import Config, PirlAgent
from .knobs import FORMS

main = partial(command.main, PirlAgent, Config, {"backend": names_of("pirl"), "form": tuple(FORMS)})

if __name__ == "__main__":
    main()
