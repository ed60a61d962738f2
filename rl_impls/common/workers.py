"""Worker processes on this machine that run methods by message; a worker that dies is replaced."""

import contextlib
import os
import pickle
import select
import signal
import socket
import struct
from multiprocessing.connection import wait
from multiprocessing.reduction import DupFd, ForkingPickler
from multiprocessing.util import Finalize
from time import monotonic, sleep

from .starting import begin, context_of, threads_of_started

SECONDS = 120  # default timeout of a worker
SLICE = 1  # longest single wait, so that stopping this process (Ctrl-Z) barely adds to the workers' silence
ENDING = 60  # seconds to wait for a killed process: under load, one of low priority takes long to end
PAUSES = (0.1, 0.2, 0.4, 0.8)  # seconds between attempts to start a process
LIVES = 5  # deaths allowed at one index without an answer in between
GIVES_WAY = 19  # niceness of background processes: with less, they preempt a learner thread that others wait for
BEFORE_MULTIPROCESSING = 10  # exit priority: multiprocessing's own exit handler waits forever for a stopped child


class WorkersEnded(RuntimeError):
    """A worker failed and all were stopped, or workers were called after that or after ``close()``."""


class Handed:
    """The arguments of a new process, passed in shared memory; use as a context manager around the process's start.

    :mod:`multiprocessing` passes arguments by a pipe and would block forever if the process died before reading it all.
    `value` is any picklable start argument of a process.
    """

    def __init__(self, value):
        self.value = value

    def __enter__(self):
        self.file = os.fdopen(os.memfd_create("rl_impls.handed", os.MFD_CLOEXEC), "wb")
        return self

    def __exit__(self, *error):
        self.file.close()

    def __reduce__(self):
        ForkingPickler(self.file, pickle.HIGHEST_PROTOCOL).dump(self.value)
        self.file.flush()
        return received, (DupFd(self.file.fileno()),)


def received(handle):
    """Return the value of a :class:`Handed` in the new process."""
    with os.fdopen(handle.detach(), "rb") as file:
        file.seek(0)
        return pickle.load(file)


def give_way(niceness):
    """Raise the niceness of all threads of this process."""
    for thread in map(int, os.listdir("/proc/self/task")):  # priorities are per thread
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + niceness)


def serve(pipe, make, args, niceness):
    """Worker main loop: make ``make(*args)`` and run requests from the pipe until it is closed."""
    try:
        worker = make(*args)
        give_way(niceness)  # only now: on a busy machine a low-priority process would hardly start up
        while True:
            name, *of_call = pipe.recv()
            pipe.send((True, getattr(worker, name)(*of_call)))
    except (EOFError, BrokenPipeError):
        pass
    except Exception as error:
        with contextlib.suppress(OSError):
            pipe.send((False, f"{type(error).__name__}: {error}"))


def run(target, pipe, args, cores):
    """Entry point of a new process."""
    begin(cores)
    target(pipe, *args)


def limit(pipe, seconds):
    """Limit each read and write of a :mod:`multiprocessing` pipe to `seconds`; after that it raises BlockingIOError.

    A worker may hang in the middle of an answer, or before it has read a message that fills the pipe.
    """
    timeval = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.socket(fileno=os.dup(pipe.fileno())) as of_pipe:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            of_pipe.setsockopt(socket.SOL_SOCKET, option, timeval)


def start_process(target, args, threads, needs, timeout):
    """Start a daemon process that calls ``target(pipe, *args)``; return the other end of the pipe and the process.

    `target` is a module-level function, and `timeout` limits each read or write of the pipe, in seconds. `threads` and
    `needs` are those of :func:`.starting.context_of`. Raises OSError if no process can be started.
    """
    for pause in (*PAUSES, None):
        context = context_of(threads, needs)
        ours, theirs = context.Pipe()
        limit(ours, timeout)
        with theirs, Handed(args) as handed, threads_of_started(threads):
            process = context.Process(target=run, args=(target, theirs, handed, os.sched_getaffinity(0)), daemon=True)
            try:
                process.start()
                return ours, process
            except (OSError, EOFError) as error:  # EOFError: the fork server died
                ours.close()
                if pause is None:
                    raise OSError(f"{type(error).__name__}: {error}") from error
        sleep(pause)


def cpu_seconds(pid):
    """Return the CPU time that a process has used, 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def hung_up(pipe, seconds=0):
    """Wait up to `seconds` for the process at the other end of a pipe to end; return whether it has.

    Unlike ``is_alive()`` of :mod:`multiprocessing`, this also works if the fork server is dead.
    """
    poll = select.poll()
    poll.register(pipe.fileno(), 0)  # a hang-up is always reported
    return bool(poll.poll(1000 * seconds))


def cause_of_death(process):
    """Describe how a process whose pipe is closed has ended."""
    process.join(ENDING)
    code = process.exitcode
    if code is None:
        return "closed its pipe"
    if code == 255:  # multiprocessing's value for an exit code that nobody could collect
        return (
            "ended and so did its fork server, so the exit code is unknown; if the system ran out of memory, free some,"
            " or use fewer processes or environments"
        )
    if code >= 0:
        return f"exited with code {code}"
    text = f"was killed by signal {-code} ({signal.Signals(-code).name})"
    if code == -signal.SIGKILL:
        text += "; if the system ran out of memory, free some, or use fewer processes or environments"
    return text


def end(members):
    """Kill the processes in a list of (pipe, process), wait for them for a limited time, and empty the list."""
    open_ones = [(pipe, process) for pipe, process in members if not pipe.closed]
    for pipe, process in open_ones:
        process.kill()
        if not hung_up(pipe):  # multiprocessing cannot signal a process whose fork server is dead
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    for pipe, process in open_ones:
        process.join(ENDING)
        hung_up(pipe, ENDING)
        pipe.close()
        with contextlib.suppress(ValueError):  # the kernel cannot end it yet
            process.close()
    members.clear()


class Workers:
    """A group of worker processes.

    A worker that dies is replaced; its successor receives the messages that it had not answered.

    Args:
        count: number of workers.
        make: ``make(*args)`` creates the worker in its process.
        args_of: ``args_of(index, life)`` returns its arguments; ``life`` is 0, or for a replacement the number of
            workers replaced so far.
        threads: threads per library in each process.
        niceness: niceness added once a process has started up.
        needs: modules to preload in each process, see :func:`.starting.context_of`.
        timeout: seconds to wait without a sign of life from any worker.

    Attributes:
        replaced: number of workers that died.
        timeout: as given; may be changed.

    Raises:
        WorkersEnded: here or in a method, a worker failed, timed out, or could not be replaced, which stops all
            workers; or they were stopped before.
    """

    KIND = "actor"  # name of a worker in error messages

    def __init__(self, count, make, args_of, threads, niceness=0, needs=(), timeout=SECONDS):
        self.actors, self.replaced = count, 0
        self.made = make, args_of, threads, niceness, needs
        self.timeout, self.silence, self.spent = timeout, 0.0, 0.0  # seconds; the last is CPU time of silent workers
        self.members, self.lives = [], [0] * count
        self.close = Finalize(self, end, (self.members,), exitpriority=BEFORE_MULTIPROCESSING)
        self.owed = [[] for _ in range(count)]  # unanswered messages of each worker
        for index in range(count):
            self.members.append(self.start(index, 0, "could not be started"))

    def start(self, index, life, why):
        """Start a worker; return its pipe and process.

        `life` is passed to ``args_of``; `why` begins the error message.
        """
        make, args_of, threads, niceness, needs = self.made
        args = make, args_of(index, life), niceness
        try:
            return start_process(serve, args, threads, needs, self.timeout)
        except OSError as error:
            self.fail(index, f"{why}: {error}")

    def replace(self, index):
        """Replace a dead worker and resend the messages that it had not answered."""
        cause = cause_of_death(self.members[index][1])
        self.replaced += 1
        self.lives[index] += 1
        if self.lives[index] > LIVES:
            self.fail(index, f"died {self.lives[index]} times before it had answered; the last time it {cause}")
        end([self.members[index]])
        self.after_death(index)
        self.members[index] = self.start(index, self.replaced, f"{cause}; a replacement could not be started")
        self.silence = 0.0
        for message in self.owed[index]:
            self.send(index, message)

    def after_death(self, index):
        """Hook between the end of a worker and the start of its replacement."""

    def replace_dead(self, found):
        """Replace workers that died after answering, which :meth:`receive` does not notice.

        `found` maps worker indices to answers.
        """
        for index in found:
            if hung_up(self.members[index][0]):
                self.replace(index)

    def fail(self, index, why):
        """Stop all workers and raise :class:`WorkersEnded`."""
        self.close()
        raise WorkersEnded(f"{self.KIND} {index} {why}")

    def check_open(self):
        """Raise :class:`WorkersEnded` if there are no workers any more."""
        if not self.members:
            raise WorkersEnded(f"{self.KIND}s were called after close() or a failure")

    def send(self, index, message):
        """Send a worker a message; a dead worker is only replaced while waiting for its answer."""
        try:
            self.members[index][0].send(message)
        except BlockingIOError:
            self.fail_silent([index])
        except OSError:
            pass

    def tell(self, messages):
        """Send each worker one message, a tuple of a method name and its arguments."""
        self.check_open()
        for index, message in enumerate(messages):
            self.owed[index].append(message)
            self.send(index, message)

    def heard(self):
        """Reset the silence timer."""
        self.silence = 0.0

    def waited(self, seconds, silent):
        """Add to the silence timer, unless `silent` workers computed for a tenth of the time; fail at the timeout."""
        spent = sum(cpu_seconds(self.members[index][1].pid) for index in set(silent))
        if spent - self.spent < seconds / 10:
            self.silence += seconds
        self.spent = spent
        if self.silence >= self.timeout:
            self.fail_silent(silent)

    def fail_silent(self, silent):
        """Fail because the workers with these indices hang."""
        who = f" and {self.KIND} ".join(str(index) for index in sorted(set(silent)))
        self.fail(who, f"did not answer for {self.timeout:g} s: the process hangs or is stopped")

    def receive(self, found, seconds):
        """Wait up to `seconds` for answers and add them to `found`, by worker index; return whether any arrived."""
        pipes = {self.members[index][0]: index for index in range(self.actors) if index not in found}
        before = monotonic()
        ready = wait(list(pipes), seconds)
        if not ready:
            self.waited(min(monotonic() - before, seconds), list(pipes.values()))
        for pipe in ready:
            index = pipes[pipe]
            try:
                right, answer = pipe.recv()
            except BlockingIOError:
                self.fail_silent([index])
            except (EOFError, OSError):
                self.replace(index)
                continue
            if not right:
                self.fail(index, f"failed: {answer}")
            self.heard()
            self.lives[index] = 0
            self.owed[index].pop(0)
            found[index] = answer
        return bool(ready)

    def answers(self):
        """Return, in worker order, each worker's answer to its oldest unanswered message."""
        self.check_open()
        found = {}
        self.heard()
        while len(found) < self.actors:
            self.receive(found, min(SLICE, self.timeout))
        return [found[index] for index in range(self.actors)]

    def discard_answers(self):
        """Wait for all outstanding answers and discard them."""
        self.check_open()
        while self.owed[0]:
            self.answers()
