"""The DQN step by step, for a training loop of your own: act, remember, replay."""

import numpy as np

from .. import backends
from ..common.checks import check_integer
from ..common.threads import limit_spinning
from ..params import init_mlp
from .agent import SnakeAgent, epsilon
from .env import SnakeEnv
from .memory import DTYPES, make_buffer

__all__ = ["DQNAgent", "SnakeEnv"]


class DQNAgent:
    """A DQN with the three methods that a training loop calls.

    ``agent = DQNAgent(100, 4)`` suits ``env = SnakeEnv()``, with ``obs.flatten()`` as the state.

    Args:
        state_size: length of a state, such as a flattened board.
        action_size: number of actions.
        hidden_size: width of both hidden layers; by default that of the configuration.
        seed: seed of the weights, of exploration and of the batches.
        config: fields of :class:`.agent.Config`; those of the games and the loop have no effect.

    Attributes:
        memory: replay buffer; ``len(memory)`` is the number of transitions in it.
        step: number of transitions stored so far; exploration and target network depend on it.
    """

    def __init__(self, state_size, action_size, hidden_size=None, *, seed=0, **config):
        limit_spinning()
        unused = {"warm_up": config.get("capacity", 1_000)}  # valid for any capacity
        if hidden_size is not None:
            config["hidden"] = hidden_size
        self.config = SnakeAgent.configure(**unused | config)
        self.backend, self.rng, self.step = backends.get(self.config.backend), np.random.default_rng(seed), 0
        self.sizes = (state_size, self.config.hidden, self.config.hidden, action_size)
        self.memory = make_buffer(self.config.options.memory, self.config.capacity, state_size)
        self.synced = 0  # number of copies to the target network that were due so far
        self.build(self.config.batch_size, init_mlp(self.rng, self.sizes))

    def build(self, batch_size, weights):
        """Build acting and updating, which may be compiled for this batch size, from `weights` by name."""
        config, backend, state_size = self.config, self.backend, self.sizes[0]
        ops, compiler = backend.ops("snake", "train_step"), backend.new_compiler()
        names = "learning_rate", "gamma", "max_grad_norm", "target_frequency"
        op_config = {name: getattr(config, name) for name in names} | {"params": weights, "target": weights}
        shapes = (batch_size, state_size), (batch_size,), (batch_size,), (batch_size, state_size), (batch_size,)
        batch = tuple(backend.to_device(np.zeros(shape, dtype)) for shape, dtype in zip(shapes, DTYPES))
        self.assemble = ops.assemble({}, (), options=config.options, compiler=compiler)
        self.learner = ops.train_step(op_config, batch, options=config.options, compiler=compiler)
        self.actor = self.learner.actor(np.zeros((1, state_size), np.float32))
        self.batch_size = batch_size

    @property
    def epsilon(self):
        """Exploration rate of the next action."""
        return float(epsilon(self.step))

    @property
    def params(self):
        """The online weights as NumPy: ``w{k}`` f32[I, O], ``b{k}`` f32[O]."""
        return self.learner.params

    def act(self, state):
        """Return an epsilon-greedy action, int, for a state f[state_size]."""
        explore = self.rng.random(1) < self.epsilon
        random_action = self.rng.integers(self.sizes[-1], size=1).astype(np.int32)
        return int(self.actor(np.asarray(state, np.float32).reshape(1, -1), explore, random_action)[0])

    def remember(self, state, action, reward, next_state, done):
        """Store a transition between two states f[state_size]; no value is bootstrapped from `next_state` if `done`."""
        state, next_state = (np.asarray(each, np.float32).reshape(-1) for each in (state, next_state))
        self.memory.push(state, action, reward, next_state, done)
        self.step += 1

    def replay(self, batch_size=None):
        """Update the net on a random batch, by default of ``config.batch_size``; return the loss before it, float.

        The online weights are then copied to the target network if ``config.target_frequency`` steps have passed.
        """
        wanted = self.config.batch_size if batch_size is None else batch_size
        batch_size = check_integer("batch_size", wanted, 1, len(self.memory), ", the number of transitions stored")
        if batch_size != self.batch_size:
            state = self.learner.state()
            self.learner.close()
            self.build(batch_size, self.params)
            self.learner.load_state(state)
        rows = self.rng.choice(len(self.memory), batch_size, replace=False)
        loss = self.learner(*self.assemble(self.memory.sample(rows)))
        if self.config.target_frequency and self.step // self.config.target_frequency > self.synced:
            self.learner.sync_target()
            self.synced = self.step // self.config.target_frequency
        return float(self.backend.to_host(loss))
