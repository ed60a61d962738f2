"""The DQN training loop (Mnih et al. 2015): act, step, store, and update every few environment steps.

The time of each phase is recorded. Axes: T steps, N environments, O cells per board, B transitions of a batch,
U updates.
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
CHUNK = 32  # environment steps that the actor thread plays ahead


def check_schedule(envs, options, batch):
    """Raise a ValueError unless `batch` is ``options.batch`` and `envs` is a multiple or divisor of ``options.every``."""
    every = options.every
    if batch != options.batch:
        raise ValueError(f"rows: got {batch} for an update, wanted {options.batch}, the value of option batch")
    if envs % every and every % envs:
        raise ValueError(f"envs: got {envs} with an update every {every} steps, wanted one a multiple of the other")


def state_of(train, memory, env_state, step):
    """Return a loop's state as one flat dict of arrays: ``train.*``, ``memory.*``, ``env.*``, ``loop.step``."""
    parts = {
        "train": train.state(),
        "memory": dict(zip(FIELDS, memory.arrays())),
        "env": env_state,
        "loop": {"step": np.array(step)},
    }
    return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def parts_of(state):
    """Split a state of :func:`state_of` into its parts train, memory, env and loop, each a dict of arrays."""
    parts = {}
    for name, value in state.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = value
    return parts


class Loop(Op):
    """T steps of N environments, with an update every ``options.every`` of them, from the same start after each reset.

    `example` holds the arguments of a call and must pass :func:`check_schedule`.
    """

    def __init__(self, spec, example, options, backend):
        explore, _, _, rows = (np.asarray(array) for array in example)
        self.options, self.every, self.target_every = options, options.every, spec["target_every"]
        self.clock = Phases(*PHASES)
        self.start, self.stored, self.first_step = spec["env_state"], spec["stored"], spec["step"]
        self.envs = explore.shape[1]
        check_schedule(self.envs, options, rows.shape[1])
        self.environment = ENVIRONMENTS[options.environment](self.envs, geometry_of(spec))
        self.memory = make_memory(options.memory, spec["capacity"], self.stored[0].shape[1])
        compiler = backend.new_compiler()
        self.assemble, self.wait = backend.build("snake", "assemble", {}, (), options, compiler), backend.wait
        batch = [backend.to_device(np.zeros((rows.shape[1], *c.shape[1:]), c.dtype)) for c in self.stored]
        self.train = backend.build("snake", "train_step", spec, tuple(batch), options, compiler)
        self.actor = self.make_actor(np.zeros((self.envs, self.stored[0].shape[1]), np.float32))
        self.to_host = backend.to_host
        self.memory.restore(*self.stored)
        self.mark = self.memory.mark()
        self.reset()

    def make_actor(self, obs):
        """Return an actor for boards like `obs` f32[N, O], which always uses the newest weights."""
        return self.train.actor(obs)

    def reset(self):
        """Restore the initial games, replay buffer and networks."""
        self.train.reset()
        self.memory.rewind(self.mark)
        self.resume(self.start, self.first_step)
        self.clock.reset()

    def resume(self, env_state, step):
        """Continue from the games `env_state` (:data:`.spec.ENV_STATE`) after `step` environment steps."""
        self.environment.set_state(env_state)
        self.obs, self.step = self.environment.observe(), step
        self.synced = step // self.target_every if self.target_every else 0

    def state(self):
        """Return everything the next step depends on as NumPy arrays, in the format of :func:`state_of`."""
        return state_of(self.train, self.memory, self.environment.get_state(), self.step)

    def load_state(self, state):
        """Continue from a state returned by :meth:`state`, possibly on another backend or form."""
        parts = parts_of(state)
        self.train.load_state(parts["train"])
        self.memory.restore(*(parts["memory"][name] for name in FIELDS))
        self.resume(parts["env"], int(parts["loop"]["step"]))

    def close(self):
        """Stop the processes of the train step, if it has any."""
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
            explore: bool[T, N], where the random action is taken.
            random_actions: i32[T, N].
            draws: i32[T, N, 3], random numbers of the environments: food, start, heading.
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
        """Act and step once, and call ``clock(name)`` after each phase.

        explore bool[N], random_actions i32[N], draws i32[N, 3] -> actions i32[N], rewards f32[N], ended bool[N],
        transitions (five columns [N, ...])
        """
        obs = self.obs
        actions = self.actor(obs, explore, random_actions)
        clock("inference")
        self.obs, rewards, terminated, truncated, final_obs = self.environment.advance(actions, draws)
        clock("environment")
        return actions, rewards, terminated | truncated, (obs, actions, rewards, final_obs, terminated)

    def learn(self, transitions, rows):
        """Store `transitions`, columns [N, ...] of :data:`.memory.FIELDS`, and make the updates that are due.

        Each update takes the next i64[B] from the iterator `rows`. Returns the list of losses.
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
    """A :class:`Loop` with an actor thread that plays one chunk ahead.

    A chunk is played with the weights after the updates of the chunk before the last. These depend only on the step, so
    runs are reproducible. Each call starts with the newest weights.
    """

    def make_actor(self, obs):
        """Start the thread and return an actor with its own copy of the online weights."""
        self.pool = ThreadPoolExecutor(1)
        return self.train.actor(obs, own=True)

    def close(self):
        """Stop the thread, and the processes of the train step."""
        self.pool.shutdown()
        super().close()

    def stats(self):
        """Return ``policy_lag_steps``, the age of the acting weights in environment steps."""
        return {"policy_lag_steps": float(max(CHUNK, self.envs))}

    def __call__(self, explore, random_actions, draws, rows):
        """Play T steps in the thread and learn in this one; arguments and results as in :meth:`Loop.__call__`."""
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
        """Return what :meth:`play` returns for each step, given its explore, random_actions and draws."""
        return [self.play(*draw, lambda phase: None) for draw in drawn]


COLLECTIONS = {"inline": Loop, "thread": ThreadedLoop}
