"""The game that a collector plays, of Procgen or the NES, with a frame skip of four.

A frame is u8[H, W, 3]: height, width, colour.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..common.checks import check_choice
from ..common.procgen_env import GAMES, ProcgenVectorEnv, check_installed

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

    It plays ``levels`` levels from ``start_level`` on, in a sequence that ``seed`` determines; 0: no limit.
    """

    shape = (64, 64)

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
        summed, actions = 0.0, np.array([action], np.int32)
        for _ in range(SKIP):
            frames, rewards, ended = self.envs.advance(actions, self.frames)
            summed += float(rewards[0])
            if ended[0]:
                of = self.envs.finished
                return frames[0], summed, Episode(float(of.returns[0]), int(of.lengths[0]), float(of.solved[0]))
        return frames[0], summed, None

    def get_state(self):
        """Return the state of the environment, arrays and lists by name."""
        return self.envs.get_state()

    def set_state(self, state):
        """Restore a state of :meth:`get_state`."""
        self.envs.set_state(state)

    def close(self):
        """Close the environment."""
        self.envs.close()


class NesPlayed:
    """Super Mario Bros. with the interface of :class:`ProcgenGame`, except that its state cannot be saved."""

    shape = (240, 256)

    def __init__(self, seed):
        from .nes import NesGame

        self.game = NesGame(seed, wait=30)
        self.frame, self.result, self.length = self.game.reset(), 0.0, 0

    def observe(self):
        """Return the current frame, u8[240, 256, 3]."""
        return self.frame

    def step(self, action):
        """Repeat an action, modulo the number of the NES game's, for four frames or until the episode ends.

        Returns:
            the next frame u8[240, 256, 3], that of a new episode after an end; the sum of the rewards; and the
            :class:`Episode` that ended, or None.
        """
        summed = 0.0
        for _ in range(SKIP):
            self.frame, reward, ended = self.game.step(action % self.game.actions)
            summed += reward
            self.length += 1
            if ended:
                episode = Episode(self.result + summed, self.length, float(self.game.progress))
                self.frame, self.result, self.length = self.game.reset(), 0.0, 0
                return self.frame, summed, episode
        self.result += summed
        return self.frame, summed, None

    def get_state(self):
        """Return an empty state: the emulator's cannot be saved."""
        return {}

    def set_state(self, state):
        """Begin another episode, whatever the state."""
        self.frame, self.result, self.length = self.game.reset(), 0.0, 0

    def close(self):
        """Close the emulator."""
        self.game.close()


def check_game(game, backend="numpy"):
    """Raise a ValueError if a game is unknown, and BackendUnavailable if a package of it is not installed."""
    if check_choice("game", game, KNOWN) == NES:
        from .nes import check_installed as check_nes

        return check_nes(backend)
    return check_installed(backend)


def make_game(spec, seed):
    """Return the game of a :class:`.spec.Spec`; raise BackendUnavailable if it is not installed."""
    if spec["game"] == NES:
        return NesPlayed(seed)
    return ProcgenGame(spec["game"], spec["mode"], spec["levels"], spec["start_level"], seed)
