"""Treasurehunt's alone: only here act several in one world: what they saw and remember, how they act and learn."""

from __future__ import annotations

import numpy as np

from ..common.phases import untimed
from ._numpy import noise_size
from .memory import Memory, gather, push_recent, stack
from .per_agent import Learners, of_agent, slice_of
from .spec import FRAMES

QUANTILES = 12


def blank_batch(params, batch):
    """Return zeros of the shapes that an update takes, for as many agents as there are weights.

    Args:
        params: weights f32[N, ...].
        batch: transitions of each agent, B.
    """
    agents, size, _ = params["w_state"].shape
    states, scalars = np.zeros((agents, batch, size), np.float32), np.zeros((agents, batch), np.float32)
    taus, noise = np.zeros((agents, 3, batch, QUANTILES), np.float32), np.zeros((agents, 2, noise_size(params)))
    return states, scalars.astype(np.int32), scalars, states, scalars, taus, noise.astype(np.float32)


class Team:
    """Nets, memory and recent frames of N agents in K worlds, from a fixed start.

    Args:
        spec: what the agents are built from.
        worlds: K.
        batch: transitions in an update.
        knobs: of the loop.
        backend: that computes.
        clock: is told the phase that has ended.
    """

    def __init__(self, spec, worlds, batch, knobs, backend, clock=untimed):
        agents, size, _ = spec["params"]["w_state"].shape
        self.stored, self.gamma, self.clock = spec["stored"], spec["gamma"], clock
        self.memory = Memory(agents, worlds, spec["capacity"], size // FRAMES, self.gamma)
        self.blank = np.zeros((agents, worlds, FRAMES - 1, size // FRAMES), np.float32)
        self.from_host, self.to_host, self.wait = backend.from_host, backend.to_host, backend.wait
        example = tuple(map(backend.to_device, blank_batch(spec["params"], batch)))
        self.train = backend.build("treasurehunt", "train_step", trained(spec), example, knobs)
        states = np.zeros((agents, worlds, size), np.float32)
        taus, flags = np.zeros((agents, worlds, QUANTILES), np.float32), np.zeros((agents, worlds), bool)
        example = tuple(map(backend.to_device, (states, taus, flags, flags.astype(np.int32))))
        self.actor = self.train.actor(example)
        self.reset()

    def reset(self):
        """Put nets and memory back to the start, and begin an episode."""
        self.train.reset()
        self.memory.restore(self.stored)
        self.begin()

    def begin(self):
        """Begin an episode, with nothing seen."""
        self.recent = self.blank

    def act(self, obs, *drawn):
        """Return actions i32[N, K], chosen by the last frames.

        Args:
            obs: what the agents see, f32[N, K, F].
            drawn: taus f32[N, K, Q], explore bool[N, K], random_actions i32[N, K].
        """
        self.obs = obs
        self.actions = self.to_host(self.actor(*map(self.from_host, (stack(self.recent, obs), *drawn))))
        return self.actions

    def remember(self, rewards):
        """Store what was seen, done and received since.

        Args:
            rewards: f32[N, K].
        """
        self.memory.push(self.obs, self.actions, rewards)
        self.recent = push_recent(self.recent, self.obs)

    def finish(self, obs):
        """Store the last frames of the episode.

        Args:
            obs: f32[N, K, F].
        """
        self.memory.finish(obs)

    def learn(self, rows, taus, noise):
        """Return the losses f32[N] of an update of every agent, before it.

        Args:
            rows: where the transitions of a batch begin in the memory, i64[N, B].
            taus: quantiles, f32[N, 3, B, Q].
            noise: of the noisy layers, f32[N, 2, M].
        """
        batch = gather(self.memory.fields, rows, self.gamma)
        self.clock("memory")
        losses = self.to_host(self.wait(self.train(*map(self.from_host, (*batch, taus, noise)))))
        self.clock("learning")
        return losses

    @property
    def params(self):
        """The online weights as NumPy, f32[N, ...]."""
        return self.train.params

    def state(self):
        """Return nets, moments and memory as NumPy, by names ``train.*`` and ``memory.*``: all that an epoch needs."""
        return state_of(self.train, self.memory)

    def load_state(self, state):
        """Go on from what ``state`` returned, here or in another form or on another backend.

        Args:
            state: arrays by name.
        """
        load_into(self.train, self.memory, state)
        self.begin()

    def close(self):
        """There is nothing to end."""


def state_of(train, memory):
    """Return all that learners and a memory hold, as arrays by names ``train.*`` and ``memory.*``.

    Args:
        train: has ``state()``.
        memory: has ``arrays()``.
    """
    parts = {"train": train.state(), "memory": memory.arrays()}
    return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def load_into(train, memory, state):
    """Put what ``state_of`` returned into learners and a memory.

    Args:
        train: has ``load_state(state)``.
        memory: has ``restore(arrays)``.
        state: arrays by name.
    """
    for part, load in (("train.", train.load_state), ("memory.", memory.restore)):
        load({name.removeprefix(part): value for name, value in state.items() if name.startswith(part)})


def trained(spec):
    """Return what an update is built from, of what a loop is built from.

    Args:
        spec: what the loop is built from.
    """
    return {name: value for name, value in spec.items() if name not in ("stored", "world_state")}


class Teams(Learners):
    """N teams of one agent, told one after the other what to do; does what :class:`Team` does.

    Args:
        spec: what the agents are built from.
        args: the other arguments of :class:`Team`.
    """

    part, merge = staticmethod(slice_of), staticmethod(np.concatenate)

    def __init__(self, spec, *args):
        agents = range(len(spec["params"]["w_state"]))
        super().__init__([Team(of_agent(spec, n, slice_of), *args) for n in agents], np.concatenate)

    def begin(self):
        """Begin an episode, with nothing seen."""
        self.ask("begin")

    def act(self, *args):
        """Return actions i32[N, K].

        Args:
            args: those of :meth:`Team.act`.
        """
        return self.join(self.ask("act", *args))

    def act_alone(self, agent, *args):
        """Return actions i32[K] of one agent, whose turn it is.

        Args:
            agent: its index.
            args: its part of those of :meth:`Team.act`, [K, ...].
        """
        return self.members[agent].act(*(x[None] for x in args))[0]

    def remember(self, rewards):
        """Store what was seen, done and received since.

        Args:
            rewards: f32[N, K].
        """
        self.ask("remember", rewards)

    def finish(self, obs):
        """Store the last frames of the episode.

        Args:
            obs: f32[N, K, F].
        """
        self.ask("finish", obs)

    def learn(self, *drawn):
        """Return the losses f32[N] of an update of every agent, before it.

        Args:
            drawn: the arguments of :meth:`Team.learn`.
        """
        return self.join(self.ask("learn", *drawn))
