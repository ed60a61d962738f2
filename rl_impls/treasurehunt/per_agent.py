"""Treasurehunt's alone: only here learn N agents, each with net, optimiser and memory, asked one after the other."""

from __future__ import annotations

import operator

import numpy as np

from ..common.op import Op

SHARED = ("step", "time", "last", "pushed")  # in a state, what all agents have alike
STORED = ("frames", "actions", "rewards")  # in a memory, what each has for itself


def of_agent(spec, n, part=operator.getitem):
    """Return what agent ``n`` is built from.

    Args:
        spec: what N agents are built from, weights f32[N, ...].
        n: index of the agent.
        part: ``part(array, n)``, its part of an array [N, ...]: without that axis, or as an array [1, ...].
    """
    nets = {net: {k: part(v, n) for k, v in spec[net].items()} for net in ("params", "target") if net in spec}
    memory = spec.get("stored", {})
    stored = {name: array[n : n + 1] if name in STORED else array for name, array in memory.items()}
    return {**spec, **nets, "stored": stored}


def slice_of(array, n):
    """Return the part of agent ``n`` as an array [1, ...].

    Args:
        array: [N, ...].
        n: index of the agent.
    """
    return array[n : n + 1]


class OneByOne(Op):
    """N members, one for each agent: each gets its part of arguments [N, ...], and what they return is joined.

    Args:
        members: what each agent has: a net, a learner, a team of its own.
        join: makes one array [N, ...] of what the members return.
    """

    part, merge = staticmethod(operator.getitem), staticmethod(np.stack)

    def __init__(self, members, join):
        self.members, self.join = members, join

    def held(self, *args):
        """Return arguments [N, ...] as a program that goes agent by agent holds them: each a tuple of N arrays.

        Args:
            args: arrays [N, ...].
        """
        return tuple(tuple(x[n] for n in range(len(self.members))) for x in args)

    def ask(self, name, *args):
        """Return a list of what each member's method returns, called with its part of the arguments.

        Args:
            name: of the method.
            args: arrays [N, ...], or tuples of N arrays.
        """
        return [getattr(member, name)(*(self.part(x, n) for x in args)) for n, member in enumerate(self.members)]

    def __call__(self, *args):
        """Return the results [N, ...]; each argument is an array [N, ...] or a tuple of N arrays."""
        return self.join([member(*(self.part(x, n) for x in args)) for n, member in enumerate(self.members)])


class Learners(OneByOne):
    """The same of members that learn, each with ``reset``, ``actor``, ``params``, ``state`` and ``load_state``."""

    def reset(self):
        """Put back all that calls have changed."""
        self.ask("reset")

    def actor(self, example):
        """Return what plays by the online weights of each agent, whatever they become.

        Args:
            example: arguments [N, ...] of what plays.
        """
        return OneByOne(self.ask("actor", tuple(zip(*example, strict=True))), self.join)

    @property
    def params(self):
        """The online weights as NumPy, f32[N, ...]."""
        return self.merged([member.params for member in self.members])

    def merged(self, trees):
        """Return dicts of arrays, one of each agent, as one dict of arrays [N, ...].

        Args:
            trees: the dicts; what all agents share is taken from the first.
        """
        return {k: v if shared(k) else self.merge([tree[k] for tree in trees]) for k, v in trees[0].items()}

    def state(self):
        """Return all that the next call depends on as NumPy: arrays [N, ...], and what all agents share."""
        return self.merged(self.ask("state"))

    def load_state(self, state):
        """Go on from what ``state`` returned, here or from all agents at once.

        Args:
            state: arrays by name.
        """
        for n, member in enumerate(self.members):
            member.load_state(part_of(state, n, self.part))


def part_of(state, n, part):
    """Return the part of agent ``n`` of a state.

    Args:
        state: arrays [N, ...] by name, and what all agents share.
        n: index of the agent.
        part: ``part(array, n)``.
    """
    return {name: value if shared(name) else part(value, n) for name, value in state.items()}


def shared(name):
    """Return whether all agents have this part of a state alike.

    Args:
        name: as in ``memory.time``.
    """
    return name.rpartition(".")[2] in SHARED


def for_agents(make, spec, example, knobs, join, several=OneByOne):
    """Return what is made for all N agents at once or, by the knob ``nets``, one made for each, as :class:`OneByOne`.

    Args:
        make: ``make(spec, example)``, with arrays [N, ...], or of one agent without that axis.
        spec: what the agents are built from.
        example: arguments [N, ...].
        knobs: of the op.
        join: makes one array [N, ...] of what N agents return.
        several: what holds those of the agents, :class:`OneByOne` or, of learners, :class:`Learners`.
    """
    if knobs.nets == "batched":
        return make(spec, example)
    agents = range(len(example[0]))
    members = [make(of_agent(spec, n), tuple(x[n] for x in example)) for n in agents]
    return several(members, join)
