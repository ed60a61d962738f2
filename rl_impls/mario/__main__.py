"""``python -m rl_impls.mario train|evaluate|compare``: train an agent, evaluate it, and compare runs."""

from functools import partial

from ..common import command
from .agent import MarioAgent

main = partial(command.main, MarioAgent, steps=200_000)

if __name__ == "__main__":
    main()
