"""``python -m rl_impls.snake train|evaluate|compare|import``: train a DQN, evaluate it, or import a net's weights."""

from functools import partial

from ..common import command
from .agent import SnakeAgent
from .state_dict import import_state_dict

main = partial(command.main, SnakeAgent, others={"import": import_state_dict})

if __name__ == "__main__":
    main()
