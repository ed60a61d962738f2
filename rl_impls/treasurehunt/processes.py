"""Treasurehunt's alone: only its agents can act and learn in a process each, which holds its net and its memory."""

from __future__ import annotations

import contextlib
import os
import weakref

import numpy as np

from .. import backends
from ..common.starting import begin, context_of, threads_of_started
from .per_agent import of_agent, part_of, slice_of
from .team import Team, Teams

SECONDS = 120  # to wait for an agent
NEEDED = ("torch", "torch._dynamo")  # which its optimisers import
QUIET = ("begin", "remember", "finish")  # what agents do without an answer


def serve(pipe, cores, *args):
    """Be the process of one agent: do as the pipe says, until it is closed.

    Args:
        pipe: to the first process.
        cores: that the first process has.
        args: those of :class:`.team.Team`, the backend by its name.
    """
    begin(cores)
    try:
        *args, backend = args
        agent = Team(*args, backends.get(backend))
        pipe.send((True, None))
        while True:
            name, args, answer = pipe.recv()
            found = getattr(agent, name)
            result = found(*args) if callable(found) else found
            if answer:
                pipe.send((True, result))
    except EOFError:
        pass
    except Exception as error:
        with contextlib.suppress(OSError):
            pipe.send((False, f"{type(error).__name__}: {error}"))


def end(pipes, processes):
    """End the agents, which hold nothing that they must give back.

    Args:
        pipes: to the agents.
        processes: of the agents.
    """
    for process in processes:
        process.kill()
    for pipe, process in zip(pipes, processes):
        process.join()
        process.close()
        pipe.close()


class ProcessTeams(Teams):
    """N teams of one agent with a process each; does what :class:`.team.Team` does.

    Args:
        spec: what the agents are built from.
        worlds: K.
        batch: transitions in an update.
        knobs: of the loop.
        backend: that computes.
        clock: is told the phase that has ended.

    Raises:
        RuntimeError: an agent failed; all are ended.
    """

    def __init__(self, spec, worlds, batch, knobs, backend, clock):
        self.clock, self.join = clock, np.concatenate
        agents = len(spec["params"]["w_state"])
        cores = os.sched_getaffinity(0)
        threads = max(1, len(cores) // agents)
        context = context_of(threads, NEEDED if backend.source == "torch" else ())
        self.pipes, processes = [], []
        self.close = weakref.finalize(self, end, self.pipes, processes)
        for n in range(agents):
            ours, theirs = context.Pipe()
            args = theirs, cores, of_agent(spec, n, slice_of), worlds, batch, knobs, backend.name
            process = context.Process(target=serve, args=args, daemon=True)
            with threads_of_started(threads):
                process.start()
            self.pipes.append(ours)
            processes.append(process)
            theirs.close()
        self.answers()

    def answers(self):
        """Return what every agent answers."""
        found = []
        for n, pipe in enumerate(self.pipes):
            try:
                right, answer = pipe.recv() if pipe.poll(SECONDS) else (False, f"no answer in {SECONDS} s")
            except (EOFError, OSError):
                right, answer = False, "its process is gone"
            if not right:
                self.close()
                raise RuntimeError(f"agent {n} failed: {answer}")
            found.append(answer)
        return found

    def send(self, name, each):
        """Return a list of what each agent's method returns, all called at the same time; nothing of quiet ones.

        Args:
            name: of the method, or of a property.
            each: the arguments of each agent, a tuple.
        """
        quiet = name in QUIET
        try:
            for pipe, args in zip(self.pipes, each, strict=True):
                pipe.send((name, args, not quiet))
        except OSError:
            self.answers()  # says why there is no one to send to
            raise
        return [] if quiet else self.answers()

    def ask(self, name, *columns):
        """Return a list of what each agent's method returns.

        Args:
            name: of the method, or of a property.
            columns: arguments, arrays [N, ...].
        """
        return self.send(name, [tuple(slice_of(x, n) for x in columns) for n in range(len(self.pipes))])

    def learn(self, *drawn):
        """Return the losses f32[N] of an update of every agent, all at the same time.

        Args:
            drawn: the arguments of :meth:`.team.Team.learn`.
        """
        losses = super().learn(*drawn)
        self.clock("learning")
        return losses

    @property
    def params(self):
        """The online weights as NumPy, f32[N, ...]."""
        return self.merged(self.ask("params"))

    def load_state(self, state):
        """Go on from what ``state`` returned.

        Args:
            state: arrays by name.
        """
        self.send("load_state", [(part_of(state, n, slice_of),) for n in range(len(self.pipes))])
