"""Mario's alone: Super Mario Bros. itself, in the emulator of nes-py, where the packages of the extra are installed.

The packages gym-super-mario-bros and nes-py are imported when the first game is played. They are of the time of gym
and of NumPy 1, where a byte and a number made a wider integer; NumPy 2 keeps the byte. Put right here are

- ``ROM.prg_rom_size`` and ``ROM.chr_rom_size``, which overflow once they are counted in bytes: the header is of wider
  integers;
- the position of Mario, which is two bytes of the memory, and his height above the screen: bytes of the memory are
  Python's integers.

A frame is u8[240, 256, 3], height, width, colour; the game shows 60 a second.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import gymnasium
import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded

from ..backends import OPTIONAL, PACKAGES, BackendUnavailable
from ..common.checks import check_choice, check_integer
from ..common.old_gym import silent_gym

FRAME = (240, 256, 3)
RATE = 60  # frames a second of the game
LEVELS = tuple(f"{world}-{stage}" for world in range(1, 9) for stage in range(1, 5))
NOTHING, A, B, LEFT, RIGHT = 0, 1, 2, 64, 128  # buttons, as bits
ACTIONS = (NOTHING, RIGHT, RIGHT | A, RIGHT | B, RIGHT | A | B, A, LEFT)  # SIMPLE_MOVEMENT of gym_super_mario_bros
NEEDED = ("gym_super_mario_bros", "nes_py", "gym")
MOST = 60  # frames that an episode may wait for its first action; no enemy is there so soon


def check_installed(backend="numpy"):
    """Check that the game can be imported.

    Args:
        backend: name of the backend that needs it, for the error.

    Raises:
        BackendUnavailable: a package is not installed.
    """
    for package in NEEDED:
        if find_spec(package) is None:
            raise BackendUnavailable(backend, f"{package} is not installed", (OPTIONAL | PACKAGES)[package])


@cache
def import_game():
    """Return the game of one level as a class, put right for NumPy 2, see the module."""
    with silent_gym():
        from gym_super_mario_bros import SuperMarioBrosEnv
        from nes_py import nes_env

    class Rom(nes_env.ROM):
        """A cartridge, whose sizes are computed with integers that are wide enough."""

        @property
        def header(self):
            """The first 16 bytes, i64[16]."""
            return super().header.astype(np.int64)

    class Level(SuperMarioBrosEnv):
        """One level in an emulator of its own."""

        def _ram_buffer(self):
            return memoryview(super()._ram_buffer())

    nes_env.ROM = Rom  # that the environment looks up when it is made
    return Level


class NesGame:
    """Super Mario Bros., one level an episode, without a life to spare.

    An episode ends at the flag, when Mario dies and when the clock of the level has run out. The reward of a step is
    the way to the right that Mario made in it, in pixels, less the ticks of the clock and 25 for a death, from -15 to
    15. The emulator draws nothing: where there is one level and no wait, every episode begins alike.

    Args:
        seed: of the levels and waits that are drawn, from 0 to 2**31 - 1.
        levels: of ``LEVELS``, of which each episode draws one.
        wait: most frames that pass before an episode's first action, from 0 to 60; each episode draws a number up to
            this.

    Attributes:
        actions: how many there are, 7: see ``ACTIONS``.
        progress: how far to the right Mario came in this episode, or in the one that has ended, in pixels: the largest
            ``x_pos``, which begins anew where a pipe leads.
        level: that is played.
        info: of the last frame, as gym-super-mario-bros tells it: coins, score, x_pos and more, by name.

    Raises:
        ValueError: an argument or action that makes no sense; nothing is changed.
        gymnasium.error.ResetNeeded: a step before the first :meth:`reset`, or after the end of an episode.
        gymnasium.error.ClosedEnvironmentError: a call after :meth:`close`.
        BackendUnavailable: a package is not installed.
    """

    actions = len(ACTIONS)

    def __init__(self, seed=0, levels=("1-1",), wait=0):
        self.rng = np.random.default_rng(check_seed(seed))
        self.levels = tuple(check_choice("levels", level, LEVELS) for level in levels)
        if not self.levels:
            raise ValueError("levels: got none, wanted one or more")
        self.wait = check_integer("wait", wait, 0, MOST)
        check_installed()
        self.made = {}  # the emulator of each level that was played
        self.game, self.level, self.info, self.progress, self.closed = None, None, {}, 0, False

    def reset(self, seed=None):
        """Begin an episode.  -> frame u8[240, 256, 3]

        Args:
            seed: from which all is drawn from now on, as if the game were made with it; None to go on.
        """
        self.check_open("reset")
        if seed is not None:
            self.rng = np.random.default_rng(check_seed(seed))
        self.level = self.levels[self.rng.integers(len(self.levels))]
        if self.level not in self.made:
            self.made[self.level] = import_game()(target=tuple(map(int, self.level.split("-"))))
        self.game = self.made[self.level]
        self.game.reset()
        for _ in range(self.rng.integers(self.wait + 1)):
            self.game.step(NOTHING)
        self.info, self.progress = self.game._get_info(), 0
        return self.seen()

    def step(self, action):
        """Show one frame more.  -> frame u8[240, 256, 3], reward, whether it ended the episode

        Args:
            action: a number from 0 to 6, which buttons are pressed, see ``ACTIONS``.
        """
        self.check_open("step")
        action = check_integer("action", action, 0, len(ACTIONS) - 1)
        if self.game is None or self.game.done:
            raise ResetNeeded("step: got an action while no episode goes on, wanted a reset before")
        _, reward, ended, self.info = self.game.step(ACTIONS[action])
        return self.seen(), reward, ended

    def seen(self):
        """Count how far Mario came.  -> a copy of the frame, u8[240, 256, 3]

        The emulator's colours lie in the other order with a byte between two pixels: colour by colour, the copy takes a
        third of the time that all at once takes.
        """
        self.progress = max(self.progress, self.info["x_pos"])
        frame = np.empty(FRAME, np.uint8)
        for colour in range(3):
            frame[..., colour] = self.game.screen[..., colour]
        return frame

    def close(self):
        """End the emulators."""
        made, self.made, self.game, self.closed = self.made, {}, None, True
        for game in made.values():
            game.close()

    def check_open(self, name):
        """Check that the game was not closed.

        Args:
            name: of the method that needs it, for the error.

        Raises:
            gymnasium.error.ClosedEnvironmentError: it was.
        """
        if self.closed:
            raise ClosedEnvironmentError(f"{name}: got a game that is closed, wanted an open one")


class NesEnv(gymnasium.Env):
    """The same as a Gymnasium environment: every end is a termination, and infos are those of :class:`NesGame`.

    Infos also have ``level``, that is played, and ``progress``.

    Args:
        seed: as of :class:`NesGame`.
        levels: the same.
        wait: the same.
        render_mode: ``rgb_array`` where :meth:`render` is to return frames, or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": RATE}  # noqa: RUF012  (Gymnasium's own form)

    def __init__(self, seed=0, levels=("1-1",), wait=0, *, render_mode=None):
        if render_mode is not None:
            check_choice("render_mode", render_mode, self.metadata["render_modes"])
        self.game, self.render_mode = NesGame(seed, levels, wait), render_mode
        self.observation_space = gymnasium.spaces.Box(0, 255, FRAME, np.uint8)
        self.action_space = gymnasium.spaces.Discrete(self.game.actions)
        self.frame = None

    def reset(self, *, seed=None, options=None):
        """Begin an episode.  -> frame u8[240, 256, 3], infos

        Args:
            seed: from which all is drawn from now on; None to go on.
            options: none are known.
        """
        if options:
            raise ValueError(f"options: got {options!r}, wanted none")
        self.frame = self.game.reset(seed)
        super().reset(seed=seed)
        return self.frame, self.infos()

    def step(self, action):
        """Make one step.  -> frame u8[240, 256, 3], reward, terminated, truncated, infos

        Args:
            action: a number from 0 to 6.
        """
        self.frame, reward, ended = self.game.step(action)
        return self.frame, reward, ended, False, self.infos()

    def infos(self):
        """Return what is told of the last frame, by name."""
        return {**self.game.info, "level": self.game.level, "progress": self.game.progress}

    def render(self):
        """Return a copy of the last frame, u8[240, 256, 3], where the mode is ``rgb_array``."""
        return self.frame.copy() if self.render_mode and self.frame is not None else None

    def close(self):
        """End the emulators."""
        self.game.close()


def check_seed(seed):
    """Return a seed as a Python integer.

    Args:
        seed: what was given.

    Raises:
        ValueError: it is no integer from 0 to 2**31 - 1.
    """
    return check_integer("seed", seed, 0)
