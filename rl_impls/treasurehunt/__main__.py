"""``python -m rl_impls.treasurehunt train|evaluate|compare``: train and evaluate agents, and compare runs."""

from functools import partial

from ..common import command
from .agent import TreasurehuntAgents

main = partial(command.main, TreasurehuntAgents, steps=1000)

if __name__ == "__main__":
    main()
