"""The DQN training loop (Mnih et al. 2015): act, step, store, and update every few environment steps.

The time of each phase is recorded.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..common.parts import join_parts
from ..common.phases import Phases, TimedLoop, untimed
from .env import Geometry
from .memory import FIELDS, make_buffer
from .vector_env import ENVIRONMENTS, STATE

PHASES = ("environment", "inference", "memory", "learning", "waiting")
CHUNK = 32  # environment steps that the actor thread plays ahead


class Loop(TimedLoop):
    """T steps of N environments, with an update every ``options.train_frequency`` of them.

    The arguments are those of :func:`.shared_ops.collect_and_learn`.
    """

    def __init__(self, config, example, options, backend):
        explore, _, _, rows = example
        stored, num_envs = config["stored"], explore.shape[1]
        self.train_frequency, self.target_frequency = options.train_frequency, config["target_frequency"]
        self.start, self.first_step = config["env_state"], config["step"]
        self.envs = ENVIRONMENTS[options.environment](num_envs, config.get("geometry", Geometry()))
        self.replay_buffer = make_buffer(options.memory, config["capacity"], stored[0].shape[1])
        self.replay_buffer.restore(*stored)
        self.mark = self.replay_buffer.mark()
        ops, compiler = backend.ops("snake"), backend.new_compiler()
        self.assemble = ops.assemble({}, (), options=options, compiler=compiler)
        batch = [backend.to_device(np.zeros((rows.shape[1], *column.shape[1:]), column.dtype)) for column in stored]
        self.trained = self.learner = ops.train_step(config, tuple(batch), options=options, compiler=compiler)
        self.actor = self.make_actor(np.zeros((num_envs, stored[0].shape[1]), np.float32))
        self.wait, self.to_host = backend.wait, backend.to_host
        self.clock = Phases(*PHASES)
        self.reset()

    def make_actor(self, obs):
        """Return an actor for boards like `obs` f32[N, O], which always uses the newest weights."""
        return self.learner.actor(obs)

    def __call__(self, explore, random_actions, draws, rows):
        """Play T steps and learn in between; see :func:`.shared_ops.collect_and_learn`."""
        played, losses, rows = [], [], iter(rows)
        self.clock.start()
        for drawn in zip(explore, random_actions, draws):
            *outcome, transitions = self.play(*drawn, self.clock)
            played.append(outcome)
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
        self.obs, rewards, terminated, truncated, final_obs = self.envs.advance(actions, draws)
        clock("environment")
        return actions, rewards, terminated | truncated, (obs, actions, rewards, final_obs, terminated)

    def learn(self, transitions, rows):
        """Store `transitions`, columns [N, ...] of :data:`.memory.FIELDS`, and make the updates that are due.

        Each update takes the next i64[B] from the iterator `rows`. Returns the list of losses.
        """
        self.replay_buffer.push_many(*transitions)
        self.clock("memory")
        before, losses = self.step, []
        self.step += len(transitions[0])
        for _ in range(self.step // self.train_frequency - before // self.train_frequency):
            batch = self.assemble(self.replay_buffer.sample(next(rows)))
            self.clock("memory")
            losses.append(self.wait(self.learner(*batch)))
            self.clock("learning")
        if losses and self.target_frequency:
            if self.step // self.target_frequency > self.synced:
                self.learner.sync_target()
                self.clock("learning")
            self.synced = self.step // self.target_frequency
        return losses

    def reset(self):
        self.learner.reset()
        self.replay_buffer.rewind(self.mark)
        self.resume(self.start, self.first_step)
        self.clock.reset()

    def resume(self, env_state, step):
        """Continue from the games `env_state` after `step` environment steps."""
        self.envs.set_state(env_state)
        self.obs, self.step = self.envs.observe(), step
        self.synced = step // self.target_frequency if self.target_frequency else 0

    def state(self):
        """Return everything the next step depends on, see :func:`state_of`."""
        return state_of(self.learner, self.replay_buffer, self.envs.get_state(), self.step)

    def load_state(self, state):
        self.learner.load_state(state)
        self.replay_buffer.restore(*stored_in(state))
        self.resume(games_in(state), int(state["global_step"]))

    def close(self):
        self.learner.close()


def state_of(learner, replay_buffer, env_state, step):
    """Return a loop's state as NumPy arrays: the learner's, ``replay_buffer.*``, ``env.*`` and ``global_step``."""
    parts = join_parts(replay_buffer=dict(zip(FIELDS, replay_buffer.arrays())), env=env_state)
    return {**learner.state(), **parts, "global_step": np.array(step)}


def stored_in(state):
    """Return the columns of the transitions in a state of :func:`state_of`, oldest first."""
    return [state[f"replay_buffer.{name}"] for name in FIELDS]


def games_in(state):
    """Return the state of the games in a state of :func:`state_of`, by name."""
    return {name: state[f"env.{name}"] for name in STATE}


class ThreadedLoop(Loop):
    """A :class:`Loop` with an actor thread that plays one chunk ahead.

    Chunk k is played with the weights after the updates of chunk k - 2. These depend only on the step, so
    runs are reproducible. Each call starts with the newest weights.
    """

    def make_actor(self, obs):
        """Start the thread and return an actor with its own copy of the online weights."""
        self.pool = ThreadPoolExecutor(1)
        return self.learner.actor(obs, own=True)

    def __call__(self, explore, random_actions, draws, rows):
        """Play T steps in the thread and learn in this one; arguments and results as in :meth:`Loop.__call__`."""
        length = max(1, CHUNK // explore.shape[1])
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
        return [self.play(*draw, untimed) for draw in drawn]

    def close(self):
        self.pool.shutdown()
        super().close()

    def stats(self):
        """Return ``policy_lag_steps``, the age of the acting weights in environment steps."""
        return {"policy_lag_steps": float(max(CHUNK, len(self.obs)))}


COLLECTIONS = {"inline": Loop, "thread": ThreadedLoop}
