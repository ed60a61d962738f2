"""Turns and epochs of a treasure hunt, from a fixed start; their phases are timed."""

from __future__ import annotations

import numpy as np

from ..common.op import Op
from ..common.phases import Phases
from .processes import ProcessTeams
from .spec import settings_of
from .team import Team, Teams
from .vector_env import WORLDS

PHASES = ("environment", "inference", "memory", "learning")
TEAMS = {  # by the knobs nets and processes
    ("batched", "one"): Team,
    ("one_by_one", "one"): Teams,
    ("one_by_one", "per_agent"): ProcessTeams,
}


class Turns(Op):
    """T turns of N agents in K worlds, without learning.

    Args:
        spec: what it is built from, see :class:`.spec.Spec`.
        worlds: K.
        batch: transitions in an update.
        knobs: of the loop.
        backend: that computes.
    """

    def __init__(self, spec, worlds, batch, knobs, backend):
        self.settings, self.start = settings_of(spec), spec["world_state"]
        self.world = WORLDS[knobs.world](self.settings, worlds)
        self.clock = Phases(*PHASES)
        self.team = TEAMS[knobs.nets, knobs.processes](spec, worlds, batch, knobs, backend, self.clock)
        self.play_turn = {"together": self.together, "interleaved": self.interleaved}[knobs.order]
        self.reset()

    def reset(self):
        """Put worlds and agents back to the start."""
        self.team.reset()
        self.world.set_state(self.start)
        self.obs = self.world.observe()
        self.clock.reset()

    def phases(self):
        """Return the seconds spent in each phase since the last reset."""
        return dict(self.clock.seconds)

    @property
    def params(self):
        """The online weights as NumPy, f32[N, ...]."""
        return self.team.params

    def state(self):
        """Return nets, moments and memories as NumPy: all that the next epoch depends on but what it is called with."""
        return self.team.state()

    def load_state(self, state):
        """Go on from what ``state`` returned, here or in another form or on another backend.

        Args:
            state: arrays by name.
        """
        self.team.load_state(state)

    def close(self):
        """End the processes of the agents, if they have any."""
        self.team.close()

    def together(self, draws, *drawn):
        """All agents observe, then act.  -> actions i32[N, K], rewards f32[N, K]"""
        actions = self.team.act(self.obs, *drawn)
        self.clock("inference")
        self.obs, rewards, _ = self.world.advance(actions, draws)
        self.clock("environment")
        return actions, rewards

    def interleaved(self, draws, *drawn):
        """Each agent observes when those before it have acted.  -> actions i32[N, K], rewards f32[N, K]"""
        actions, rewards = [], []
        for agent in range(self.settings.agents):
            obs = self.world.observe_agent(agent)
            self.clock("environment")
            actions.append(self.team.act_alone(agent, obs, *(x[agent] for x in drawn)))
            self.clock("inference")
            rewards.append(self.world.move_agent(agent, actions[-1]))
        self.world.end_turn(draws)
        self.obs = self.world.observe()
        self.clock("environment")
        return np.array(actions), np.array(rewards)

    def play(self, *drawn):
        """Play T turns.  -> actions i32[T, N, K], rewards f32[T, N, K]"""
        played = []
        for turn in zip(*drawn):
            actions, rewards = self.play_turn(*turn)
            self.team.remember(rewards)
            self.clock("memory")
            played.append((actions, rewards))
        return (*map(np.array, zip(*played)),)

    def __call__(self, *drawn):
        """Play T turns with draws i32[T, K, C], taus f32[T, N, K, Q], explore, random_actions; return what was done."""
        self.clock.start()
        return self.play(*drawn)


class Epoch(Turns):
    """An episode of N agents in K worlds, truncated after T turns, and an update of every agent."""

    def __call__(self, reset_draws, draws, taus, explore, random_actions, rows, train_taus, noise):
        """Play and learn.  -> actions i32[T, N, K], rewards f32[T, N, K], losses f32[N]"""
        self.clock.start()
        self.obs = self.world.reset(reset_draws)
        self.team.begin()
        self.clock("environment")
        played = self.play(draws, taus, explore, random_actions)
        self.team.finish(self.obs)
        self.clock("memory")
        return *played, self.team.learn(rows, train_taus, noise)
