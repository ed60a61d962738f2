"""The loop of collectors, transport, replay and learner; phases are timed.

An epoch is a number of updates: one batch for each of what the source calls an epoch's episodes. While the learner
makes them, collectors play the experiences that the next epoch learns from too, by the weights that were published
last: the policy lags one epoch behind, and ``publish_every`` - 1 more at the most. What is drawn in an epoch is drawn
from what was stored when it began, so that it does not matter when experiences arrive: an epoch is fixed by the seed.

Axes: I epochs, U updates of each, C collectors of E environments, B experiences of a batch.
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
ROOM = 8  # rows of a stream beside those of an epoch, so that some can be drawn
SHORT = 0.02  # seconds to wait for experiences, from one look at the collectors to the next
COUNTED = ("produced", "delivered", "dropped", "lost", "batches")
BLOCKED = ("lock", "full", "empty")


def per_stream(spec):
    """Return the experiences of an epoch that each stream hands over.

    ``U B / reuse / (C E)``, rounded up.

    Args:
        spec: of a pipeline, see :class:`.spec.Spec`.
    """
    streams = spec["collectors"] * spec["envs"]
    return int(np.ceil(spec["updates"] * spec["batch"] / spec["reuse"] / streams))


def check_room(spec):
    """Check that the queues have room for each stream, and that a replay keeps more than the experiences of an epoch.

    Those are not learned from before the next epoch.

    Args:
        spec: ``capacity``, ``queue`` and what :func:`per_stream` takes, see :class:`.spec.Spec`.

    Raises:
        ValueError: they have not, or it does not.
    """
    streams, each = spec["collectors"] * spec["envs"], per_stream(spec)
    if spec["queue"] < streams:
        raise ValueError(f"queue: got {spec['queue']}, wanted {streams} or more, one in each of {streams} streams")
    if spec["capacity"] // streams < each + ROOM:
        least = streams * (each + ROOM)
        why = f"{least} or more, as an epoch has {each} in each of {streams} streams"
        raise ValueError(f"buffer: got {spec['capacity']}, wanted {why}")


def make_replay(spec, knobs):
    """Return an empty replay with a lane of each stream.

    Args:
        spec: of a pipeline, see :class:`.spec.Spec`.
        knobs: ``stacks`` and ``tree`` are read.
    """
    streams = spec["collectors"] * spec["envs"]
    sizes = spec["capacity"] - spec["capacity"] % streams, streams, spec["side"]
    if not spec["prioritised"]:
        return FrameReplay(*sizes)
    constants = {name: spec[name] for name in ("alpha", "beta", "beta_increment") if name in spec}
    return PrioritisedReplay(*sizes, **constants, literal=knobs.tree == "literal")


def pushing(replay, knobs):
    """Return ``push(lane, frames, actions, rewards, ends, times)``, which stores them all at once or one by one.

    Args:
        replay: a :class:`.memory.FrameReplay`.
        knobs: ``push`` is read.
    """
    if knobs.push == "batch":
        return replay.push_batch

    def push(lane, *columns):
        for item in zip(*columns):
            replay.push(lane, *item)

    return push


def gathering(replay, knobs):
    """Return ``gather(rows)``; where stacks are gathered by index, into memory that is kept.

    Args:
        replay: a :class:`.memory.FrameReplay`.
        knobs: ``stacks`` is read.
    """
    if knobs.stacks == "item":
        return replay.gather_one_by_one
    kept = {}

    def gather(rows):
        if len(rows) not in kept:
            kept[len(rows)] = replay.frames_of(len(rows))
        return replay.gather(rows, kept[len(rows)])

    return gather


def gpu_utilisation():
    """Return the share of the last moments in which a GPU was at work, as its driver counts; None: nobody can say."""
    import torch

    try:
        return torch.cuda.utilization() / 100
    except (ModuleNotFoundError, RuntimeError):  # nvidia-ml-py is not installed, or finds no driver
        return None


class Pipeline(Op):
    """Collectors, transport, replay and learner, always from the same start.

    Args:
        spec: what it is built from, see :class:`.spec.Spec`.
        knobs: of all parts.
        backend: that learns; collectors act by torch on the CPU.

    Attributes:
        replaced: collectors that died.

    Raises:
        WorkersEnded: here and later: a collector failed, did not answer in time, or died and could not be replaced.
        TransportBroken: here, and later where a chunk is not that of an epoch or is played anew: a collector died and
            took with it what cannot be done without; all that is left is to close.
    """

    def __init__(self, spec, knobs, backend):
        self.spec, self.knobs, self.backend, self.clock, self.replaced = spec, knobs, backend, Phases(*PHASES), 0
        self.each = per_stream(spec)
        check_room(spec)
        self.replay = make_replay(spec, knobs)
        self.push, self.gather = pushing(self.replay, knobs), gathering(self.replay, knobs)
        self.train = self.make_learner()
        self.crew, self.transport, self.lags, self.episodes = None, None, [], []
        self.earlier = dict.fromkeys((*COUNTED, *BLOCKED), 0)  # what transports that broke had counted
        self.begin(spec["params"])
        try:
            self.start = self.players()
            self.reset()
        except BaseException:
            self.close()
            raise

    def make_learner(self):
        """Return the update."""
        backend, spec, batch, side = self.backend, self.spec, self.spec["batch"], self.spec["side"]
        states, column = np.zeros((batch, 4, side, side), np.uint8), np.zeros(batch, np.float32)
        example = tuple(map(backend.to_device, (states, column.astype(np.int32), column, states, column, column)))
        return backend.build("mario", "train_step", spec, example, self.knobs, backend.lowering_here())

    def begin(self, params, version=0):
        """Start collectors and what they hand over to.

        Args:
            params: weights that they act by.
            version: of them.
        """
        spec = self.spec
        streams, shape = spec["collectors"] * spec["envs"], (spec["side"], spec["side"])
        sizes = {"capacity": spec["queue"], "batch": spec["chunk"]}
        self.transport = make_transport(self.knobs.transport, streams, shape, **sizes)
        self.until = 0
        try:
            self.crew = Collectors({**spec, "params": params}, self.transport, self.knobs, version)
        except BaseException:
            self.close()
            raise

    def close(self):
        """End the collectors, and give back what they hand over to."""
        if self.crew is not None:
            self.crew.close()
        self.transport.close()

    def players(self):
        """Return the state of each collector."""
        self.crew.tell([("get_state",)] * self.crew.actors)
        return self.crew.answers()

    def reset(self):
        """Put everything back to the start: the first experiences are there, and nothing is learned."""
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
        """Return what the transport counts, and those before it did, summed over all streams, by name."""
        counters = self.transport.counters()
        return {name: before + float(np.sum(counters[name])) for name, before in self.earlier.items()}

    @property
    def params(self):
        """The online weights as NumPy, by name."""
        return self.train.params

    def phases(self):
        """Return the seconds spent in each phase since the last reset, by name."""
        return dict(self.clock.seconds)

    def stats(self):
        """Return what was counted since the last reset, by name.

        ``delivered`` and ``dropped`` experiences, those ``lost`` with a collector that died or a transport that broke,
        ``batches`` that were handed over; seconds that collectors and learner were ``blocked_lock``, ``blocked_full``
        and ``blocked_empty``; ``waiting`` experiences; the ``policy_lag`` in updates, mean and most; collectors that
        were ``replaced``; where torch has a GPU and nvidia-ml-py is installed, its ``gpu_utilisation``.
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
        return (self.backend.source, self.backend.device) == ("torch", "cuda")

    def gpu_words(self):
        """Return how much memory the learner has on its GPU, and how busy that is; nothing where it has none."""
        if not self.on_gpu:
            return ""
        import torch

        busy = gpu_utilisation()
        share = "its load not known without nvidia-ml-py" if busy is None else f"{100 * busy:.0f} % busy"
        return f", GPU memory {torch.cuda.max_memory_allocated() / 1e6:,.0f} MB, {share}"

    def epsilon(self, number):
        """Return the share of drawn actions in a chunk.

        Args:
            number: of the chunk; -1 for the first.
        """
        first, last = self.spec["epsilon"]
        played = (number + 1) * self.each * self.spec["collectors"] * self.spec["envs"]
        return first + (last - first) * min(1.0, played / self.spec["explore"])

    def ask(self, number):
        """Have the collectors play a chunk.

        Args:
            number: of it.
        """
        self.until += self.each
        self.replay.hold(self.each)
        self.crew.tell([("play", number + 1, self.until, self.epsilon(number))] * self.crew.actors)

    def drain(self, seconds=0.0):
        """Store what has arrived; return how many experiences.

        Args:
            seconds: to wait for the first.
        """
        taken = self.transport.take(self.push, seconds=seconds)
        self.clock("pushing")
        return taken

    def take(self):
        """Wait until the chunk that was asked for is played and stored; note what the collectors tell of it."""
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
        """Play a chunk, and wait for it.

        Args:
            number: of the chunk.
        """
        self.ask(number)
        self.take()

    def rebuild(self, number):
        """Start the collectors and the transport anew, and play a chunk: the old transport is broken, what waits lost.

        Args:
            number: of the chunk.
        """
        version, params = self.crew.newest
        self.replaced += self.crew.actors
        self.close()
        self.earlier = self.totals()
        self.begin(params, version)
        self.collect(number)

    def draw(self, number, update):
        """Return a batch of the replay, NumPy arrays as ``train_step`` takes them, and its rows i64[B].

        Args:
            number: of the epoch.
            update: of it.
        """
        rng, batch = np.random.default_rng([self.spec["seed"], 2**32 + number, update]), self.spec["batch"]
        if self.spec["prioritised"]:
            rows, weights = self.replay.draw(rng.random(batch))
        else:
            rows, weights = self.replay.draw(rng, batch), np.ones(batch, np.float32)
        return (*self.gather(rows), weights), rows

    def epoch(self, number):
        """Make the updates of an epoch while the next chunk is played; return losses f32[U] and TD errors f32[U].

        Args:
            number: of the epoch.
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
            with contextlib.suppress(TransportBroken):  # it is found out below, where it is mended
                self.drain()
        try:
            self.take()
        except TransportBroken:
            self.rebuild(number)
        if (number + 1) % spec["publish_every"] == 0:
            self.crew.publish(self.updates, self.train.params)
            self.clock("publishing")
        if self.knobs.gpu_cache == "cleared":
            import torch

            torch.cuda.empty_cache()
        return losses, errors

    def __call__(self, numbers):
        """Make I epochs.  -> losses f32[I, U], TD errors f32[I, U]

        Args:
            numbers: i64[I], of the epochs, from 0.
        """
        self.clock.start()
        results = [self.epoch(int(number)) for number in numbers]
        return tuple(np.array(each, np.float32) for each in zip(*results))

    def state(self):
        """Return all that the next epoch depends on, but for its number, by name: arrays and, of collectors, states."""
        return {
            "train": self.train.state(), "replay": self.replay.arrays(), "players": self.players(),
            "published": tuple(self.crew.newest), "updates": self.updates,
        }  # fmt: skip

    def load_state(self, state):
        """Go on from a state.

        Args:
            state: as :meth:`state` returned it.
        """
        self.train.load_state(state["train"])
        self.replay.restore(state["replay"])
        self.crew.publish(*state["published"])
        self.crew.tell([("set_state", of_one) for of_one in state["players"]])
        self.crew.answers()
        self.updates = state["updates"]
