"""Agents for Procgen: PPO, A2C, A3C and IMPALA, with training, evaluation and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from .. import backends
from ..common import checkpoint
from ..common.checks import CHANGES, check_changes, check_choice, check_fields, check_integer
from ..common.episodes import finished, mean
from ..common.procgen_env import GAMES, MODES, MOST, check_installed, check_seed
from ..common.procgen_state import check_state, level_range, unpack
from ..common.ranks import launched
from ..common.shapes import count
from ..params import CheckpointError
from .cluster import parts_of
from .evaluation import HELD_OUT, evaluate
from .options import FORMS
from .loop import part_of
from .spec import SHAPES, init_net

ALGORITHMS = MappingProxyType(  # fields whose defaults differ from those of :class:`Config`
    {
        "ppo": {},
        "a2c": {"unroll": 5, "learning_rate": 7e-4, "lam": 1.0},
        "a3c": {"unroll": 20, "learning_rate": 1e-4, "lam": 1.0, "actors": 2},
        "impala": {"unroll": 20, "learning_rate": 3e-4, "gradient_norm": 40.0, "epsilon": 0.01},
    }
)
OPS = MappingProxyType(  # by algorithm, and whether actor processes play
    {
        ("ppo", False): "ppo", ("ppo", True): "parallel_ppo", ("a2c", False): "a2c", ("a3c", True): "a3c",
        ("impala", False): "impala", ("impala", True): "parallel_impala",
    }
)  # fmt: skip
PLACES = (*CHANGES, "actors", "lag", "cluster")  # fields that :meth:`ProcgenAgent.load` can change
CHOICES = MappingProxyType({"form": FORMS, "algorithm": ALGORITHMS, "net": SHAPES, "game": GAMES, "mode": MODES})
FROM_CONFIG = (
    "learning_rate", "epsilon", "decay", "gamma", "lam", "clip", "rho_bar", "c_bar", "value_weight", "entropy_weight",
    "gradient_norm", "unroll", "epochs", "batch", "actors", "lag", "ahead", "cluster",
)  # fmt: skip


@dataclass(frozen=True)
class Config:
    """Configuration of an agent, without its seed.

    Attributes:
        backend: backend to compute with; ``auto`` becomes the best one on this machine.
        form: named setting of the options.
        algorithm: ppo, a2c, a3c or impala.
        net: nature, with three convolutions, or residual, with the fifteen of IMPALA's paper.
        game: name of the Procgen game.
        mode: easy or hard.
        levels: number of training levels; 0 for all.
        start_level: first training level.
        envs: number of parallel environments.
        unroll: steps of each environment per rollout.
        actors: number of actor processes; 0 to play in the learner's process.
        lag: most updates that the weights of PPO's and IMPALA's actors may be behind the learner's.
        ahead: most rollouts that a worker of A3C may be ahead of the slowest one.
        cluster: address of the Ray cluster that runs the actors, as host:6379, or local to start one here; empty for
            processes of this machine.
        epochs: passes of PPO over each rollout.
        batch: minibatch size of PPO.
        learning_rate: learning rate of Adam in PPO, of RMSProp otherwise.
        epsilon: added to the root of the mean squared gradient.
        decay: decay of the mean squared gradient in RMSProp.
        gamma: discount factor.
        lam: lambda of generalised advantages in PPO, A2C and A3C.
        clip: clipping range of PPO's probability ratio.
        rho_bar: largest importance weight of a TD error in IMPALA.
        c_bar: largest importance weight of the errors after it in IMPALA.
        value_weight: coefficient of the value loss.
        entropy_weight: coefficient of the entropy bonus.
        gradient_norm: norm to which the gradient is clipped.
    """

    backend: str = "torch"
    form: str = "full"
    algorithm: str = "ppo"
    net: str = "nature"
    game: str = "coinrun"
    mode: str = "easy"
    levels: int = 200
    start_level: int = 0
    envs: int = 32
    unroll: int = 128
    actors: int = 0
    lag: int = 0
    ahead: int = 3
    cluster: str = ""
    epochs: int = 4
    batch: int = 1024
    learning_rate: float = 5e-4
    epsilon: float = 1e-5
    decay: float = 0.99
    gamma: float = 0.999
    lam: float = 0.95
    clip: float = 0.2
    rho_bar: float = 1.0
    c_bar: float = 1.0
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    gradient_norm: float = 0.5

    def __post_init__(self):
        object.__setattr__(self, "backend", backends.resolve(self.backend))
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        check_fields(self, **dict.fromkeys(("unroll", "epochs", "batch"), (1,)), envs=(1, MOST))
        check_fields(self, **dict.fromkeys(("gamma", "lam", "clip", "decay"), (0, 1)), levels=(0, HELD_OUT))
        check_fields(
            self,
            **dict.fromkeys(("actors", "lag", "ahead"), (0,)),
            start_level=(0, HELD_OUT - self.levels if self.levels else 0),
        )
        check_fields(self, **dict.fromkeys(("learning_rate", "epsilon", "rho_bar", "c_bar"), (0,)))
        check_fields(self, **dict.fromkeys(("value_weight", "entropy_weight", "gradient_norm"), (0,)))
        self.check_together()

    def check_together(self):
        """Raise a ValueError for fields that contradict each other."""
        if (self.algorithm, self.actors > 0) not in OPS:
            wanted = "1 or more" if self.algorithm == "a3c" else "0 (its parallel form is a3c)"
            raise ValueError(f"actors: got {self.actors} with {self.algorithm}, wanted {wanted}")
        if self.actors and self.envs % self.actors:
            raise ValueError(f"actors: got {self.actors}, wanted a divisor of {self.envs} envs")
        if self.lag and (not self.actors or self.algorithm == "a3c"):
            raise ValueError(f"lag: got {self.lag}, wanted 0 but for ppo and impala with actors")
        if self.cluster:
            parts_of(self.cluster)
            if not self.actors or self.algorithm == "a3c":
                raise ValueError(f"cluster: got {self.cluster!r}, wanted none but for ppo and impala with actors")
        if self.algorithm == "ppo" and self.frames % self.batch:
            wanted = f"a divisor of unroll times envs, {self.unroll} x {self.envs}"
            raise ValueError(f"batch: got {self.batch}, wanted {wanted}")

    @property
    def frames(self):
        """Environment frames per rollout, unroll times envs."""
        return self.unroll * self.envs

    @property
    def options(self):
        """Optimisations of the form."""
        return FORMS[self.form]

    @property
    def weights(self):
        """Number of the net's parameters."""
        return count(SHAPES[self.net].values())

    def env(self, seed):
        """Return the arguments of :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv` for a seed of the levels."""
        return {
            "game": self.game, "mode": self.mode, "num_levels": self.levels, "start_level": self.start_level,
            "num_envs": self.envs, "seed": seed,
        }  # fmt: skip


class ProcgenAgent:
    """Learns a game of Procgen with PPO, A2C, A3C or IMPALA.

    ``ProcgenAgent(seed=0, algorithm="impala", game="bigfish")``: the keywords are the fields of :class:`Config`, and
    ``ALGORITHMS`` has the defaults of each algorithm. Weights, levels, actions and minibatches follow from the seed.

    Args:
        backend: backend to compute with.
        form: named setting of the options.
        seed: seed of everything random.
        config: other fields of :class:`Config`.

    Raises:
        ValueError: invalid arguments, here or in a method; the agent is left unchanged.
        BackendUnavailable: the backend cannot run on this machine, or Procgen is not installed.
    """

    UNIT = "environment frames"
    STOCHASTIC = True  # an evaluation can sample actions

    def __init__(self, backend="torch", form="full", *, seed, **config):
        self.config = self.configure(backend=backend, form=form, **config)
        self.rng, self.step = np.random.default_rng(check_seed(seed)), 0
        self.seed = int(self.rng.integers(2**31))
        self.playing = np.zeros((2, self.config.envs))
        self._build(init_net(self.rng, self.config.net))

    @staticmethod
    def configure(**fields):
        """Return the configuration: the given fields, otherwise the algorithm's defaults."""
        chosen = check_choice("algorithm", fields.get("algorithm", Config.algorithm), ALGORITHMS)
        return Config(**{**ALGORITHMS[chosen], **fields})

    def _build(self, weights, env_state=None):
        config = self.config
        check_installed(config.backend)
        spec = {name: getattr(config, name) for name in FROM_CONFIG}
        spec |= {"params": weights, "env": config.env(self.seed), "seed": self.seed}
        spec |= {} if env_state is None else {"env_state": env_state}
        self.rank, self.processes = launched()
        if self.processes > 1 and (config.actors or config.algorithm == "impala"):
            wanted = "ppo or a2c without actors"
            raise ValueError(f"algorithm: got {config.algorithm} in {self.processes} processes, wanted {wanted}")
        spec |= {"rank": self.rank, "processes": self.processes}
        op = OPS[config.algorithm, config.actors > 0]
        self.loop = backends.get(config.backend).build("procgen", op, spec, (np.zeros(1, np.int64),), config.options)
        self.loop.goes_on = True

    @property
    def chunk(self):
        """Environment frames that one call of :meth:`learn` plays."""
        return self.config.frames

    def agree(self, wanted):
        """Return whether ``wanted`` is true in any of torchrun's processes, so that all stop together."""
        if self.processes == 1:
            return wanted
        from .group import agree

        return agree(wanted)

    @property
    def params(self):
        """The net's weights, NumPy arrays by name, see :data:`.spec.SHAPES`."""
        return self.weights if self.loop is None else self.loop.params

    def learn(self):
        """Play one rollout and learn from it.

        Returns:
            ``return`` and ``length``, means over the episodes that ended in the rollout, nan if none did; ``episodes``,
            their number; ``loss``, the mean over the updates; and the loop's statistics, such as the policy lag.
        """
        rewards, ended, losses = (result[0] for result in self.loop(np.array([self.step // self.chunk])))
        self.step += self.chunk
        self.playing[:, self.loop.begun_anew()] = 0
        returns, lengths = finished(self.playing, rewards, ended)
        figures = {"return": mean(returns), "length": mean(lengths), "episodes": len(returns)}
        return figures | {"loss": float(losses.mean())} | self.loop.stats()

    def evaluate(self, episodes, seed, deterministic=False):
        """Play without learning; see :func:`.evaluation.evaluate`.

        Args:
            episodes: number of episodes on the training levels, and again on the held-out levels.
            seed: seed of the levels and actions.
            deterministic: take the most likely action instead of sampling.

        Returns:
            ``training_return``, ``training_score`` and ``training_length``, f64[episodes]; unless all levels were
            trained on, also ``held_out_return``, ``held_out_score`` and ``held_out_length``.
        """
        return evaluate(self.config, self.params, check_integer("episodes", episodes, 1), seed, deterministic)

    def close(self):
        """Stop the loop's processes and threads."""
        if self.loop is not None:
            self.loop.close()

    def save(self, path):
        """Write a checkpoint atomically: weights, moments, games, random state and configuration."""
        state = self.loop.state() | {"agent.seed": np.array(self.seed)}
        if self.rank == 0:
            checkpoint.save(path, self, state)

    @classmethod
    def load(cls, path, **changes):
        """Load a checkpoint to continue training, bit for bit unless actors play ahead.

        Args:
            path: checkpoint file.
            changes: other values of ``backend``, ``form``, ``actors``, ``lag`` or ``cluster``.

        Raises:
            CheckpointError: the file is corrupt or truncated, or not a checkpoint of this architecture.
            ValueError: any other field is changed, or the new value is invalid.
        """
        agent, state = cls._read(path, PLACES, changes)
        config = agent.config
        try:
            games = unpack(part_of(state, "env"))
            levels = level_range(config.start_level, config.levels)
            check_state(games, config.envs, config.game, config.mode, *levels)
        except ValueError as error:
            raise CheckpointError(f"{path}: not a checkpoint of this agent ({error})") from error
        agent.playing = np.stack([games["returns"], games["lengths"]])
        agent._build(agent.weights, games)
        agent.loop.load_state(state)
        return agent

    @classmethod
    def load_to_evaluate(cls, path, **changes):
        """Load a checkpoint for evaluation only, without restoring games or starting actors.

        Only ``backend`` and ``form`` can be changed.

        Raises:
            CheckpointError, ValueError: as :meth:`load`.
            BackendUnavailable: the backend cannot run on this machine, or Procgen is not installed.
        """
        agent, _ = cls._read(path, CHANGES, changes)
        check_installed(agent.config.backend)
        return agent

    @classmethod
    def _read(cls, path, free, changes):
        """Return the checkpoint's agent, not yet with a loop, and the loop's state; only ``free`` fields may change."""
        check_changes(changes, free)
        config, state, rng, step = checkpoint.read(path, Config, outline)
        agent = cls.__new__(cls)
        agent.config, agent.rng, agent.step = replace(config, **changes), rng, step
        agent.seed, agent.loop = int(state["agent.seed"]), None
        agent.weights = {name: state[f"train.online.{name}"] for name in SHAPES[config.net]}
        return agent, state


def outline(config, arrays):
    """Return placeholder arrays with the names, shapes and dtypes that a checkpoint of ``config`` must have.

    The size of the game states is taken from ``arrays``, those of the checkpoint.
    """
    moments = ("first", "second") if config.algorithm == "ppo" else ("second",)
    weights = init_net(np.random.default_rng(0), config.net)
    zeros = {f"train.{part}.{name}": weights[name] for part in ("online", *moments) for name in weights}
    games, envs = np.size(arrays["env.games"]), (config.envs,)
    zeros |= {"env.games": np.broadcast_to(np.uint8(0), games), "env.returns": np.broadcast_to(0.0, envs)}
    zeros |= {f"env.{name}": np.broadcast_to(np.int64(0), envs) for name in ("lengths", "sizes")}
    return zeros | {"train.step": np.array(0, np.int32), "agent.seed": np.array(0)}
