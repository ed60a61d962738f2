"""``python -m rl_impls.pirl train|evaluate``: train and save the agent, or measure how often it stays safe."""

from __future__ import annotations

from functools import partial

from ..common import command
from .agent import PirlAgent

main = partial(command.main, PirlAgent)

if __name__ == "__main__":
    main()
