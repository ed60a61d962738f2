"""Run each agent in its own worker process, which holds its net and replay memory."""

from __future__ import annotations

import contextlib
import os
from multiprocessing.util import Finalize

import numpy as np

from .. import backends
from ..common.workers import BEFORE_MULTIPROCESSING, SECONDS, WorkersEnded, cause_of_death, end, start_process
from .per_agent import of_agent, part_of, slice_of
from .team import Team, Teams

NEEDED = ("torch", "torch._dynamo")  # imported by torch's optimisers
QUIET = ("begin", "remember", "finish")  # methods without an answer


def serve(pipe, *args):
    """Worker main loop of one agent: run requests from the pipe until it is closed.

    `args` are those of :class:`.team.Team`, with the backend given by name.
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
    """N teams of one agent, each in its own process; same interface as :class:`.team.Team`.

    Raises:
        WorkersEnded: here or in a method, a worker failed, died or did not answer in time; all workers are stopped.
    """

    def __init__(self, spec, worlds, batch, options, backend, clock):
        self.clock, self.join = clock, np.concatenate
        agents = len(spec["params"]["w_state"])
        threads = max(1, len(os.sched_getaffinity(0)) // agents)
        needs = NEEDED if backend.library == "torch" else ()
        self.agents, self.timeout, self.members = agents, spec.get("worker_timeout", SECONDS), []
        self.close = Finalize(self, end, (self.members,), exitpriority=BEFORE_MULTIPROCESSING)
        for n in range(agents):
            args = of_agent(spec, n, slice_of), worlds, batch, options, backend.name
            try:
                self.members.append(start_process(serve, args, threads, needs, self.timeout))
            except OSError as error:
                self.fail(n, f"could not be started: {error}")
        self.answers()

    def fail(self, n, why):
        """Stop all workers and raise :class:`WorkersEnded` about agent `n`."""
        self.close()
        raise WorkersEnded(f"agent {n} {why}")

    def check_open(self):
        """Raise :class:`WorkersEnded` if the workers were stopped."""
        if not self.members:
            raise WorkersEnded("the agents have ended: make a new loop after close() or an error")

    def fail_silent(self, n):
        """Fail because agent `n` timed out."""
        self.fail(n, f"did not answer for {self.timeout:g} s: the process hangs or is stopped")

    def answer(self, n):
        """Wait for the answer of agent `n`."""
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
        """Wait for the answers of all agents."""
        return [self.answer(n) for n in range(self.agents)]

    def send(self, name, each):
        """Call a method, or read a property, of every agent in parallel and return the results.

        `each` holds one tuple of arguments per agent. Methods in ``QUIET`` return nothing and are not waited for.
        """
        self.check_open()
        quiet = name in QUIET
        for n, ((pipe, _), args) in enumerate(zip(self.members, each, strict=True)):
            try:
                pipe.send((name, args, not quiet))
            except BlockingIOError:
                self.fail_silent(n)
            except OSError:
                self.answer(n)  # raises with the cause of death
                raise
        return [] if quiet else self.answers()

    def ask(self, name, *columns):
        """Call a method of every agent in parallel with its slice of each array [N, ...]."""
        return self.send(name, [tuple(slice_of(x, n) for x in columns) for n in range(self.agents)])

    def learn(self, *drawn):
        """Update all agents in parallel; return their losses before the update, f32[N]."""
        losses = super().learn(*drawn)
        self.clock("learning")
        return losses

    @property
    def params(self):
        """Online weights collected from the workers, f32[N, ...]."""
        return self.merged(self.ask("params"))

    def load_state(self, state):
        """Send each worker its part of a state."""
        self.send("load_state", [(part_of(state, n, slice_of),) for n in range(self.agents)])
