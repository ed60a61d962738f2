"""What the JAX workloads share: weights on the device, a net that takes them, and a learner's state there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from optax import tree_utils

from .op import Op


@jax.jit
def copied(tree):
    """Copy all arrays of a tree, in one program."""
    return jax.tree.map(jnp.copy, tree)


def device_of(target):
    """Return the device that a lowering is for."""
    return jax.devices("gpu" if target.device == "cuda" else "cpu")[0]


def put(tree, target):
    """Copy arrays to the backend's device and keep them there: a moving array would be compiled for twice.

    It waits for the copies, as putting a NumPy array on the device may mean to read it later, where it lies.
    """
    return jax.block_until_ready(copied(jax.device_put(tree, device_of(target))))


class Net:
    """Weights on the device and the compiled function that takes them first."""

    def __init__(self, function, params, example, target):
        self.call, self.target = target.lower(function, (params, *example)), target
        self.load(params)

    def load(self, params):
        """Take new weights; nothing is traced again."""
        self.weights = put(dict(params), self.target)

    def __call__(self, *args):
        """Call the function with the weights."""
        return self.call(self.weights, *args)


def identity(tree):
    """Return a tree and what takes it back to itself; ``ravel_pytree`` makes one vector of it."""
    return tree, lambda same: same


class Learner(Op):
    """Online weights, the optimiser's moments and target weights, which stay on the device from step to step.

    Weights and moments are kept as ``flatten`` makes them: a tree, or one flat vector.
    """

    def __init__(self, spec, optimizer, target, flatten=identity):
        self.target, self.flatten = target, flatten
        weights, self.unflatten = flatten(put(dict(spec["params"]), target))
        self.start = jax.tree.map(np.array, (weights, jax.jit(optimizer.init)(weights), dict(spec["target"])))
        self.reset()

    def reset(self):
        """Put weights and moments back."""
        self.weights, self.moments, self.target_weights = put(self.start, self.target)

    @property
    def params(self):
        """The online weights as NumPy."""
        return {name: np.array(value) for name, value in self.unflatten(self.weights).items()}

    def sync_target(self):
        """Copy the online weights over the target's."""
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
        """Take what ``state`` returned, here or on another backend."""
        online, self.target_weights, first, second = (
            put({name: state[f"{part}.{name}"] for name in self.target_weights}, self.target)
            for part in ("online", "target", "first", "second")
        )
        self.weights, mu, nu = (self.flatten(tree)[0] for tree in (online, first, second))
        count = put(state["step"], self.target)
        self.moments = tree_utils.tree_set(self.moments, mu=mu, nu=nu, count=count)
