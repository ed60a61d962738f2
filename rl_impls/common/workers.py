"""Worker processes on this machine that run the methods that messages name. A worker that dies is replaced."""

from __future__ import annotations

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
SLICE = 1  # longest single wait, so that a stop of this process (Ctrl-Z) hardly counts as the workers' silence
ENDING = 60  # seconds to wait for a killed process: one of low priority ends late beside other load
PAUSES = (0.1, 0.2, 0.4, 0.8)  # seconds between attempts to start a process
LIVES = 5  # workers that may die in one place without having answered
GIVES_WAY = 19  # niceness of a process that is not waited for: with less, all threads of who learns wait for one
BEFORE_MULTIPROCESSING = 10  # exit priority: its own exit handler waits for ever for a child that is stopped


class WorkersEnded(RuntimeError):
    """A worker failed, so all were ended; or the workers are called after that or after ``close()``."""


class Handed:
    """The arguments of a new process, in shared memory; a context that lasts until the process has started.

    :mod:`multiprocessing` would send them by a pipe, and wait for ever for a process that dies before it has read all.

    Args:
        value: anything that a process can be started with.
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
    """Return the value of a :class:`Handed`, in the new process.

    Args:
        handle: of the memory's descriptor.
    """
    with os.fdopen(handle.detach(), "rb") as file:
        file.seek(0)
        return pickle.load(file)


def give_way(niceness):
    """Raise the niceness of all threads of this process."""
    for thread in map(int, os.listdir("/proc/self/task")):  # each has its own priority
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + niceness)


def serve(pipe, make, args, niceness):
    """Run the worker ``make(*args)``: answer the requests from the pipe until it is closed."""
    try:
        worker = make(*args)
        give_way(niceness)  # on a busy machine it would hardly begin else
        while True:
            name, *of_call = pipe.recv()
            pipe.send((True, getattr(worker, name)(*of_call)))
    except (EOFError, BrokenPipeError):
        pass
    except Exception as error:
        with contextlib.suppress(OSError):
            pipe.send((False, f"{type(error).__name__}: {error}"))


def run(target, pipe, args, cores):
    """Call ``target(pipe, *args)`` in a new process."""
    begin(cores)
    target(pipe, *args)


def limit(pipe, seconds):
    """Let a read or write of a pipe of :mod:`multiprocessing` wait so long at most; then it raises BlockingIOError.

    A worker may stop in the middle of an answer, or before it has read a message that fills the pipe.
    """
    timeval = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.socket(fileno=os.dup(pipe.fileno())) as of_pipe:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            of_pipe.setsockopt(socket.SOL_SOCKET, option, timeval)


def start_process(target, args, threads, needs, timeout):
    """Start a daemon process that calls ``target(pipe, *args)``; return the other end of the pipe and the process.

    Args:
        target: a function of a module.
        args: its other arguments, a tuple.
        threads: of a library in the process.
        needs: names of modules that it would import, see :func:`.starting.context_of`.
        timeout: of a read or write of the pipe, in seconds.

    Raises:
        OSError: no process can be started.
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
            except (OSError, EOFError) as error:  # EOFError: the fork server died meanwhile
                ours.close()
                if pause is None:
                    raise OSError(f"{type(error).__name__}: {error}") from error
        sleep(pause)


def hung_up(pipe, seconds=0):
    """Wait until the process at the other end of a pipe has ended; return whether it has.

    Unlike ``is_alive()`` of :mod:`multiprocessing` this is right where the fork server is dead.
    """
    poll = select.poll()
    poll.register(pipe.fileno(), 0)  # a hang-up is always reported
    return bool(poll.poll(1000 * seconds))


def cause_of_death(process):
    """Say how a process ended whose pipe is closed."""
    process.join(ENDING)
    code = process.exitcode
    if code is None:
        return "closed its pipe"
    if code == 255:  # what multiprocessing says where nobody could collect the exit code
        return (
            "ended and so did its fork server, so the exit code is unknown; the kernel's out-of-memory killer may have"
            " killed both: free memory, or use fewer processes or environments"
        )
    if code >= 0:
        return f"exited with code {code}"
    text = f"was killed by signal {-code} ({signal.Signals(-code).name})"
    if code == -signal.SIGKILL:
        text += "; the kernel's out-of-memory killer does that: free memory, or use fewer processes or environments"
    return text


def end(members):
    """Kill processes and wait for their end, but not for ever.

    Args:
        members: pipe and process of each, a list, which is emptied.
    """
    open_ones = [(pipe, process) for pipe, process in members if not pipe.closed]
    for pipe, process in open_ones:
        process.kill()
        if not hung_up(pipe):  # multiprocessing signals no process whose fork server is dead
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
    """Workers in processes.

    A worker that dies is replaced, and the new one gets the messages that the dead one has not answered.

    Args:
        count: how many.
        make: ``make(*args)``, returns a worker; in its process.
        args_of: ``args_of(index, life)``, its arguments; ``life`` counts the workers that were in its place before.
        threads: of a library in each process.
        niceness: by which the processes give way to others once they have begun.
        needs: names of modules that each process would import, see :func:`.starting.context_of`.
        timeout: seconds to wait without a sign of life from any worker.

    Attributes:
        replaced: workers that died.
        timeout: as given; it may be changed.

    Raises:
        WorkersEnded: here and later: a worker failed, did not answer in time, or died and could not be replaced; all
            are ended. Later: they were ended before.
    """

    KIND = "actor"  # what messages call a worker

    def __init__(self, count, make, args_of, threads, niceness=0, needs=(), timeout=SECONDS):
        self.actors, self.replaced = count, 0
        self.made = make, args_of, threads, niceness, needs
        self.timeout, self.silence = timeout, 0.0  # seconds
        self.members, self.lives = [], [0] * count
        self.close = Finalize(self, end, (self.members,), exitpriority=BEFORE_MULTIPROCESSING)
        self.owed = [[] for _ in range(count)]  # messages that each has not answered yet
        for index in range(count):
            self.members.append(self.start(index, 0, "could not be started"))

    def start(self, index, life, why):
        """Start a worker; return its pipe and its process.

        Args:
            index: of the worker.
            life: how many were in its place before.
            why: what an error says first.
        """
        make, args_of, threads, niceness, needs = self.made
        args = make, args_of(index, life), niceness
        try:
            return start_process(serve, args, threads, needs, self.timeout)
        except OSError as error:
            self.fail(index, f"{why}: {error}")

    def replace(self, index):
        """Put a new worker in the place of a dead one, and send it the messages that that one has not answered."""
        cause = cause_of_death(self.members[index][1])
        self.replaced += 1
        self.lives[index] += 1
        if self.lives[index] > LIVES:
            self.fail(index, f"died {self.lives[index]} times before it had answered; the last time it {cause}")
        end([self.members[index]])
        self.after_death(index)
        self.members[index] = self.start(index, self.replaced, f"{cause}; no other could be started in its place")
        self.silence = 0.0
        for message in self.owed[index]:
            self.send(index, message)

    def after_death(self, index):
        """Do what is to be done between the end of a worker and the start of the one that replaces it."""

    def replace_dead(self, found):
        """Replace the workers that died after their answer, of which nothing is heard otherwise.

        Args:
            found: answers by the index of the worker, as of :meth:`receive`.
        """
        for index in found:
            if hung_up(self.members[index][0]):
                self.replace(index)

    def fail(self, index, why):
        """End all workers and raise :class:`WorkersEnded`."""
        self.close()
        raise WorkersEnded(f"{self.KIND} {index} {why}")

    def check_open(self):
        """Raise :class:`WorkersEnded` where there are no workers any more."""
        if not self.members:
            raise WorkersEnded(f"{self.KIND}s: got a call after they were ended, wanted it before close()")

    def send(self, index, message):
        """Send a worker a message; a dead one is replaced when its answer is waited for."""
        try:
            self.members[index][0].send(message)
        except BlockingIOError:
            self.fail_silent([index])
        except OSError:
            pass

    def tell(self, messages):
        """Send each worker a message.

        Args:
            messages: what each is to do, tuples of a method's name and its arguments.
        """
        self.check_open()
        for index, message in enumerate(messages):
            self.owed[index].append(message)
            self.send(index, message)

    def heard(self):
        """Note a sign of life."""
        self.silence = 0.0

    def waited(self, seconds, silent):
        """Count seconds without a sign of life; raise :class:`WorkersEnded` where they reach the timeout.

        Args:
            seconds: that passed.
            silent: indices of the workers that were waited for.
        """
        self.silence += seconds
        if self.silence >= self.timeout:
            self.fail_silent(silent)

    def fail_silent(self, silent):
        """End all workers as some hang.

        Args:
            silent: indices of those.
        """
        who = f" and {self.KIND} ".join(str(index) for index in sorted(set(silent)))
        self.fail(who, f"did not answer for {self.timeout:g} s: the process hangs or is stopped")

    def receive(self, found, seconds):
        """Wait for answers; return whether anything was heard.

        Args:
            found: answers to the oldest message of each worker, by its index, to which what comes is added.
            seconds: to wait for the first.
        """
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
        """Return the answer of every worker to the oldest message that has none yet, in order."""
        self.check_open()
        found = {}
        self.heard()
        while len(found) < self.actors:
            self.receive(found, min(SLICE, self.timeout))
        return [found[index] for index in range(self.actors)]

    def settle(self):
        """Wait until the workers have done all that they were asked for, and forget it."""
        while self.owed[0]:
            self.answers()
