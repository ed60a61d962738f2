"""``python -m rl_impls.procgen train|evaluate|compare``: train an agent on a game and evaluate it."""

from functools import partial

from ..common import command
from .agent import ProcgenAgent

main = partial(command.main, ProcgenAgent, steps=1_000_000)

if __name__ == "__main__":
    main()
