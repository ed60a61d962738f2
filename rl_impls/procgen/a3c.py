"""Procgen's alone: A3C (Mnih et al. 2016, Algorithm S3), which needs workers in processes, without locks.

A worker copies the shared weights, plays T steps of its environments, computes a gradient on its copy, and applies it
to the shared weights by RMSProp, whose mean squares are shared too. Between the copy and that, others may have applied
theirs: how many have is counted.

Axes: T steps, N environments of all workers, A workers, D rollouts that the slowest one may be behind.
"""

from __future__ import annotations

import numpy as np
import torch

from ..common.phases import Phases
from ..common.torch_pictures import OIHW
from ._torch import A2C_EPS, rmsprop
from .crew import Crew, rollout_of
from .learners import A2c
from .parallel import CrewLoop
from .players import Player

AHEAD = 3  # rollouts that a worker may be ahead of the slowest one, where the spec does not say it
PHASES = ("publishing", "environment", "inference", "gathering", "advantages", "learning")  # of a worker


def layout(spec):
    """Return shapes and dtypes of what workers share beside weights and rollouts.

    ``square.*`` f32, the mean squares of gradients; ``applied`` i64[A], how many gradients each worker has applied;
    ``losses`` f32[D, A], of each rollout; ``seconds`` f64[A, phases], of all that each worker has played.

    Args:
        spec: of all workers, see :class:`.spec.Spec`.
    """
    squares = {f"square.{name}": (np.shape(value), np.float32) for name, value in spec["params"].items()}
    workers = spec["actors"]
    counted = {"applied": ((workers,), np.int64), "seconds": ((workers, len(PHASES)), np.float64)}
    return squares | counted | {"losses": ((1 + spec.get("ahead", AHEAD), workers), np.float32)}


class SharedWeights:
    """The shared weights and mean squares, as what is trained.

    Args:
        params: weights at the start, by name.
        shared: what :func:`.crew.memory` returned, with :func:`layout`.
    """

    def __init__(self, params, shared):
        self.start, self.shared = params, shared

    def reset(self):
        """Put the weights back to the start, and all that is counted to 0."""
        zeros = {f"second.{name}": np.zeros_like(value) for name, value in self.start.items()}
        self.load_state({f"online.{name}": value for name, value in self.start.items()} | zeros | {"step": 0})

    @property
    def params(self):
        """A copy of the weights as NumPy, by name."""
        return {name: self.shared[name][0].copy() for name in self.start}

    def state(self):
        """Return weights, mean squares and how many gradients were applied, arrays by name."""
        squares = {f"second.{name}": self.shared[f"square.{name}"].copy() for name in self.start}
        weights = {f"online.{name}": value for name, value in self.params.items()}
        return weights | squares | {"step": np.array(self.shared["applied"].sum(), np.int32)}

    def load_state(self, state):
        """Go on from a state.

        Args:
            state: arrays by name, as :meth:`state` returned them.
        """
        for name in self.start:
            self.shared[name][0] = state[f"online.{name}"]
            self.shared[f"square.{name}"][...] = state[f"second.{name}"]
        self.shared["applied"][...] = 0
        self.shared["applied"][0] = state["step"]


class SharedRmsprop:
    """Takes the gradients of a worker's own weights to the shared ones.

    Args:
        own: the worker's parameters, a list.
        shared: arrays of the shared weights, as views in the layout of the parameters, a list of tensors.
        squares: the same of the mean squares.
        make: ``make(tensors)``, torch's optimiser.
        count: is called when a gradient was applied.
    """

    def __init__(self, own, shared, squares, make, count):
        self.own, self.shared, self.count = own, shared, count
        self.optimizer = make(shared)
        for tensor, square in zip(shared, squares):
            self.optimizer.state[tensor] = {"step": torch.tensor(0.0), "square_avg": square}

    def zero_grad(self, set_to_none):
        """Forget the gradients, or fill them with zeros.

        Args:
            set_to_none: forget them.
        """
        for tensor in self.own:
            if set_to_none:
                tensor.grad = None
            elif tensor.grad is not None:
                tensor.grad.zero_()

    def step(self):
        """Apply the gradients."""
        for own, shared in zip(self.own, self.shared):
            shared.grad = own.grad
        self.optimizer.step()
        self.count()


class Worker(Player):
    """A worker of A3C.

    Args:
        shared: what :func:`.crew.memory` returned, with :func:`layout`.
        args: those of :class:`.players.Player`.
    """

    def __init__(self, shared, *args):
        self.shared, self.clock = shared, Phases(*PHASES)
        super().__init__(*args)
        own = [self.train.net.weights[name] for name in self.spec["params"]]
        tensors = [[as_parameter(shared[name][0]) for name in self.spec["params"]]]
        tensors += [[as_parameter(shared[f"square.{name}"]) for name in self.spec["params"]]]
        make = rmsprop(self.spec, self.knobs, A2C_EPS)[0]
        self.train.optimizer = SharedRmsprop(own, *tensors, make, self.count)

    def make_update(self, knobs, backend):
        """Return the update of the worker's own copy; its optimiser is replaced afterwards.

        Args:
            knobs: of the update.
            backend: that computes.
        """
        self.knobs, self.learner = knobs, A2c(self.spec, knobs, backend, self.clock)
        return self.learner.train

    def count(self):
        """Note that a gradient was applied, after how many others since the weights were copied."""
        applied = self.shared["applied"]
        self.staleness = int(applied.sum()) - self.copied
        applied[self.index] += 1

    def play(self, number):
        """Play a rollout and apply its gradient.

        Args:
            number: of it.
        """
        self.clock.reset()
        shared, slot = self.shared, number % len(self.shared["behind"])
        self.copied = int(shared["applied"].sum())
        self.train.load({name: shared[name][0] for name in self.spec["params"]})
        self.clock("publishing")
        rollout = rollout_of(shared, slot, self.share)
        self.play_into(number, rollout)
        [shared["losses"][slot, self.index]] = self.learner.learn(rollout, number)
        shared["behind"][slot, self.index] = self.staleness
        shared["seconds"][self.index] += list(self.clock.seconds.values())


def as_parameter(array):
    """Return a tensor in the layout of a parameter, which shares the memory of an array in that of the spec.

    Args:
        array: f32.
    """
    tensor = torch.from_numpy(array)
    return tensor.permute(OIHW) if tensor.dim() == 4 else tensor


class A3c(CrewLoop):
    """Workers that play and learn; this process only waits for them.

    Args:
        spec: what it is built from, see :class:`.spec.Spec`.
        knobs: of the workers.
        backend: that computes.
    """

    def __init__(self, spec, knobs, backend):
        def make_crew(*args):
            crew = Crew(*args, knobs, backend, versions=1, make=Worker, more=layout(spec))
            self.train = SharedWeights(spec["params"], crew.shared)
            return crew

        super().__init__(spec, spec.get("ahead", AHEAD), make_crew, Phases("waiting"))

    def reset(self):
        """Put the environments and the weights back to the start."""
        super().reset()
        self.crew.shared["seconds"][...] = 0

    def phases(self):
        """Return the seconds of each phase since the last reset: the mean of the workers', and the rest, waiting."""
        spent = dict(zip(PHASES, self.crew.shared["seconds"].mean(0).tolist()))
        return {"waiting": max(0.0, self.clock.seconds["waiting"] - sum(spent.values())), **spent}

    def learn(self, rollout, number):
        """Note how stale the gradients were; return the losses of all workers, a list.

        Args:
            rollout: a :class:`.rollouts.Rollout`.
            number: of it, from 0.
        """
        self.lags.update(self.crew.behind(number).tolist())
        return self.crew.shared["losses"][number % self.crew.depth].copy()
