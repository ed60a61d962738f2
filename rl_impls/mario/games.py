"""The game that a collector plays, of Procgen or the NES, with a frame skip of four.

A frame is u8[H, W, 3]: height, width, colour.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..common.checks import choose
from ..common.procgen_env import GAMES, ProcgenVectorEnv, check_installed
from ..common.procgen_state import pack, unpack

SKIP = 4  # frames for which an action is repeated
NES = "mario"  # name of the game that is not Procgen's
KNOWN = (*GAMES, NES)


class Episode(NamedTuple):
    """An episode that ended.

    Attributes:
        result: return, the undiscounted sum of rewards.
        length: number of frames played.
        distance: pixels to the right in the NES game; in Procgen, which has none, 1 if the level was completed, else 0.
    """

    result: float
    length: int
    distance: float


class ProcgenGame:
    """One environment of Procgen; the frame after the last step of an episode is the first of the next.

    It plays ``levels`` levels from ``start_level`` on, in a sequence that ``seed`` determines; 0 levels: no limit.
    """

    shape = (64, 64)
    saved = ("games", "sizes", "returns", "lengths")  # names of the arrays of a state

    def __init__(self, game, mode, levels, start_level, seed):
        options = {"mode": mode, "num_levels": levels, "start_level": start_level}
        self.envs = ProcgenVectorEnv(game, 1, seed=seed, threads=1, **options)
        self.frames = np.empty(self.envs.observation_space.shape, np.uint8)

    def observe(self):
        """Return the current frame, u8[64, 64, 3]; the next step overwrites it."""
        return self.envs.observe(self.frames)[0]

    def step(self, action):
        """Repeat an action, from 0 to 14, for four frames or until the episode ends.

        Returns:
            the frame u8[64, 64, 3] that follows, which the next step overwrites; the sum of the rewards; and the
            :class:`Episode` that ended, or None.
        """
        reward, actions = 0.0, np.array([action], np.int32)
        for _ in range(SKIP):
            frames, rewards, ended = self.envs.advance(actions, self.frames)
            reward += float(rewards[0])
            if ended[0]:
                last = self.envs.finished
                episode = Episode(float(last.returns[0]), int(last.lengths[0]), float(last.solved[0]))
                return frames[0], reward, episode
        return frames[0], reward, None

    def get_state(self):
        return pack(self.envs.get_state())

    def set_state(self, state):
        self.envs.set_state(unpack(state))

    def close(self):
        self.envs.close()


class NesPlayed:
    """Super Mario Bros. with the interface of :class:`ProcgenGame`, except that its state cannot be saved."""

    shape = (240, 256)
    saved = ()

    def __init__(self, seed):
        from .nes import NesGame

        self.game = NesGame(seed, wait=30)
        self.begin()

    def begin(self):
        """Begin an episode."""
        self.frame, self.result, self.length = self.game.reset(), 0.0, 0

    def observe(self):
        """Return the current frame, u8[240, 256, 3]."""
        return self.frame

    def step(self, action):
        """Like :meth:`ProcgenGame.step`; the action is taken modulo the 7 actions of the NES game."""
        total = 0.0
        for _ in range(SKIP):
            self.frame, reward, ended = self.game.step(action % self.game.actions)
            total += reward
            self.length += 1
            if ended:
                episode = Episode(self.result + total, self.length, float(self.game.progress))
                self.begin()
                return self.frame, total, episode
        self.result += total
        return self.frame, total, None

    def get_state(self):
        """Return an empty state: the emulator's cannot be saved."""
        return {}

    def set_state(self, state):
        """Begin another episode; the state is ignored."""
        self.begin()

    def close(self):
        self.game.close()


def check_game(game, backend="numpy"):
    """Raise ValueError for an unknown game, BackendUnavailable if one of its packages is not installed."""
    if choose("game", game, KNOWN) == NES:
        from .nes import NEEDED

        return check_installed(backend, NEEDED)
    return check_installed(backend)


def make_game(config, seed):
    """Return the game that a pipeline's configuration names; raise BackendUnavailable if it is not installed."""
    if config["game"] == NES:
        return NesPlayed(seed)
    return ProcgenGame(config["game"], config["mode"], config["levels"], config["start_level"], seed)
