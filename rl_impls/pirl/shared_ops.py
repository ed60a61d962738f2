"""Ops composed of other ops, the same for every backend.

The functions take the arguments of those in :mod:`._numpy`, with a ``backend`` in place of the compiler.
"""

import numpy as np

from .. import backends
from ..common.op import Op
from .serving import SERVERS, Load


def make_forward(backend, config, like, options):
    """Return the net of `backend` for batches like `like`."""
    compiler = backend.new_compiler()
    return backend.ops("pirl").forward(config, (like,), options=options, compiler=compiler)


def sustained(config, example, *, options, backend):
    """Compute Q-values of one batch after another, each from and to host memory.  f32[K, B, S] -> f32[K, B, A]"""
    like = backend.to_device(backend.to_host(example[0])[0])
    forward = make_forward(backend, config, like, options)

    def call(batches):
        return [backend.to_host(forward(backend.from_host(batch))) for batch in batches]

    return call


def serve(config, example, *, options, backend):
    """Answer requests of one state each from ``config["clients"]`` threads.  f32[N, S] -> f32[N, A]"""
    states = backend.to_host(example[0])

    def build(size):
        like = backend.to_device(np.zeros((size, *states.shape[1:]), states.dtype))
        forward = make_forward(backend, config, like, options)
        return lambda batch: backend.to_host(forward(backend.from_host(batch)))

    return Load(SERVERS[options.serving](build), config["clients"])


class Hybrid(Op):
    """Trains on `backend` while a net on the backend ``config["serve"]`` acts.

    The acting net takes the weights every ``config["sync_frequency"]`` updates. Arguments of ``train_step`` ->
    f32[10, A], the acting net's Q-values of the first state after each update.
    """

    UPDATES = 10  # per call

    def __init__(self, config, example, *, options, backend):
        self.config, self.backend, self.other = config, backend, backends.get(config["serve"])
        ops, compiler = backend.ops("pirl"), backend.new_compiler()
        self.train = ops.train_step(config, example, options=options, compiler=compiler)
        self.state = backend.to_host(example[0])[:1].copy()
        self.net = make_forward(self.other, config, self.other.to_device(self.state), options)

    @property
    def params(self):
        return self.train.params

    def reset(self):
        self.train.reset()
        self.net.load(self.config["params"])

    def __call__(self, *batch):
        acted, batch = [], tuple(map(self.backend.from_host, batch))
        for update in range(1, self.UPDATES + 1):
            self.backend.wait(self.train(*batch))
            if update % self.config["sync_frequency"] == 0:
                self.net.load(self.train.params)
            acted.append(self.other.to_host(self.net(self.other.from_host(self.state)))[0])
        return np.array(acted)


hybrid = Hybrid
