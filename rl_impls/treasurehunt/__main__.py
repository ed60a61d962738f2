"""``python -m rl_impls.treasurehunt train|evaluate``: train agents to hunt, save them, and see what they gather."""

from __future__ import annotations

from ..common.command import main
from .agent import Config, TreasurehuntAgents

if __name__ == "__main__":
    main(TreasurehuntAgents, Config)
