"""A team with a worker process for each agent, which holds its net and replay memory."""

import contextlib
import math
from multiprocessing.util import Finalize

import numpy as np

from .. import backends
from ..common.procgen_env import chosen_threads
from ..common.workers import (
    BEFORE_MULTIPROCESSING,
    SECONDS,
    SLICE,
    WorkersEnded,
    cause_of_death,
    cpu_seconds,
    end,
    start_process,
)
from .one_by_one import of_agent, slice_of, state_of_agent
from .team import OneByOneTeam, Team

PRELOADED = ("torch", "torch._dynamo")  # torch's optimisers import the second
ONE_WAY = ("begin", "remember", "finish")  # methods without an answer


def serve(pipe, *args):
    """Worker main loop of one agent: run requests from the pipe until it is closed.

    `args` are those of :class:`.team.Team`, with the backend given by name.
    """
    try:
        *args, backend = args
        agent = Team(*args, backends.get(backend))
        pipe.send((True, None))
        while True:
            name, args, answers = pipe.recv()
            member = getattr(agent, name)
            result = member(*args) if callable(member) else member
            if answers:
                pipe.send((True, result))
    except (EOFError, BrokenPipeError):
        pass
    except Exception as error:
        with contextlib.suppress(OSError):
            pipe.send((False, f"{type(error).__name__}: {error}"))


class ProcessTeam(OneByOneTeam):
    """N teams of one agent, each in its own process; same interface as :class:`.team.Team`.

    Raises:
        WorkersEnded: here or in a method, a worker failed, died or did not answer in time; all workers are stopped.
    """

    def __init__(self, config, num_worlds, options, backend, clock):
        self.clock, self.join = clock, np.concatenate
        self.num_agents = len(config["params"]["w_state"])
        self.timeout, self.members = config.get("worker_timeout", SECONDS), []
        self.close = Finalize(self, end, (self.members,), exitpriority=BEFORE_MULTIPROCESSING)
        threads = max(1, chosen_threads() // self.num_agents)
        preloaded = PRELOADED if backend.library == "torch" else ()
        for n in range(self.num_agents):
            args = of_agent(config, n, slice_of), num_worlds, options, backend.name
            try:
                self.members.append(start_process(serve, args, threads, preloaded, self.timeout))
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
            self.wait_for(n)
            right, answer = pipe.recv()
        except BlockingIOError:
            self.fail_silent(n)
        except (EOFError, OSError):
            self.fail(n, cause_of_death(process))
        if not right:
            self.fail(n, f"failed: {answer}")
        return answer

    def wait_for(self, n):
        """Wait until agent `n` answers; fail after `timeout` seconds in which neither it nor another agent computes.

        It waits in short slices, so that time in which this process is stopped, as by Ctrl-Z, barely counts.
        """
        pipe, _ = self.members[n]
        seconds, silence, spent = min(SLICE, self.timeout), 0.0, math.inf
        while not pipe.poll(seconds):
            before, spent = spent, sum(cpu_seconds(process.pid) for _, process in self.members)
            silence += max(0.0, seconds - max(0.0, spent - before))
            if silence >= self.timeout:
                self.fail_silent(n)

    def answers(self):
        """Wait for the answers of all agents."""
        return [self.answer(n) for n in range(self.num_agents)]

    def send(self, name, each):
        """Call a method, or read a property, of every agent in parallel and return the results.

        `each` holds one tuple of arguments per agent. Methods in ``ONE_WAY`` return nothing and are not waited for.
        """
        self.check_open()
        answers = name not in ONE_WAY
        for n, ((pipe, _), args) in enumerate(zip(self.members, each, strict=True)):
            try:
                pipe.send((name, args, answers))
            except BlockingIOError:
                self.fail_silent(n)
            except OSError:
                self.answer(n)  # raises with the cause of death
                raise
        return self.answers() if answers else []

    def ask(self, name, *args):
        """Call a method of every agent in parallel with its slice of each array [N, ...]."""
        return self.send(name, [tuple(slice_of(x, n) for x in args) for n in range(self.num_agents)])

    def learn(self, *args):
        """Update all agents in parallel; return their losses before the update, f32[N]."""
        losses = super().learn(*args)
        self.clock("learning")
        return losses

    @property
    def params(self):
        """Online weights collected from the workers, f32[N, ...]."""
        return self.merged(self.ask("params"))

    def load_state(self, state):
        """Send each worker its part of a state."""
        self.send("load_state", [(state_of_agent(state, n, slice_of),) for n in range(self.num_agents)])
