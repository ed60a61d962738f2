"""Mario's alone: what a collector plays: one game, of Procgen or of the NES, with a frame skip of four.

A frame is u8[H, W, 3]: height, width, colour.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..common.checks import check_choice
from ..common.procgen_env import GAMES, ProcgenVectorEnv, check_installed

SKIP = 4  # frames that an action is kept up for
NES = "mario"  # the name of the game that is not Procgen's
KNOWN = (*GAMES, NES)


class Episode(NamedTuple):
    """An episode that ended.

    Attributes:
        result: sum of its rewards.
        length: frames that were played.
        distance: how far it went. Procgen tells of none: 1 where the level was completed, else 0.
    """

    result: float
    length: int
    distance: float


class ProcgenGame:
    """One game of Procgen; the frame after an episode's last step is the first one of the next.

    Args:
        game: its name.
        mode: easy or hard.
        levels: how many are played; 0: all there are.
        start_level: the first of them.
        seed: of the levels that are drawn.
    """

    shape = (64, 64)

    def __init__(self, game, mode, levels, start_level, seed):
        options = {"mode": mode, "num_levels": levels, "start_level": start_level}
        self.envs = ProcgenVectorEnv(game, 1, seed=seed, threads=1, **options)
        self.frames = np.empty(self.envs.observation_space.shape, np.uint8)

    def observe(self):
        """Return the present frame, u8[64, 64, 3]; the next step overwrites it."""
        return self.envs.observe(self.frames)[0]

    def step(self, action):
        """Keep an action up for four frames, or until the episode ends, and see what follows.

        Args:
            action: from 0 to 14.

        Returns:
            The frame u8[64, 64, 3], which the next step overwrites; the sum of the rewards; the :class:`Episode` that
            ended, or None.
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
        """Return all that is needed to go on from here, flat, by name."""
        return self.envs.get_state()

    def set_state(self, state):
        """Go on from a state.

        Args:
            state: as :meth:`get_state` returned it.
        """
        self.envs.set_state(state)

    def close(self):
        """End the game."""
        self.envs.close()


class NesPlayed:
    """Super Mario Bros. with the same interface; a state that is gone on from begins another episode.

    Args:
        seed: of all that is random in it.
    """

    shape = (240, 256)

    def __init__(self, seed):
        from .nes import NesGame

        self.game = NesGame(seed, wait=30)
        self.frame, self.result, self.length = self.game.reset(), 0.0, 0

    def observe(self):
        """Return the present frame, u8[240, 256, 3]."""
        return self.frame

    def step(self, action):
        """Keep an action up for four frames, or until the episode ends, and see what follows; it is begun anew then.

        Args:
            action: from 0 to 14; as there are fewer buttons, several numbers are one action.

        Returns:
            The frame u8[240, 256, 3]; the sum of the rewards; the :class:`Episode` that ended, or None.
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
        """Return nothing: the emulator's state cannot be kept."""
        return {}

    def set_state(self, state):
        """Begin another episode.

        Args:
            state: of no account.
        """
        self.frame, self.result, self.length = self.game.reset(), 0.0, 0

    def close(self):
        """End the emulator."""
        self.game.close()


def check_game(game, backend="numpy"):
    """Check that a game can be played.

    Args:
        game: its name.
        backend: name of the backend that needs it, for the error.

    Raises:
        BackendUnavailable: what it needs is not installed.
        ValueError: no such game.
    """
    if check_choice("game", game, KNOWN) == NES:
        from .nes import check_installed as check_nes

        return check_nes(backend)
    return check_installed(backend)


def make_game(spec, seed):
    """Return the game of a collector.

    Args:
        spec: ``game``, ``mode``, ``levels`` and ``start_level`` are taken, see :class:`.spec.Spec`.
        seed: of all that is random in it.

    Raises:
        BackendUnavailable: what it needs is not installed.
    """
    if spec["game"] == NES:
        return NesPlayed(seed)
    return ProcgenGame(spec["game"], spec["mode"], spec["levels"], spec["start_level"], seed)
