"""Procgen's sixteen games as a Gymnasium vector environment that can write frames into the caller's array.

The games (Cobbe et al. 2020) come from the packages procgen and gym3, which are imported when the first environment is
created. Axes: N environments; a frame is u8[64, 64, 3], height, width, colour.
"""

from __future__ import annotations

import os
import warnings
from importlib.util import find_spec
from typing import NamedTuple

import gymnasium
import numpy as np
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ..backends import OPTIONAL, PACKAGES, BackendUnavailable
from .checks import LARGEST, check_integer, choose
from .old_gym import silent_gym
from .procgen_state import MODES, check_state, level_range

GAMES = (
    "bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot", "heist", "jumper",
    "leaper", "maze", "miner", "ninja", "plunder", "starpilot",
)  # fmt: skip
ACTIONS, FRAME = 15, (64, 64, 3)
MOST = 2**16  # maximum number of environments, and of threads
NEW_EPISODE = -1  # action that makes Procgen end an episode
CHOSEN: list[int] = []  # the last argument of :func:`set_game_threads`


def set_game_threads(count: int) -> None:
    """Set the default number of threads of games created later in this process; actors share them."""
    CHOSEN[:] = [check_integer("threads", count, 1, MOST)]


def chosen_threads():
    """Return the number set by :func:`set_game_threads`, or else the number of available cores."""
    return CHOSEN[0] if CHOSEN else len(os.sched_getaffinity(0))


class Episodes(NamedTuple):
    """The n episodes that ended in one step.

    Attributes:
        env: their environments, int[n].
        returns: undiscounted sums of rewards, f64[n].
        lengths: numbers of steps, int[n].
        levels: levels played, i32[n].
        solved: whether the game reports the level as completed, bool[n].
    """

    env: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray
    levels: np.ndarray
    solved: np.ndarray


NONE = Episodes(*(np.zeros(0, dtype) for dtype in (np.intp, np.float64, np.int64, np.int32, bool)))


def check_installed(backend="numpy", packages=tuple(PACKAGES)):
    """Raise BackendUnavailable, on behalf of `backend`, if a package is missing; by default one of Procgen's."""
    for package in packages:
        if find_spec(package) is None:
            raise BackendUnavailable(backend, f"{package} is not installed", (PACKAGES | OPTIONAL)[package])


def import_procgen():
    """Import and return ``procgen.ProcgenGym3Env``.

    Silences gym, and the warning about the version file that Procgen leaves open.
    """
    with silent_gym(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed file .*version.txt", ResourceWarning)
        from procgen import ProcgenGym3Env
    return ProcgenGym3Env


class ProcgenVectorEnv(VectorEnv):
    """N environments of one Procgen game; an episode that ends is followed by the next one in the same step.

    Procgen reports neither timeouts nor the last frame of an episode: every end counts as a termination, ``truncated``
    is always false, and the frame of a step that ends an episode is the first of the next one. The infos have no
    ``final_obs``, unlike those of Gymnasium's own environments in SAME_STEP mode.

    Infos: ``level_seed`` i32[N], the level of the frame, and where an episode ended ``final_info``, like Gymnasium's
    SyncVectorEnv over environments with RecordEpisodeStatistics: ``{"episode": {"r": f64[N], "l": int[N]},
    "level_seed": i32[N], "level_complete": bool[N]}``. Each has a mask bool[N] named ``_level_seed``, ``_final_info``
    and so on. You can also wrap this environment in RecordEpisodeStatistics itself.

    The games start in the constructor, and the seed determines everything that follows, for any number of threads.

    Args:
        game: one of ``GAMES``.
        num_envs: number of environments, N.
        seed: seed of the sampled levels, from 0 to 2**31 - 1.
        mode: ``easy`` or ``hard``.
        start_level: first level.
        num_levels: number of levels; 0 for all of Procgen's levels, which are numbered from 0 to 2**31 - 2.
        threads: number of threads; defaults to that of :func:`set_game_threads`, else to the available cores.

    Attributes:
        returns: returns so far of the running episodes, f64[N].
        finished: :class:`Episodes` that ended in the last step.

    Raises:
        ValueError: invalid arguments, actions, output array or state; the games are left unchanged.
        gymnasium.error.ClosedEnvironmentError: a call after :meth:`close`.
        BackendUnavailable: Procgen is not installed.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  (Gymnasium's own form)

    def __init__(
        self, game="coinrun", num_envs=1, *, seed=0, mode="easy", start_level=0, num_levels=0, threads=None
    ):  # fmt: skip
        self.closed = True  # until the games are running
        self.game, self.mode = choose("game", game, GAMES), choose("mode", mode, MODES)
        self.num_envs, self.seed = check_integer("num_envs", num_envs, 1, MOST), check_seed(seed)
        self.num_levels = check_integer("num_levels", num_levels, 0)
        last = LARGEST - self.num_levels if self.num_levels else 0
        why = ", as levels go to 2**31 - 2" if self.num_levels else ", as num_levels is 0, which is all levels"
        self.start_level = check_integer("start_level", start_level, 0, last, why)
        self.threads = check_integer("threads", chosen_threads() if threads is None else threads, 1, MOST)
        check_installed()
        self.single_observation_space = gymnasium.spaces.Box(0, 255, FRAME, np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.make()

    def make(self):
        """Start the games from the seed."""
        self.envs = import_procgen()(
            num=self.num_envs, env_name=self.game, distribution_mode=self.mode, rand_seed=self.seed,
            start_level=self.start_level, num_levels=self.num_levels,
            num_threads=0 if self.threads == 1 else self.threads,  # beside the caller, which steps the games if 0
        )  # fmt: skip
        self.envs._reuse_arrays = True  # observe() copies otherwise
        _, obs, _ = self.envs.observe()
        self.frames, self.info = obs["rgb"], self.envs._info  # arrays that Procgen writes into
        super().reset(seed=self.seed)  # so that np_random_seed is the seed of the games
        self.closed, self.fresh = False, True
        self.forget()

    def forget(self):
        """Reset the episode statistics."""
        self.returns, self.begun, self.steps = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64), 0
        self.finished = NONE

    @property
    def lengths(self):
        """Steps so far of the running episodes, int[N]."""
        return self.steps - self.begun

    @property
    def levels(self):
        """The current level of each environment, i32[N]."""
        self.check_open("levels")
        return self.info["level_seed"].copy()

    def reset(self, *, seed=None, options=None):
        """Start all games; return frames u8[N, 64, 64, 3] and infos.

        A `seed` from 0 to 2**31 - 1 restarts the games. Without one, the first call changes nothing, since the games
        start in the constructor; a later one ends all episodes, and each environment continues with the next level that
        it samples. There are no `options`.
        """
        self.check_open("reset")
        if "reset_mask" in (options or {}):
            raise ValueError("options: Procgen cannot reset single games (reset_mask); reset all, or call set_state()")
        if options:
            raise ValueError(f"options={options} should be None: Procgen has no reset options")
        if seed is not None:
            self.seed = check_seed(seed)
            self.envs.close()
            self.make()
        elif not self.fresh:
            self.envs.act(np.full(self.num_envs, NEW_EPISODE, np.int32))
            self.envs.observe()
            self.forget()
        return self.observe(), self.infos()

    def step(self, actions):
        """Step all games by `actions`, int[N] from 0 to 14.

        Returns:
            frames u8[N, 64, 64, 3], rewards f32[N], terminated bool[N], truncated bool[N], infos.
        """
        obs, rewards, terminated = self.advance(np.asarray(actions))
        infos = self.infos()
        if len(self.finished.env):
            infos["final_info"], infos["_final_info"] = self.final_info(terminated), terminated.copy()
        return obs, rewards, terminated, np.zeros(self.num_envs, bool), infos

    def advance(self, actions, out=None):
        """Step by actions int[N], without infos; return frames u8[N, 64, 64, 3], rewards f32[N] and ended bool[N].

        Procgen writes each frame to its own fixed array, from which it is copied once, to `out`, such as a row of a
        rollout, or to a new array. The other results are always new arrays.
        """
        self.check_open("advance")
        self.check_actions(actions)
        self.check_out(out)
        self.envs.act(actions)
        rewards, _, ended = self.envs.observe()
        self.fresh = False
        self.count(rewards, ended)
        return self.copied(out), rewards.copy(), ended.copy()

    def observe(self, out=None):
        """Return the current frames, u8[N, 64, 64, 3], in `out` or a new array."""
        self.check_open("observe")
        self.check_out(out)
        return self.copied(out)

    def copied(self, out):
        """Copy the frames to `out`, or to a new array."""
        if out is None:
            return self.frames.copy()
        np.copyto(out, self.frames)
        return out

    def count(self, rewards, ended):
        """Update the episode statistics after a step from rewards f32[N] and ended bool[N].

        It makes few NumPy calls, because each one is slow right after the games have run.
        """
        self.steps += 1
        self.finished = NONE
        if np.count_nonzero(rewards):
            self.returns += rewards
        if not np.count_nonzero(ended):
            return
        env = np.flatnonzero(ended)
        levels, solved = self.info["prev_level_seed"][env], self.info["prev_level_complete"][env] != 0
        self.finished = Episodes(env, self.returns[env], self.lengths[env], levels, solved)
        self.returns[env], self.begun[env] = 0, self.steps

    def infos(self):
        """Return the level of each frame: {"level_seed": i32[N], "_level_seed": bool[N]}."""
        return {"level_seed": self.levels, "_level_seed": np.ones(self.num_envs, bool)}

    def final_info(self, ended):
        """Return the ``final_info`` of the episodes that just ended, zeros elsewhere."""
        env, *values = self.finished
        arrays = [np.zeros(self.num_envs, value.dtype) for value in values]
        for array, value in zip(arrays, values):
            array[env] = value
        returns, lengths, levels, solved = arrays
        info = {"episode": {"r": returns, "l": lengths}, "level_seed": levels, "level_complete": solved}
        return info | {f"_{name}": ended.copy() for name in info}

    def get_state(self):
        """Return a state from which the games continue, also in another process.

        It has ``games``, a list of N byte strings, ``returns`` f64[N] and ``lengths`` int[N]. Slicing each entry, as in
        ``{name: value[:8] for name, value in state.items()}``, gives the state of those environments;
        :func:`~.procgen_state.pack` converts it to arrays.
        """
        self.check_open("get_state")
        return {"games": self.envs.get_state(), "returns": self.returns.copy(), "lengths": self.lengths}

    def set_state(self, state):
        """Restore a state from :meth:`get_state`, including its frames; its seed and number of threads may differ.

        The content of a game's bytes is not checked, and Procgen aborts the process if it cannot read them: store
        states in a format that detects damage, such as ``rl_impls.params``.

        Raises:
            ValueError: another number of environments, game, mode or range of levels, or no valid state.
        """
        self.check_open("set_state")
        levels = level_range(self.start_level, self.num_levels)
        check_state(state, self.num_envs, self.game, self.mode, *levels)
        self.envs.set_state(state["games"])
        self.envs.observe()
        self.forget()
        self.returns[:], self.fresh = state["returns"], False
        np.negative(state["lengths"], out=self.begun)

    def render(self):
        """Raise NotImplementedError: the observations are the frames."""
        raise NotImplementedError("render: ProcgenVectorEnv has no render modes; observe() returns the frames")

    def close_extras(self, **others):
        """Stop the games and their threads."""
        self.envs.close()

    def check_open(self, name):
        """Raise ClosedEnvironmentError if the environment is closed; `name` is the calling method."""
        if self.closed:
            raise ClosedEnvironmentError(f"{name}() was called after close()")

    def check_actions(self, actions):
        """Raise ValueError unless `actions` is an array of N valid actions."""
        right = isinstance(actions, np.ndarray) and actions.shape == (self.num_envs,) and actions.dtype.kind in "iu"
        values = actions.tolist() if right else ()
        if not right or min(values) < 0 or max(values) >= ACTIONS:
            wanted = f"should be an array of {self.num_envs} integers from 0 to {ACTIONS - 1}"
            raise ValueError(f"actions={values if right else described(actions)} {wanted}")

    def check_out(self, out):
        """Raise ValueError unless `out` is None or a writeable array of the frames' shape and dtype."""
        if out is None:
            return
        right = isinstance(out, np.ndarray) and out.shape == self.frames.shape and out.dtype == np.uint8
        if not right or not out.flags.writeable:
            kind = "read-only" if right else described(out)
            raise ValueError(f"out={kind} should be a writeable array uint8{list(self.frames.shape)}")


def described(value):
    """Return dtype and shape of an array, or the text of anything else."""
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)


def check_seed(seed):
    """Return a seed from 0 to 2**31 - 1 as a Python integer, or raise ValueError."""
    return check_integer("seed", seed, 0)
