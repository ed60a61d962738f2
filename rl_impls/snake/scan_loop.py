"""The DQN training loop as one program: environment, replay ring and learning inside a single ``lax.scan``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..common.op import Op
from ..common.phases import Phases
from ._jax import DTYPES, TrainStep, as_arrays, as_state, choose_moves, make_update, to_device
from .jax_env import observe, step
from .options import check_supported
from .loop import check_schedule, parts_of, state_of
from .memory import FIELDS, make_memory
from .spec import geometry_of

PHASES = ("program", "transfer")  # phases inside a single program cannot be timed separately


class ScanLoop(Op):
    """The loop of :class:`.loop.Loop` as one compiled JAX program, with the same arguments.

    Steps are grouped into rounds: the steps between two updates, then the updates between two steps.
    """

    def __init__(self, spec, example, options, backend):
        compiler = backend.new_compiler()
        explore, _, _, rows = (np.asarray(array) for array in example)
        self.spec, self.compiler, self.every, self.envs = spec, compiler, options.every, explore.shape[1]
        self.geometry = geometry_of(spec)
        check_schedule(self.envs, options, rows.shape[1])
        if options.collection != "inline":
            raise ValueError(
                f"collection: got {options.collection!r} with loop='scan', wanted inline: it is one program"
            )
        for option in ("quantised", "processes"):
            check_supported(option, options, compiler)
        batch = [np.zeros((rows.shape[1], *column.shape[1:]), column.dtype) for column in spec["stored"]]
        self.train = TrainStep(spec, batch, options, compiler)
        self.clock = Phases(*PHASES)
        self.memory = make_memory("ring", spec["capacity"], spec["stored"][0].shape[1])
        self.reset()
        program = make_program(spec, options, self.envs)
        self.run = compiler.compile(program, (self.carry, *example), donate_argnums=0)

    def reset(self):
        """Restore the initial games, replay ring and networks."""
        self.train.reset()
        self.start(self.spec["env_state"], self.spec["stored"], self.spec["step"])
        self.clock.reset()

    def start(self, env_state, stored, step):
        """Continue from games (:data:`.spec.ENV_STATE`) and transitions (:data:`.spec.STORED`, oldest first).

        `step`, the number of environment steps made before, must be a multiple of ``options.every``.
        """
        if step % self.every:
            raise ValueError(
                f"step: got {step} with an update every {self.every} steps, wanted a multiple: whole rounds"
            )
        self.memory.restore(*stored)
        games = as_state(env_state)
        obs = np.asarray(observe(self.geometry, games)).reshape(self.envs, -1)
        counts = np.int32(self.memory.replay.pushed), np.int32(step)
        self.played = to_device((games, obs, self.memory.fields, *counts), self.compiler)

    @property
    def carry(self):
        """The program's carry: weights, moments, target weights, games, boards, ring, numbers of pushes and steps."""
        return (self.train.weights, self.train.moments, self.train.target_weights, *self.played)

    def phases(self):
        """Return the seconds spent in the program, and in copying its results, since the last reset."""
        return dict(self.clock.seconds)

    @property
    def params(self):
        """The online weights as NumPy, by name."""
        return self.train.params

    def state(self):
        """Return the state as NumPy arrays, see :meth:`.loop.Loop.state`."""
        games, _, ring, pushed, step = jax.tree.map(np.array, self.played)
        for field, values in zip(self.memory.fields, ring):
            field[:] = values
        self.memory.replay.pushed = int(pushed)
        return state_of(self.train, self.memory, as_arrays(games), int(step))

    def load_state(self, state):
        """Continue from arrays by name of any loop's ``state()``, whatever its backend and form."""
        parts = parts_of(state)
        self.train.load_state(parts["train"])
        self.start(parts["env"], tuple(parts["memory"][name] for name in FIELDS), int(parts["loop"]["step"]))

    def __call__(self, explore, random_actions, draws, rows):
        """Play T steps and learn in between; arguments and results are those of :meth:`.loop.Loop.__call__`."""
        self.clock.start()
        carry, out = jax.block_until_ready(self.run(self.carry, explore, random_actions, draws, rows))
        self.train.weights, self.train.moments, self.train.target_weights, *self.played = carry
        self.clock("program")
        out = tuple(map(np.asarray, out))
        self.clock("transfer")
        return out


def make_program(spec, options, envs):
    """Return ``program(carry, explore, random_actions, draws, rows) -> carry, (actions, rewards, ended, losses)``."""
    geometry, dtype, capacity = geometry_of(spec), DTYPES[options.precision], spec["capacity"]
    update, _ = make_update(spec, options)
    steps, updates = max(1, options.every // envs), max(1, envs // options.every)  # per round

    def play(carry, drawn):
        weights, state, obs, ring, pushed = carry
        explore, random_actions, draws = drawn
        actions = choose_moves(weights, obs, explore, random_actions, dtype)
        state, new_obs, rewards, terminated, truncated, final_obs = step(geometry, state, actions, draws)
        transitions = obs, actions, rewards, final_obs.reshape(obs.shape), terminated
        slots = (pushed + jnp.arange(envs)) % capacity
        ring = tuple(
            field.at[slots].set(column.astype(field.dtype), unique_indices=True)
            for field, column in zip(ring, transitions)
        )
        carry = weights, state, new_obs.reshape(obs.shape), ring, pushed + envs
        return carry, (actions, rewards, terminated | truncated)

    def one_round(carry, drawn):
        weights, moments, target_params, state, obs, ring, pushed, count = carry
        *drawn, rows = drawn
        (_, state, obs, ring, pushed), played = jax.lax.scan(play, (weights, state, obs, ring, pushed), tuple(drawn))

        def learn(carry, rows):
            weights, moments = carry
            slots = jnp.where(pushed > capacity, (pushed + rows) % capacity, rows)
            weights, moments, loss = update(weights, moments, target_params, *(field[slots] for field in ring))
            return (weights, moments), loss

        (weights, moments), losses = jax.lax.scan(learn, (weights, moments), rows)
        passed, count = count, count + steps * envs
        if spec["target_every"]:
            due = count // spec["target_every"] > passed // spec["target_every"]
            target_params = jax.lax.cond(due, lambda: weights, lambda: target_params)
        return (weights, moments, target_params, state, obs, ring, pushed, count), (*played, losses)

    def program(carry, *drawn):
        *per_step, rows = drawn
        rounds = len(rows) // updates
        per_round = [array.reshape(rounds, steps, *array.shape[1:]) for array in per_step]
        carry, out = jax.lax.scan(one_round, carry, (*per_round, rows.reshape(rounds, updates, -1)))
        *played, losses = out
        return carry, (*(array.reshape(rounds * steps, envs) for array in played), losses.reshape(-1))

    return program
