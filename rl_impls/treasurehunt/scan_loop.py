"""Turns and epochs as one JAX program: worlds, memories, acting and learning of all agents in one ``lax.scan``.

Axes: T turns, N agents, K worlds, C cells, F frame size, Q quantiles, B transitions, M noise numbers, L rows per lane.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..common.jax_learner import to_device
from ..common.op import Op
from ..common.phases import Phases
from . import jax_env
from ._jax import TrainStep, choose_actions, make_update, net_of, onehot_matmul
from .memory import FRAMES, MIDWAY, TRUNCATED, Fields, Memory, gather, push_recent, stack
from .spec import settings_of
from .team import blank_batch, load_into, state_of, trained

PHASES = ("program", "transfer")  # phases inside a compiled program cannot be timed separately


def store(fields, pushed, frames, actions, rewards, time, last):
    """Return the memory with one row of every lane stored in place of the oldest.

    frames f32[N, K, F], actions i32[N, K], rewards f32[N, K]; `pushed` i32[] counts the rows ever stored in each lane,
    `time` i32[] the turns since the episode began. `last` is MIDWAY, or at the final row of an episode how it ended.
    """
    slot = pushed % len(fields.time)

    def put_row(field, row):
        agents, worlds = row.shape[:2]
        lanes = field.reshape(agents, worlds, -1, *field.shape[2:])
        return jax.lax.dynamic_update_index_in_dim(lanes, row, slot, axis=2).reshape(field.shape)

    return Fields(
        *map(put_row, fields[:3], (frames, actions, rewards)),
        fields.time.at[slot].set(time),
        fields.last.at[slot].set(last),
    )


def make_play(settings, options):
    """Return ``play(weights, played, *drawn) -> played, (actions i32[T, N, K], rewards f32[T, N, K])`` over T turns.

    ``played`` is the worlds, observations, recent frames, memory and its row count; ``drawn`` the arguments of
    :meth:`.loop.Turns.play`. The ``states``, ``cosines`` and ``precision`` options are read.
    """
    onehot = options.states == "lookup" and settings.observation == "onehot"
    choose = jax.vmap(functools.partial(choose_actions, net_of(options, onehot_matmul if onehot else jnp.matmul)))

    def play(weights, played, *drawn):
        def turn(played, drawn):
            world, obs, recent, fields, pushed = played
            draws, *drawn = drawn
            actions = choose(weights, stack(recent, obs, jnp), *drawn)
            time = world.turn
            world, new_obs, rewards, _ = jax_env.advance(settings, world, actions, draws)
            fields = store(fields, pushed, obs, actions, rewards, time, MIDWAY)
            return (world, new_obs, push_recent(recent, obs, jnp), fields, pushed + 1), (actions, rewards)

        return jax.lax.scan(turn, played, drawn)

    return play


def make_turns(settings, spec, options):
    """Return ``program(carry, *drawn) -> carry, (actions, rewards)``: T turns without learning."""
    play = make_play(settings, options)

    def program(carry, *drawn):
        *learner, played = carry
        played, out = play(learner[0], played, *drawn)
        return (*learner, played), out

    return program


def make_epoch(settings, spec, options):
    """Return ``program(carry, *drawn) -> carry, (actions, rewards, losses)``: an episode and one update per agent."""
    play, (update, _) = make_play(settings, options), make_update(spec, options)

    def program(carry, reset_draws, draws, taus, explore, random_actions, rows, train_taus, noise):
        *learner, (_, _, recent, fields, pushed) = carry
        world = jax_env.reset(settings, reset_draws)
        played = world, jax_env.observe(settings, world), jnp.zeros_like(recent), fields, pushed
        played, out = play(learner[0], played, draws, taus, explore, random_actions)
        world, obs, recent, fields, pushed = played
        none = jnp.zeros(obs.shape[:2], jnp.int32)
        fields = store(fields, pushed, obs, none, none.astype(jnp.float32), world.turn, TRUNCATED)
        # without the barrier, XLA gathers the batch again for every matrix product that uses it
        batch = jax.lax.optimization_barrier(gather(fields, rows, spec["gamma"], jnp))
        *learner, losses = update(*learner, *batch, train_taus, noise)
        return (*learner, (world, obs, recent, fields, pushed + 1)), (*out, losses)

    return program


class Program(Op):
    """A compiled loop that carries worlds, memories and nets, and can be reset to its initial state.

    `make` is :func:`make_turns` or :func:`make_epoch`, `example` has the shapes of :data:`.spec.ARGUMENTS`, and
    `backend` is one of JAX's. Other arguments as in :class:`.loop.Turns`.
    """

    def __init__(self, make, spec, example, worlds, batch, options, backend):
        self.compiler = backend.new_compiler()
        self.spec, self.settings, self.worlds = spec, settings_of(spec), worlds
        self.train = TrainStep(trained(spec), blank_batch(spec["params"], batch), options, self.compiler)
        self.memory = Memory(self.settings.agents, worlds, spec["capacity"], self.settings.frame, spec["gamma"])
        self.clock = Phases(*PHASES)
        self.observe = jax.jit(functools.partial(jax_env.observe, self.settings))
        self.reset()
        self.run = self.compiler.compile(make(self.settings, spec, options), (self.carry, *example), donate_argnums=0)

    def reset(self):
        """Restore the initial worlds, memories and nets, and reset the clock."""
        self.train.reset()
        self.memory.restore(self.spec["stored"])
        self.start()
        self.clock.reset()

    def start(self):
        """Restore the initial worlds and copy the current memory to the device."""
        world = jax_env.World(**self.spec["world_state"])
        obs = self.observe(world)
        recent = np.zeros((self.settings.agents, self.worlds, FRAMES - 1, self.settings.frame), np.float32)
        self.played = to_device((world, obs, recent, self.memory.fields, np.int32(self.memory.pushed)), self.compiler)

    def state(self):
        """Return nets, moments and memories as NumPy, see :func:`.team.state_of`."""
        *_, fields, pushed = self.played
        for field, values in zip(self.memory.fields, fields, strict=True):
            field[:] = np.asarray(values)
        self.memory.pushed = int(pushed)
        return state_of(self.train, self.memory)

    def load_state(self, state):
        """Restore a state of :meth:`state`, from any backend and form; worlds start over."""
        load_into(self.train, self.memory, state)
        self.start()

    @property
    def carry(self):
        """The program's carry: weights, moments, target weights and ``played`` of :func:`make_play`."""
        return (self.train.weights, self.train.moments, self.train.target_weights, self.played)

    @property
    def params(self):
        """The current online weights as NumPy."""
        return self.train.params

    def phases(self):
        """Return the seconds spent in the program and in copying its results to the host."""
        return dict(self.clock.seconds)

    def __call__(self, *drawn):
        """Run the program on host arrays and return its output as NumPy."""
        self.clock.start()
        carry, out = jax.block_until_ready(self.run(self.carry, *drawn))
        self.train.weights, self.train.moments, self.train.target_weights, self.played = carry
        self.clock("program")
        out = tuple(map(np.asarray, out))
        self.clock("transfer")
        return out
