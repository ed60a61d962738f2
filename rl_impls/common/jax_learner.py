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


MOMENTS = {"first": "mu", "second": "nu"}  # Adam's names of them


class Trained(Op):
    """Weights that an optimiser updates, and its moments, kept on the device from step to step.

    Weights and moments are kept as ``flatten`` makes them: a tree, or one flat vector.

    Args:
        params: weights at the start, f32 arrays by name.
        optimizer: of optax; it counts its steps.
        target: device and lowering of the backend.
        moments: what the optimiser keeps of each array, its name in optax by its name in :meth:`state`.
        flatten: ``flatten(tree) -> flat, unflatten``: :func:`identity`, or ``ravel_pytree`` for one vector.
    """

    def __init__(self, params, optimizer, target, moments=MOMENTS, flatten=identity):
        self.target, self.names, self.flatten = target, moments, flatten
        weights, self.unflatten = flatten(put(dict(params), target))
        self.start = jax.tree.map(np.array, (weights, jax.jit(optimizer.init)(weights)))
        self.reset()

    def reset(self):
        """Put the weights and the moments back to the start."""
        self.weights, self.moments = put(self.start, self.target)

    @property
    def params(self):
        """The online weights as NumPy, by name."""
        return {name: np.array(value) for name, value in self.unflatten(self.weights).items()}

    def state(self):
        """Return all that the next update depends on as NumPy: the weights, the optimiser's moments and step."""
        parts = {"online": self.weights}
        parts |= {part: tree_utils.tree_get(self.moments, name) for part, name in self.names.items()}
        trees = {part: self.unflatten(kept) for part, kept in parts.items()}
        state = {f"{part}.{name}": np.array(value) for part, tree in trees.items() for name, value in tree.items()}
        return state | {"step": np.array(tree_utils.tree_get(self.moments, "count"))}

    def load_state(self, state):
        """Go on from a state, of this backend or another.

        Args:
            state: arrays by name, as :meth:`state` returned them.
        """
        self.weights = self.flatten(self.part(state, "online"))[0]
        moments = {name: self.flatten(self.part(state, part))[0] for part, name in self.names.items()}
        count = put(state["step"], self.target)
        self.moments = tree_utils.tree_set(self.moments, count=count, **moments)

    def part(self, state, name):
        """Return the arrays of one part of a state on the device, by the names of the weights.

        Args:
            state: arrays by name, as :meth:`state` returned them.
            name: of the part, as ``online``.
        """
        return put({key: state[f"{name}.{key}"] for key in self.unflatten(self.weights)}, self.target)


class Learner(Trained):
    """Weights that an optimiser with Adam in it (Kingma and Ba 2015) updates, and target weights.

    Args:
        spec: what an update is built from; ``params`` and ``target`` are taken, the weights f32 of both nets by name.
        optimizer: of optax.
        target: device and lowering of the backend.
        flatten: ``flatten(tree) -> flat, unflatten``, see :class:`Trained`.
    """

    def __init__(self, spec, optimizer, target, flatten=identity):
        self.target_start = jax.tree.map(np.array, dict(spec["target"]))
        super().__init__(spec["params"], optimizer, target, flatten=flatten)

    def reset(self):
        """Put both nets' weights and the moments back to the start."""
        super().reset()
        self.target_weights = put(self.target_start, self.target)

    def sync_target(self):
        """Copy the online weights to the target net."""
        self.target_weights = jax.tree.map(jnp.copy, self.unflatten(self.weights))

    def state(self):
        """Return all that the next update depends on as NumPy: both nets, Adam's moments and step."""
        return super().state() | {f"target.{name}": np.array(value) for name, value in self.target_weights.items()}

    def load_state(self, state):
        """Go on from a state, of this backend or another.

        Args:
            state: arrays by name, as :meth:`state` returned them.
        """
        super().load_state(state)
        self.target_weights = self.part(state, "target")
