"""``python -m rl_impls.snake train|evaluate|compare|import``: train a DQN, evaluate it, or import a net's weights."""

from functools import partial

from ..common import command
from .agent import SnakeAgent
from .state_dict import import_state_dict

OTHERS = {"import": (import_state_dict, "convert a net's weights, saved by torch as a state dict, to a checkpoint")}
main = partial(command.main, SnakeAgent, others=OTHERS)

if __name__ == "__main__":
    main()
