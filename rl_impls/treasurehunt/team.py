"""N agents: what they saw last, what they remember, how they act and learn, all at once or one after the other."""

from __future__ import annotations

import numpy as np

from ._numpy import noise_size
from .memory import FRAMES, Memory, gather, push_recent, stack

QUANTILES = 12


def blank_batch(params, batch):
    """Return zeros of the shapes that an update takes, for as many agents as there are weights."""
    agents, size, _ = params["w_state"].shape
    states, scalars = np.zeros((agents, batch, size), np.float32), np.zeros((agents, batch), np.float32)
    taus, noise = np.zeros((agents, 3, batch, QUANTILES), np.float32), np.zeros((agents, 2, noise_size(params)))
    return states, scalars.astype(np.int32), scalars, states, scalars, taus, noise.astype(np.float32)


class Team:
    """Nets, memory and recent frames of N agents in K worlds, from a fixed start."""

    def __init__(self, spec, worlds, batch, knobs, backend):
        agents, size, _ = spec["params"]["w_state"].shape
        self.stored, self.gamma = spec["stored"], spec["gamma"]
        self.memory = Memory(agents, worlds, spec["capacity"], size // FRAMES, self.gamma)
        self.blank = np.zeros((agents, worlds, FRAMES - 1, size // FRAMES), np.float32)
        self.from_host, self.to_host, self.wait = backend.from_host, backend.to_host, backend.wait
        example = tuple(map(backend.to_device, blank_batch(spec["params"], batch)))
        self.train = backend.build("treasurehunt", "train_step", spec, example, knobs)
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
        """Choose actions by the last frames.  obs f32[N, K, F], taus, explore, random_actions -> i32[N, K]"""
        self.obs = obs
        self.actions = self.to_host(self.actor(*map(self.from_host, (stack(self.recent, obs), *drawn))))
        return self.actions

    def remember(self, rewards):
        """Store what was seen, done and received since."""
        self.memory.push(self.obs, self.actions, rewards)
        self.recent = push_recent(self.recent, self.obs)

    def finish(self, obs):
        """Store the last frames of the episode."""
        self.memory.finish(obs)

    def learn(self, rows, taus, noise, clock=str):
        """Update every agent on the transitions that begin in its rows i64[N, B].  -> f32[N], the losses"""
        batch = gather(self.memory.fields, rows, self.gamma)
        clock("memory")
        losses = self.to_host(self.wait(self.train(*map(self.from_host, (*batch, taus, noise)))))
        clock("learning")
        return losses

    @property
    def params(self):
        """The online weights as NumPy."""
        return self.train.params

    def close(self):
        """There is nothing to end."""


OF_AGENT = ("frames", "actions", "rewards")  # what a memory keeps for each


def agent_slice(spec, n):
    """Return what agent ``n`` is built from, as a team of one."""
    own = {part: {name: value[n : n + 1] for name, value in spec[part].items()} for part in ("params", "target")}
    stored = {name: value[n : n + 1] if name in OF_AGENT else value for name, value in spec["stored"].items()}
    return {**spec, **own, "stored": stored}


class TeamsOfOne:
    """N agents that are told one after the other what to do; does what :class:`Team` does."""

    def __init__(self, spec, *args):
        self.agents = [Team(agent_slice(spec, n), *args) for n in range(len(spec["params"]["w_state"]))]

    def ask(self, name, *columns):
        """Have every agent call a method on its slice of arguments [N, ...]; return what they return."""
        return [getattr(agent, name)(*(c[n : n + 1] for c in columns)) for n, agent in enumerate(self.agents)]

    tell = ask

    def reset(self):
        """Put nets and memories back to the start, and begin an episode."""
        self.ask("reset")

    def begin(self):
        """Begin an episode, with nothing seen."""
        self.tell("begin")

    def act(self, *args):
        """Choose actions, see :meth:`Team.act`."""
        return np.concatenate(self.ask("act", *args))

    def act_alone(self, agent, *args):
        """The same for one agent, whose turn it is, with arguments [K, ...].  -> i32[K]"""
        return self.agents[agent].act(*(x[None] for x in args))[0]

    def remember(self, rewards):
        """Store what was seen, done and received since."""
        self.tell("remember", rewards)

    def finish(self, obs):
        """Store the last frames of the episode."""
        self.tell("finish", obs)

    def learn(self, rows, taus, noise, clock):
        """Update one agent after the other, see :meth:`Team.learn`."""
        every = zip(self.agents, rows[:, None], taus[:, None], noise[:, None])
        return np.concatenate([agent.learn(*drawn, clock) for agent, *drawn in every])

    def all_params(self):
        """Return the online weights of every agent."""
        return [agent.params for agent in self.agents]

    @property
    def params(self):
        """The online weights as NumPy."""
        every = self.all_params()
        return {name: np.concatenate([params[name] for params in every]) for name in every[0]}

    def close(self):
        """There is nothing to end."""


TEAMS = {"batched": Team, "one_by_one": TeamsOfOne}
