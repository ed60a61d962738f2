"""Turns and epochs of a treasure hunt, stepped from Python, with timed phases."""

import numpy as np

from ..common.phases import Phases, TimedLoop
from .process_team import ProcessTeam
from .team import OneByOneTeam, Team
from .vector_env import WORLDS, Settings

PHASES = ("environment", "inference", "memory", "learning")
TEAMS = {  # by the ``nets`` and ``processes`` options
    ("batched", "one"): Team,
    ("one_by_one", "one"): OneByOneTeam,
    ("one_by_one", "per_agent"): ProcessTeam,
}


class Turns(TimedLoop):
    """T turns of N agents in K worlds, without learning.

    `config` has the entries of ``train_step``, see :func:`._torch.train_step`; ``gamma``; ``settings``, arguments of
    :class:`.vector_env.Settings`; ``capacity``, frames per agent in the replay memory, over all worlds; ``stored``, its
    initial contents as in :meth:`.memory.Memory.arrays`; ``world_state``, see :mod:`.vector_env`; and optionally
    ``worker_timeout``, seconds to wait for an agent's process.
    """

    def __init__(self, config, options, backend):
        self.settings, self.world_state = Settings(**config["settings"]), config["world_state"]
        num_worlds = len(self.world_state["grid"])
        self.worlds = WORLDS[options.world](self.settings, num_worlds)
        self.clock = Phases(*PHASES)
        self.team = TEAMS[options.nets, options.processes](config, num_worlds, options, backend, self.clock)
        self.trained = self.team
        self.play_turn = {"together": self.together, "interleaved": self.interleaved}[options.order]
        self.reset()

    def reset(self):
        self.team.reset()
        self.worlds.set_state(self.world_state)
        self.obs = self.worlds.observe()
        self.clock.reset()

    def state(self):
        """Return what the next epoch depends on, apart from its arguments, as NumPy: nets, moments and memories."""
        return self.team.state()

    def load_state(self, state):
        self.team.load_state(state)

    def close(self):
        self.team.close()

    def together(self, draws, taus, explore, random_actions):
        """Play a turn in which all agents observe, then act; return actions i32[N, K] and rewards f32[N, K].

        `draws` i32[K, C] spawn items; taus f32[N, K, Q], explore bool[N, K], random_actions i32[N, K].
        """
        actions = self.team.act(self.obs, taus, explore, random_actions)
        self.clock("inference")
        self.obs, rewards, _ = self.worlds.advance(actions, draws)
        self.clock("environment")
        return actions, rewards

    def interleaved(self, draws, *exploration):
        """Play a turn in which each agent observes after its predecessors have moved; otherwise as :meth:`together`."""
        actions, rewards = [], []
        for agent in range(self.settings.num_agents):
            obs = self.worlds.observe_agent(agent)
            self.clock("environment")
            actions.append(self.team.act_alone(agent, obs, *(x[agent] for x in exploration)))
            self.clock("inference")
            rewards.append(self.worlds.move_agent(agent, actions[-1]))
        self.worlds.end_turn(draws)
        self.obs = self.worlds.observe()
        self.clock("environment")
        return np.array(actions), np.array(rewards)

    def play(self, draws, taus, explore, random_actions):
        """Play and store T turns; return actions i32[T, N, K] and rewards f32[T, N, K].

        draws i32[T, K, C], taus f32[T, N, K, Q], explore bool[T, N, K], random_actions i32[T, N, K]
        """
        turns = []
        for turn in zip(draws, taus, explore, random_actions):
            actions, rewards = self.play_turn(*turn)
            self.team.remember(rewards)
            self.clock("memory")
            turns.append((actions, rewards))
        return (*map(np.array, zip(*turns)),)

    def __call__(self, draws, taus, explore, random_actions):
        """Start the clock and return :meth:`play` of the same arguments."""
        self.clock.start()
        return self.play(draws, taus, explore, random_actions)


class Epoch(Turns):
    """An episode of N agents in K worlds, truncated after T turns, followed by one update of every agent."""

    def __call__(self, reset_draws, draws, taus, explore, random_actions, rows, train_taus, noise):
        """Play an episode and update every agent; return actions i32[T, N, K], rewards f32[T, N, K], losses f32[N].

        `reset_draws` i32[K, C] place the agents. The next four are the arguments of :meth:`play`. The last three are
        for the update: `rows` i64[N, B] of the memory where transitions start, `train_taus` f32[N, 3, B, Q] and `noise`
        f32[N, 2, M].
        """
        self.clock.start()
        self.obs = self.worlds.reset(reset_draws)
        self.team.begin()
        self.clock("environment")
        played = self.play(draws, taus, explore, random_actions)
        self.team.finish(self.obs)
        self.clock("memory")
        return *played, self.team.learn(rows, train_taus, noise)
