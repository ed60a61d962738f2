"""Treasurehunt's alone: only its agents can act and learn in a process each, which holds its net and its memory."""

from __future__ import annotations

import contextlib
import os
from multiprocessing.util import Finalize

import numpy as np

from .. import backends
from ..common.workers import BEFORE_MULTIPROCESSING, SECONDS, WorkersEnded, cause_of_death, end, start_process
from .per_agent import of_agent, part_of, slice_of
from .team import Team, Teams

NEEDED = ("torch", "torch._dynamo")  # which its optimisers import
QUIET = ("begin", "remember", "finish")  # what agents do without an answer


def serve(pipe, *args):
    """Run one agent: answer the requests from the pipe until it is closed.

    Args:
        pipe: to the first process.
        args: those of :class:`.team.Team`, the backend by its name.
    """
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
    except (EOFError, BrokenPipeError):
        pass
    except Exception as error:
        with contextlib.suppress(OSError):
            pipe.send((False, f"{type(error).__name__}: {error}"))


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
        WorkersEnded: here and later: an agent failed, died or did not answer in time; all are ended.
    """

    def __init__(self, spec, worlds, batch, knobs, backend, clock):
        self.clock, self.join = clock, np.concatenate
        agents = len(spec["params"]["w_state"])
        threads = max(1, len(os.sched_getaffinity(0)) // agents)
        needs = NEEDED if backend.source == "torch" else ()
        self.agents, self.timeout, self.members = agents, spec.get("worker_timeout", SECONDS), []
        self.close = Finalize(self, end, (self.members,), exitpriority=BEFORE_MULTIPROCESSING)
        for n in range(agents):
            args = of_agent(spec, n, slice_of), worlds, batch, knobs, backend.name
            try:
                self.members.append(start_process(serve, args, threads, needs, self.timeout))
            except OSError as error:
                self.fail(n, f"could not be started: {error}")
        self.answers()

    def fail(self, n, why):
        """End all agents and raise :class:`WorkersEnded`."""
        self.close()
        raise WorkersEnded(f"agent {n} {why}")

    def check_open(self):
        """Raise :class:`WorkersEnded` where the agents were ended."""
        if not self.members:
            raise WorkersEnded("the agents have ended: make a new loop after close() or an error")

    def fail_silent(self, n):
        """End all agents as one hangs."""
        self.fail(n, f"did not answer for {self.timeout:g} s: the process hangs or is stopped")

    def answer(self, n):
        """Wait for the answer of an agent and return it."""
        pipe, process = self.members[n]
        try:
            if not pipe.poll(self.timeout):
                self.fail_silent(n)
            right, answer = pipe.recv()
        except BlockingIOError:
            self.fail_silent(n)
        except (EOFError, OSError):
            self.fail(n, cause_of_death(process))
        if not right:
            self.fail(n, f"failed: {answer}")
        return answer

    def answers(self):
        """Return what every agent answers."""
        return [self.answer(n) for n in range(self.agents)]

    def send(self, name, each):
        """Return a list of what each agent's method returns, all called at the same time; nothing of quiet ones.

        Args:
            name: of the method, or of a property.
            each: the arguments of each agent, a tuple.
        """
        self.check_open()
        quiet = name in QUIET
        for n, ((pipe, _), args) in enumerate(zip(self.members, each, strict=True)):
            try:
                pipe.send((name, args, not quiet))
            except BlockingIOError:
                self.fail_silent(n)
            except OSError:
                self.answer(n)  # says why it ended
                raise
        return [] if quiet else self.answers()

    def ask(self, name, *columns):
        """Return a list of what each agent's method returns.

        Args:
            name: of the method, or of a property.
            columns: arguments, arrays [N, ...].
        """
        return self.send(name, [tuple(slice_of(x, n) for x in columns) for n in range(self.agents)])

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
        self.send("load_state", [(part_of(state, n, slice_of),) for n in range(self.agents)])
