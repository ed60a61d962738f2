"""The training loop of collectors, transport, replay and learner, with the time of each phase.

An epoch has U updates of one batch each; the source document (see docs/workloads.md) calls U the episodes per epoch.
During the updates, the collectors play the experiences of the next epoch with the weights published last, so the policy
lags one epoch behind, and up to ``publish_every - 1`` more. An epoch samples only experiences stored before it began,
so its result does not depend on when experiences arrive.
"""

import contextlib
import math
from collections import Counter

import numpy as np

from .. import backends
from ..common.phases import Phases, TimedLoop, Utilisation
from .collectors import BATCHES, Collectors
from .games import check_game
from .memory import FrameReplay, PrioritisedReplay
from .queues import LocalQueues, LockedQueue
from .ring import SharedRing
from .transport import TransportBroken

TRANSPORTS = {"locked_queue": LockedQueue, "local_queues": LocalQueues, "shared_ring": SharedRing}
PHASES = ("waiting", "pushing", "sampling", "learning", "publishing")
ROOM = 8  # rows of an environment besides those of an epoch, so that some can be sampled
SHORT = 0.02  # seconds to wait for experiences between checks of the collectors
COUNTED = ("produced", "delivered", "lost", "batches", "putting")
BLOCKED = ("lock", "full", "empty")


def streams_of(config):
    """Return the number of environments of all collectors, C E."""
    return config["collectors"] * config["num_envs"]


def per_stream(config):
    """Return the experiences of each environment in an epoch, ``U B / reuse / (C E)`` rounded up."""
    return math.ceil(config["updates"] * config["batch_size"] / config["reuse"] / streams_of(config))


def check_room(config):
    """Raise ValueError if queues, epochs or the replay are too small for the number of environments.

    An epoch's own experiences are not sampled before the next one.
    """
    streams, each = streams_of(config), per_stream(config)
    if config["queue"] < streams:
        raise ValueError(f"queue={config['queue']} should be at least {streams}, one for each environment")
    if each < 2:
        raise ValueError(
            f"num_envs={config['num_envs']} with collectors={config['collectors']} should be fewer: in an epoch, each "
            f"of the {streams} environments must yield 2 or more experiences, not {each}"
        )
    if config["capacity"] // streams < each + ROOM:
        why = f"as an epoch has {each} experiences in each of {streams} environments"
        raise ValueError(f"capacity={config['capacity']} should be at least {streams * (each + ROOM)}, {why}")


def make_replay(config, options):
    """Return an empty replay with a lane per environment; its capacity is rounded down to a multiple of the lanes."""
    streams = streams_of(config)
    sizes = config["capacity"] - config["capacity"] % streams, streams, config["side"]
    if not config["prioritised"]:
        return FrameReplay(*sizes)
    constants = {name: config[name] for name in ("alpha", "beta", "beta_increment") if name in config}
    return PrioritisedReplay(*sizes, **constants, literal=options.tree == "literal")


def pushing(replay, options):
    """Return ``push(lane, frames, actions, rewards, terminated, times)``: it stores a batch at once or item by item."""
    if options.push == "batch":
        return replay.push_batch

    def push(lane, *columns):
        for item in zip(*columns):
            replay.push(lane, *item)

    return push


def gathering(replay, options):
    """Return ``gather(rows)``, which returns a batch; if indexed, the next call overwrites its frames."""
    if options.stacks == "item":
        return replay.gather_one_by_one
    kept = {}

    def gather(rows):
        if len(rows) not in kept:
            kept[len(rows)] = replay.frames_of(len(rows))
        return replay.gather(rows, kept[len(rows)])

    return gather


class Pipeline(TimedLoop):
    """Training loop of collectors, transport, replay and learner, which :meth:`reset` restarts from the same state.

    `config` has these entries:

    - ``params``, ``target``: weights of the online and the target network, see :func:`.net.shapes`;
    - ``learning_rate``, ``gamma`` and ``max_grad_norm`` of the learner;
    - ``game``, ``mode``, ``levels`` and ``start_level``, see :func:`.games.make_game`;
    - ``side``: height and width of a frame in pixels, S;
    - ``collectors``: number of collector processes, C; ``num_envs``: environments per collector, E;
    - ``capacity``: capacity of the replay in experiences; ``prioritised``: whether to sample by priority, with
      ``alpha``, ``beta`` and optionally ``beta_increment``;
    - ``updates`` per epoch, U, of ``batch_size`` experiences, B, each of which is sampled ``reuse`` times on average;
    - ``publish_every``: epochs between publications of the weights; ``target_frequency``: updates between copies of the
      weights to the target network;
    - ``epsilon``: initial and final fraction of random actions, between which it decreases linearly over ``explore``
      experiences;
    - ``queue``: experiences that may wait between collectors and learner; ``chunk``: largest number that local queues
      deliver at a time;
    - ``seed``: seed of all random numbers.

    ``backend`` is that of the learner; collectors act with torch on the CPU.

    Raises:
        BackendUnavailable: the game is not installed, or torch, or the backend cannot run.
        WorkersEnded: here or in a method: a collector failed, timed out, or died and could not be replaced.
        TransportBroken: a collector died and its loss broke the transport, during construction, in :meth:`reset`, or
            a second time, while the lost chunk of an epoch is played again; the pipeline can only be closed.
    """

    def __init__(self, config, example, *, options, backend):
        check_room(config)
        check_game(config["game"], backend.name)
        for each in (backend, backends.get("torch")):
            each.require()
        self.config, self.options, self.backend = config, options, backend
        self.clock, self.given_up = Phases(*PHASES), 0  # number of collectors lost with broken transports
        self.utilisation = Utilisation() if self.on_gpu else None
        self.each = per_stream(config)
        self.replay = make_replay(config, options)
        self.push, self.gather = pushing(self.replay, options), gathering(self.replay, options)
        self.trained = self.learner = self.make_learner()
        self.collectors, self.transport, self.lags, self.episodes = None, None, Counter(), []
        self.earlier = dict.fromkeys((*COUNTED, *BLOCKED), 0)  # counters of broken transports
        self.begin(config["params"], 0)
        try:
            self.start = self.players()
            self.reset()
        except BaseException:
            self.close()
            raise

    def make_learner(self):
        """Build the op ``train_step`` on the learner's backend."""
        backend, config, batch_size, side = self.backend, self.config, self.config["batch_size"], self.config["side"]
        obs, column = np.zeros((batch_size, 4, side, side), np.uint8), np.zeros(batch_size, np.float32)
        example = tuple(map(backend.to_device, (obs, column.astype(np.int32), column, obs, column, column)))
        compiler = backend.new_compiler()
        return backend.ops("mario").train_step(config, example, options=self.options, compiler=compiler)

    def begin(self, params, version):
        """Start the transport, and the collectors with the given version of the weights."""
        config, side = self.config, self.config["side"]
        sizes = {"capacity": config["queue"], "batch_size": config["chunk"]}
        self.transport = TRANSPORTS[self.options.transport](streams_of(config), (side, side), **sizes)
        self.until = 0
        try:
            self.collectors = Collectors(config, self.transport, self.options, params, version, self.given_up)
        except BaseException:
            self.close()
            raise

    def restart(self):
        """Replace the broken transport and all collectors, which begin other episodes with the newest weights."""
        version, params = self.collectors.newest
        self.given_up += self.collectors.actors
        self.close()
        self.earlier = self.totals()
        self.begin(params, version)

    def close(self):
        if self.collectors is not None:
            self.collectors.close()
        self.transport.close()

    def players(self):
        """Return the state of each collector, see :meth:`.collectors.Collector.get_state`."""
        self.collectors.tell([("get_state",)] * self.collectors.actors)
        return self.collectors.answers()

    def reset(self):
        """Restore the initial weights and games, and fill the replay with the first chunk."""
        self.learner.reset()
        self.collectors.publish(0, self.config["params"])
        self.collectors.tell([("set_state", state) for state in self.start])
        self.collectors.answers()
        self.replay.clear()
        self.updates = self.publications = 0
        self.collect(-1)
        self.lags, self.episodes = Counter(), []
        self.clock.reset()
        if self.utilisation:
            self.utilisation.reset()
        self.before = self.totals()

    def totals(self):
        """Return the transport's counters, summed over environments and over earlier transports, by name."""
        counters = self.transport.counters()
        return {name: before + float(np.sum(counters[name])) for name, before in self.earlier.items()}

    @property
    def replaced(self):
        """Number of collectors that were replaced since construction."""
        return self.given_up + self.collectors.replaced

    def stats(self):
        """Return statistics by name, counted since the last reset.

        ``delivered`` experiences; those ``lost`` with a dead collector or a broken transport; ``batches`` delivered;
        seconds that collectors spent ``putting`` experiences, and that collectors and learner were ``blocked_lock``,
        ``blocked_full`` and ``blocked_empty``; experiences ``waiting`` now; ``publications`` of weights;
        ``policy_lag``, the mean in updates, and ``most_policy_lag``; ``replaced_collectors`` since construction;
        ``gpu_utilisation``, the mean during epochs, if torch learns on a GPU and nvidia-ml-py is installed.
        """
        now = self.totals()
        found = {name: now[name] - self.before[name] for name in ("delivered", "lost", "batches", "putting")}
        found |= {f"blocked_{name}": now[name] - self.before[name] for name in BLOCKED}
        found["waiting"] = float(np.sum(self.transport.counters()["waiting"]))
        found["publications"] = float(self.publications)
        lags = self.lags or {0: 1}
        mean = sum(lag * count for lag, count in lags.items()) / sum(lags.values())
        found |= {"policy_lag": mean, "most_policy_lag": float(max(lags))}
        found["replaced_collectors"] = float(self.replaced)
        busy = self.utilisation.mean() if self.utilisation else None
        return found if busy is None else {**found, "gpu_utilisation": busy}

    @property
    def on_gpu(self):
        """Whether torch learns on a GPU."""
        return (self.backend.library, self.backend.device) == ("torch", "cuda")

    def epsilon(self, number):
        """Return the fraction of random actions in a chunk; number -1 is the first."""
        first, last = self.config["epsilon"]
        played = (number + 1) * self.each * streams_of(self.config)
        return first + (last - first) * min(1.0, played / self.config["explore"])

    def ask(self, number):
        """Ask the collectors to play a chunk."""
        self.until += self.each
        self.collectors.tell([("play", number + 1, self.until, self.epsilon(number))] * self.collectors.actors)

    def drain(self, seconds=0.0):
        """Store what has arrived, waiting up to ``seconds`` for the first experience; return how many."""
        taken = self.transport.take(self.push, seconds)
        self.clock("pushing")
        if self.utilisation:
            self.utilisation.sample()
        return taken

    def take(self):
        """Wait until the chunk asked for is stored; record its policy lags and the episodes that ended."""
        found = {}
        self.collectors.heard()
        while len(found) < self.collectors.actors:
            if self.drain():
                self.collectors.heard()
            self.collectors.receive(found, SHORT)
            self.collectors.replace_dead(found)
            self.clock("waiting")
        while np.any(waiting := self.transport.counters()["waiting"]):
            if self.drain(SHORT):
                self.collectors.heard()
            else:
                silent = [stream // self.config["num_envs"] for stream in np.flatnonzero(waiting)]
                self.collectors.waited(SHORT, silent)
            self.collectors.replace_dead(found)
        for index in range(self.collectors.actors):
            version, episodes = found[index]
            self.lag = self.updates - version
            self.lags[self.lag] += 1
            self.episodes.extend(episodes)
        self.replay.release()

    def collect(self, number):
        """Play a chunk and wait for it."""
        self.ask(number)
        self.take()

    def draw(self, number, update):
        """Sample a batch for one update of an epoch; both numbers are part of the seed.

        Returns:
            the arguments of ``train_step`` as NumPy arrays, and the sampled rows i64[B].
        """
        rng = np.random.default_rng([self.config["seed"], BATCHES, number, update])
        batch_size = self.config["batch_size"]
        if self.config["prioritised"]:
            rows, weights = self.replay.draw(rng.random(batch_size))
        else:
            rows, weights = self.replay.draw(rng, batch_size), np.ones(batch_size, np.float32)
        return (*self.gather(rows), weights), rows

    def epoch(self, number):
        """Make the updates of an epoch while the collectors play the next chunk.

        Returns:
            U losses, and U means of the absolute TD errors of a batch.
        """
        config, losses, errors = self.config, [], []
        self.replay.hold(self.each)
        self.ask(number)
        for update in range(config["updates"]):
            batch, rows = self.draw(number, update)
            self.clock("sampling")
            loss, error = map(self.backend.to_host, self.learner(*self.learner.batch(*batch)))
            self.updates += 1
            if self.updates % config["target_frequency"] == 0:
                self.learner.sync_target()
            self.clock("learning")
            if config["prioritised"]:
                self.replay.update(rows, error)
                self.clock("sampling")
            losses.append(loss)
            errors.append(np.abs(error).mean())
            with contextlib.suppress(TransportBroken):  # take() raises it again below
                self.drain()
        try:
            self.take()
        except TransportBroken:
            self.restart()
            self.collect(number)
        if (number + 1) % config["publish_every"] == 0:
            try:
                self.collectors.publish(self.updates, self.learner.params)
            except TransportBroken:
                self.restart()  # with these weights
            self.publications += 1
            self.clock("publishing")
        if self.options.gpu_cache == "cleared":
            import torch

            torch.cuda.empty_cache()
        return losses, errors

    def __call__(self, numbers):
        """Run epochs i64[I], numbered from 0; return losses and mean absolute TD errors, f32[I, U] each."""
        self.clock.start()
        if self.utilisation:
            self.utilisation.start()
        results = [self.epoch(int(number)) for number in numbers]
        return tuple(np.array(each, np.float32) for each in zip(*results))

    def state(self):
        """Return everything that the next epoch depends on, except its number, as arrays by name."""
        try:
            players = self.players()
        except TransportBroken:  # a collector has died
            self.restart()
            players = self.players()
        version, published = self.collectors.newest
        found = {"updates": np.array(self.updates), "version": np.array(version)}
        found |= {f"published.{name}": value for name, value in published.items()}
        for arrays in (self.learner.state(), self.replay.arrays(), *players):
            found |= arrays
        return found

    def load_state(self, arrays):
        self.learner.load_state(arrays)
        self.replay.restore(arrays)
        published = {name: arrays[f"published.{name}"] for name in self.config["params"]}
        self.collectors.publish(int(arrays["version"]), published)
        self.collectors.tell([("set_state", {name: arrays[name] for name in state}) for state in self.start])
        self.collectors.answers()
        self.updates = int(arrays["updates"])
