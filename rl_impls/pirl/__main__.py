"""``python -m rl_impls.pirl train|evaluate|compare|check``: train the agent, measure how often it stays safe."""

from functools import partial

from ..common import command
from .agent import PirlAgent
from .check import check

main = partial(command.main, PirlAgent, others={"check": check})

if __name__ == "__main__":
    main()
