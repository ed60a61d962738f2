"""Mario's agent: trains on a game with the pipeline, evaluates, saves and resumes."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Annotated, Literal

import numpy as np

from .. import backends
from ..common.agent import Agent
from ..common.checks import check_integer
from ..common.config import Field, OneOf, config, fields_of
from ..common.episodes import mean
from ..common.phases import gpu_utilisation
from ..common.procgen_env import MODES
from .evaluation import evaluate
from .games import KNOWN, NES
from .loop import BLOCKED, Pipeline, check_room, per_stream
from .net import init_net, shapes
from .options import FORMS

OF_PROCGEN = ("mode", "levels", "start_level")  # unused by the NES game


@config
class Config:
    """Configuration of an agent; the seed is passed separately."""

    backend: Annotated[str, OneOf(backends.names_of("mario"))] = Field(
        "torch", description="backend of the learner; auto selects the best one available"
    )
    form: Annotated[str, OneOf(FORMS)] = Field("full", description="named set of optimisations")
    game: Annotated[str, OneOf(KNOWN)] = Field("coinrun", description="Procgen game, or mario for the NES game")
    mode: Annotated[str, OneOf(MODES)] = Field("easy", description="difficulty of Procgen")
    levels: int = Field(200, ge=0, description="number of Procgen levels to train on; 0 for all")
    start_level: int = Field(0, ge=0, description="first Procgen level")
    side: Literal[84, 128] = Field(84, description="height and width of a frame in pixels")
    norm: Literal["none", "batch"] = Field(
        "none", description="normalisation after each convolution; batch removes the bias of the convolution"
    )
    init: Literal["he", "uniform"] = Field(
        "he", description="initialisation of the weights; uniform is torch's default"
    )
    collectors: int = Field(2, ge=1, description="number of collector processes")
    num_envs: int = Field(8, ge=1, description="environments per collector")
    capacity: int = Field(50_000, ge=1, description="capacity of the replay buffer in experiences")
    batch_size: int = Field(256, ge=1, description="batch size of an update")
    accumulate: Literal[1, 4] = Field(1, description="number of parts of a batch whose gradients are accumulated")
    updates: int = Field(8, ge=1, description="updates per epoch")
    reuse: float = Field(4.0, gt=0, description="average number of times that an experience is sampled")
    publish_every: int = Field(1, ge=1, description="epochs between publications of the weights to the collectors")
    target_frequency: int = Field(200, ge=1, description="updates between copies of the weights to the target network")
    learning_rate: float = Field(2.5e-4, ge=0, description="learning rate of Adam")
    gamma: float = Field(0.99, ge=0, le=1, description="discount factor")
    max_grad_norm: float = Field(10.0, gt=0, description="norm to which gradients are clipped")
    epsilon_start: float = Field(1.0, ge=0, le=1, description="initial fraction of random actions")
    epsilon_end: float = Field(0.1, ge=0, le=1, description="final fraction of random actions")
    explore: int = Field(50_000, ge=1, description="experiences over which epsilon decreases linearly")
    sampling: Literal["uniform", "prioritised"] = Field(
        "uniform", description="sampling of the replay buffer, uniform or by TD error"
    )
    alpha: float = Field(0.6, ge=0, le=1, description="exponent of the priorities")
    beta: float = Field(0.4, ge=0, le=1, description="initial exponent of the importance-sampling weights")
    beta_increment: float = Field(1e-6, ge=0, le=1, description="increase of beta per batch, up to 1")
    queue: int = Field(10_000, ge=1, description="maximum number of experiences between the collectors and the learner")
    chunk: int = Field(1_000, ge=1, description="largest number of experiences that local queues deliver at a time")

    def __post_init__(self):
        object.__setattr__(self, "backend", backends.resolve(self.backend))
        if self.batch_size % self.accumulate:
            raise ValueError(f"accumulate={self.accumulate} should divide batch_size={self.batch_size}")
        for name in OF_PROCGEN if self.game == NES else ():
            value, default = getattr(self, name), fields_of(Config)[name].default
            if value != default:
                raise ValueError(f"{name}={value!r} has no effect on the game {NES}; leave it out")
        check_room(vars(self))

    @property
    def weights(self):
        """Number of weights of the network."""
        return sum(map(math.prod, shapes(self.side).values()))

    @property
    def options(self):
        """The form's options, with ``accumulate``."""
        return replace(FORMS[self.form], accumulate=self.accumulate)

    def pipeline(self, seed):
        """Return the configuration of the pipeline, without weights, see :class:`.loop.Pipeline`."""
        epsilon, prioritised = (self.epsilon_start, self.epsilon_end), self.sampling == "prioritised"
        return {**asdict(self), "epsilon": epsilon, "prioritised": prioritised, "seed": seed}


class MarioAgent(Agent):
    """Learns to play from frames by double Q-learning, with collector processes.

    ``MarioAgent(seed=0, game="coinrun")``. Checkpoints lack the state of the NES game, which then starts new episodes.
    """

    Config = Config
    ABOUT = "Train and evaluate an agent that plays from frames, with collector processes."
    UNIT = "experiences"
    ACTS_ON = "torch"  # as collectors do

    def __init__(self, backend="torch", form="full", *, seed, **config):
        super().__init__(backend, form, seed=seed, **config)
        seed, config = self.rng.integers(2**31), self.config
        weights = init_net(self.rng, config.side, config.norm == "batch", config.init)
        state = {f"{part}.{name}": value for part in ("online", "target") for name, value in weights.items()}
        self.load_state({**state, "seed": np.array(seed), "last": np.full(2, np.nan)})

    def build(self):
        """Start the collectors, and fill the replay buffer or restore the state of a checkpoint."""
        params = {"params": self.weights_of("online"), "target": self.weights_of("target")}
        config, backend = self.config.pipeline(self.seed) | params, backends.get(self.config.backend)
        loop = Pipeline(config, (), options=self.config.options, backend=backend)
        try:
            if "updates" in self._state:  # a pipeline has run
                loop.load_state(self._state)
        except BaseException:
            loop.close()
            raise
        self.loop, self._state = loop, None
        self.seen = self.step, loop.stats()

    @property
    def chunk(self):
        """Number of experiences that :meth:`learn` plays, those of one epoch."""
        return per_stream(vars(self.config)) * self.config.collectors * self.config.num_envs

    @property
    def params(self):
        """The weights as NumPy arrays by name, see :func:`.net.shapes`."""
        return self.weights_of("online") if self.loop is None else self.loop.params

    def weights_of(self, part):
        """Return the weights of the online or the target network before the loop has started."""
        names = shapes(self.config.side, self.config.norm == "batch")  # also the order of the optimiser's parameters
        return {name: self._state[f"{part}.{name}"] for name in names}

    def learn(self):
        """Train for one epoch.

        Returns:
            the figures of :meth:`.Agent.learn`, with ``length`` in frames; ``distance``, see :class:`.games.Episode`;
            ``stored``, the number of experiences in the replay buffer; ``policy_lag`` in updates; experiences ``lost``
            with a dead collector; ``replaced_collectors``; and ``td_error``, the mean absolute one.
        """
        self.prepare()
        number = self.step // self.chunk
        losses, errors = self.loop(np.array([number]))
        self.step += self.chunk
        ended, self.loop.episodes = self.loop.episodes, []
        figures = {
            "return": mean([each.result for each in ended]), "length": mean([each.length for each in ended]),
            "episodes": len(ended), "distance": mean([each.distance for each in ended]),
        }  # fmt: skip
        if ended:
            self.last = figures["return"], figures["distance"]
        stats = self.loop.stats()
        return figures | {
            "stored": len(self.loop.replay), "policy_lag": float(self.loop.lag), "lost": stats["lost"],
            "replaced_collectors": stats["replaced_collectors"], "loss": float(losses.mean()),
            "td_error": float(errors.mean()), "epsilon": self.loop.epsilon(number),
        }  # fmt: skip

    def lines(self, figures, seconds):
        """Return two progress lines from the last result of :meth:`learn` and the seconds since the previous call.

        Return and distance are those of the last epoch in which an episode ended.
        """
        now, (step, before) = self.loop.stats(), self.seen
        self.seen = self.step, now
        received, batches = (now[name] - before[name] for name in ("delivered", "batches"))
        epochs = (self.step - step) // self.chunk
        updates = epochs * self.config.updates
        blocked = ", ".join(f"{name} {now[f'blocked_{name}'] - before[f'blocked_{name}']:.3f} s" for name in BLOCKED)
        return (
            f"[transport] {now['delivered']:,.0f} experiences received ({received / seconds:,.0f}/s, {batches:,.0f} "
            f"batches), {now['lost']:,.0f} lost, {now['waiting']:,.0f} waiting, {figures['stored']:,} in the replay "
            f"buffer; blocked: {blocked}",
            f"[learner] epoch {self.step // self.chunk}: loss {figures['loss']:.4f}, TD error "
            f"{figures['td_error']:.4f}, return {self.last[0]:.2f}, distance {self.last[1]:.2f}, epsilon "
            f"{figures['epsilon']:.3f}, {updates * self.config.batch_size / seconds:,.0f} experiences/s sampled, "
            f"{updates / seconds:.2f} updates/s, {seconds / max(1, epochs):.2f} s per epoch, policy lag "
            f"{figures['policy_lag']:.0f} updates{gpu_load() if self.loop.on_gpu else ''}",
        )

    def evaluate(self, episodes, seed):
        """Play some episodes without learning, with one action in twenty at random.

        Returns:
            ``return``, ``length`` in frames and ``distance`` of each episode, see :class:`.games.Episode`,
            f64[episodes].
        """
        check_integer("episodes", episodes, 1)
        return evaluate(self.config.pipeline(self.seed), self.params, episodes, seed, self.config.options)

    def state(self):
        if self.loop is None:
            return self._state
        return {**self.loop.state(), "seed": np.array(self.seed), "last": np.array(self.last)}

    def load_state(self, arrays):
        """Keep the state for :meth:`prepare`, which starts processes; end those of a running pipeline."""
        self.close()
        self.loop, self._state = None, dict(arrays)
        self.seed, self.last = int(arrays["seed"]), tuple(arrays["last"].tolist())
        self.weights_of("online"), self.weights_of("target")  # raise KeyError if any is missing


def gpu_load():
    """Return memory and utilisation of the GPU as text for a progress line."""
    import torch

    busy = gpu_utilisation()
    share = "GPU utilisation unknown (install nvidia-ml-py)" if busy is None else f"GPU {100 * busy:.0f}% busy"
    return f", GPU memory {torch.cuda.max_memory_allocated() / 1e6:,.0f} MB, {share}"
