"""Ops that are made of other ops, and so are the same on every backend.

Builders take ``spec``, what an op is built from, see :class:`.spec.Spec`; ``example``, the arguments of its first call;
``knobs``, a setting of :class:`.knobs.Knobs`; ``backend``, that computes. They return the op.
"""

from __future__ import annotations

import numpy as np

from .. import backends
from ..common.op import Op
from .serving import SERVERS


def sustained(spec, example, *, knobs, backend):
    """Return Q-values batch after batch, each from and to host memory.  f32[K, B, S] -> f32[K, B, A]"""
    forward = backend.build("pirl", "forward", spec, (example[0][0],), knobs)

    def call(batches):
        return [backend.to_host(forward(backend.from_host(batch))) for batch in batches]

    return call


def serve(spec, example, *, knobs, backend):
    """Answer the requests of many client threads, one state each.  f32[N, S] -> f32[N, A]"""
    states = backend.to_host(example[0])

    def build(size):
        like = backend.to_device(np.zeros((size, *states.shape[1:]), states.dtype))
        forward = backend.build("pirl", "forward", spec, (like,), knobs)
        return lambda batch: backend.to_host(forward(backend.from_host(batch)))

    return SERVERS[knobs.serving](build, clients=spec["clients"])


class Hybrid(Op):
    """Trains on one backend; a net on another takes the weights every few updates and acts between them.

    Args:
        spec: what an update is built from, ``serve``, the backend that acts, and ``every``, see :class:`.spec.Spec`.
        example: a batch, see :class:`.spec.Spec`.
        knobs: of both ops.
        backend: that trains.
    """

    UPDATES = 10  # in one call

    def __init__(self, spec, example, knobs, backend):
        self.other, self.every = backends.get(spec["serve"]), spec["every"]
        self.backend, self.spec = backend, spec
        self.train = backend.build("pirl", "train_step", spec, example, knobs)
        self.state = backend.to_host(example[0])[:1].copy()
        self.net = self.other.build("pirl", "forward", spec, (self.other.to_device(self.state),), knobs)

    @property
    def params(self):
        """The online weights as NumPy, by name."""
        return self.train.params

    def reset(self):
        """Put the weights of both nets back to the start."""
        self.train.reset()
        self.net.load(self.spec["params"])

    def __call__(self, *batch):
        """Make ten updates on one batch; return the Q-values that were acted on after each, f32[10, A].

        Args:
            batch: that of ``train_step``, NumPy arrays.
        """
        acted, batch = [], tuple(map(self.backend.from_host, batch))
        for update in range(1, self.UPDATES + 1):
            self.backend.wait(self.train(*batch))
            if update % self.every == 0:
                self.net.load(self.train.params)
            acted.append(self.other.to_host(self.net(self.other.from_host(self.state)))[0])
        return np.array(acted)


def hybrid(spec, example, *, knobs, backend):
    """Make ten updates on this backend, and act on ``spec["serve"]``, which gets the weights every ``spec["every"]``.

    What ``train_step`` takes -> f32[10, A], the Q-values of the first state after each update
    """
    return Hybrid(spec, example, knobs, backend)
