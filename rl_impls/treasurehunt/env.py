"""The treasure hunt as a Gymnasium environment: one world with N agents."""

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from .vector_env import ACTIONS, COLOURS, DRAWS, ArrayWorlds, Settings, check_integers

PIXELS = 16  # per side of a cell in a picture


class TreasurehuntEnv(gymnasium.Env):
    """Agents collect gems (+10) and food (+5), avoid bones (-10) and walls (-1), and block each other.

    Observation f32[N, F]: what each agent sees, see :class:`.vector_env.Worlds`. Actions int[N]: 0 up, 1 down, 2 left,
    3 right. Rewards f32[N], one per agent, so Gymnasium's wrappers for a single reward do not apply. Never terminated;
    truncated after ``settings.turns``. Info: empty. The render mode is ``rgb_array`` or None.

    Raises:
        ValueError: an invalid render mode or invalid actions; the environment is left unchanged.
        gymnasium.error.ResetNeeded: a step outside an episode, or ``render()`` before the first reset.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium's own form)

    def __init__(self, settings=Settings(), render_mode=None):  # noqa: B008  (frozen)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode={render_mode!r} should be None or 'rgb_array'")
        self.settings, self.render_mode = settings, render_mode
        self.observation_space = gymnasium.spaces.Box(0, 1, (settings.num_agents, settings.frame), np.float32)
        self.action_space = gymnasium.spaces.MultiDiscrete([ACTIONS] * settings.num_agents)
        self.world, self.started, self.running = ArrayWorlds(settings, num_worlds=1), False, False

    def reset(self, *, seed=None, options=None):
        """Start an episode; return obs f32[N, F] and an empty info.

        `seed` seeds all further randomness; None continues with the current generator. There are no `options`.
        """
        if options:
            raise ValueError(f"options={options} should be None: TreasurehuntEnv has no reset options")
        super().reset(seed=seed)
        obs = self.world.reset(self.draw())
        self.started = self.running = True
        return obs[:, 0], {}

    def step(self, actions):
        """Play a turn with `actions`, int[N].

        Returns:
            obs f32[N, F], rewards f32[N], terminated (always False), truncated, and an empty info.
        """
        if not self.running:
            raise ResetNeeded("step() was called outside an episode: call reset() first")
        actions = check_integers("actions", actions, (self.settings.num_agents,), ACTIONS - 1)
        obs, rewards, truncated = self.world.advance(actions[:, None], self.draw())
        self.running = not truncated
        return obs[:, 0], rewards[:, 0], False, truncated, {}

    def draw(self):
        """Sample the random numbers of one turn, i32[1, height * width]."""
        return self.np_random.integers(DRAWS, size=(1, self.settings.cells), dtype=np.int32)

    def render(self):
        """Return a picture of the world with its walls, u8[16 rows, 16 columns, 3], or None without a render mode."""
        if not self.started:
            raise ResetNeeded("render() was called before the first episode: call reset() first")
        if self.render_mode is None:
            return None
        cells, _ = self.world.dump()
        picture = COLOURS[cells.reshape(self.settings.rows, self.settings.columns)]
        return picture.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)
