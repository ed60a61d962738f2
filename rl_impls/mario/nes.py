"""Super Mario Bros. in the emulator of nes-py, if the packages of the extra are installed.

The packages gym-super-mario-bros and nes-py, imported when the first game is played, were written for gym and NumPy 1,
which widened a byte in arithmetic with a larger integer. NumPy 2 keeps uint8, so this module corrects

- ``ROM.prg_rom_size`` and ``ROM.chr_rom_size``, which overflow when counted in bytes: the header is made int64;
- Mario's position, which has two bytes of the memory, and his height above the screen: bytes of the memory are made
  Python integers.

A frame is u8[240, 256, 3], height, width, colour; the game shows 60 per second.
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
RATE = 60  # frames per second of the game
LEVELS = tuple(f"{world}-{stage}" for world in range(1, 9) for stage in range(1, 5))
NOTHING, A, B, LEFT, RIGHT = 0, 1, 2, 64, 128  # buttons, as bits
ACTIONS = (NOTHING, RIGHT, RIGHT | A, RIGHT | B, RIGHT | A | B, A, LEFT)  # SIMPLE_MOVEMENT of gym_super_mario_bros
NEEDED = ("gym_super_mario_bros", "nes_py", "gym")
MOST = 60  # frames before an episode's first action, at most; no enemy reaches Mario so soon


def check_installed(backend="numpy"):
    """Raise BackendUnavailable, naming ``backend``, if a package of the game is not installed."""
    for package in NEEDED:
        if find_spec(package) is None:
            raise BackendUnavailable(backend, f"{package} is not installed", (OPTIONAL | PACKAGES)[package])


@cache
def import_game():
    """Return the game of one level as a class that works with NumPy 2."""
    with silent_gym():
        from gym_super_mario_bros import SuperMarioBrosEnv
        from nes_py import nes_env

    class Rom(nes_env.ROM):
        """A cartridge whose sizes cannot overflow."""

        @property
        def header(self):
            """The first 16 bytes, i64[16]."""
            return super().header.astype(np.int64)

    class Level(SuperMarioBrosEnv):
        """One level in an emulator of its own, with Python integers in its memory."""

        def _ram_buffer(self):
            return memoryview(super()._ram_buffer())

    nes_env.ROM = Rom  # the environment's constructor looks it up there
    return Level


class NesGame:
    """Super Mario Bros., one level per episode and a single life.

    An episode ends at the flag, when Mario dies, or when the level's clock runs out. The reward of a step is Mario's
    movement to the right in pixels, minus the ticks of the clock, minus 25 for a death, from -15 to 15. The emulator is
    deterministic: with one level and no wait, all episodes begin alike.

    Args:
        seed: seed of levels and waits, from 0 to 2**31 - 1.
        levels: names from ``LEVELS``; each episode samples one.
        wait: maximum number of frames that pass before an episode's first action, from 0 to 60; sampled per episode.

    Attributes:
        actions: number of actions, 7, see ``ACTIONS``.
        progress: largest ``x_pos`` in pixels in this episode, or in the one that has ended; ``x_pos`` starts again
            where a pipe leads.
        level: level of this episode.
        info: infos of the last frame from gym-super-mario-bros: coins, score, x_pos and more, by name.

    Raises:
        ValueError: invalid argument or action; nothing is changed.
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
        self.made = {}  # emulators by level
        self.game, self.level, self.info, self.progress, self.closed = None, None, {}, 0, False

    def reset(self, seed=None):
        """Begin an episode, with a new random generator if a seed is given.  -> frame u8[240, 256, 3]"""
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
        """Play one frame with an action from 0 to 6, see ``ACTIONS``.

        Returns:
            frame u8[240, 256, 3], reward, and whether the episode ended.
        """
        self.check_open("step")
        action = check_integer("action", action, 0, len(ACTIONS) - 1)
        if self.game is None or self.game.done:
            raise ResetNeeded("step: got an action while no episode goes on, wanted a reset before")
        _, reward, ended, self.info = self.game.step(ACTIONS[action])
        return self.seen(), reward, ended

    def seen(self):
        """Update ``progress``; return a copy of the frame, u8[240, 256, 3].

        The emulator has the channels in the opposite order, with a byte between two pixels. Copying channel by channel
        takes a third of the time of copying all at once.
        """
        self.progress = max(self.progress, self.info["x_pos"])
        frame = np.empty(FRAME, np.uint8)
        for colour in range(3):
            frame[..., colour] = self.game.screen[..., colour]
        return frame

    def close(self):
        """Close the emulators of all levels."""
        made, self.made, self.game, self.closed = self.made, {}, None, True
        for game in made.values():
            game.close()

    def check_open(self, name):
        """Raise ClosedEnvironmentError if the game is closed; ``name`` is the method called."""
        if self.closed:
            raise ClosedEnvironmentError(f"{name}: got a game that is closed, wanted an open one")


class NesEnv(gymnasium.Env):
    """Gymnasium environment of a :class:`NesGame`; it terminates episodes, and never truncates them.

    Infos are those of :class:`NesGame`, with ``level`` and ``progress``. The other arguments are those of
    :class:`NesGame` too.

    Args:
        render_mode: ``rgb_array``, for :meth:`render` to return frames, or None.
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
        """Begin an episode; there are no options.  -> frame u8[240, 256, 3], infos"""
        if options:
            raise ValueError(f"options: got {options!r}, wanted none")
        self.frame = self.game.reset(seed)
        super().reset(seed=seed)
        return self.frame, self.infos()

    def step(self, action):
        """Play one frame, with an action from 0 to 6.  -> frame, reward, terminated, truncated, infos"""
        self.frame, reward, ended = self.game.step(action)
        return self.frame, reward, ended, False, self.infos()

    def infos(self):
        """Return the infos of the last frame."""
        return {**self.game.info, "level": self.game.level, "progress": self.game.progress}

    def render(self):
        """Return a copy of the last frame, u8[240, 256, 3], or None without a render mode or a frame."""
        return self.frame.copy() if self.render_mode and self.frame is not None else None

    def close(self):
        """Close the game."""
        self.game.close()


def check_seed(seed):
    """Return a seed as a Python integer; raise a ValueError unless it is from 0 to 2**31 - 1."""
    return check_integer("seed", seed, 0)
