"""``python -m rl_impls.pirl train|evaluate|compare|check``: train the agent, measure how often it stays safe."""

from functools import partial

from ..common import command
from .agent import PirlAgent
from .check import check

OTHERS = {"check": (check, "print the size of the net, and which ops run on which backend")}
main = partial(command.main, PirlAgent, others=OTHERS)

if __name__ == "__main__":
    main()
