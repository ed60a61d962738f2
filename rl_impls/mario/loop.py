"""The training loop of collectors, transport, replay and learner, with the time of each phase.

An epoch has U updates, one batch for each of what the source calls an epoch's episodes. Meanwhile the collectors play
the experiences of the next epoch with the weights published last, so the policy lags one epoch behind, and up to
``publish_every - 1`` more. An epoch samples only what was stored when it began. Therefore the seed determines it,
whenever experiences arrive.

Axes: I epochs of U updates, C collectors of E environments, B experiences per batch.
"""

from __future__ import annotations

import contextlib

import numpy as np

from ..common.op import Op
from ..common.phases import Phases
from .collectors import Collectors
from .memory import FrameReplay, PrioritisedReplay
from .transport import TransportBroken, make_transport

PHASES = ("waiting", "pushing", "sampling", "learning", "publishing")
ROOM = 8  # rows of a stream besides those of an epoch, so that some can be sampled
SHORT = 0.02  # seconds to wait for experiences between checks of the collectors
COUNTED = ("produced", "delivered", "dropped", "lost", "batches")
BLOCKED = ("lock", "full", "empty")


def per_stream(spec):
    """Return the experiences of each stream in an epoch, ``U B / reuse / (C E)`` rounded up."""
    streams = spec["collectors"] * spec["envs"]
    return int(np.ceil(spec["updates"] * spec["batch"] / spec["reuse"] / streams))


def check_room(spec):
    """Raise a ValueError if the queues have no room for each stream, or the replay for little more than an epoch.

    An epoch's own experiences are not sampled before the next one.
    """
    streams, each = spec["collectors"] * spec["envs"], per_stream(spec)
    if spec["queue"] < streams:
        raise ValueError(f"queue: got {spec['queue']}, wanted {streams} or more, one in each of {streams} streams")
    if spec["capacity"] // streams < each + ROOM:
        least = streams * (each + ROOM)
        why = f"{least} or more, as an epoch has {each} in each of {streams} streams"
        raise ValueError(f"buffer: got {spec['capacity']}, wanted {why}")


def make_replay(spec, options):
    """Return an empty replay with a lane per stream; its capacity is rounded down to a multiple of them."""
    streams = spec["collectors"] * spec["envs"]
    sizes = spec["capacity"] - spec["capacity"] % streams, streams, spec["side"]
    if not spec["prioritised"]:
        return FrameReplay(*sizes)
    constants = {name: spec[name] for name in ("alpha", "beta", "beta_increment") if name in spec}
    return PrioritisedReplay(*sizes, **constants, literal=options.tree == "literal")


def pushing(replay, options):
    """Return ``push(lane, frames, actions, rewards, ends, times)``, which stores a batch at once or item by item."""
    if options.push == "batch":
        return replay.push_batch

    def push(lane, *columns):
        for item in zip(*columns):
            replay.push(lane, *item)

    return push


def gathering(replay, options):
    """Return ``gather(rows)``, which returns a batch; if indexed, its frames are overwritten by the next one."""
    if options.stacks == "item":
        return replay.gather_one_by_one
    kept = {}

    def gather(rows):
        if len(rows) not in kept:
            kept[len(rows)] = replay.frames_of(len(rows))
        return replay.gather(rows, kept[len(rows)])

    return gather


def gpu_utilisation():
    """Return the recent utilisation of the GPU from 0 to 1, or None if it is unknown."""
    import torch

    try:
        return torch.cuda.utilization() / 100
    except (ModuleNotFoundError, RuntimeError):  # nvidia-ml-py is not installed, or finds no driver
        return None


class Pipeline(Op):
    """Training loop of collectors, transport, replay and learner, which :meth:`reset` restarts from the same state.

    Args:
        spec: configuration, see :class:`.spec.Spec`.
        options: optimisations of all parts.
        backend: backend of the learner; collectors act with torch on the CPU.

    Attributes:
        replaced: number of collectors that died since construction.

    Raises:
        WorkersEnded: here and later: a collector failed, did not answer in time, or died and could not be replaced.
        TransportBroken: a collector died and its loss broke the transport, during construction, in :meth:`reset`, or
            again while an epoch's chunk is replayed; the pipeline can only be closed.
    """

    def __init__(self, spec, options, backend):
        self.spec, self.options, self.backend, self.clock, self.replaced = spec, options, backend, Phases(*PHASES), 0
        self.each = per_stream(spec)
        check_room(spec)
        self.replay = make_replay(spec, options)
        self.push, self.gather = pushing(self.replay, options), gathering(self.replay, options)
        self.train = self.make_learner()
        self.crew, self.transport, self.lags, self.episodes = None, None, [], []
        self.earlier = dict.fromkeys((*COUNTED, *BLOCKED), 0)  # counters of broken transports
        self.begin(spec["params"])
        try:
            self.start = self.players()
            self.reset()
        except BaseException:
            self.close()
            raise

    def make_learner(self):
        """Build the op ``train_step`` on the learner's backend."""
        backend, spec, batch, side = self.backend, self.spec, self.spec["batch"], self.spec["side"]
        states, column = np.zeros((batch, 4, side, side), np.uint8), np.zeros(batch, np.float32)
        example = tuple(map(backend.to_device, (states, column.astype(np.int32), column, states, column, column)))
        return backend.build("mario", "train_step", spec, example, self.options, backend.new_compiler())

    def begin(self, params, version=0):
        """Start the transport, and the collectors with the given version of the weights."""
        spec = self.spec
        streams, shape = spec["collectors"] * spec["envs"], (spec["side"], spec["side"])
        sizes = {"capacity": spec["queue"], "batch": spec["chunk"]}
        self.transport = make_transport(self.options.transport, streams, shape, **sizes)
        self.until = 0
        try:
            self.crew = Collectors({**spec, "params": params}, self.transport, self.options, version)
        except BaseException:
            self.close()
            raise

    def close(self):
        """End the collectors, then close the transport."""
        if self.crew is not None:
            self.crew.close()
        self.transport.close()

    def players(self):
        """Return the states of the collectors."""
        self.crew.tell([("get_state",)] * self.crew.actors)
        return self.crew.answers()

    def reset(self):
        """Restore the initial weights and games, and fill the replay with the first chunk."""
        self.train.reset()
        self.crew.publish(0, self.spec["params"])
        self.crew.tell([("set_state", state) for state in self.start])
        self.crew.answers()
        self.replay.clear()
        self.updates = 0
        self.collect(-1)
        self.lags, self.episodes = [], []
        self.clock.reset()
        self.before = self.totals()

    def totals(self):
        """Return the transport's counters, summed over streams and over earlier transports, by name."""
        counters = self.transport.counters()
        return {name: before + float(np.sum(counters[name])) for name, before in self.earlier.items()}

    @property
    def params(self):
        """Online weights as NumPy arrays by name."""
        return self.train.params

    def phases(self):
        """Return the seconds spent in each phase since the last reset."""
        return dict(self.clock.seconds)

    def stats(self):
        """Return statistics by name, counted since the last reset.

        ``delivered`` and ``dropped`` experiences; those ``lost`` with a dead collector or a broken transport;
        ``batches`` delivered; seconds that collectors and learner were ``blocked_lock``, ``blocked_full`` and
        ``blocked_empty``; experiences ``waiting`` now; ``policy_lag``, the mean in updates, and ``most_policy_lag``;
        ``replaced_collectors`` since construction; ``gpu_utilisation``, if torch learns on a GPU and nvidia-ml-py is
        installed.
        """
        now = self.totals()
        counted = {name: now[name] - self.before[name] for name in ("delivered", "dropped", "lost", "batches")}
        counted |= {f"blocked_{name}": now[name] - self.before[name] for name in BLOCKED}
        counted["waiting"] = float(np.sum(self.transport.counters()["waiting"]))
        lags = self.lags or [0]
        lag = {"policy_lag": float(np.mean(lags)), "most_policy_lag": float(np.max(lags))}
        busy = gpu_utilisation() if self.on_gpu else None
        gpu = {} if busy is None else {"gpu_utilisation": busy}
        return counted | lag | {"replaced_collectors": float(self.replaced)} | gpu

    @property
    def on_gpu(self):
        """Whether torch learns on a GPU."""
        return (self.backend.library, self.backend.device) == ("torch", "cuda")

    def gpu_words(self):
        """Return GPU memory and utilisation as text for the progress line; empty without a GPU."""
        if not self.on_gpu:
            return ""
        import torch

        busy = gpu_utilisation()
        share = "its load not known without nvidia-ml-py" if busy is None else f"{100 * busy:.0f} % busy"
        return f", GPU memory {torch.cuda.max_memory_allocated() / 1e6:,.0f} MB, {share}"

    def epsilon(self, number):
        """Return the fraction of random actions in a chunk; number -1 is the first."""
        first, last = self.spec["epsilon"]
        played = (number + 1) * self.each * self.spec["collectors"] * self.spec["envs"]
        return first + (last - first) * min(1.0, played / self.spec["explore"])

    def ask(self, number):
        """Ask the collectors to play a chunk, and freeze what can be sampled."""
        self.until += self.each
        self.replay.hold(self.each)
        self.crew.tell([("play", number + 1, self.until, self.epsilon(number))] * self.crew.actors)

    def drain(self, seconds=0.0):
        """Store what has arrived, waiting up to ``seconds`` for the first experience; return how many."""
        taken = self.transport.take(self.push, seconds=seconds)
        self.clock("pushing")
        return taken

    def take(self):
        """Wait until the chunk asked for is stored; record its policy lags and the episodes that ended."""
        found, deaths = {}, self.crew.replaced
        self.crew.heard()
        while len(found) < self.crew.actors:
            if self.drain():
                self.crew.heard()
            self.crew.receive(found, SHORT)
            self.crew.replace_dead(found)
            self.clock("waiting")
        while np.any(waiting := self.transport.counters()["waiting"]):
            if self.drain(SHORT):
                self.crew.heard()
            else:
                self.crew.waited(SHORT, [stream // self.spec["envs"] for stream in np.flatnonzero(waiting)])
            self.crew.replace_dead(found)
        self.replaced += self.crew.replaced - deaths
        for index in range(self.crew.actors):
            version, episodes = found[index]
            self.lags.append(self.updates - version)
            self.episodes.extend(episodes)
        self.replay.release()

    def collect(self, number):
        """Play a chunk and wait for it."""
        self.ask(number)
        self.take()

    def rebuild(self, number):
        """Restart collectors and transport after the transport broke, and play the chunk again."""
        version, params = self.crew.newest
        self.replaced += self.crew.actors
        self.close()
        self.earlier = self.totals()
        self.begin(params, version)
        self.collect(number)

    def draw(self, number, update):
        """Sample a batch for one update of an epoch; both numbers are part of the seed.

        Returns:
            the arguments of ``train_step`` as NumPy arrays, and the sampled rows i64[B].
        """
        rng, batch = np.random.default_rng([self.spec["seed"], 2**32 + number, update]), self.spec["batch"]
        if self.spec["prioritised"]:
            rows, weights = self.replay.draw(rng.random(batch))
        else:
            rows, weights = self.replay.draw(rng, batch), np.ones(batch, np.float32)
        return (*self.gather(rows), weights), rows

    def epoch(self, number):
        """Make the updates of an epoch while the collectors play the next chunk.

        Returns:
            U losses, and U means of the absolute TD errors of a batch.
        """
        spec, losses, errors = self.spec, [], []
        self.ask(number)
        for update in range(spec["updates"]):
            batch, rows = self.draw(number, update)
            self.clock("sampling")
            loss, error = map(self.backend.to_host, self.train(*self.train.batch(*batch)))
            self.updates += 1
            if self.updates % spec["target_every"] == 0:
                self.train.sync_target()
            self.clock("learning")
            if spec["prioritised"]:
                self.replay.update(rows, error)
                self.clock("sampling")
            losses.append(loss)
            errors.append(np.abs(error).mean())
            with contextlib.suppress(TransportBroken):  # take() raises it again below
                self.drain()
        try:
            self.take()
        except TransportBroken:
            self.rebuild(number)
        if (number + 1) % spec["publish_every"] == 0:
            self.crew.publish(self.updates, self.train.params)
            self.clock("publishing")
        if self.options.gpu_cache == "cleared":
            import torch

            torch.cuda.empty_cache()
        return losses, errors

    def __call__(self, numbers):
        """Run epochs i64[I], numbered from 0; return losses and mean absolute TD errors, f32[I, U] each."""
        self.clock.start()
        results = [self.epoch(int(number)) for number in numbers]
        return tuple(np.array(each, np.float32) for each in zip(*results))

    def state(self):
        """Return everything that the next epoch depends on, except its number."""
        return {
            "train": self.train.state(), "replay": self.replay.arrays(), "players": self.players(),
            "published": tuple(self.crew.newest), "updates": self.updates,
        }  # fmt: skip

    def load_state(self, state):
        """Continue from what :meth:`state` returned."""
        self.train.load_state(state["train"])
        self.replay.restore(state["replay"])
        self.crew.publish(*state["published"])
        self.crew.tell([("set_state", of_one) for of_one in state["players"]])
        self.crew.answers()
        self.updates = state["updates"]
