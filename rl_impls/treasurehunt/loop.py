"""Turns and epochs of a treasure hunt, from a fixed start; their phases are timed."""

from __future__ import annotations

import numpy as np

from ..common.phases import Phases
from .memory import FRAMES
from .settings import settings_of
from .team import TEAMS
from .world import WORLDS

PHASES = ("environment", "inference", "memory", "learning")


def check_nets(settings, params):
    """Raise a ValueError unless the weights are those of these agents."""
    agents, size, _ = params["w_state"].shape
    if (agents, size) != (settings.agents, FRAMES * settings.frame):
        raise ValueError(
            f"params: got {agents} nets of {size} inputs, wanted {settings.agents} of {FRAMES * settings.frame}"
        )


class Turns:
    """T turns of N agents in K worlds, without learning."""

    def __init__(self, spec, worlds, batch, knobs, backend):
        self.settings, self.start = settings_of(spec), spec["world_state"]
        check_nets(self.settings, spec["params"])
        self.world = WORLDS[knobs.world](self.settings, worlds)
        team = TEAMS[knobs.nets]
        if knobs.processes == "per_agent":
            from .processes import ProcessTeam as team
        self.team = team(spec, worlds, batch, knobs, backend)
        self.play_turn = {"together": self.together, "interleaved": self.interleaved}[knobs.order]
        self.clock = Phases(*PHASES)
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
        """The online weights as NumPy."""
        return self.team.params

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
        return *played, self.team.learn(rows, train_taus, noise, self.clock)
