"""Turns and epochs as one JAX program: worlds, memories, acting and learning of all agents in one ``lax.scan``."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..common.jax_learner import ProgramLoop, to_device
from . import jax_env
from ._jax import TrainStep, choose_actions, make_update, net_of, onehot_matmul
from ._numpy import noise_size
from .jax_draws import draw_epoch, draw_rows
from .memory import FRAMES, Fields, Memory, gather, push_recent, stack
from .team import blank_batch, load_into, state_of
from .vector_env import Settings


def store(fields, pushed, frames, actions, rewards, time, last):
    """Return the memory with one row of every world stored in place of the oldest.

    frames f32[N, K, F], actions i32[N, K], rewards f32[N, K]; `pushed` i32[] counts the rows ever stored in each world,
    `time` i32[] the turns since the episode began; `last` tells whether this is the final row of the episode.
    """
    slot = pushed % len(fields.time)

    def put_row(field, row):
        agents, worlds = row.shape[:2]
        rows = field.reshape(agents, worlds, -1, *field.shape[2:])
        return jax.lax.dynamic_update_index_in_dim(rows, row, slot, axis=2).reshape(field.shape)

    return Fields(
        *map(put_row, fields[:3], (frames, actions, rewards)),
        fields.time.at[slot].set(time),
        fields.last.at[slot].set(last),
    )


def make_play(settings, options):
    """Return ``play(weights, state, *draws) -> state, (actions i32[T, N, K], rewards f32[T, N, K])`` over T turns.

    ``state`` is the worlds, observations, recent frames, memory and its row count; ``draws`` the arguments of
    :meth:`.loop.Turns.play`. The ``states``, ``cosines`` and ``precision`` options are read.
    """
    onehot = options.states == "lookup" and settings.observation == "onehot"
    choose = jax.vmap(functools.partial(choose_actions, net_of(options, onehot_matmul if onehot else jnp.matmul)))

    def play(weights, state, *draws):
        def turn(state, draws):
            world, obs, recent, fields, pushed = state
            spawn_draws, taus, explore, random_actions = draws
            actions = choose(weights, stack(recent, obs, jnp), taus, explore, random_actions)
            time = world.turn
            world, new_obs, rewards, _ = jax_env.advance(settings, world, actions, spawn_draws)
            fields = store(fields, pushed, obs, actions, rewards, time, False)
            return (world, new_obs, push_recent(recent, obs, jnp), fields, pushed + 1), (actions, rewards)

        return jax.lax.scan(turn, state, draws)

    return play


def make_turns(settings, config, options):
    """Return ``program(carry, *draws) -> carry, (actions, rewards)``: T turns without learning."""
    play = make_play(settings, options)

    def program(carry, *draws):
        *learner, state = carry
        state, out = play(learner[0], state, *draws)
        return (*learner, state), out

    return program


def make_epoch(settings, config, options):
    """Return ``program(carry, *draws) -> carry, (actions, rewards, losses)``: an episode and one update per agent.

    The draws are the arguments of :meth:`.loop.Epoch.__call__`. If the ``draws`` option is ``key``, they are a key
    u32[2] and epsilon f32[], from which the program draws those arguments; `config` then needs ``batch_size``.
    """
    play, (update, _) = make_play(settings, options), make_update(config, options)

    def episode(carry, reset_draws, *turns):
        *learner, (_, _, recent, fields, pushed) = carry
        world = jax_env.reset(settings, reset_draws)
        state = world, jax_env.observe(settings, world), jnp.zeros_like(recent), fields, pushed
        state, out = play(learner[0], state, *turns)
        world, obs, recent, fields, pushed = state
        none = jnp.zeros(obs.shape[:2], jnp.int32)
        fields = store(fields, pushed, obs, none, none.astype(jnp.float32), world.turn, True)
        return (*learner, (world, obs, recent, fields, pushed + 1)), out

    def learn(carry, rows, train_taus, noise):
        *learner, state = carry
        fields = state[3]
        # without the barrier, XLA gathers the batch again for every matrix product that uses it
        batch = jax.lax.optimization_barrier(gather(fields, rows, config["gamma"], jnp))
        *learner, losses = update(*learner, *batch, train_taus, noise)
        return (*learner, state), losses

    def program(carry, reset_draws, draws, taus, explore, random_actions, rows, train_taus, noise):
        carry, out = episode(carry, reset_draws, draws, taus, explore, random_actions)
        carry, losses = learn(carry, rows, train_taus, noise)
        return carry, (*out, losses)

    def keyed(carry, key, epsilon):
        num_worlds, batch_size = len(config["world_state"]["grid"]), config["batch_size"]
        *turns, rows_key, train_taus, noise = draw_epoch(
            key, epsilon, settings, num_worlds, batch_size, noise_size(config["params"])
        )
        carry, out = episode(carry, *turns)
        *_, (_, _, _, fields, pushed) = carry
        carry, losses = learn(carry, draw_rows(rows_key, fields, pushed, batch_size), train_taus, noise)
        return carry, (*out, losses)

    return {"arguments": program, "key": keyed}[options.draws]


class Program(ProgramLoop):
    """A compiled loop that carries worlds, memories and nets, and can be reset to its initial state.

    Subclasses set ``make``, :func:`make_turns` or :func:`make_epoch`. `backend` is one of JAX's; other arguments as in
    :class:`.loop.Turns`. ``played`` holds the state of :func:`make_play`.
    """

    def __init__(self, config, options, backend):
        settings, self.config, self.compiler = Settings(**config["settings"]), config, backend.new_compiler()
        shape = settings.num_agents, len(config["world_state"]["grid"])
        super().__init__(TrainStep(config, blank_batch(config["params"]), options, self.compiler))
        self.memory = Memory(*shape, config["capacity"], settings.frame)
        self.no_frames = np.zeros((*shape, FRAMES - 1, settings.frame), np.float32)
        self.observe = jax.jit(functools.partial(jax_env.observe, settings))
        self.run = jax.jit(self.make(settings, config, options), donate_argnums=0)
        self.reset()

    def reset(self):
        self.learner.reset()
        self.memory.restore(self.config["stored"])
        self.start()
        self.clock.reset()

    def start(self):
        """Restore the initial worlds and copy the current memory to the device."""
        world, memory = jax_env.World(**self.config["world_state"]), self.memory
        state = world, self.observe(world), self.no_frames, memory.fields, np.int32(memory.pushed)
        self.played = [to_device(state, self.compiler)]

    def state(self):
        """Return nets, moments and memories as NumPy, see :func:`.team.state_of`."""
        *_, fields, pushed = self.played[0]
        for field, values in zip(self.memory.fields, fields, strict=True):
            field[:] = np.asarray(values)
        self.memory.pushed = int(pushed)
        return state_of(self.learner, self.memory)

    def load_state(self, state):
        """Restore a state of :meth:`state`, from any backend and form; worlds start over."""
        load_into(self.learner, self.memory, state)
        self.start()


class Turns(Program):
    """T turns without learning, see :class:`.loop.Turns`."""

    make = staticmethod(make_turns)


class Epoch(Program):
    """An episode and one update of every agent, see :class:`.loop.Epoch` and :func:`make_epoch`."""

    make = staticmethod(make_epoch)
