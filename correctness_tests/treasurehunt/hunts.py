"""Small loops with all their random draws, and a plain loop in float64 that replays recorded actions."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from correctness_tests.reference import in_float64
from rl_impls import backends
from rl_impls.treasurehunt import _numpy
from rl_impls.treasurehunt.agent import Config, init_params
from rl_impls.treasurehunt.memory import FRAMES, Memory
from rl_impls.treasurehunt.spec import ACTIONS, DRAWS, Settings, settings_of
from rl_impls.treasurehunt.team import QUANTILES, blank_batch
from rl_impls.treasurehunt.vector_env import CellWorlds

SMALL = {"agents": 2, "height": 6, "width": 6, "turns": 6, "spawn": 0.1}
BATCH = 10
GREEDY = 1e-4  # an action that is worth less than the best by no more than this counts as greedy


def build(op, backend, spec, example, form="full", **options):
    """Build one op; it takes and returns NumPy arrays."""
    options = replace(backends.forms("treasurehunt")[form], **options)
    return backends.get(backend).build("treasurehunt", op, spec, example, options)


def draws(rng, settings, *shape):
    return rng.integers(DRAWS, size=(*shape, settings.height * settings.width), dtype=np.int32)


def random_actions(rng, *shape):
    return rng.integers(ACTIONS, size=shape, dtype=np.int32)


def remembered(rng, settings, worlds, capacity, gamma):
    """Play two and a half random episodes.  -> a memory of the two whole ones, which a third will overflow; worlds"""
    memory = Memory(settings.agents, worlds, capacity, settings.frame, gamma)
    world = CellWorlds(settings, worlds)
    for turns in (settings.turns, settings.turns, settings.turns // 2):
        obs = world.reset(draws(rng, settings, worlds))
        for _ in range(turns):
            seen, actions = obs, random_actions(rng, settings.agents, worlds)
            obs, rewards, truncated = world.advance(actions, draws(rng, settings, worlds))
            if turns == settings.turns:
                memory.push(seen, actions, rewards)
        if truncated:
            memory.finish(obs)
    return memory, world.get_state()


def start(rng, worlds=1, hidden=16, **settings):
    """Return the spec of a small loop."""
    settings = Settings(**SMALL | settings)
    capacity = worlds * (3 * (settings.turns + 1) - 1)
    config = Config(settings=settings, worlds=worlds, hidden=hidden, batch=BATCH, capacity=capacity)
    nets = [init_params(rng, config) for _ in range(2)]
    for net in nets:  # so that the best action depends on what is seen
        net["w_state"] *= 3
        net["w_hidden"] *= 3
        net["w_heads"] -= net["w_heads"].mean(axis=1, keepdims=True)
        net["b_heads"] *= 0
    memory, state = remembered(rng, settings, worlds, config.capacity, config.gamma)
    return {name: getattr(config, name) for name in ("learning_rate", "gamma", "gradient_norm", "capacity")} | {
        "params": nets[0], "target": nets[1], "soft_update": 0.1, "settings": asdict(settings),
        "world_state": state, "stored": memory.arrays(),
    }  # fmt: skip


def drawn_turns(rng, settings, worlds, explore=0.3):
    """Return the arguments of the op ``turn`` for one episode."""
    shape = settings.turns, settings.agents, worlds
    taus, exploring = rng.random((*shape, QUANTILES), np.float32), rng.random(shape) < explore
    return draws(rng, settings, settings.turns, worlds), taus, exploring, random_actions(rng, *shape)


def drawn_epochs(rng, spec, worlds, epochs, explore=0.3):
    """Return the arguments of the op ``epoch``, for some epochs in succession."""
    settings = settings_of(spec)
    memory = Memory(settings.agents, worlds, spec["capacity"], settings.frame)
    memory.restore(spec["stored"])
    blank = np.zeros((settings.agents, worlds, settings.frame), np.float32)
    args = []
    for _ in range(epochs):
        for _ in range(settings.turns):
            memory.push(blank, blank[..., 0].astype(np.int32), blank[..., 0])
        memory.finish(blank)
        taus = rng.random((settings.agents, 3, BATCH, QUANTILES), np.float32)
        noise = rng.standard_normal((settings.agents, 2, _numpy.noise_size(spec["params"])), np.float32)
        turns = drawn_turns(rng, settings, worlds, explore)
        args.append((draws(rng, settings, worlds), *turns, memory.draw(rng, BATCH), taus, noise))
    return args


def hunt(seed=0, worlds=1, epochs=2, explore=0.3, **changes):
    """Return the spec of a small loop, and the arguments of some epochs."""
    rng = np.random.default_rng(seed)
    spec = start(rng, worlds, **changes)
    return spec, drawn_epochs(rng, spec, worlds, epochs, explore)


def stacked(frames):
    """Stack the last frames f[N, K, F], with zeros before the first.  -> states f64[N, K, S]"""
    blank = np.zeros_like(frames[0])
    frames = [*[blank] * (FRAMES - len(frames)), *frames[-FRAMES:]]
    return np.concatenate(frames, axis=-1).astype(np.float64)


class PlainHunt:
    """Plays given actions, values every action it could have played, and learns, all in float64."""

    def __init__(self, spec, worlds, order="together"):
        self.settings, self.order = settings_of(spec), order
        self.world, self.seen = CellWorlds(self.settings, worlds), []
        self.world.set_state(spec["world_state"])
        agents, frame = self.settings.agents, self.settings.frame
        self.memory = Memory(agents, worlds, spec["capacity"], frame, spec["gamma"])
        self.memory.restore(spec["stored"])
        exact = in_float64(spec)
        self.update = build("train_step", "torch", exact, blank_batch(spec["params"], 1), "naive")

    @property
    def params(self):
        return self.update.params

    def nets(self):
        """Return the weights of the online and the target nets."""
        state = self.update.state()
        return [{name: state[f"{part}.{name}"] for name in self.params} for part in ("online", "target")]

    def turn(self, actions, draws, taus):
        """Play a turn.  -> rewards f32[N, K], values of each action f64[N, K, A]"""
        obs, rewards = self.world.observe(), []
        for n in range(self.settings.agents):
            if self.order == "interleaved":
                obs[n] = self.world.observe_agent(n)
            rewards.append(self.world.move_agent(n, actions[n]))
        self.world.end_turn(draws)
        self.seen.append(obs)
        self.memory.push(obs, actions, np.array(rewards))
        values = _numpy.quantiles(self.params, stacked(self.seen), taus.astype(np.float64)).mean(axis=-2)
        return np.array(rewards), values

    def turns(self, actions, draws, taus, explore, random_actions):
        """Play some turns.  -> rewards f32[T, N, K], values f64[T, N, K, A]"""
        rewards, values = zip(*map(self.turn, actions, draws, taus))
        return np.array(rewards), np.array(values)

    def epoch(self, actions, reset_draws, draws, taus, explore, random_actions, rows, train_taus, noise):
        """Play and learn.  -> the same, and losses f64[N]"""
        self.world.reset(reset_draws)
        self.seen = []
        played = self.turns(actions, draws, taus, explore, random_actions)
        self.memory.finish(self.world.observe())
        batch = in_float64((*self.memory.columns(rows), train_taus, noise))
        losses = _numpy.loss(*self.nets(), *batch)
        trained = self.update(*map(backends.get("torch").to_device, batch)).numpy()
        np.testing.assert_allclose(trained, losses, rtol=1e-10)
        return *played, losses


def lacking(actions, values):
    """Return how much less than the best of ``values`` f[..., A] each action is worth, f[...]."""
    return values.max(axis=-1) - np.take_along_axis(values, actions[..., None], axis=-1)[..., 0]
