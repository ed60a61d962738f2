"""Small training loops with their random draws, and a plain loop in float64 that replays recorded actions."""

from dataclasses import asdict

import numpy as np

from correctness_tests.reference import in_float64
from correctness_tests.treasurehunt.problem import build
from rl_impls import backends
from rl_impls.treasurehunt import _numpy
from rl_impls.treasurehunt.memory import FRAMES, Memory, gather
from rl_impls.treasurehunt.team import blank_batch
from rl_impls.treasurehunt.vector_env import ACTIONS, DRAWS, CellWorlds, Settings

SMALL = {"num_agents": 2, "height": 6, "width": 6, "turns": 6, "spawn": 0.1}
BATCH = 10


def settings_of(config):
    return Settings(**config["settings"])


def draw_cells(rng, settings, *shape):
    return rng.integers(DRAWS, size=(*shape, settings.cells), dtype=np.int32)


def random_actions(rng, *shape):
    return rng.integers(ACTIONS, size=shape, dtype=np.int32)


def play_randomly(rng, settings, num_worlds, capacity):
    """Play two and a half random episodes; return a memory of the two complete ones, and the state of the worlds."""
    memory = Memory(settings.num_agents, num_worlds, capacity, settings.frame)
    worlds = CellWorlds(settings, num_worlds)
    for turns in (settings.turns, settings.turns, settings.turns // 2):
        obs = worlds.reset(draw_cells(rng, settings, num_worlds))
        for _ in range(turns):
            last_obs, actions = obs, random_actions(rng, settings.num_agents, num_worlds)
            obs, rewards, truncated = worlds.advance(actions, draw_cells(rng, settings, num_worlds))
            if turns == settings.turns:
                memory.push(last_obs, actions, rewards)
        if truncated:
            memory.finish(obs)
    return memory, worlds.get_state()


def loop_config(rng, num_worlds=1, hidden=16, **settings):
    settings = Settings(**SMALL | settings)
    nets = [_numpy.init_params(rng, settings.num_agents, FRAMES * settings.frame, hidden) for _ in range(2)]
    for net in nets:  # makes the best action depend on the observation
        net["w_state"] *= 3
        net["w_hidden"] *= 3
        net["w_heads"] -= net["w_heads"].mean(axis=1, keepdims=True)
        net["b_heads"] *= 0
    capacity = num_worlds * (3 * (settings.turns + 1) - 1)  # one row too small for a third episode
    memory, state = play_randomly(rng, settings, num_worlds, capacity)
    return {
        "params": nets[0], "target": nets[1], "learning_rate": 2.5e-4, "gamma": 0.99, "max_grad_norm": 1.0,
        "soft_update": 0.1, "settings": asdict(settings), "capacity": capacity, "stored": memory.arrays(),
        "world_state": state,
    }  # fmt: skip


def draw_turns(rng, settings, num_worlds, epsilon=0.3):
    shape = settings.turns, settings.num_agents, num_worlds
    taus, explore = rng.random((*shape, _numpy.QUANTILES), np.float32), rng.random(shape) < epsilon
    return draw_cells(rng, settings, settings.turns, num_worlds), taus, explore, random_actions(rng, *shape)


def draw_epochs(rng, config, num_worlds, epochs, epsilon=0.3):
    settings = settings_of(config)
    memory = Memory(settings.num_agents, num_worlds, config["capacity"], settings.frame)
    memory.restore(config["stored"])
    blank = np.zeros((settings.num_agents, num_worlds, settings.frame), np.float32)
    args = []
    for _ in range(epochs):
        for _ in range(settings.turns):
            memory.push(blank, blank[..., 0].astype(np.int32), blank[..., 0])
        memory.finish(blank)
        taus = rng.random((settings.num_agents, 3, BATCH, _numpy.QUANTILES), np.float32)
        noise = rng.standard_normal((settings.num_agents, 2, _numpy.noise_size(config["params"])), np.float32)
        turns = draw_turns(rng, settings, num_worlds, epsilon)
        reset_draws = draw_cells(rng, settings, num_worlds)
        rows = np.stack([rng.choice(memory.starts(), BATCH, replace=False) for _ in range(settings.num_agents)])
        args.append((reset_draws, *turns, rows, taus, noise))
    return args


def hunt(seed=0, num_worlds=1, epochs=2, epsilon=0.3, **changes):
    rng = np.random.default_rng(seed)
    config = loop_config(rng, num_worlds, **changes)
    return config, draw_epochs(rng, config, num_worlds, epochs, epsilon)


def stacked(frames):
    """Return the states f64[N, K, S] after some frames f[N, K, F], with zeros before the first frame."""
    blank = np.zeros_like(frames[0])
    frames = [*[blank] * (FRAMES - len(frames)), *frames[-FRAMES:]]
    return np.concatenate(frames, axis=-1).astype(np.float64)


class PlainHunt:
    """A loop in float64 that plays given actions, computes the values of all actions, and learns."""

    def __init__(self, config, num_worlds, order="together"):
        self.settings, self.gamma, self.order = settings_of(config), config["gamma"], order
        self.worlds, self.frames = CellWorlds(self.settings, num_worlds), []
        self.worlds.set_state(config["world_state"])
        self.memory = Memory(self.settings.num_agents, num_worlds, config["capacity"], self.settings.frame)
        self.memory.restore(config["stored"])
        self.update = build("train_step", "torch", in_float64(config), blank_batch(config["params"]), "naive")

    @property
    def params(self):
        return self.update.params

    def nets(self):
        state = self.update.state()
        return [{name: state[f"{part}.{name}"] for name in self.params} for part in ("online", "target")]

    def turn(self, actions, draws, taus):
        """Play a turn; return the rewards f32[N, K] and the action values f64[N, K, A]."""
        obs, rewards = self.worlds.observe(), []
        for n in range(self.settings.num_agents):
            if self.order == "interleaved":
                obs[n] = self.worlds.observe_agent(n)
            rewards.append(self.worlds.move_agent(n, actions[n]))
        self.worlds.end_turn(draws)
        self.frames.append(obs)
        self.memory.push(obs, actions, np.array(rewards))
        values = _numpy.quantiles(self.params, stacked(self.frames), taus.astype(np.float64)).mean(axis=-2)
        return np.array(rewards), values

    def turns(self, actions, draws, taus, explore, random_actions):
        """Play several turns; return the rewards f32[T, N, K] and the action values f64[T, N, K, A]."""
        rewards, values = zip(*map(self.turn, actions, draws, taus))
        return np.array(rewards), np.array(values)

    def epoch(self, actions, reset_draws, draws, taus, explore, random_actions, rows, train_taus, noise):
        """Play an epoch and learn; return the rewards, the action values and the losses f64[N]."""
        self.worlds.reset(reset_draws)
        self.frames = []
        played = self.turns(actions, draws, taus, explore, random_actions)
        self.memory.finish(self.worlds.observe())
        batch = in_float64((*gather(self.memory.fields, rows, self.gamma), train_taus, noise))
        losses = _numpy.loss(*self.nets(), *batch)
        updated = self.update(*map(backends.get("torch").to_device, batch)).numpy()
        np.testing.assert_allclose(updated, losses, rtol=1e-10)
        return *played, losses


def shortfall(actions, values):
    """Return the difference f[...] between the best of the values f[..., A] and the value of the action taken."""
    return values.max(axis=-1) - np.take_along_axis(values, actions[..., None], axis=-1)[..., 0]
