"""Processes of this machine that each hold a worker, and do what messages say; one that dies is replaced."""

from __future__ import annotations

import contextlib
import os
import pickle
import weakref
from multiprocessing.connection import wait
from multiprocessing.reduction import DupFd, ForkingPickler

from .starting import begin, context_of, threads_of_started

SECONDS = 120  # to wait for a worker
LIVES = 5  # workers that may die in one place without having answered
GIVES_WAY = 19  # niceness of a process that is not waited for: with less, all threads of who learns wait for one


class WorkersEnded(RuntimeError):
    """One of the workers failed, so that all were ended, or they are called after that or after ``close()``."""


class Handed:
    """What a process is started with, in memory of both, in a context that lasts until it is started.

    :mod:`multiprocessing` would send it by a pipe, and wait for ever for a process that dies before it has read it all.

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
    """Return the value of a :class:`Handed`, in the process that was started.

    Args:
        handle: of the memory's descriptor.
    """
    with os.fdopen(handle.detach(), "rb") as file:
        file.seek(0)
        return pickle.load(file)


def give_way(niceness):
    """Have all threads of this process give way to others.

    Args:
        niceness: by which each does.
    """
    for thread in map(int, os.listdir("/proc/self/task")):  # each has its own priority
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + niceness)


def serve(pipe, make, args, niceness, cores):
    """Be the process of one worker: do as the pipe says, until it is closed.

    Args:
        pipe: to the first process.
        make: ``make(*args)``, returns the worker, whose methods messages name.
        args: of it.
        niceness: by which this process gives way to others as soon as it has the worker.
        cores: that the first process has.
    """
    begin(cores)
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


def end(members):
    """End the processes, which hold nothing that they must give back.

    Args:
        members: pipe and process of each.
    """
    for _, process in members:
        process.kill()
    for pipe, process in members:
        process.join()
        process.close()
        pipe.close()
    members.clear()


class Workers:
    """Workers in processes.

    A worker that dies is replaced, and the new one does what the dead one owed.

    Args:
        count: how many.
        make: ``make(*args)``, returns a worker; in its process.
        args_of: ``args_of(index, life)``, its arguments; ``life`` counts the workers that were in its place before.
        threads: of a library in each process.
        niceness: by which the processes give way to others once they have begun.
        needs: names of modules that each process would import, see :func:`.starting.context_of`.

    Attributes:
        replaced: workers that died.

    Raises:
        WorkersEnded: here and later: a worker failed, or has not answered for two minutes; all are ended. Later: they
            were ended before.
    """

    KIND = "actor"  # what messages call a worker

    def __init__(self, count, make, args_of, threads, niceness=0, needs=()):
        self.actors, self.replaced = count, 0
        self.made = make, args_of, threads, niceness, needs
        self.members, self.lives = [], [0] * count
        self.close = weakref.finalize(self, end, self.members)
        self.owed = [[] for _ in range(count)]  # messages that each has not answered yet
        for index in range(count):
            self.members.append(self.start(index, 0))

    def start(self, index, life):
        """Start a worker; return its pipe and its process.

        Args:
            index: of the worker.
            life: how many were in its place before.
        """
        make, args_of, threads, niceness, needs = self.made
        context = context_of(threads, needs)
        ours, theirs = context.Pipe()
        with Handed(args_of(index, life)) as args, threads_of_started(threads):
            given = theirs, make, args, niceness, os.sched_getaffinity(0)
            process = context.Process(target=serve, args=given, daemon=True)
            process.start()
        theirs.close()
        return ours, process

    def replace(self, index):
        """Put a new worker in the place of a dead one, which does what that one owed.

        Args:
            index: of the worker.
        """
        self.replaced += 1
        self.lives[index] += 1
        if self.lives[index] > LIVES:
            self.fail(index, f"its process died {self.lives[index]} times before it had answered")
        end([self.members[index]])
        self.members[index] = self.start(index, self.replaced)
        for message in self.owed[index]:
            self.members[index][0].send(message)

    def replace_dead(self, found):
        """Put new workers in the places of those that died after their answer, of which nothing is heard otherwise.

        Args:
            found: answers by the index of the worker, as of :meth:`receive`.
        """
        for index in found:
            if not self.members[index][1].is_alive():
                self.replace(index)

    def fail(self, index, why):
        """End all workers.

        Args:
            index: of the one that failed.
            why: what happened.
        """
        self.close()
        raise WorkersEnded(f"{self.KIND} {index} failed: {why}")

    def check_open(self):
        """Raise :class:`WorkersEnded` where there are no workers any more."""
        if not self.members:
            raise WorkersEnded(f"{self.KIND}s: got a call after they were ended, wanted it before close()")

    def tell(self, messages):
        """Send each worker a message.

        Args:
            messages: what each is to do, tuples of a method's name and its arguments.
        """
        self.check_open()
        for index, message in enumerate(messages):
            self.owed[index].append(message)
            with contextlib.suppress(OSError):  # a dead one is found out, and replaced, when its answer is waited for
                self.members[index][0].send(message)

    def receive(self, found, seconds):
        """Wait for answers; return whether anything was heard.

        Args:
            found: answers to the oldest message of each worker, by its index, to which what comes is added.
            seconds: to wait for the first.
        """
        pipes = {self.members[index][0]: index for index in range(self.actors) if index not in found}
        ready = wait(list(pipes), seconds)
        for pipe in ready:
            index = pipes[pipe]
            try:
                right, answer = pipe.recv()
            except (EOFError, OSError):
                self.replace(index)
                continue
            if not right:
                self.fail(index, answer)
            self.lives[index] = 0
            self.owed[index].pop(0)
            found[index] = answer
        return bool(ready)

    def answers(self):
        """Return the answer of every worker to the oldest message that has none yet, in order."""
        self.check_open()
        found = {}
        while len(found) < self.actors:
            if not self.receive(found, SECONDS):
                silent = next(index for index in range(self.actors) if index not in found)
                self.fail(silent, f"no answer in {SECONDS} s")
        return [found[index] for index in range(self.actors)]

    def settle(self):
        """Wait until the workers have done all that they were asked for, and forget it."""
        while self.owed[0]:
            self.answers()
