"""The agents of a loop, which act, remember and learn, all at once or one after the other."""

import numpy as np

from ..common.parts import join_parts, part_of
from ..common.phases import untimed
from ._numpy import QUANTILES, noise_size
from .memory import FRAMES, Memory, gather, push_recent, stack
from .one_by_one import Learners, of_agent, slice_of


class Team:
    """Nets, optimisers, replay memories and recent frames of N agents in K worlds.

    `config` is that of :class:`.loop.Turns`; ``clock(name)`` is called at the end of each phase.
    """

    def __init__(self, config, num_worlds, options, backend, clock=untimed):
        num_agents, size, _ = config["params"]["w_state"].shape
        self.stored, self.gamma, self.clock = config["stored"], config["gamma"], clock
        self.memory = Memory(num_agents, num_worlds, config["capacity"], size // FRAMES)
        self.no_frames = np.zeros((num_agents, num_worlds, FRAMES - 1, size // FRAMES), np.float32)
        self.from_host, self.to_host, self.wait = backend.from_host, backend.to_host, backend.wait
        batch = tuple(map(backend.to_device, blank_batch(config["params"])))
        ops, compiler = backend.ops("treasurehunt"), backend.new_compiler()
        self.learner = ops.train_step(config, batch, options=options, compiler=compiler)
        states = np.zeros((num_agents, num_worlds, size), np.float32)
        taus = np.zeros((num_agents, num_worlds, QUANTILES), np.float32)
        explore, random_actions = (np.zeros((num_agents, num_worlds), dtype) for dtype in (np.bool_, np.int32))
        self.actor = self.learner.actor(tuple(map(backend.to_device, (states, taus, explore, random_actions))))
        self.reset()

    def reset(self):
        """Restore the initial nets and memory, and begin an episode."""
        self.learner.reset()
        self.memory.restore(self.stored)
        self.begin()

    def begin(self):
        """Begin an episode by clearing the recent frames."""
        self.recent = self.no_frames

    def act(self, obs, taus, explore, random_actions):
        """Return actions i32[N, K] from the recent frames and the observations, f32[N, K, F].

        taus f32[N, K, Q], explore bool[N, K] and random_actions i32[N, K] are drawn at random.
        """
        states = stack(self.recent, obs)
        self.obs = obs
        self.actions = self.to_host(self.actor(*map(self.from_host, (states, taus, explore, random_actions))))
        return self.actions

    def remember(self, rewards):
        """Store the last observations and actions with their rewards, f32[N, K]."""
        self.memory.push(self.obs, self.actions, rewards)
        self.recent = push_recent(self.recent, self.obs)

    def finish(self, obs):
        """Store the final observations of the episode, f32[N, K, F]."""
        self.memory.finish(obs)

    def learn(self, rows, taus, noise):
        """Update every agent; return the losses before the update, f32[N].

        rows i64[N, B] (memory rows where the transitions start), taus f32[N, 3, B, Q], noise f32[N, 2, M]
        """
        batch = gather(self.memory.fields, rows, self.gamma)
        self.clock("memory")
        losses = self.to_host(self.wait(self.learner(*map(self.from_host, (*batch, taus, noise)))))
        self.clock("learning")
        return losses

    @property
    def params(self):
        """The online weights, f32[N, ...]."""
        return self.learner.params

    def state(self):
        """Return nets, moments and memory as NumPy, named ``learner.*`` and ``memory.*``."""
        return state_of(self.learner, self.memory)

    def load_state(self, state):
        load_into(self.learner, self.memory, state)
        self.begin()

    def close(self):
        """Nothing to close."""


class OneByOneTeam(Learners):
    """N :class:`Team` objects of one agent each, called one after the other; same interface as a :class:`Team` of N.

    `args` are the arguments of :class:`Team` after `config`.
    """

    part, merge = staticmethod(slice_of), staticmethod(np.concatenate)

    def __init__(self, config, *args):
        agents = range(len(config["params"]["w_state"]))
        super().__init__([Team(of_agent(config, n, slice_of), *args) for n in agents], np.concatenate)

    def begin(self):
        self.ask("begin")

    def act(self, *args):
        """Return the joined actions of all agents, i32[N, K]."""
        return self.join(self.ask("act", *args))

    def act_alone(self, agent, *args):
        """Return actions i32[K] of one agent from its slices [K, ...] of the arguments of :meth:`Team.act`."""
        return self.members[agent].act(*(x[None] for x in args))[0]

    def remember(self, rewards):
        self.ask("remember", rewards)

    def finish(self, obs):
        self.ask("finish", obs)

    def learn(self, *args):
        """Update the agents one by one; return their losses before the update, f32[N]."""
        return self.join(self.ask("learn", *args))


def blank_batch(params):
    """Return zeros with the dtypes and axes of a batch of all agents in `params`, with one transition each."""
    num_agents, size, _ = params["w_state"].shape
    states, numbers = np.zeros((num_agents, 1, size), np.float32), np.zeros((num_agents, 1), np.float32)
    taus = np.zeros((num_agents, 3, 1, QUANTILES), np.float32)
    noise = np.zeros((num_agents, 2, noise_size(params)), np.float32)
    return states, numbers.astype(np.int32), numbers, states, numbers, taus, noise


def state_of(learner, memory):
    """Return the state of a learner and a memory as one dict, named ``learner.*`` and ``memory.*``."""
    return join_parts(learner=learner.state(), memory=memory.arrays())


def load_into(learner, memory, state):
    """Restore what :func:`state_of` returned into a learner and a memory."""
    learner.load_state(part_of(state, "learner"))
    memory.restore(part_of(state, "memory"))
