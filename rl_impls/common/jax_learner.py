"""What the JAX workloads share: weights on the device, a net that takes them, and a learner's state there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from optax import tree_utils

from .op import Op


@jax.jit
def copied(tree):
    """Return a copy of all arrays of a tree, made by one program.

    Args:
        tree: nested tuples, lists and dicts of arrays.
    """
    return jax.tree.map(jnp.copy, tree)


def device_of(target):
    """Return the JAX device of a backend.

    Args:
        target: device and lowering of the backend, a :class:`~rl_impls.lowering.Target`.
    """
    return jax.devices("gpu" if target.device == "cuda" else "cpu")[0]


def put(tree, target):
    """Return copies of arrays that stay on the backend's device: JAX would compile again for an array that may move.

    It waits for the copies, as putting a NumPy array on the device may mean to read it later, where it lies.

    Args:
        tree: nested tuples, lists and dicts of arrays.
        target: device and lowering of the backend.
    """
    return jax.block_until_ready(copied(jax.device_put(tree, device_of(target))))


class Net:
    """Weights on the device and the compiled function that takes them first.

    Args:
        function: ``function(weights, *args)``.
        params: the weights, arrays by name.
        example: arguments like those to come, without the weights.
        target: device and lowering of the backend.
    """

    def __init__(self, function, params, example, target):
        self.call, self.target = target.lower(function, (params, *example)), target
        self.load(params)

    def load(self, params):
        """Take new weights; nothing is traced again.

        Args:
            params: arrays by name, of the shapes and dtypes of those before.
        """
        self.weights = put(dict(params), self.target)

    def __call__(self, *args):
        """Return what the function makes of the weights and the arguments.

        Args:
            args: as in the example.
        """
        return self.call(self.weights, *args)


def identity(tree):
    """Return a tree and a function that leads back to it, as ``ravel_pytree`` does, which makes one vector of a tree.

    Args:
        tree: any tree of arrays.
    """
    return tree, lambda same: same


class Learner(Op):
    """The online weights, the optimiser's moments and the target weights, all kept on the device from step to step.

    Weights and moments are kept as ``flatten`` makes them: a tree, or one flat vector.

    Args:
        spec: what an update is built from; ``params`` and ``target`` are taken, the weights f32 of both nets by name.
        optimizer: of optax, with Adam in it (Kingma and Ba 2015).
        target: device and lowering of the backend.
        flatten: ``flatten(tree) -> flat, unflatten``: :func:`identity`, or ``ravel_pytree`` for one vector.
    """

    def __init__(self, spec, optimizer, target, flatten=identity):
        self.target, self.flatten = target, flatten
        weights, self.unflatten = flatten(put(dict(spec["params"]), target))
        self.start = jax.tree.map(np.array, (weights, jax.jit(optimizer.init)(weights), dict(spec["target"])))
        self.reset()

    def reset(self):
        """Put both nets' weights and the moments back to the start."""
        self.weights, self.moments, self.target_weights = put(self.start, self.target)

    @property
    def params(self):
        """The online weights as NumPy, by name."""
        return {name: np.array(value) for name, value in self.unflatten(self.weights).items()}

    def sync_target(self):
        """Copy the online weights to the target net."""
        self.target_weights = jax.tree.map(jnp.copy, self.unflatten(self.weights))

    def state(self):
        """Return all that the next update depends on as NumPy: both nets, Adam's moments and step."""
        first, second = (self.unflatten(tree_utils.tree_get(self.moments, name)) for name in ("mu", "nu"))
        parts = {
            "online": self.unflatten(self.weights),
            "target": self.target_weights,
            "first": first,
            "second": second,
        }
        state = {f"{part}.{name}": np.array(value) for part, tree in parts.items() for name, value in tree.items()}
        return state | {"step": np.array(tree_utils.tree_get(self.moments, "count"))}

    def load_state(self, state):
        """Go on from a state, of this backend or another.

        Args:
            state: arrays by name, as :meth:`state` returned them.
        """
        online, self.target_weights, first, second = (
            put({name: state[f"{part}.{name}"] for name in self.target_weights}, self.target)
            for part in ("online", "target", "first", "second")
        )
        self.weights, mu, nu = (self.flatten(tree)[0] for tree in (online, first, second))
        count = put(state["step"], self.target)
        self.moments = tree_utils.tree_set(self.moments, mu=mu, nu=nu, count=count)
