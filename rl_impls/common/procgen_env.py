"""Procgen's sixteen games as a Gymnasium vector environment, whose frames go straight into a caller's array.

The games (Cobbe et al. 2020) come from the packages procgen and gym3, which are imported when the first environment is
made. Axes: N environments; a frame is u8[64, 64, 3], height, width, colour.
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

from ..backends import PACKAGES, BackendUnavailable
from .checks import LARGEST, check_choice, check_integer
from .old_gym import silent_gym
from .procgen_state import MODES, check_state, level_range

GAMES = (
    "bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot", "heist", "jumper",
    "leaper", "maze", "miner", "ninja", "plunder", "starpilot",
)  # fmt: skip
ACTIONS, FRAME = 15, (64, 64, 3)
MOST = 2**16  # environments, or threads
NEW_EPISODE = -1  # the action by which Procgen ends an episode
CHOSEN: list[int] = []  # threads that :func:`set_threads` said last


def set_threads(count: int) -> None:
    """Have games that are started from now on, here, be computed by so many threads where nothing else is said.

    Args:
        count: of them, of all actors together.
    """
    CHOSEN[:] = [check_integer("threads", count, 1, MOST)]


def default_threads():
    """Return how many threads compute games where nothing else is said."""
    return CHOSEN[0] if CHOSEN else len(os.sched_getaffinity(0))


class Episodes(NamedTuple):
    """Episodes that ended in one step, n of them.

    Attributes:
        env: of which environment each was, int[n].
        returns: sum of the rewards of each, f64[n].
        lengths: steps of each, int[n].
        levels: that it was played on, i32[n].
        solved: whether the game says that the level was completed, bool[n].
    """

    env: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray
    levels: np.ndarray
    solved: np.ndarray


NONE = Episodes(*(np.zeros(0, dtype) for dtype in (np.intp, np.float64, np.int64, np.int32, bool)))


def check_installed(backend="numpy"):
    """Check that Procgen can be imported.

    Args:
        backend: name of the backend that needs it, for the error.

    Raises:
        BackendUnavailable: a package is not installed.
    """
    for package, install in PACKAGES.items():
        if find_spec(package) is None:
            raise BackendUnavailable(backend, f"{package} is not installed", install)


def import_procgen():
    """Return ``procgen.ProcgenGym3Env``.

    Procgen imports gym. It also leaves the file of its version open, and the warning of that is not shown.
    """
    with silent_gym(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed file .*version.txt", ResourceWarning)
        from procgen import ProcgenGym3Env
    return ProcgenGym3Env


class ProcgenVectorEnv(VectorEnv):
    """N environments of one game of Procgen; an episode that ends is followed by the next one in the same step.

    Procgen tells neither a timeout from a death nor the last frame of an episode: every end is a termination,
    ``truncated`` is always false, and the frame of a step that ends an episode is the first of the next one. There is
    no ``final_obs`` in the infos, as Gymnasium's own environments have in the mode SAME_STEP.

    Infos: ``level_seed`` i32[N], the level of the frame, and where an episode ended ``final_info``, as of Gymnasium's
    SyncVectorEnv over environments with RecordEpisodeStatistics: ``{"episode": {"r": f64[N], "l": int[N]},
    "level_seed": i32[N], "level_complete": bool[N]}``. A mask bool[N] named ``_level_seed``, ``_final_info`` and so on
    goes with each. The wrapper itself may be put around this environment too.

    The games start when they are made, and the seed fixes all that follows, whatever the number of threads.

    Args:
        game: one of ``GAMES``.
        num_envs: number of environments, N.
        seed: of the levels that are drawn, from 0 to 2**31 - 1.
        mode: ``easy`` or ``hard``.
        start_level: the first of the levels that are played.
        num_levels: how many there are; 0 for all that Procgen has, from 0 to 2**31 - 2.
        threads: that compute; by default what :func:`set_threads` said, or as many as cores that this process may use.

    Attributes:
        returns: of the episodes that are going on, the rewards until now, f64[N].
        finished: :class:`Episodes` that ended in the last step.

    Raises:
        ValueError: an argument, actions, an array for frames or a state that makes no sense; nothing is changed.
        gymnasium.error.ClosedEnvironmentError: a call after :meth:`close`.
        BackendUnavailable: Procgen is not installed.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  (Gymnasium's own form)

    def __init__(
        self, game="coinrun", num_envs=1, *, seed=0, mode="easy", start_level=0, num_levels=0, threads=None
    ):  # fmt: skip
        self.closed = True  # until there is something to close
        self.game, self.mode = check_choice("game", game, GAMES), check_choice("mode", mode, MODES)
        self.num_envs, self.seed = check_integer("num_envs", num_envs, 1, MOST), check_seed(seed)
        self.num_levels = check_integer("num_levels", num_levels, 0)
        last = LARGEST - self.num_levels if self.num_levels else 0
        why = ", as levels go to 2**31 - 1" if self.num_levels else ", as num_levels is 0, which is all levels"
        self.start_level = check_integer("start_level", start_level, 0, last, why)
        self.threads = check_integer("threads", default_threads() if threads is None else threads, 1, MOST)
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
            num_threads=0 if self.threads == 1 else self.threads,  # beside the caller's: it computes if there are none
        )  # fmt: skip
        self.envs._reuse_arrays = True  # observe() copies otherwise
        _, obs, _ = self.envs.observe()
        self.frames, self.info = obs["rgb"], self.envs._info  # that Procgen writes into
        super().reset(seed=self.seed)  # so that np_random_seed is the seed of the games
        self.closed, self.fresh = False, True
        self.forget()

    def forget(self):
        """Begin to count returns and lengths anew."""
        self.returns, self.begun, self.steps = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64), 0
        self.finished = NONE

    @property
    def lengths(self):
        """Steps until now of the episodes that are going on, int[N]."""
        return self.steps - self.begun

    @property
    def levels(self):
        """The level that each environment is on, i32[N]."""
        self.check_open("levels")
        return self.info["level_seed"].copy()

    def reset(self, *, seed=None, options=None):
        """Start all games.  -> frames u8[N, 64, 64, 3], infos

        Without a seed, the first call changes nothing, as the games start when they are made; a later one ends all
        episodes, and each environment goes on with the next level that it draws.

        Args:
            seed: with which the games are made anew; an integer from 0 to 2**31 - 1.
            options: empty or None; there are none.
        """
        self.check_open("reset")
        if "reset_mask" in (options or {}):
            raise ValueError("options: Procgen cannot reset some games alone (reset_mask); reset all, or set_state()")
        if options:
            raise ValueError(f"options: Procgen has no reset options, got {sorted(options)}; pass options=None")
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
        """Make one step.

        -> frames u8[N, 64, 64, 3], rewards f32[N], terminated bool[N], truncated bool[N], infos

        Args:
            actions: int[N] from 0 to 14.
        """
        obs, rewards, terminated = self.advance(np.asarray(actions))
        infos = self.infos()
        if len(self.finished.env):
            infos["final_info"], infos["_final_info"] = self.final_info(terminated), terminated.copy()
        return obs, rewards, terminated, np.zeros(self.num_envs, bool), infos

    def advance(self, actions, out=None):
        """Make one step, without infos.  -> frames u8[N, 64, 64, 3], rewards f32[N], ended bool[N]

        Procgen writes each frame to the array that it began with. From there it is copied, once.

        Args:
            actions: int[N] from 0 to 14, an array.
            out: where the frames are written, u8[N, 64, 64, 3], as a row of a rollout; it is returned. None for a new
                array. The other arrays are new.
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
        """Return the frames as they are now, u8[N, 64, 64, 3].

        Args:
            out: where they are written, see :meth:`advance`.
        """
        self.check_open("observe")
        self.check_out(out)
        return self.copied(out)

    def copied(self, out):
        """Return the frames in a caller's array, or in a new one.

        Args:
            out: u8[N, 64, 64, 3], or None.
        """
        if out is None:
            return self.frames.copy()
        np.copyto(out, self.frames)
        return out

    def count(self, rewards, ended):
        """Add a step to the statistics of episodes, by few calls of NumPy: after the games, each one is slow anew.

        Args:
            rewards: of the step, f32[N].
            ended: where it ended an episode, bool[N].
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
        """Return the level of each frame.  -> {"level_seed": i32[N], "_level_seed": bool[N]}"""
        return {"level_seed": self.levels, "_level_seed": np.ones(self.num_envs, bool)}

    def final_info(self, ended):
        """Return what is told of the episodes that ended in the last step, 0 where none did.

        Args:
            ended: where one did, bool[N].
        """
        env, *values = self.finished
        arrays = [np.zeros(self.num_envs, value.dtype) for value in values]
        for array, value in zip(arrays, values):
            array[env] = value
        returns, lengths, levels, solved = arrays
        told = {"episode": {"r": returns, "l": lengths}, "level_seed": levels, "level_complete": solved}
        return told | {f"_{name}": ended.copy() for name in told}

    def get_state(self):
        """Return all that is needed to go on from here, in another process too.

        A part of each, as in ``{name: value[:8] for name, value in state.items()}``, is the state of those
        environments; :func:`~.procgen_state.pack` makes arrays of it.

        Returns:
            ``games``, a list of N byte strings; ``returns`` f64[N]; ``lengths`` int[N].
        """
        self.check_open("get_state")
        return {"games": self.envs.get_state(), "returns": self.returns.copy(), "lengths": self.lengths}

    def set_state(self, state):
        """Go on from a copy of a state, whatever the seed and the threads of the environment that it is from.

        The frames are those that were shown there. What is inside of a game's bytes is not checked, and Procgen ends
        the process if it cannot be read: keep states where a damaged file is found out, as by ``rl_impls.params``.

        Args:
            state: by name, as :meth:`get_state` returned it.

        Raises:
            ValueError: another number of environments, another game, mode or range of levels, or no state at all.
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
        """Refuse to draw: the observations are the frames.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("render: ProcgenVectorEnv has no render modes; observe() returns the frames")

    def close_extras(self, **others):
        """End the games and their threads.

        Args:
            others: nothing that is known.
        """
        self.envs.close()

    def check_open(self, name):
        """Check that the environment was not closed.

        Args:
            name: of the method that needs it, for the error.

        Raises:
            gymnasium.error.ClosedEnvironmentError: it was.
        """
        if self.closed:
            raise ClosedEnvironmentError(f"{name}: got an environment that is closed, wanted an open one")

    def check_actions(self, actions):
        """Check that actions are N integers that Procgen has.

        Args:
            actions: what was given.

        Raises:
            ValueError: they are not.
        """
        right = isinstance(actions, np.ndarray) and actions.shape == (self.num_envs,) and actions.dtype.kind in "iu"
        values = actions.tolist() if right else ()
        if not right or min(values) < 0 or max(values) >= ACTIONS:
            kind = f"{actions.dtype}{list(actions.shape)}" if isinstance(actions, np.ndarray) else repr(actions)
            got = values if right else kind
            raise ValueError(f"actions: got {got}, wanted {self.num_envs} integers from 0 to {ACTIONS - 1}")

    def check_out(self, out):
        """Check that an array has room for the frames.

        Args:
            out: what was given, or None.

        Raises:
            ValueError: it has another shape or dtype, or may not be written to.
        """
        if out is None:
            return
        if not isinstance(out, np.ndarray):
            raise ValueError(f"out: got {type(out).__name__}, wanted an array, uint8{list(self.frames.shape)}")
        if out.shape != self.frames.shape or out.dtype != np.uint8 or not out.flags.writeable:
            kind = "" if out.flags.writeable else "a read-only "
            raise ValueError(f"out: got {kind}{out.dtype}{list(out.shape)}, wanted uint8{list(self.frames.shape)}")


def check_seed(seed):
    """Return a seed as a Python integer.

    Args:
        seed: what was given.

    Raises:
        ValueError: it is no integer from 0 to 2**31 - 1.
    """
    return check_integer("seed", seed, 0)
