"""Actors that need no game and no net, for the tests of the processes that hold them."""

from __future__ import annotations

import os
import signal

import numpy as np

from rl_impls.procgen.crew import rollout_of
from rl_impls.procgen.players import share_of


class Told:
    """An actor that plays nothing: the rewards of a rollout are its number, the actions count the actor's replacements.

    ``spec["told"]`` maps the number of a rollout to what happens to actor 1 in it: ``fail``, ``die`` (unless it is a
    replacement) or ``die always``.
    """

    def __init__(self, shared, spec, index, life, threads, options, backend):
        self.shared, self.spec, self.index, self.life = shared, spec, index, life
        self.share, self.envs = share_of(spec, index), self
        count = self.share.stop - self.share.start
        self.state = {"games": [b""] * count, "returns": np.zeros(count), "lengths": np.zeros(count, np.int64)}
        if spec["told"].get("start") == "die always" and index == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def get_state(self):
        return self.state

    def set_state(self, state):
        self.state = state

    def play(self, number):
        told = self.spec["told"].get(number) if self.index == 1 else None
        if told == "fail":
            raise ValueError("the game is over")
        if told == "die always" or (told == "die" and self.life == 0):
            os.kill(os.getpid(), signal.SIGKILL)
        slot = number % len(self.shared["behind"])
        rollout = rollout_of(self.shared, slot, self.share)
        rollout.rewards[:], rollout.actions[:] = number, self.life
        self.state["lengths"] = self.state["lengths"] + 1
        self.shared["behind"][slot, self.index] = self.shared["newest"][0]
