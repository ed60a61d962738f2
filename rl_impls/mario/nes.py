"""The first level of Super Mario Bros. in the emulator of nes-py; needs the packages of the extra ``mario-nes``.

The packages gym-super-mario-bros and nes-py, imported when the first game is played, were written for gym and NumPy 1,
which widened a byte in arithmetic with a larger integer. NumPy 2 keeps uint8, so this module corrects

- ``ROM.prg_rom_size`` and ``ROM.chr_rom_size``, which overflow when counted in bytes: the header is made int64;
- Mario's position, which is stored in two bytes, and his height above the screen: memory is read as Python integers.

A frame is u8[240, 256, 3], height, width, colour; the game shows 60 per second.
"""

from functools import cache

import numpy as np

from ..common.old_gym import silent_gym
from ..common.procgen_env import check_installed

FRAME = (240, 256, 3)
NOTHING, A, B, LEFT, RIGHT = 0, 1, 2, 64, 128  # buttons, as bits
ACTIONS = (NOTHING, RIGHT, RIGHT | A, RIGHT | B, RIGHT | A | B, A, LEFT)  # SIMPLE_MOVEMENT of gym_super_mario_bros
NEEDED = ("gym_super_mario_bros", "nes_py", "gym")


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
    """World 1-1 of Super Mario Bros., with a single life.

    An episode ends at the flag, when Mario dies, or when the level's clock runs out. The reward of a step is Mario's
    movement to the right in pixels, minus the ticks of the clock, minus 25 for a death, clipped to [-15, 15]. The
    emulator is deterministic: without a wait, all episodes begin alike.

    Args:
        seed: seed of the waits.
        wait: maximum number of frames that pass before an episode's first action; sampled per episode. No enemy reaches
            Mario within 60 frames.

    Attributes:
        actions: number of actions, 7, see ``ACTIONS``.
        progress: largest ``x_pos`` in pixels in this episode, or in the one that has ended; ``x_pos`` restarts
            when Mario goes through a pipe.
        info: infos of the last frame from gym-super-mario-bros: coins, score, x_pos and more, by name.

    Raises:
        BackendUnavailable: a package is not installed.
    """

    actions = len(ACTIONS)

    def __init__(self, seed=0, wait=0):
        check_installed(packages=NEEDED)
        self.rng, self.wait, self.info, self.progress = np.random.default_rng(seed), wait, {}, 0
        self.game = import_game()(target=(1, 1))

    def reset(self):
        """Begin an episode.  -> frame u8[240, 256, 3]"""
        self.game.reset()
        for _ in range(self.rng.integers(self.wait + 1)):
            self.game.step(NOTHING)
        self.info, self.progress = self.game._get_info(), 0
        return self.observe()

    def step(self, action):
        """Play one frame with an action from 0 to 6, see ``ACTIONS``.

        Returns:
            frame u8[240, 256, 3], reward, and whether the episode ended; then the next call is :meth:`reset`.
        """
        _, reward, ended, self.info = self.game.step(ACTIONS[action])
        return self.observe(), reward, ended

    def observe(self):
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
        self.game.close()
