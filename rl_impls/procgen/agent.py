"""Agent for Procgen: PPO, A2C, A3C and IMPALA, with training, evaluation and checkpoints."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Literal

import numpy as np

from .. import backends
from ..common.agent import Agent
from ..common.checks import check_integer
from ..common.config import Field, OneOf, config
from ..common.episodes import finished, mean
from ..common.parts import part_of
from ..common.procgen_env import GAMES, MODES, MOST, check_installed, check_seed
from ..common.procgen_state import check_state, level_range, unpack
from ..common.ranks import launched
from . import shared_ops
from .cluster import parse_address
from .evaluation import HELD_OUT, evaluate
from .learners import PARTS
from .net import NETS, init_net, num_weights
from .options import FORMS

ALGORITHMS = {  # fields whose defaults differ from those of :class:`Config`
    "ppo": {},
    "a2c": {"num_steps": 5, "learning_rate": 7e-4, "gae_lambda": 1.0},
    "a3c": {"num_steps": 20, "learning_rate": 1e-4, "gae_lambda": 1.0, "actors": 2},
    "impala": {"num_steps": 20, "learning_rate": 3e-4, "max_grad_norm": 40.0, "eps": 0.01},
}
WITHOUT_ACTORS = {"policy_lag": 0.0, "most_policy_lag": 0.0, "replaced_actors": 0.0}


@config
class Config:
    """Configuration of an agent, without its seed; some defaults depend on the algorithm, see ``ALGORITHMS``."""

    backend: Annotated[str, OneOf(backends.names_of("procgen"))] = Field(
        "torch", description="compute backend; auto selects the best one available"
    )
    form: Annotated[str, OneOf(FORMS)] = Field("full", description="named set of optimisations")
    algorithm: Literal["ppo", "a2c", "a3c", "impala"] = Field(
        "ppo", description="algorithm; some defaults depend on it, and those shown are PPO's"
    )
    net: Literal["nature", "residual"] = Field(
        "nature", description="network: nature has three convolutions, and the residual net of the IMPALA paper fifteen"
    )
    game: Annotated[str, OneOf(GAMES)] = Field("coinrun", description="Procgen game")
    mode: Annotated[str, OneOf(MODES)] = Field("easy", description="difficulty of the game")
    levels: int = Field(200, ge=0, le=HELD_OUT, description="number of training levels; 0 for all")
    start_level: int = Field(0, ge=0, description="first training level")
    num_envs: int = Field(32, ge=1, le=MOST, description="number of parallel environments")
    num_steps: int = Field(128, ge=1, description="steps of each environment per rollout")
    actors: int = Field(0, ge=0, description="number of actor processes; with 0, the learner's process plays")
    lag: int = Field(0, ge=0, description="maximum age, in rollouts, of the weights that actors of PPO and IMPALA use")
    ahead: int = Field(
        3, ge=0, description="maximum number of rollouts that an A3C worker may be ahead of the slowest one"
    )
    cluster: str = Field(
        "",
        description="address of the Ray cluster that runs the actors, for example host:6379; local starts one here; "
        "if empty, the actors are processes on this machine",
    )
    epochs: int = Field(4, ge=1, description="passes of PPO over each rollout")
    batch_size: int = Field(1024, ge=1, description="minibatch size of PPO")
    learning_rate: float = Field(5e-4, ge=0, description="learning rate of Adam in PPO, else of RMSProp")
    eps: float = Field(1e-5, ge=0, description="number added to the root of the mean squared gradient")
    decay: float = Field(0.99, ge=0, le=1, description="decay of the mean squared gradient in RMSProp")
    gamma: float = Field(0.999, ge=0, le=1, description="discount factor")
    gae_lambda: float = Field(
        0.95, ge=0, le=1, description="lambda of generalised advantage estimation in PPO, A2C and A3C"
    )
    clip: float = Field(0.2, ge=0, le=1, description="clipping range of PPO's probability ratio")
    rho_bar: float = Field(1.0, ge=0, description="maximum importance weight of a TD error in IMPALA")
    c_bar: float = Field(1.0, ge=0, description="maximum importance weight of later TD errors in IMPALA")
    value_weight: float = Field(0.5, ge=0, description="coefficient of the value loss")
    entropy_weight: float = Field(0.01, ge=0, description="coefficient of the entropy bonus")
    max_grad_norm: float = Field(0.5, gt=0, description="norm to which gradients are clipped")

    def __post_init__(self):
        object.__setattr__(self, "backend", backends.resolve(self.backend))
        last = HELD_OUT - self.levels if self.levels else 0
        if self.start_level > last:
            raise ValueError(f"start_level={self.start_level} should be at most {last} with levels={self.levels}")
        if self.algorithm == "a3c" and not self.actors:
            raise ValueError("actors=0 should be 1 or more for a3c")
        if self.algorithm == "a2c" and self.actors:
            raise ValueError(f"actors={self.actors} should be 0 for a2c, whose parallel form is a3c")
        if self.actors and self.num_envs % self.actors:
            raise ValueError(f"actors={self.actors} should divide num_envs={self.num_envs}")
        with_actors = self.actors > 0 and self.algorithm != "a3c"  # actors apart from the learner, unlike A3C's workers
        if self.lag and not with_actors:
            raise ValueError(f"lag={self.lag} should be 0 except for ppo and impala with actors")
        if self.cluster:
            parse_address(self.cluster)
            if not with_actors:
                raise ValueError(f"cluster={self.cluster!r} should be empty except for ppo and impala with actors")
        if self.algorithm == "ppo" and self.rollout_size % self.batch_size:
            raise ValueError(
                f"batch_size={self.batch_size} should divide num_steps x num_envs, {self.num_steps} x {self.num_envs}"
            )

    @property
    def rollout_size(self):
        """Environment frames per rollout."""
        return self.num_steps * self.num_envs

    @property
    def options(self):
        """Optimisations of the form."""
        return FORMS[self.form]

    @property
    def weights(self):
        """Number of the net's parameters."""
        return num_weights(self.net)

    def env(self, seed):
        """Return the arguments of :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv` for a seed of the levels."""
        return {
            "game": self.game, "mode": self.mode, "num_levels": self.levels, "start_level": self.start_level,
            "num_envs": self.num_envs, "seed": seed,
        }  # fmt: skip


class ProcgenAgent(Agent):
    """Learns a game of Procgen with PPO, A2C, A3C or IMPALA.

    ``ProcgenAgent(seed=0, algorithm="impala", game="bigfish")``: arguments as in :class:`~rl_impls.common.agent.Agent`.
    """

    Config = Config
    ABOUT = "Train and evaluate an agent that plays a Procgen game, with PPO, A2C, A3C or IMPALA."
    UNIT = "environment frames"
    CHANGEABLE = ("backend", "form", "actors", "lag", "cluster")
    EVALUATES = ("game", "mode")
    STOCHASTIC = True  # an evaluation can sample actions
    DISTRIBUTED = True

    def __init__(self, backend="torch", form="full", *, seed, **config):
        super().__init__(backend, form, seed=check_seed(seed), **config)
        check_installed(self.config.backend)
        self.rank, self.processes = launched()
        algorithm, actors = self.config.algorithm, self.config.actors
        if self.processes > 1 and (actors or algorithm == "impala"):
            raise ValueError(
                f"algorithm={algorithm!r} with actors={actors} cannot train in several processes; use ppo or a2c "
                "with actors=0"
            )
        self.seed = int(self.rng.integers(2**31))  # of levels, actions and minibatches
        self.running = np.zeros((2, self.config.num_envs))  # return and length so far of each episode
        self._params, self._state = init_net(self.rng, self.config.net), None  # what the loop starts from

    @classmethod
    def configure(cls, **fields):
        """Return the configuration: the given fields, otherwise the algorithm's defaults."""
        algorithm = fields.get("algorithm", "ppo")
        defaults = ALGORITHMS.get(algorithm, {}) if isinstance(algorithm, str) else {}
        return Config(**{**defaults, **fields})

    def build(self):
        """Start the environments, the actors and the learner."""
        parallel = "parallel_" if self.config.actors and self.config.algorithm != "a3c" else ""
        build = getattr(shared_ops, f"{parallel}{self.config.algorithm}")
        config = asdict(self.config) | {
            "params": self._params, "env": self.config.env(self.seed), "seed": self.seed, "keep_acting": True,
            "rank": self.rank, "processes": self.processes,
        }  # fmt: skip
        if self._state:
            config["env_state"] = unpack(part_of(self._state, "env"))
        self.loop = build(config, (), options=self.config.options, backend=backends.get(self.config.backend))
        if self._state:
            self.loop.load_state(self._state)
            self._state = None

    @property
    def chunk(self):
        """Environment frames per call of :meth:`learn`: those of one rollout."""
        return self.config.rollout_size

    @property
    def params(self):
        """The net's weights as NumPy arrays by name, see :mod:`.net`."""
        return self._params if self.loop is None else self.loop.params

    def agree(self, wanted):
        """Return whether ``wanted`` is true in any of torchrun's processes, so that all stop together."""
        if self.processes == 1:
            return wanted
        from .group import agree

        return agree(wanted)

    def learn(self):
        """Play one rollout and learn from it; after the deadline, PPO leaves out the remaining minibatches.

        Returns:
            the figures of :meth:`.Agent.learn`, with unweighted means of losses and entropy over the steps of all
            updates; and the :meth:`.parallel.PoolLoop.stats`, 0 without actors.
        """
        self.prepare()
        if self.config.algorithm == "ppo":
            self.loop.learner.deadline = self.deadline
        rewards, ended, _ = (result[0] for result in self.loop(np.array([self.step // self.chunk])))
        self.step += self.chunk
        self.running[:, self.loop.restarted_envs()] = 0
        returns, lengths = finished(self.running, rewards, ended)
        figures = {"return": mean(returns), "length": mean(lengths), "episodes": len(returns)}
        parts = dict(zip(PARTS, self.loop.parts.mean(axis=(0, 1)).tolist()))
        return figures | WITHOUT_ACTORS | self.loop.stats() | parts

    def evaluate(self, episodes, seed, deterministic=False, game=None, mode=None):
        """Play episodes on the training levels, and as many on held-out levels; see :func:`.evaluation.evaluate`.

        ``deterministic`` takes the most likely actions. ``game`` and ``mode`` are by default those trained on.

        Returns:
            ``training_return``, ``training_score`` and ``training_length``, f64[episodes], if game and mode are those
            trained on; ``held_out_return``, ``held_out_score`` and ``held_out_length``, unless all levels were trained
            on.
        """
        config = replace(self.config, game=game or self.config.game, mode=mode or self.config.mode)
        trained = config == self.config
        return evaluate(config, self.params, check_integer("episodes", episodes, 1), seed, deterministic, trained)

    def state(self):
        self.prepare()
        state = self.loop.state()
        if self.config.actors:  # rollouts that they have played ahead are dropped, but their games go on from there
            self.running = np.stack([state["env.returns"], state["env.lengths"]])
        return state | {"agent.seed": np.array(self.seed)}

    def load_state(self, arrays):
        """Restore a checkpoint; the games and actors start when training goes on."""
        config, games = self.config, unpack(part_of(arrays, "env"))
        levels = level_range(config.start_level, config.levels)
        check_state(games, config.num_envs, config.game, config.mode, *levels)
        self.seed, self.running = int(arrays["agent.seed"]), np.stack([games["returns"], games["lengths"]])
        layers = [f"{kind}_{layer}" for layer in NETS[config.net] for kind in "wb"]
        self._params = {name: arrays[f"learner.online.{name}"] for name in layers}
        self._state = arrays

    def save(self, path):
        """Write a checkpoint atomically; of torchrun's processes, which all take part, the first one writes it."""
        if self.rank == 0:
            super().save(path)
        else:
            self.state()
