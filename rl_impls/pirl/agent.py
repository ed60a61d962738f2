"""The physics-informed Q-agent: acts, learns and evaluates."""

from __future__ import annotations

from dataclasses import asdict, replace
from time import perf_counter
from typing import Annotated, Literal

import numpy as np

from .. import backends, params
from ..common.agent import Agent
from ..common.batching import BatchGrid
from ..common.checks import check_integer
from ..common.config import Field, OneOf, config
from ..common.episodes import mean
from ..common.parts import join_parts, part_of
from ..common.replay import Replay
from .env import PirlEnv, sample_points, starts
from .options import FORMS
from .physics import ACTIONS, STATES

ANY_SIZE = ("eager", "neuron")  # compilers whose nets take batches of any size
SAME = "same"  # the backend that learns
NO_GRADIENTS = "computes no gradients; train with --backend torch --serve {}"
GRID = BatchGrid(2**k for k in range(12))  # batch sizes, 1 to 2,048 rows, that nets are compiled for


@config
class Config:
    """Configuration of an agent; the seed is passed separately."""

    backend: Annotated[str, OneOf(backends.names_of("pirl"))] = Field(
        "torch", description="compute backend; auto selects the best one available"
    )
    form: Annotated[str, OneOf(FORMS)] = Field("full", description="named set of optimisations")
    serve: Annotated[str, OneOf((*backends.names_of("pirl"), SAME))] = Field(
        SAME, description="backend for acting and evaluation; same means the backend that learns"
    )
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field((32, 32, 32), description="widths of the hidden layers")
    order: Literal[1, 2] = Field(2, description="order of the PDE residual; 1 leaves out the diffusion term")
    learning_rate: float = Field(5e-4, ge=0, description="learning rate of Adam")
    batch_size: int = Field(256, ge=1, description="minibatch size in transitions")
    points: int = Field(32, ge=1, description="collocation points of each kind per update")
    pde_weight: float = Field(1e-4, ge=0, description="weight of the squared PDE residual in the loss")
    boundary_weight: float = Field(1.0, ge=0, description="weight of the boundary terms in the loss")
    target_frequency: int = Field(100, ge=1, description="updates between copies of the weights to the target network")
    capacity: int = Field(50_000, ge=1, description="capacity of the replay buffer in transitions")
    train_frequency: int = Field(1, ge=1, description="environment steps between updates")
    warm_up: int = Field(1_000, ge=0, description="environment steps before the first update")
    epsilon_start: float = Field(1.0, ge=0, le=1, description="exploration rate at the first environment step")
    epsilon_end: float = Field(0.05, ge=0, le=1, description="final exploration rate")
    epsilon_steps: int = Field(
        10_000, ge=1, description="environment steps over which the exploration rate decays linearly"
    )

    def __post_init__(self):
        object.__setattr__(self, "backend", backends.resolve(self.backend))
        if self.serve != SAME:
            object.__setattr__(self, "serve", backends.resolve(self.serve))
        if self.form == "naive" and self.backend.startswith("torch-compile"):
            raise ValueError(f"form='naive' should be full on {self.backend}, which cannot compile nested derivatives")
        if self.batch_size > self.capacity:
            raise ValueError(f"batch_size={self.batch_size} should be at most capacity={self.capacity}")

    @property
    def sizes(self):
        """Widths of all layers, from input to output."""
        return (STATES, *self.hidden, ACTIONS)

    @property
    def weights(self):
        """Number of weights in the network."""
        return params.count_mlp(self.sizes)


class PirlAgent(Agent):
    """Learns Q(s, a), the probability of staying on the road until the horizon runs out.

    ``PirlAgent("torch", "full", seed=0, hidden=(32, 32, 32))``. With ``serve="onnx"`` it learns on torch, and acts and
    evaluates on ONNX, which takes the new weights after each update.
    """

    Config = Config
    ABOUT = "Train and evaluate an agent that keeps a car on the road."
    CHANGEABLE = ("backend", "form", "serve")
    chunk = 256

    def __init__(self, *args, **config):
        super().__init__(*args, **config)
        self.backend = backends.get(self.config.backend)
        self.serving = self.backend if self.config.serve == SAME else backends.get(self.config.serve)
        self.options = replace(FORMS[self.config.form], order=self.config.order)
        self.env = PirlEnv()
        self.env.np_random = self.rng
        state, number = np.zeros(STATES, np.float32), np.float32(0)
        self.replay = Replay(
            self.config.capacity, state=state, action=np.int32(0), reward=number, next_state=state, terminated=number
        )
        self.updates, self._learner, self._nets = 0, None, {}
        self.length = 0  # of the running episode
        weights = params.init_mlp(self.rng, self.config.sizes)
        moments = {name: np.zeros_like(value) for name, value in weights.items()}
        nets = join_parts(online=weights, target=weights, first=moments, second=moments)
        self._state = {"step": np.array(0, np.int32)} | nets  # of the learner, until it is built

    @property
    def params(self):
        """The online weights as NumPy: ``w{k}`` f32[I, O], ``b{k}`` f32[O]."""
        return self._learner.params if self._learner else part_of(self._state, "online")

    @property
    def epsilon(self):
        """Exploration rate at the current environment step."""
        start, end = self.config.epsilon_start, self.config.epsilon_end
        return start + (end - start) * min(1.0, self.step / self.config.epsilon_steps)

    def summary(self):
        """Return layer widths, number of parameters and size of the network as text."""
        sizes = self.config.sizes
        count = self.config.weights + sum(sizes[1:])
        return f"net {'-'.join(map(str, sizes))}: {count:,} parameters, {4 * count / 1024:.2f} KiB"

    def get_epsilon_greedy_action(self, state, epsilon=None):
        """Return the best action of one state, f32[16], or with probability `epsilon` a random one.

        `epsilon` defaults to the current exploration rate.
        """
        if self.rng.random() < (self.epsilon if epsilon is None else epsilon):
            return int(self.rng.integers(ACTIONS))
        return int(self.get_qs(state).argmax())

    def learn(self):
        """Drive for one chunk of environment steps, continuing the current episode, and make the updates that are due.

        Returns:
            the figures of :meth:`.Agent.learn`; ``safe``, the number of episodes that stayed on the road; and
            ``td_loss`` and ``physics_loss``, the two parts of the loss: the squared TD error, and the weighted PDE and
            boundary terms.
        """
        self.prepare()
        returns, lengths, losses, td_losses = [], [], [], []
        for _ in range(self.chunk):
            if not self.env.running:
                self.env.reset()
            state = self.env.observation()
            action = self.get_epsilon_greedy_action(state)
            next_state, reward, terminated, _, _ = self.env.step(action)
            self.replay.push(state=state, action=action, reward=reward, next_state=next_state, terminated=terminated)
            self.step += 1
            self.length += 1
            if terminated:
                returns.append(reward)
                lengths.append(self.length)
                self.length = 0
            due = self.step >= self.config.warm_up and self.step % self.config.train_frequency == 0
            if due and len(self.replay) >= self.config.batch_size:
                loss, td_loss = self.train()
                losses.append(loss)
                td_losses.append(td_loss)
        return {
            "return": mean(returns), "length": mean(lengths), "episodes": len(returns), "safe": int(sum(returns)),
            "updates": len(losses), "loss": mean(losses), "td_loss": mean(td_losses),
            "physics_loss": mean(losses) - mean(td_losses), "epsilon": self.epsilon,
        }  # fmt: skip

    def train(self):
        """Make one update; return the loss before it and its TD term.

        The target network takes the weights when that is due.
        """
        self.prepare()
        batch = self.replay.sample(self.rng, self.config.batch_size).values()
        points = sample_points(self.rng, self.config.points)
        loss = self._learner(*map(self.backend.from_host, (*batch, *points)))
        self.updates += 1
        if self.updates % self.config.target_frequency == 0:
            self._learner.sync_target()
        return float(self.backend.to_host(loss)), float(self.backend.to_host(self._learner.td_loss))

    def prepare(self):
        """Build the learner; raise OpUnavailable if the backend computes no gradients."""
        if self._learner:
            return
        if not self.backend.learns:
            raise backends.OpUnavailable(f"{self.backend.name} {NO_GRADIENTS.format(self.backend.name)}")
        self.serving.require()
        config = asdict(self.config) | {"params": self.params, "target": self.params, "dynamics": "vehicle"}
        example = ()  # these compilers take shapes from the first call
        ops, compiler = self.backend.ops("pirl"), self.backend.new_compiler()
        learner = ops.train_step(config, example, options=self.options, compiler=compiler)
        learner.load_state(self._state)
        self._learner = learner

    def get_qs(self, state):
        """Return the Q-values of one state.  f32[16] -> f32[25]"""
        return self.get_qs_batch(np.asarray(state)[None])[0]

    def get_qs_batch(self, states):
        """Return the Q-values of a batch of states.  f32[B, 16] -> f32[B, 25]"""
        states = np.asarray(states, np.float32)
        if states.ndim != 2 or states.shape[1] != STATES:
            shape = list(states.shape)
            raise ValueError(f"states={shape} should be an array [B, {STATES}]: vehicle features, then the horizon")
        if self.serving.compile in ANY_SIZE:
            return self._forward(states)
        outs = []
        for start, stop, size in GRID.chunks(len(states)):
            batch = np.resize(states[start:stop], (size, STATES))  # padded with repeated rows
            outs.append(self._forward(batch, size)[: stop - start])
        return np.concatenate(outs)

    def _forward(self, states, size=None):
        """Run the net compiled for batches of `size`, or for `size` None the one that takes any batch size."""
        net, updates = self._nets.get(size, (None, 0))
        if net is None:
            ops, compiler = self.serving.ops("pirl"), self.serving.new_compiler()
            example = (self.serving.to_device(states),)
            net = ops.forward({"params": self.params}, example, options=self.options, compiler=compiler)
        elif updates < self.updates:
            net.load(self.params)
        self._nets[size] = net, self.updates
        return self.serving.to_host(net(self.serving.from_host(states)))

    def benchmark_inference(self, num_samples=1000, batch_sizes=(1, 8, 16, 32), seed=0):
        """Time :meth:`get_qs_batch` without calibration, repeats or checks; the benchmarks have all three.

        Returns:
            By batch size, the mean ``seconds`` per batch and ``samples_per_second`` for at least `num_samples` states:
            repeated calls on one batch, sampled with `seed`.
        """
        check_integer("num_samples", num_samples, 1)
        found = {}
        for size in batch_sizes:
            states = starts(np.random.default_rng(seed), check_integer("batch_sizes", size, 1)).astype(np.float32)
            self.get_qs_batch(states)  # the first call compiles
            calls = -(-num_samples // size)
            start = perf_counter()
            for _ in range(calls):
                self.get_qs_batch(states)
            seconds = (perf_counter() - start) / calls
            found[size] = {"seconds": seconds, "samples_per_second": size / seconds}
        return found

    def evaluate(self, episodes, seed):
        """Drive `episodes` episodes in parallel with the greedy policy; `seed` sets their starts and noise.

        Returns:
            ``returns`` f64[episodes]: 1 if the car stayed on the road until the horizon ran out, else 0;
            ``lengths`` i64[episodes]: environment steps; ``predicted`` f32[episodes]: ``max_a Q`` of the first state,
            whose mean equals the mean return if the estimates are right.
        """
        seeds = np.random.default_rng(seed).integers(2**31, size=check_integer("episodes", episodes, 1))
        envs = [PirlEnv() for _ in seeds]
        states = np.array([env.reset(seed=int(number))[0] for env, number in zip(envs, seeds)])
        predicted = self.get_qs_batch(states).max(axis=1)
        returns, lengths = np.zeros(episodes), np.zeros(episodes, int)
        while any(env.running for env in envs):
            for k, action in enumerate(self.get_qs_batch(states).argmax(axis=1)):
                if envs[k].running:
                    states[k], reward, *_ = envs[k].step(action)
                    returns[k] += reward
                    lengths[k] += 1
        return {"returns": returns, "lengths": lengths, "predicted": predicted}

    def state(self):
        learner = self._learner.state() if self._learner else self._state
        episode = {"episode": self.env.state, "length": np.array(self.length)} if self.env.running else {}
        return {**learner, **episode, **join_parts(replay=self.replay.arrays())}

    def load_state(self, arrays):
        """Restore what :meth:`state` returned; the learner is built when it is needed."""
        learner = params.match("state", {name: arrays[name] for name in self._state}, self._state)
        self.replay.restore(part_of(arrays, "replay"))  # raises before anything else changes
        self._state = learner
        self._learner, self._nets, self.updates = None, {}, int(learner["step"])
        self.env.running, self.length = False, 0
        if "episode" in arrays:
            self.env.reset(options={"state": arrays["episode"]})
            self.length = int(arrays["length"])
