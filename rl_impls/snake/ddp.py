"""One update split over two processes, half a batch each, with gradients averaged by gloo."""

import contextlib
import datetime
import os
import tempfile
from multiprocessing.util import Finalize

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from ..backends import get
from ..common.op import Op
from ..common.workers import BEFORE_MULTIPROCESSING, WorkersEnded, cause_of_death, end, start_process

SECONDS = 60  # default timeout of each process
NEEDED = "params", "target", "gamma", "learning_rate", "max_grad_norm", "target_frequency"


def join(train, make_loss, rank, store, gamma, losses, timeout):
    """Join the process group through the file `store`; from here on, both processes average their gradients.

    The loss function of `train` is replaced. The main process has `rank` 0. `losses`, a shared f32[2], receives the
    loss of each half. `timeout` in seconds applies to joining and to each update.
    """
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    limited = datetime.timedelta(seconds=timeout)
    file = distributed.FileStore(store, 2)
    file.set_timeout(limited)
    distributed.init_process_group("gloo", store=file, rank=rank, world_size=2, timeout=limited)
    loss_of_half = make_loss(DistributedDataParallel(train.net), train.bootstrap, gamma)

    def loss(*half):
        value = loss_of_half(*half)
        losses[rank] = value.detach()  # before the all-reduce, after which both losses may be read
        return value

    train.loss = loss


def follow(pipe, store, make, make_loss, config, half, losses, options, timeout):
    """Main loop of the second process: run requests from the pipe on its half of the batch until the pipe is closed.

    Requests are names and arguments of methods. The process sends None when it is ready, or an error message.
    """
    try:
        train = make(config, half, options, get("torch").new_compiler())
        pipe.send(None)
        join(train, make_loss, 1, store, config["gamma"], losses, timeout)
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
    """One update by this process and a second one, equal to an update on the whole batch.

    ``make(config, example, options, compiler)`` builds the train step of one process and ``make_loss(net, bootstrap,
    gamma)`` its loss function. `example` is a batch of torch tensors, of even size.

    Raises:
        RuntimeError: another instance is open in this process.
        WorkersEnded: here or in a method: the second process failed, died or timed out; both are shut down.
        ValueError: the batch size is odd or differs from the example's.
    """

    def __init__(self, make, make_loss, config, example, options, compiler):
        size = len(example[0])
        if size % 2:
            raise ValueError(f"batch_size={size} should be even for two processes")
        if distributed.is_initialized():
            raise RuntimeError("this process is in a process group: close the other train_step first")
        self.half = size // 2
        self.shared = [field[self.half :].clone().share_memory_() for field in example]
        self.losses = torch.zeros(2).share_memory_()
        self.timeout = config.get("worker_timeout", SECONDS)
        config = {name: config[name] for name in NEEDED if name in config}
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "store")
            args = store, make, make_loss, config, self.shared, self.losses, options, self.timeout
            self.pipe, self.process = start_process(follow, args, None, (), self.timeout)
            self.close = Finalize(self, leave, (self.pipe, self.process), exitpriority=BEFORE_MULTIPROCESSING)
            with self.both():
                self.train = make(config, example, options, compiler)
                self.answer()
                join(self.train, make_loss, 0, store, config["gamma"], self.losses, self.timeout)
                self.answer()
        self.state, self.actor = self.train.state, self.train.actor

    @property
    def params(self):
        return self.train.params

    def answer(self):
        """Wait for the second process to report that it is ready; raise its error or a TimeoutError."""
        if not self.pipe.poll(self.timeout):
            raise TimeoutError
        if message := self.pipe.recv():
            raise RuntimeError(message)

    @contextlib.contextmanager
    def both(self):
        """Return a context for work of both processes: if either fails, shut down both and raise WorkersEnded."""
        try:
            yield
        except Exception as error:
            why = self.why(error)
            self.close()
            raise WorkersEnded(f"the update in two processes failed: {why}") from error

    def why(self, error):
        """Describe the failure of the second process, given the error in this one."""
        if self.pipe.closed:
            return "the second process was ended by close()"
        try:
            if self.pipe.poll(1):
                return self.pipe.recv()
        except BlockingIOError:
            pass
        except (EOFError, OSError):
            return f"the second process {cause_of_death(self.process)}"
        if isinstance(error, (TimeoutError, BlockingIOError)) or "timed out" in str(error).lower():  # gloo's message
            return f"the second process did not answer for {self.timeout:g} s: it hangs or is stopped"
        return error

    def tell(self, name, *args):
        """Call a method of the second process's train step; ``step`` makes an update."""
        with self.both():
            self.pipe.send((name, *args))

    def reset(self):
        self.tell("reset")
        self.train.reset()

    def sync_target(self):
        """Copy the online weights to the target network in both processes."""
        self.tell("sync_target")
        self.train.sync_target()

    def load_state(self, state):
        self.train.load_state(state)
        self.tell("load_state", self.train.state())  # only the learner's part of a loop's state

    def __call__(self, *batch):
        """Update on one batch of :func:`._torch.make_loss`; return the loss before the update, f32[]."""
        if len(batch[0]) != 2 * self.half:
            raise ValueError(f"batch_size={len(batch[0])} should be {2 * self.half}, as at the start")
        for shared, field in zip(self.shared, batch):
            shared.copy_(field[self.half :])
        self.tell("step")
        with self.both():
            self.train(*(field[: self.half] for field in batch))
        return self.losses.mean()
