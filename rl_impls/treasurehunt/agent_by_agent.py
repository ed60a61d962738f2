"""Learners of N agents as one: each is called after the other, and their states are stacked."""

from __future__ import annotations

import numpy as np

SHARED = ("learning_rate", "gradient_norm", "soft_update")


def of_agent(params, n):
    """Return one agent's weights out of arrays [N, ...]."""
    return {name: value[n] for name, value in params.items()}


def stacked(trees):
    """Return dicts of arrays as one of arrays [N, ...]."""
    return {name: np.stack([tree[name] for tree in trees]) for name in trees[0]}


class OneByOne:
    """Calls what each agent has, on its part of arguments [N, ...], and stacks what they return."""

    def __init__(self, calls, stack):
        self.calls, self.stack = calls, stack

    def held(self, *args):
        """Return arguments [N, ...] as a program that goes agent by agent holds them: each a tuple of N arrays."""
        return tuple(tuple(x[n] for n in range(len(self.calls))) for x in args)

    def __call__(self, *args):
        """Return the results [N, ...]; each argument is an array [N, ...] or a tuple of N arrays."""
        return self.stack([call(*(x[n] for x in args)) for n, call in enumerate(self.calls)])


class AgentByAgent(OneByOne):
    """One learner for each agent, made by ``learner(spec, example, knobs, target)``; ``stack`` joins their losses."""

    def __init__(self, learner, spec, example, knobs, target, stack):
        shared = {name: spec[name] for name in SHARED}
        self.learners = [
            learner(
                shared | {name: of_agent(spec[name], n) for name in ("params", "target")},
                tuple(x[n] for x in example), knobs, target,
            )
            for n in range(len(example[0]))
        ]  # fmt: skip
        super().__init__(self.learners, stack)

    def reset(self):
        """Put weights and moments back."""
        for learner in self.learners:
            learner.reset()

    @property
    def params(self):
        """The online weights as NumPy, [N, ...]."""
        return stacked([learner.params for learner in self.learners])

    def state(self):
        """Return all that the next update depends on as NumPy, [N, ...], and the one step that they share."""
        states = [learner.state() for learner in self.learners]
        return stacked(states) | {"step": states[0]["step"]}

    def load_state(self, state):
        """Take what ``state`` returned, here or from all agents at once."""
        for n, learner in enumerate(self.learners):
            learner.load_state({name: value if name == "step" else value[n] for name, value in state.items()})

    def actor(self, example):
        """Return what plays by the online weights of each agent, one after the other."""
        actors = [learner.actor(tuple(x[n] for x in example)) for n, learner in enumerate(self.learners)]
        return OneByOne(actors, self.stack)
