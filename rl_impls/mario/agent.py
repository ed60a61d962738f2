"""Mario's agent: trains on a game with the pipeline, evaluates, saves and resumes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from .. import backends, params
from ..common import checkpoint
from ..common.checks import check_changes, check_choice, check_fields, check_integer
from ..common.procgen_env import MODES, check_seed
from ..common.procgen_state import check_state, level_range, pack, unpack
from ..common.shapes import count
from .evaluation import evaluate
from .games import KNOWN, NES
from .options import FORMS
from .loop import check_room, per_stream
from .memory import DTYPES, FIELDS, STACK
from .spec import INITS, SIDES, init_net, shapes

NORMS, SAMPLINGS = ("none", "batch"), ("uniform", "prioritised")
CHOICES = MappingProxyType(
    {"form": FORMS, "game": KNOWN, "mode": MODES, "norm": NORMS, "init": INITS, "sampling": SAMPLINGS}
)
FROM_CONFIG = (
    "side", "learning_rate", "gamma", "gradient_norm", "collectors", "envs", "game", "mode", "levels", "start_level",
    "updates", "batch", "reuse", "publish_every", "target_every", "explore", "alpha", "beta",
    "beta_increment", "queue", "chunk",
)  # fmt: skip
PLAYER = ("states", "times")
OF_PROCGEN = ("mode", "levels", "start_level")  # unused by the NES game


@dataclass(frozen=True)
class Config:
    """Configuration of an agent, without its seed.

    Attributes:
        backend: backend of the learner; ``auto`` selects the best one on this machine.
        form: named set of optimisation options.
        game: a game of Procgen, or mario for that of the NES.
        mode: difficulty of Procgen, easy or hard.
        levels: number of Procgen levels to train on; 0: no limit.
        start_level: first level; mode, levels and start_level must keep their defaults if the game is mario.
        side: height and width of a frame in pixels, 84 or 128.
        norm: none, or batch: batch norm after each convolution, which then has no bias.
        init: initialisation of the weights, he or uniform, which is torch's default.
        collectors: number of collector processes.
        envs: environments per collector.
        buffer: capacity of the replay buffer in experiences.
        batch: batch size of an update.
        accumulate: parts of a batch whose gradients are accumulated, 1 or 4.
        updates: updates per epoch.
        reuse: how often an experience is sampled on average.
        publish_every: epochs between publications of the weights to the collectors.
        target_every: updates between copies of the weights to the target network.
        learning_rate: learning rate of Adam.
        gamma: discount factor.
        gradient_norm: maximum norm of the gradient, which is clipped to it.
        epsilon_start: initial fraction of random actions.
        epsilon_end: final fraction of random actions.
        explore: experiences over which epsilon decreases linearly.
        sampling: uniform, or prioritised by TD error.
        alpha: exponent of the priorities.
        beta: initial exponent of the importance-sampling weights.
        beta_increment: increase of beta per batch, up to 1.
        queue: experiences that may wait between the collectors and the learner.
        chunk: experiences that a gathering thread delivers at a time.
    """

    backend: str = "torch"
    form: str = "full"
    game: str = "coinrun"
    mode: str = "easy"
    levels: int = 200
    start_level: int = 0
    side: int = 84
    norm: str = "none"
    init: str = "he"
    collectors: int = 2
    envs: int = 8
    buffer: int = 50_000
    batch: int = 256
    accumulate: int = 1
    updates: int = 8
    reuse: float = 4.0
    publish_every: int = 1
    target_every: int = 200
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    gradient_norm: float = 10.0
    epsilon_start: float = 1.0
    epsilon_end: float = 0.1
    explore: int = 50_000
    sampling: str = "uniform"
    alpha: float = 0.6
    beta: float = 0.4
    beta_increment: float = 1e-6
    queue: int = 10_000
    chunk: int = 1_000

    def __post_init__(self):
        """Resolve the backend; raise a ValueError for an invalid value."""
        object.__setattr__(self, "backend", backends.resolve(self.backend))
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        counts = ("collectors", "envs", "buffer", "batch", "updates", "publish_every", "target_every", "explore")
        check_fields(self, **dict.fromkeys((*counts, "queue", "chunk"), (1,)), levels=(0,), start_level=(0,))
        shares = ("gamma", "epsilon_start", "epsilon_end", "alpha", "beta", "beta_increment")
        check_fields(self, **dict.fromkeys(shares, (0, 1)))
        check_fields(self, learning_rate=(0,), gradient_norm=(0,), reuse=(0,))
        if self.side not in SIDES:
            raise ValueError(f"side: got {self.side}, wanted {' or '.join(map(str, SIDES))}")
        if self.accumulate not in (1, 4) or self.batch % self.accumulate:
            raise ValueError(f"accumulate: got {self.accumulate} with a batch of {self.batch}, wanted 1, or 4 parts")
        if not self.reuse > 0:
            raise ValueError(f"reuse: got {self.reuse}, wanted more than 0")
        for name in OF_PROCGEN if self.game == NES else ():
            got, default = getattr(self, name), getattr(Config, name)
            if got != default:
                raise ValueError(f"{name}: got {got!r}, wanted none or {default!r}, as the game {NES} has none")
        check_room({**vars(self), "capacity": self.buffer})

    @property
    def streams(self):
        """Number of environments of all collectors."""
        return self.collectors * self.envs

    @property
    def weights(self):
        """Number of weights of the network."""
        return count(shapes(self.side).values())

    @property
    def options(self):
        """The form's options, with ``accumulate``."""
        return replace(FORMS[self.form], accumulate=self.accumulate)

    def spec(self, seed):
        """Return the configuration of the pipeline, without weights, see :class:`.spec.Spec`."""
        found = {name: getattr(self, name) for name in FROM_CONFIG}
        return (
            found
            | {"capacity": self.buffer, "epsilon": (self.epsilon_start, self.epsilon_end), "seed": seed}
            | {"prioritised": self.sampling == "prioritised"}
        )


class MarioAgent:
    """Double Q-learning from frames, with collectors in processes; the seed determines all random numbers.

    ``MarioAgent(seed=0, game="coinrun")``; the keywords are the fields of :class:`Config`.

    Args:
        backend: backend of the learner.
        form: named set of options, a key of :data:`.options.FORMS`.
        seed: seed of weights, levels, actions and batches, from 0 to 2**31 - 1.
        config: other fields of :class:`Config`.

    Raises:
        ValueError: invalid argument, here and in the methods; nothing is changed.
        BackendUnavailable: the backend cannot run on this machine, or the game is not installed.
    """

    UNIT = "experiences"

    def __init__(self, backend="torch", form="full", *, seed, **config):
        self.config = Config(backend, form, **config)
        self.rng, self.step = np.random.default_rng(check_seed(seed)), 0
        self.seed = int(self.rng.integers(2**31))
        weights = init_net(self.rng, self.config.side, self.config.norm == "batch", self.config.init)
        self._build(weights, weights)

    def _build(self, weights, target):
        config = self.config
        self.spec = config.spec(self.seed) | {"params": weights, "target": target}
        self.loop = backends.get(config.backend).build(
            "mario", "pipeline", self.spec, (np.zeros(1, np.int64),), config.options
        )
        self.last, self.seen = (float("nan"), float("nan")), (self.step, self.loop.stats())

    @property
    def chunk(self):
        """Number of experiences that :meth:`learn` plays, those of one epoch."""
        return per_stream(self.spec) * self.config.streams

    @property
    def params(self):
        """The weights as NumPy arrays by name, see :func:`.spec.shapes`."""
        return self.spec["params"] if self.loop is None else self.loop.params

    def learn(self):
        """Train for one epoch.

        Returns:
            ``loss`` and absolute ``td_error``, means over the updates; ``return`` and ``distance``, means over the
            episodes that ended in this epoch, or in the last one in which any did, NaN before; ``epsilon``; ``buffer``,
            the number of stored experiences; ``policy_lag`` in updates; ``dropped`` and ``lost`` experiences;
            ``replaced_collectors``.
        """
        number = self.step // self.chunk
        losses, errors = self.loop(np.array([number]))
        self.step += self.chunk
        ended, self.loop.episodes = self.loop.episodes, []
        if ended:
            self.last = float(np.mean([each.result for each in ended])), float(np.mean([e.distance for e in ended]))
        stats = self.loop.stats()
        return {
            "loss": float(losses.mean()), "td_error": float(errors.mean()), "return": self.last[0],
            "distance": self.last[1], "epsilon": self.loop.epsilon(number), "buffer": len(self.loop.replay),
            "policy_lag": float(self.loop.lags[-1]), "dropped": stats["dropped"], "lost": stats["lost"],
            "replaced_collectors": stats["replaced_collectors"],
        }  # fmt: skip

    def lines(self, figures, seconds):
        """Return two progress lines from a result of :meth:`learn` and the seconds since the last one."""
        now, (step, before) = self.loop.stats(), self.seen
        self.seen = self.step, now
        played, batches = (now[name] - before[name] for name in ("delivered", "batches"))
        epochs = (self.step - step) // self.chunk
        updates = epochs * self.config.updates
        gpu = self.loop.gpu_words()
        return (
            f"[processor] processed {now['delivered']:,.0f} ({played / seconds:,.0f}/s), batches {batches:,.0f}, drops "
            f"{now['dropped']:,.0f}, buffer {figures['buffer']:,}, queue {now['waiting']:,.0f}, blocked "
            + ", ".join(f"{name} {now[f'blocked_{name}'] - before[f'blocked_{name}']:.3f} s" for name in BLOCKED),
            f"[main] epoch {self.step // self.chunk}, loss {figures['loss']:.4f}, TD error {figures['td_error']:.4f}, "
            f"reward {figures['return']:.2f}, distance {figures['distance']:.2f}, epsilon {figures['epsilon']:.3f}, "
            f"consumed {updates * self.config.batch / seconds:,.0f}/s, {updates / seconds:.2f} batches/s, "
            f"{seconds / max(1, epochs):.2f} s an epoch, policy lag {figures['policy_lag']:.0f} updates{gpu}",
        )

    def evaluate(self, episodes, seed):
        """Play some episodes without learning, with one action in twenty at random.

        Returns:
            ``return``, ``length`` in frames and ``distance`` of each episode, see :class:`.games.Episode`,
            f64[episodes].
        """
        check_integer("episodes", episodes, 1)
        return evaluate(self.spec, self.params, episodes, seed, self.config.options)

    def close(self):
        """End the collectors and release the transport."""
        if self.loop is not None:
            self.loop.close()

    def save(self, path):
        """Write a checkpoint atomically: weights, moments, replay, games, random state and configuration."""
        state = self.loop.state()
        arrays = {f"{part}.{name}": value for part in ("train", "replay") for name, value in state[part].items()}
        version, published = state["published"]
        arrays |= {f"published.{name}": value for name, value in published.items()}
        arrays |= {f"game.{name}": value for name, value in packed(state["players"]).items()}
        arrays |= {f"player.{name}": np.concatenate([one[name] for one in state["players"]]) for name in PLAYER}
        own = {"seed": self.seed, "version": version, "updates": state["updates"], "last": self.last}
        checkpoint.save(path, self, arrays | {f"agent.{name}": np.array(value) for name, value in own.items()})

    @classmethod
    def load(cls, path, **changes):
        """Load an agent, which continues bit for bit; the NES game starts other episodes.

        Args:
            path: checkpoint file.
            changes: another ``backend`` or ``form``.

        Raises:
            CheckpointError: the file is corrupt or truncated, or not a checkpoint of this architecture.
            ValueError: another field is changed, or the backend or form is unknown.
        """
        agent, state = cls._read(path, changes)
        config, train = agent.config, part_of(state, "train")
        try:
            players = unpacked(part_of(state, "game"), config.collectors)
            levels = level_range(config.start_level, config.levels)
            for game in [game for player in players for game in player["games"] if game]:
                check_state(game, 1, config.game, config.mode, *levels)
        except ValueError as error:
            raise params.CheckpointError(f"{path}: not a checkpoint of this agent ({error})") from error
        agent._build(*(part_of(train, part) for part in ("online", "target")))
        agent.last, envs = tuple(state["agent.last"].tolist()), config.envs
        for index, player in enumerate(players):
            share = slice(index * envs, (index + 1) * envs)
            player |= {name: state[f"player.{name}"][share] for name in PLAYER}
        try:
            agent.loop.load_state(
                {
                    "train": train, "replay": part_of(state, "replay"), "players": players,
                    "published": (int(state["agent.version"]), part_of(state, "published")),
                    "updates": int(state["agent.updates"]),
                }
            )  # fmt: skip
        except (RuntimeError, ValueError) as error:  # from a collector or the replay
            agent.close()
            raise params.CheckpointError(f"{path}: not a checkpoint of this agent ({error})") from error
        return agent

    @classmethod
    def load_to_evaluate(cls, path, **changes):
        """Load an agent only for evaluation, without collectors, transport and replay; see :meth:`load`."""
        agent, state = cls._read(path, changes)
        agent.spec = agent.config.spec(agent.seed) | {"params": part_of(part_of(state, "train"), "online")}
        agent.loop = None
        return agent

    @classmethod
    def _read(cls, path, changes):
        """Return the agent of a checkpoint, still without its loop, and the checkpoint's arrays."""
        check_changes(changes)
        config, state, rng, step = checkpoint.read(path, Config, outline)
        agent = cls.__new__(cls)
        agent.config, agent.rng, agent.step = replace(config, **changes), rng, step
        agent.seed = int(state["agent.seed"])
        return agent, state


BLOCKED = ("lock", "full", "empty")


def part_of(state, part):
    """Return the arrays named ``part.name``, by ``name``."""
    return {name.removeprefix(f"{part}."): value for name, value in state.items() if name.startswith(f"{part}.")}


def packed(players):
    """Return the games of all collectors as arrays by name; none for the NES game, which has no state."""
    games = [game for player in players for game in player["games"]]
    if not all(games):  # the NES game
        return {}
    joined = {name: np.concatenate([game[name] for game in games]) for name in ("returns", "lengths")}
    return pack({"games": [one for game in games for one in game["games"]], **joined})


def unpacked(arrays, collectors):
    """Split the arrays of :func:`packed` into ``{"games": ...}`` for each collector."""
    if not arrays:
        return [{"games": [{}]} for _ in range(collectors)]
    state = unpack(arrays)
    each = len(state["games"]) // collectors
    games = [{name: values[k : k + 1] for name, values in state.items()} for k in range(len(state["games"]))]
    return [{"games": games[index * each : (index + 1) * each]} for index in range(collectors)]


def outline(config, arrays):
    """Return arrays with the names, shapes and dtypes that a checkpoint of this configuration must have.

    ``arrays`` are the checkpoint's own: they determine how much is stored, and the size of the games' states.
    """

    def like(shape, dtype):
        return np.broadcast_to(np.zeros((), dtype), shape)

    weights = init_net(np.random.default_rng(0), config.side, config.norm == "batch")
    learned = [name for name in weights if not name.startswith(("m_", "v_"))]
    zeros = {f"train.{part}.{name}": weights[name] for part in ("online", "target") for name in weights}
    zeros |= {f"train.{part}.{name}": weights[name] for part in ("first", "second") for name in learned}
    zeros |= {f"published.{name}": value for name, value in weights.items()}
    stored, streams, side = len(arrays["replay.actions"]), (config.streams,), config.side
    shapes = {"frames": (stored, side, side)}
    zeros |= {f"replay.{name}": like(shapes.get(name, stored), dtype) for name, dtype in zip(FIELDS, DTYPES)}
    zeros["replay.pushed"] = like(streams, np.int64)
    if config.sampling == "prioritised":
        zeros |= {"replay.priorities": like(stored, np.float64)}
        zeros |= {f"replay.{name}": like((), np.float64) for name in ("beta", "greatest")}
    if config.game != NES:
        zeros |= {
            "game.games": like(np.size(arrays["game.games"]), np.uint8),
            "game.returns": like(streams, np.float64),
        }
        zeros |= {f"game.{name}": like(streams, np.int64) for name in ("lengths", "sizes")}
    zeros |= {"player.states": like((*streams, STACK, side, side), np.uint8), "player.times": like(streams, np.int64)}
    zeros |= {f"agent.{name}": np.array(0) for name in ("seed", "version", "updates")} | {"agent.last": np.zeros(2)}
    return zeros | {"train.step": np.array(0, np.int32)}
