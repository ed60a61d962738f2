"""The loop of a DQN (Mnih et al. 2015): act, step, remember, and learn every few environment steps; phases are timed.

Axes: T steps, N environments, O numbers a board, B transitions of a batch, U updates.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..common.op import Op
from ..common.phases import Phases
from .memory import FIELDS, make_memory
from .spec import geometry_of
from .vector_env import ENVIRONMENTS

PHASES = ("environment", "inference", "memory", "learning", "waiting")
CHUNK = 32  # environment steps that a collecting thread plays ahead


def check_schedule(envs, knobs, batch):
    """Check that updates fall on whole steps of all environments, and that the batch is the knob's.

    Args:
        envs: number of environments.
        knobs: ``every`` and ``batch`` are read.
        batch: rows that are given for an update.

    Raises:
        ValueError: ``envs`` and ``every`` are not one a multiple of the other, or another batch than the knob's.
    """
    every = knobs.every
    if batch != knobs.batch:
        raise ValueError(f"rows: got {batch} for an update, wanted {knobs.batch}, the value of knob batch")
    if envs % every and every % envs:
        raise ValueError(f"envs: got {envs} with an update every {every} steps, wanted one a multiple of the other")


def state_of(train, memory, env_state, step):
    """Return the state of a loop as one flat dict of arrays: ``train.*``, ``memory.*``, ``env.*``, ``loop.step``.

    Args:
        train: the update, with ``state()``.
        memory: the replay memory, with ``arrays()``.
        env_state: the games, arrays by name.
        step: environment steps made.
    """
    parts = {
        "train": train.state(),
        "memory": dict(zip(FIELDS, memory.arrays())),
        "env": env_state,
        "loop": {"step": np.array(step)},
    }
    return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def parts_of(state):
    """Return the parts that :func:`state_of` joined, each a dict of arrays, by name: train, memory, env, loop.

    Args:
        state: arrays by name, ``part.name``.
    """
    parts = {}
    for name, value in state.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = value
    return parts


class Loop(Op):
    """T steps of N environments and an update every ``knobs.every`` environment steps, always from the same start.

    Args:
        spec: what it is built from, see :class:`.spec.Spec`.
        example: explore bool[T, N], random_actions i32[T, N], draws i32[T, N, 3], rows i64[U, B].
        knobs: of the loop.
        backend: that computes.

    Raises:
        ValueError: a number of environments, or a batch, that does not fit the knobs, see :func:`check_schedule`.
    """

    def __init__(self, spec, example, knobs, backend):
        explore, _, _, rows = (np.asarray(array) for array in example)
        self.knobs, self.every, self.target_every = knobs, knobs.every, spec["target_every"]
        self.clock = Phases(*PHASES)
        self.start, self.stored, self.first_step = spec["env_state"], spec["stored"], spec["step"]
        self.envs = explore.shape[1]
        check_schedule(self.envs, knobs, rows.shape[1])
        self.environment = ENVIRONMENTS[knobs.environment](self.envs, geometry_of(spec))
        self.memory = make_memory(knobs.memory, spec["capacity"], self.stored[0].shape[1])
        target = backend.lowering_here()
        self.assemble, self.wait = backend.build("snake", "assemble", {}, (), knobs, target), backend.wait
        batch = [backend.to_device(np.zeros((rows.shape[1], *c.shape[1:]), c.dtype)) for c in self.stored]
        self.train = backend.build("snake", "train_step", spec, tuple(batch), knobs, target)
        self.actor = self.make_actor(np.zeros((self.envs, self.stored[0].shape[1]), np.float32))
        self.to_host = backend.to_host
        self.memory.restore(*self.stored)
        self.mark = self.memory.mark()
        self.reset()

    def make_actor(self, obs):
        """Return the actor, which plays by the weights that learn.

        Args:
            obs: boards f32[N, O] like those to come.
        """
        return self.train.actor(obs)

    def reset(self):
        """Put the games, the memory and the nets back to the start."""
        self.train.reset()
        self.memory.rewind(self.mark)
        self.resume(self.start, self.first_step)
        self.clock.reset()

    def resume(self, env_state, step):
        """Go on from these games.

        Args:
            env_state: the games, see :data:`.spec.ENV_STATE`.
            step: environment steps made before.
        """
        self.environment.set_state(env_state)
        self.obs, self.step = self.environment.observe(), step
        self.synced = step // self.target_every if self.target_every else 0

    def state(self):
        """Return all that the next step depends on, as NumPy: ``train.*``, ``memory.*``, ``env.*``, ``loop.step``."""
        return state_of(self.train, self.memory, self.environment.get_state(), self.step)

    def load_state(self, state):
        """Go on from a state, of this backend and form or another.

        Args:
            state: arrays by name, as :meth:`state` returned them.
        """
        parts = parts_of(state)
        self.train.load_state(parts["train"])
        self.memory.restore(*(parts["memory"][name] for name in FIELDS))
        self.resume(parts["env"], int(parts["loop"]["step"]))

    def close(self):
        """End the processes of the update, if it has any."""
        self.train.close()

    @property
    def params(self):
        """The online weights as NumPy, by name."""
        return self.train.params

    def phases(self):
        """Return the seconds spent in each phase since the last reset, by name."""
        return dict(self.clock.seconds)

    def __call__(self, explore, random_actions, draws, rows):
        """Play T steps and learn in between.  -> actions i32[T, N], rewards f32[T, N], ended bool[T, N], losses f32[U]

        Args:
            explore: bool[T, N], where the drawn move is taken.
            random_actions: i32[T, N], the drawn moves.
            draws: i32[T, N, 3], what the environments may need of randomness.
            rows: i64[U, B], the transitions of each update, 0 the oldest.
        """
        played, losses, rows = [], [], iter(rows)
        self.clock.start()
        for drawn in zip(explore, random_actions, draws):
            actions, rewards, ended, transitions = self.play(*drawn, self.clock)
            played.append((actions, rewards, ended))
            losses += self.learn(transitions, rows)
        return *map(np.array, zip(*played)), np.array([self.to_host(loss) for loss in losses])

    def play(self, explore, random_actions, draws, clock):
        """Act and step once.  -> actions i32[N], rewards f32[N], ended bool[N], transitions (five columns [N, ...])

        Args:
            explore: bool[N], where the drawn move is taken.
            random_actions: i32[N], the drawn moves.
            draws: i32[N, 3], what the environments may need of randomness.
            clock: ``clock(name)``, told the end of each phase.
        """
        obs = self.obs
        actions = self.actor(obs, explore, random_actions)
        clock("inference")
        self.obs, rewards, terminated, truncated, final_obs = self.environment.advance(actions, draws)
        clock("environment")
        return actions, rewards, terminated | truncated, (obs, actions, rewards, final_obs, terminated)

    def learn(self, transitions, rows):
        """Remember transitions and make the updates that are due; return their losses, a list.

        Args:
            transitions: obs f32[N, O], action i32[N], reward f32[N], next_obs f32[N, O], terminated bool[N].
            rows: iterator over i64[B], the transitions of each update.
        """
        self.memory.push_many(*transitions)
        self.clock("memory")
        passed, losses = self.step, []
        self.step += len(transitions[0])
        for _ in range(self.step // self.every - passed // self.every):
            batch = self.assemble(self.memory.columns(next(rows)))
            self.clock("memory")
            losses.append(self.wait(self.train(*batch)))
            self.clock("learning")
        if losses and self.target_every:
            if self.step // self.target_every > self.synced:
                self.train.sync_target()
                self.clock("learning")
            self.synced = self.step // self.target_every
        return losses


class ThreadedLoop(Loop):
    """The same with a thread that plays one chunk ahead, by the weights at the end of the chunk before the last.

    Which weights act depends on the step alone, so two runs are the same; a call starts with the newest. Arguments are
    those of :class:`Loop`.
    """

    def make_actor(self, obs):
        """Return the actor, which plays by a copy of the online weights, and start the thread.

        Args:
            obs: boards f32[N, O] like those to come.
        """
        self.pool = ThreadPoolExecutor(1)
        return self.train.actor(obs, own=True)

    def close(self):
        """End the thread, and the processes of the update, if it has any."""
        self.pool.shutdown()
        super().close()

    def stats(self):
        """Return ``policy_lag_steps``, the age of the weights that act, in environment steps."""
        return {"policy_lag_steps": float(max(CHUNK, self.envs))}

    def __call__(self, explore, random_actions, draws, rows):
        """Play T steps in the thread and learn in this one; see :meth:`Loop.__call__`."""
        length = max(1, CHUNK // self.envs)
        drawn = list(zip(explore, random_actions, draws))
        chunks = [drawn[k : k + length] for k in range(0, len(drawn), length)]
        played, losses, rows = [], [], iter(rows)
        self.clock.start()
        self.actor.refresh()
        ahead = self.pool.submit(self.play_chunk, chunks[0])
        for following in [*chunks[1:], None]:
            chunk = ahead.result()
            self.clock("waiting")
            self.actor.refresh()
            if following:
                ahead = self.pool.submit(self.play_chunk, following)
            self.clock("inference")
            for *outcome, transitions in chunk:
                played.append(outcome)
                losses += self.learn(transitions, rows)
        return *map(np.array, zip(*played)), np.array([self.to_host(loss) for loss in losses])

    def play_chunk(self, drawn):
        """Play the steps of one chunk; return what :meth:`Loop.play` returns for each, a list.

        Args:
            drawn: for each step, its explore, random_actions and draws.
        """
        return [self.play(*draw, lambda phase: None) for draw in drawn]


COLLECTIONS = {"inline": Loop, "thread": ThreadedLoop}
