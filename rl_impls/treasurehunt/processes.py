"""A process for each agent, which holds its net and its memory and acts and learns there."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import weakref

import numpy as np

from .. import backends
from . import team

SECONDS = 120  # to wait for an agent


def serve(pipe, threads, *args):
    """Be the process of one agent: do as the pipe says, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(threads)
    try:
        *args, backend = args
        agent = team.Team(*args, backends.get(backend))
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
    """End the agents, which hold nothing that they must give back."""
    for process in processes:
        process.kill()
    for pipe, process in zip(pipes, processes):
        process.join()
        process.close()
        pipe.close()


class ProcessTeam(team.TeamsOfOne):
    """N agents with a process each; does what :class:`.team.Team` does.

    Raises:
        RuntimeError: an agent failed; all are ended.
    """

    def __init__(self, spec, worlds, batch, knobs, backend):
        agents = len(spec["params"]["w_state"])
        threads = max(1, len(os.sched_getaffinity(0)) // agents)
        context = multiprocessing.get_context("spawn")
        self.pipes, processes = [], []
        self.close = weakref.finalize(self, end, self.pipes, processes)
        for n in range(agents):
            ours, theirs = context.Pipe()
            args = theirs, threads, team.agent_slice(spec, n), worlds, batch, knobs, backend.name
            process = context.Process(target=serve, args=args, daemon=True)
            process.start()
            self.pipes.append(ours)
            processes.append(process)
            theirs.close()
        self.answers()

    def tell(self, name, *columns, answer=False):
        """Have every agent call a method on its slice of arguments [N, ...]."""
        try:
            for n, pipe in enumerate(self.pipes):
                pipe.send((name, tuple(column[n : n + 1] for column in columns), answer))
        except OSError:
            self.answers()  # says why there is no one to tell
            raise

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

    def ask(self, name, *columns):
        """Return what every agent's method returns."""
        self.tell(name, *columns, answer=True)
        return self.answers()

    def learn(self, rows, taus, noise, clock):
        """Update every agent, all at the same time.  -> f32[N], the losses"""
        losses = np.concatenate(self.ask("learn", rows, taus, noise))
        clock("learning")
        return losses

    def all_params(self):
        """Return the online weights of every agent."""
        return self.ask("params")
