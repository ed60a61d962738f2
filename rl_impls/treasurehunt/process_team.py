"""A team with a worker process for each agent, which holds its net and replay memory."""

import numpy as np

from .. import backends
from ..common.procgen_env import chosen_threads
from ..common.workers import SECONDS, Workers, cause_of_death
from .one_by_one import of_agent, slice_of, state_of_agent
from .team import OneByOneTeam, Team

PRELOADED = ("torch", "torch._dynamo")  # torch's optimisers import the second
ONE_WAY = ("begin", "remember", "finish")  # methods whose answer, None, is not waited for


class Member(Team):
    """A :class:`.team.Team` of one agent in its own process; the backend is given by name."""

    def __init__(self, *args):
        *args, backend = args
        super().__init__(*args, backends.get(backend))

    def get_params(self):
        """Return the online weights, f32[1, ...]."""
        return self.params


class Agents(Workers):
    """One process per agent. An agent that dies is not replaced, because its net and replay memory are lost."""

    KIND = "agent"

    def replace(self, index):
        """Fail with the cause of death."""
        self.fail(index, cause_of_death(self.members[index][1]))


class ProcessTeam(OneByOneTeam):
    """N teams of one agent, each in its own process; same interface as :class:`.team.Team`.

    Raises:
        WorkersEnded: here or in a method, a worker failed, died or did not answer in time; all workers are stopped.
    """

    def __init__(self, config, num_worlds, options, backend, clock):
        self.clock, self.join = clock, np.concatenate
        self.num_agents = len(config["params"]["w_state"])
        args = [(of_agent(config, n, slice_of), num_worlds, options, backend.name) for n in range(self.num_agents)]
        self.workers = Agents(
            self.num_agents,
            Member,
            lambda index, life: args.pop(0),  # not kept here: they hold the initial replay memory
            threads=max(1, chosen_threads() // self.num_agents),
            needs=PRELOADED if backend.library == "torch" else (),
            timeout=config.get("worker_timeout", SECONDS),
        )
        self.close = self.workers.close

    def send(self, name, each):
        """Call a method of every agent in parallel and return the results.

        `each` holds one tuple of arguments per agent. Methods in ``ONE_WAY`` return nothing and are not waited for.
        """
        self.workers.tell([(name, *args) for args in each])
        answers = []
        while name not in ONE_WAY and self.workers.owed[0]:
            answers = self.workers.answers()
        return answers

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
        return self.merged(self.ask("get_params"))

    def load_state(self, state):
        """Send each worker its part of a state."""
        self.send("load_state", [(state_of_agent(state, n, slice_of),) for n in range(self.num_agents)])
