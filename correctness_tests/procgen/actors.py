"""A fake actor without game and net, for the tests of the processes that run actors."""

import os
import signal

import numpy as np

from rl_impls.procgen.actor_pool import rollout_of
from rl_impls.procgen.actors import env_slice


class FakeActor:
    """An actor without a game: all rewards are the rollout's number, and all actions the number of its replacements.

    ``config["faults"]`` maps a rollout's number to the fault of actor 1 in that rollout: ``fail``, ``die`` (unless it
    is a replacement) or ``die always``.
    """

    def __init__(self, shared, config, index, life, threads, options, backend):
        self.shared, self.faults, self.index, self.life = shared, config["faults"], index, life
        self.threads = threads
        self.envs = env_slice(config, index)
        count = self.envs.stop - self.envs.start
        self.state = {"games": [b""] * count, "returns": np.zeros(count), "lengths": np.zeros(count, np.int64)}

    def get_state(self):
        return self.state

    def get_threads(self):
        return self.threads

    def set_state(self, state):
        self.state = state

    def play(self, number):
        fault = self.faults.get(number) if self.index == 1 else None
        if fault == "fail":
            raise ValueError("the game is over")
        if fault == "die always" or (fault == "die" and self.life == 0):
            os.kill(os.getpid(), signal.SIGKILL)
        slot = number % len(self.shared["behind"])
        rollout = rollout_of(self.shared, slot, self.envs)
        rollout.rewards[:], rollout.actions[:] = number, self.life
        self.state["lengths"] = self.state["lengths"] + 1
        self.shared["behind"][slot, self.index] = self.shared["newest"][0]
