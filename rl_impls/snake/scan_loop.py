"""The DQN training loop as one program: environment, replay ring and learning inside a single ``lax.scan``."""

import jax
import jax.numpy as jnp
import numpy as np

from ..common.jax_learner import DTYPES, ProgramLoop, to_device
from ._jax import TrainStep, as_arrays, as_state, make_update, select_actions
from .env import Geometry
from .jax_env import observe, step
from .loop import games_in, state_of, stored_in
from .memory import make_buffer
from .options import check_supported


def make_program(config, options, num_envs):
    """Return ``program(carry, explore, random_actions, draws, rows) -> carry, (actions, rewards, ended, losses)``.

    Steps are grouped into rounds: the steps between two updates, then the updates between two steps.
    """
    geometry, capacity = config.get("geometry", Geometry()), config["capacity"]
    dtype, train_frequency = DTYPES[options.precision], options.train_frequency
    target_frequency = config["target_frequency"]
    update, _ = make_update(config, options)
    steps, updates = max(1, train_frequency // num_envs), max(1, num_envs // train_frequency)  # per round

    def play(carry, drawn):
        weights, state, obs, ring, pushed = carry
        explore, random_actions, draws = drawn
        actions = select_actions(weights, obs, explore, random_actions, dtype)
        state, new_obs, rewards, terminated, truncated, final_obs = step(geometry, state, actions, draws)
        transitions = obs, actions, rewards, final_obs.reshape(obs.shape), terminated
        slots = (pushed + jnp.arange(num_envs)[-capacity:]) % capacity  # with fewer slots, the last ones are kept
        ring = tuple(
            field.at[slots].set(column[-capacity:].astype(field.dtype), unique_indices=True)
            for field, column in zip(ring, transitions)
        )
        pushed += num_envs
        pushed = jnp.where(pushed > capacity, capacity + pushed % capacity, pushed)  # the same slots, without overflow
        carry = weights, state, new_obs.reshape(obs.shape), ring, pushed
        return carry, (actions, rewards, terminated | truncated)

    def one_round(carry, drawn):
        weights, moments, target_weights, state, obs, ring, pushed, count = carry
        *drawn, rows = drawn
        (_, state, obs, ring, pushed), played = jax.lax.scan(play, (weights, state, obs, ring, pushed), tuple(drawn))

        def learn(carry, rows):
            weights, moments = carry
            slots = jnp.where(pushed > capacity, (pushed + rows) % capacity, rows)
            weights, moments, loss = update(weights, moments, target_weights, *(field[slots] for field in ring))
            return (weights, moments), loss

        (weights, moments), losses = jax.lax.scan(learn, (weights, moments), rows)
        if target_frequency:
            count += steps * num_envs
            due = count >= target_frequency
            count %= target_frequency
            target_weights = jax.lax.cond(due, lambda: weights, lambda: target_weights)
        return (weights, moments, target_weights, state, obs, ring, pushed, count), (*played, losses)

    def program(carry, *drawn):
        *per_step, rows = drawn
        rounds = len(rows) // updates
        per_round = [array.reshape(rounds, steps, *array.shape[1:]) for array in per_step]
        carry, out = jax.lax.scan(one_round, carry, (*per_round, rows.reshape(rounds, updates, -1)))
        *played, losses = out
        return carry, (*(array.reshape(rounds * steps, num_envs) for array in played), losses.reshape(-1))

    return program


class ScanLoop(ProgramLoop):
    """The loop of :class:`.loop.Loop` as one compiled JAX program, with the same arguments.

    ``played`` holds the games, their boards, the ring, the number of transitions pushed (less multiples of the
    capacity, so that it cannot overflow), and the number of steps since the last multiple of ``target_frequency``.
    """

    def __init__(self, config, example, options, backend):
        explore, _, _, rows = example
        self.config, self.compiler, num_envs = config, backend.new_compiler(), explore.shape[1]
        check_supported("quantised", options, self.compiler)
        batch = [np.zeros((rows.shape[1], *column.shape[1:]), column.dtype) for column in config["stored"]]
        super().__init__(TrainStep(config, batch, options=options, compiler=self.compiler))
        self.replay_buffer = make_buffer("ring", config["capacity"], config["stored"][0].shape[1])
        self.reset()
        program = make_program(config, options, num_envs)
        self.run = self.compiler.compile(program, (self.carry, *example), donate_argnums=0)

    def __call__(self, explore, *rest):
        """Run the program; arguments and results as in :meth:`.loop.Loop.__call__`."""
        out = super().__call__(explore, *rest)
        self.step += explore.size
        return out

    def reset(self):
        self.learner.reset()
        self.resume(self.config["env_state"], self.config["stored"], self.config["step"])
        self.clock.reset()

    def resume(self, env_state, stored, step):
        """Continue from games and transitions, oldest first, after `step` environment steps, a multiple of a round."""
        self.replay_buffer.restore(*stored)
        games = as_state(env_state)
        obs = observe(self.config.get("geometry", Geometry()), games)
        self.step, since_sync = step, step % (self.config["target_frequency"] or 1)
        counts = np.int32(self.replay_buffer.replay.pushed), np.int32(since_sync)
        self.played = to_device(
            (games, np.asarray(obs).reshape(len(obs), -1), self.replay_buffer.fields, *counts), self.compiler
        )

    def state(self):
        """Return the state as NumPy arrays, see :func:`.loop.state_of`."""
        games, _, ring, pushed, _ = jax.tree.map(np.array, self.played)
        for field, values in zip(self.replay_buffer.fields, ring):
            field[:] = values
        self.replay_buffer.replay.pushed = int(pushed)
        return state_of(self.learner, self.replay_buffer, as_arrays(games), self.step)

    def load_state(self, state):
        self.learner.load_state(state)
        self.resume(games_in(state), stored_in(state), int(state["global_step"]))
