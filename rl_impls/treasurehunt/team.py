"""Nets, replay memory and frame stacks of all agents of a loop: act, remember and learn, jointly or one by one."""

from __future__ import annotations

import numpy as np

from ..common.phases import untimed
from ._numpy import noise_size
from .memory import Memory, gather, push_recent, stack
from .per_agent import Learners, of_agent, slice_of
from .spec import FRAMES

QUANTILES = 12


def blank_batch(params, batch):
    """Return a batch of zeros with the shapes of an update of all agents in `params`, `batch` transitions each."""
    agents, size, _ = params["w_state"].shape
    states, scalars = np.zeros((agents, batch, size), np.float32), np.zeros((agents, batch), np.float32)
    taus, noise = np.zeros((agents, 3, batch, QUANTILES), np.float32), np.zeros((agents, 2, noise_size(params)))
    return states, scalars.astype(np.int32), scalars, states, scalars, taus, noise.astype(np.float32)


class Team:
    """Nets, replay memory and recent frames of N agents in K worlds.

    `spec` is a :class:`.spec.Spec`, `batch` the transitions per update. `clock` is called with the name of each phase
    when it ends, see :class:`~rl_impls.common.phases.Phases`.
    """

    def __init__(self, spec, worlds, batch, options, backend, clock=untimed):
        agents, size, _ = spec["params"]["w_state"].shape
        self.stored, self.gamma, self.clock = spec["stored"], spec["gamma"], clock
        self.memory = Memory(agents, worlds, spec["capacity"], size // FRAMES, self.gamma)
        self.blank = np.zeros((agents, worlds, FRAMES - 1, size // FRAMES), np.float32)
        self.from_host, self.to_host, self.wait = backend.from_host, backend.to_host, backend.wait
        example = tuple(map(backend.to_device, blank_batch(spec["params"], batch)))
        self.train = backend.build("treasurehunt", "train_step", trained(spec), example, options)
        states = np.zeros((agents, worlds, size), np.float32)
        taus, flags = np.zeros((agents, worlds, QUANTILES), np.float32), np.zeros((agents, worlds), bool)
        example = tuple(map(backend.to_device, (states, taus, flags, flags.astype(np.int32))))
        self.actor = self.train.actor(example)
        self.reset()

    def reset(self):
        """Restore the initial nets and memory, and begin an episode."""
        self.train.reset()
        self.memory.restore(self.stored)
        self.begin()

    def begin(self):
        """Begin an episode by clearing the recent frames."""
        self.recent = self.blank

    def act(self, obs, *drawn):
        """Return actions i32[N, K] from the recent frames and the observations `obs`, f32[N, K, F].

        `drawn` is taus f32[N, K, Q], explore bool[N, K], random_actions i32[N, K].
        """
        self.obs = obs
        self.actions = self.to_host(self.actor(*map(self.from_host, (stack(self.recent, obs), *drawn))))
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
        losses = self.to_host(self.wait(self.train(*map(self.from_host, (*batch, taus, noise)))))
        self.clock("learning")
        return losses

    @property
    def params(self):
        """The online weights, f32[N, ...]."""
        return self.train.params

    def state(self):
        """Return nets, moments and memory as NumPy, named ``train.*`` and ``memory.*``."""
        return state_of(self.train, self.memory)

    def load_state(self, state):
        """Restore a state, also one from another form or backend."""
        load_into(self.train, self.memory, state)
        self.begin()

    def close(self):
        """Nothing to close."""


def state_of(train, memory):
    """Return the state of a learner and a memory as one dict, named ``train.*`` and ``memory.*``."""
    parts = {"train": train.state(), "memory": memory.arrays()}
    return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def load_into(train, memory, state):
    """Restore what :func:`state_of` returned into a learner and a memory."""
    for part, load in (("train.", train.load_state), ("memory.", memory.restore)):
        load({name.removeprefix(part): value for name, value in state.items() if name.startswith(part)})


def trained(spec):
    """Return the configuration of the ``train_step`` op from that of a loop."""
    return {name: value for name, value in spec.items() if name not in ("stored", "world_state")}


class Teams(Learners):
    """N :class:`Team` objects of one agent each, called one after the other; same interface as a :class:`Team` of N.

    `args` are the arguments of :class:`Team` after `spec`.
    """

    part, merge = staticmethod(slice_of), staticmethod(np.concatenate)

    def __init__(self, spec, *args):
        agents = range(len(spec["params"]["w_state"]))
        super().__init__([Team(of_agent(spec, n, slice_of), *args) for n in agents], np.concatenate)

    def begin(self):
        """Begin an episode for every agent."""
        self.ask("begin")

    def act(self, *args):
        """Return the joined actions of all agents, i32[N, K]."""
        return self.join(self.ask("act", *args))

    def act_alone(self, agent, *args):
        """Return actions i32[K] of one agent from its slices [K, ...] of the arguments of :meth:`Team.act`."""
        return self.members[agent].act(*(x[None] for x in args))[0]

    def remember(self, rewards):
        """Store the last turn of every agent."""
        self.ask("remember", rewards)

    def finish(self, obs):
        """Store every agent's final observation."""
        self.ask("finish", obs)

    def learn(self, *drawn):
        """Update the agents one by one; return their losses before the update, f32[N]."""
        return self.join(self.ask("learn", *drawn))
