"""Snake's alone: only its source updates one net in two processes: half a batch each, gradients averaged by gloo."""

from __future__ import annotations

import contextlib
import datetime
import multiprocessing
import os
import signal
import tempfile
from multiprocessing.util import Finalize

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from ..backends import get
from ..common.op import Op
from ..common.starting import OF_GROUP
from ..common.workers import BEFORE_MULTIPROCESSING, Handed, WorkersEnded, cause_of_death, end, limit

SECONDS = 60  # default timeout of either process
NEEDED = "params", "target", "gamma", "learning_rate", "gradient_norm", "target_every"


def join(train, make_loss, rank, store, gamma, losses, timeout):
    """Join the other process by the file ``store``; from here on both average their gradients.

    Args:
        train: the update of this process, changed in place.
        make_loss: ``make_loss(net, bootstrap, gamma)``, its loss.
        rank: 0 for the process that asks, 1 for the second.
        store: path of the file by which both find each other.
        gamma: discount of one step.
        losses: f32[2], shared by both, which gets the loss of each half.
        timeout: seconds to wait for the other process, now and in each update.
    """
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    limited = datetime.timedelta(seconds=timeout)
    file = distributed.FileStore(store, 2)
    file.set_timeout(limited)
    distributed.init_process_group("gloo", store=file, rank=rank, world_size=2, timeout=limited)
    loss_of_half = make_loss(DistributedDataParallel(train.net), train.bootstrap, gamma)

    def loss(*half):
        value = loss_of_half(*half)
        losses[rank] = value.detach()  # before the gradients meet: who has them may read both losses
        return value

    train.loss = loss


def follow(pipe, args):
    """Run the second process: do what comes through the pipe, on its half of the batch, until the pipe is closed.

    Args:
        pipe: end of a connection: names of methods and arguments come in, None or the text of an error goes out.
        args: path of the file by which both find each other; ``make`` and ``make_loss`` of
            :class:`DistributedTrainStep`; spec; half a batch and losses f32[2], both shared; knobs; timeout.
    """
    store, make, make_loss, spec, half, losses, knobs, timeout = args
    for number in OF_GROUP:
        signal.signal(number, signal.SIG_IGN)  # the first process ends this one
    try:
        train = make(spec, half, knobs, get("torch").lowering_here())
        pipe.send(None)
        join(train, make_loss, 1, store, spec["gamma"], losses, timeout)
        pipe.send(None)
        calls = {"step": lambda: train(*half)}
        while True:
            name, *args = pipe.recv()
            calls.get(name, getattr(train, name, None))(*args)
    except (EOFError, BrokenPipeError):
        pass
    except Exception as error:
        with contextlib.suppress(OSError):
            pipe.send(f"{type(error).__name__}: {error}")


def leave(pipe, process):
    """Kill the second process and leave the process group."""
    end([(pipe, process)])
    if distributed.is_initialized():
        distributed.destroy_process_group()


class DistributedTrainStep(Op):
    """One update of the online net by this process and a second one, equal to that of the whole batch.

    Args:
        make: ``make(spec, half, knobs, target)``, the update of one process.
        make_loss: ``make_loss(net, bootstrap, gamma)``, its loss.
        spec: what the update is built from.
        example: a batch of torch's tensors, of even size.
        knobs: of the update.
        target: device and lowering of the backend.

    Raises:
        RuntimeError: another one is open in this process.
        WorkersEnded: here and later: the second process failed, died or did not answer in time; both ended.
        ValueError: a batch that is not the example's size, or of odd size.
    """

    def __init__(self, make, make_loss, spec, example, knobs, target):
        size = len(example[0])
        if size % 2:
            raise ValueError(f"batch: got {size} transitions, wanted an even number for two processes")
        if distributed.is_initialized():
            raise RuntimeError("this process is in a process group already: close the other train_step first")
        self.half = size // 2
        self.shared = [field[self.half :].clone().share_memory_() for field in example]
        self.losses = torch.zeros(2).share_memory_()
        self.timeout = spec.get("worker_timeout", SECONDS)
        spec = {name: spec[name] for name in NEEDED if name in spec}
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        limit(self.pipe, self.timeout)
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "store")
            args = store, make, make_loss, spec, self.shared, self.losses, knobs, self.timeout
            with theirs, Handed(args) as handed:
                self.process = context.Process(target=follow, args=(theirs, handed), daemon=True)
                self.process.start()
            self.close = Finalize(self, leave, (self.pipe, self.process), exitpriority=BEFORE_MULTIPROCESSING)
            with self.both():
                self.train = make(spec, example, knobs, target)
                self.answer()
                join(self.train, make_loss, 0, store, spec["gamma"], self.losses, self.timeout)
                self.answer()
        self.state, self.actor = self.train.state, self.train.actor

    @property
    def params(self):
        """The online weights as NumPy, by name."""
        return self.train.params

    def answer(self):
        """Wait until the second process has done what it was told.

        Raises:
            RuntimeError: it failed, or did not answer in time.
        """
        if not self.pipe.poll(self.timeout):
            raise TimeoutError
        if message := self.pipe.recv():
            raise RuntimeError(message)

    @contextlib.contextmanager
    def both(self):
        """Return a context for what both processes do: where one fails, both end.

        Raises:
            WorkersEnded: one failed; with what the second process said, or how it ended.
        """
        try:
            yield
        except Exception as error:
            why = self.why(error)
            self.close()
            raise WorkersEnded(f"the update in two processes failed: {why}") from error

    def why(self, error):
        """Say what happened to the second process, given the error in this one."""
        if self.pipe.closed:
            return "the second process was ended by close()"
        try:
            if self.pipe.poll(1):
                return self.pipe.recv()
        except BlockingIOError:
            pass
        except (EOFError, OSError):
            return f"the second process {cause_of_death(self.process)}"
        if isinstance(error, (TimeoutError, BlockingIOError)) or "timed out" in str(error).lower():  # gloo's words
            return f"the second process did not answer for {self.timeout:g} s: it hangs or is stopped"
        return error

    def tell(self, name, *args):
        """Have the second process call a method of its own update.

        Args:
            name: of the method; ``step`` is an update.
            args: of the method.
        """
        with self.both():
            self.pipe.send((name, *args))

    def reset(self):
        """Put both nets' weights and the moments back to the start."""
        self.tell("reset")
        self.train.reset()

    def sync_target(self):
        """Copy the online weights to the target net."""
        self.tell("sync_target")
        self.train.sync_target()

    def load_state(self, state):
        """Go on from a state, of this backend or another.

        Args:
            state: arrays by name, as ``state`` returned them.
        """
        self.tell("load_state", state)
        self.train.load_state(state)

    def __call__(self, *batch):
        """Make an update on one batch; return the loss before it, f32[].

        Args:
            batch: obs f32[B, O], actions i32[B], rewards f32[B], next_obs f32[B, O], terminated f32[B].
        """
        if len(batch[0]) != 2 * self.half:
            raise ValueError(f"batch: got {len(batch[0])} transitions, wanted {2 * self.half}")
        for shared, field in zip(self.shared, batch):
            shared.copy_(field[self.half :])
        self.tell("step")
        with self.both():
            self.train(*(field[: self.half] for field in batch))
        return self.losses.mean()
