"""Run N independent agents one after the other: slice arrays and state per agent, and join the results."""

import operator

import numpy as np

from ..common.op import Op

SHARED = ("step", "time", "last", "pushed")  # entries of a state that are the same for all agents
STORED = ("frames", "actions", "rewards")  # entries of a memory that each agent has for itself


def of_agent(config, n, part=operator.getitem):
    """Return the configuration of agent `n` from that of N agents.

    ``part(array, n)`` slices weights [N, ...]: without the agent axis, or as [1, ...].
    """
    nets = {net: {k: part(v, n) for k, v in config[net].items()} for net in ("params", "target") if net in config}
    memory = config.get("stored", {})
    stored = {name: array[n : n + 1] if name in STORED else array for name, array in memory.items()}
    return {**config, **nets, "stored": stored}


def slice_of(array, n):
    """Return agent `n` of an array [N, ...] as [1, ...]."""
    return array[n : n + 1]


class OneByOne(Op):
    """One member per agent: each gets its slice of the arguments [N, ...], and `join` combines the results."""

    part, merge = staticmethod(operator.getitem), staticmethod(np.stack)

    def __init__(self, members, join):
        self.members, self.join = members, join

    def pack_args(self, *args):
        """Split each argument [N, ...] into a tuple of N arrays, as an agent-by-agent program holds them."""
        return tuple(tuple(x[n] for n in range(len(self.members))) for x in args)

    def ask(self, name, *args):
        """Call a method of every member with its slice of each argument; return the list of results."""
        return [getattr(member, name)(*(self.part(x, n) for x in args)) for n, member in enumerate(self.members)]

    def __call__(self, *args):
        """Call every member; each argument is an array [N, ...] or a tuple of N arrays."""
        return self.join([member(*(self.part(x, n) for x in args)) for n, member in enumerate(self.members)])


class Learners(OneByOne):
    """:class:`OneByOne` for members with ``reset``, ``actor``, ``params``, ``state`` and ``load_state``."""

    def reset(self):
        self.ask("reset")

    def actor(self, example):
        """Return an actor that always uses each agent's current online weights."""
        return OneByOne(self.ask("actor", tuple(zip(*example, strict=True))), self.join)

    @property
    def params(self):
        """Online weights of all members, f32[N, ...]."""
        return self.merged([member.params for member in self.members])

    def merged(self, trees):
        """Merge one dict of arrays per agent into one dict of arrays [N, ...]; shared entries come from the first."""
        return {k: v if shared(k) else self.merge([tree[k] for tree in trees]) for k, v in trees[0].items()}

    def state(self):
        return self.merged(self.ask("state"))

    def load_state(self, state):
        """Restore a merged state, also one from batched agents."""
        for n, member in enumerate(self.members):
            member.load_state(state_of_agent(state, n, self.part))


def state_of_agent(state, n, part):
    """Return the slice of a state that belongs to agent `n`."""
    return {name: value if shared(name) else part(value, n) for name, value in state.items()}


def shared(name):
    """Return whether a state entry such as ``memory.time`` is the same for all agents."""
    return name.rpartition(".")[2] in SHARED


def for_agents(make, config, example, options, join, several=OneByOne):
    """Build one object for all N agents if ``nets="batched"``, else one per agent.

    ``make(config, example)`` builds for arrays [N, ...], or for one agent without that axis. `join` combines N results
    into one array [N, ...]; `several` holds the agents' objects, :class:`OneByOne` or :class:`Learners`.
    """
    if options.nets == "batched":
        return make(config, example)
    agents = range(len(example[0]))
    members = [make(of_agent(config, n), tuple(x[n] for x in example)) for n in agents]
    return several(members, join)
