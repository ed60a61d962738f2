"""Parts shared by the JAX workloads: weights on the device, compiled nets and loops, and the state of a learner."""

import jax
import jax.numpy as jnp
import numpy as np
from optax import tree_utils

from .op import Op
from .phases import Phases, TimedLoop


@jax.jit
def copied(tree):
    """Copy all arrays of a tree in one program."""
    return jax.tree.map(jnp.copy, tree)


def device_of(compiler):
    """Return the JAX device of a :class:`~rl_impls.compilers.Compiler`."""
    return jax.devices("gpu" if compiler.device == "cuda" else "cpu")[0]


def to_device(tree, compiler):
    """Return copies of arrays committed to the backend's device; JAX would recompile for uncommitted ones.

    Waits for the copies, because a transfer may still read a NumPy array after ``device_put`` returns.
    """
    return jax.block_until_ready(copied(jax.device_put(tree, device_of(compiler))))


class Net:
    """A compiled ``function(weights, *args)`` with its weights on the device; `example` are its other arguments."""

    def __init__(self, function, params, example, compiler):
        self.call, self.compiler = compiler.compile(function, (params, *example)), compiler
        self.load(params)

    def load(self, params):
        """Replace the weights without tracing again; shapes and dtypes must match."""
        self.weights = to_device(dict(params), self.compiler)

    def __call__(self, *args):
        """Call the function with the current weights."""
        return self.call(self.weights, *args)


def identity(tree):
    """Return the tree unchanged and its inverse function; used in place of ``ravel_pytree``."""
    return tree, lambda same: same


MOMENTS = {"first": "mu", "second": "nu"}  # optax's names of Adam's moments
DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}  # by the ``precision`` option
LAYOUT = ("NHWC", "HWIO", "NHWC")  # of the images, kernel and output of a convolution


class Trained(Op):
    """Weights and optimiser moments, kept on the device between steps.

    Both are stored in the form that ``flatten`` gives them: a tree, or one flat vector.

    Args:
        params: initial weights, f32 arrays by name.
        optimizer: optax optimiser that counts its steps.
        compiler: a :class:`~rl_impls.compilers.Compiler`.
        moments: moments to save, from the name in :meth:`state` to optax's name.
        flatten: ``flatten(tree) -> flat, unflatten``: :func:`identity`, or ``ravel_pytree`` for one vector.
    """

    def __init__(self, params, optimizer, compiler, moments=MOMENTS, flatten=identity):
        self.compiler, self.names, self.flatten = compiler, moments, flatten
        weights, self.unflatten = flatten(to_device(dict(params), compiler))
        self.start = jax.tree.map(np.array, (weights, jax.jit(optimizer.init)(weights)))
        self.reset()

    def reset(self):
        self.weights, self.moments = to_device(self.start, self.compiler)

    @property
    def params(self):
        return {name: np.array(value) for name, value in self.unflatten(self.weights).items()}

    def state(self):
        """Return weights, optimiser moments and step count as NumPy, by name."""
        parts = {"online": self.weights}
        parts |= {part: tree_utils.tree_get(self.moments, name) for part, name in self.names.items()}
        trees = {part: self.unflatten(kept) for part, kept in parts.items()}
        state = {f"{part}.{name}": np.array(value) for part, tree in trees.items() for name, value in tree.items()}
        return state | {"step": np.array(tree_utils.tree_get(self.moments, "count"))}

    def load_state(self, state):
        """Restore a state, from this backend or another."""
        self.weights = self.flatten(self.part(state, "online"))[0]
        moments = {name: self.flatten(self.part(state, part))[0] for part, name in self.names.items()}
        count = to_device(state["step"], self.compiler)
        self.moments = tree_utils.tree_set(self.moments, count=count, **moments)

    def part(self, state, name):
        """Return one part of a state, such as ``online``, on the device."""
        return to_device({key: state[f"{name}.{key}"] for key in self.unflatten(self.weights)}, self.compiler)


class Learner(Trained):
    """Weights updated by an optax optimiser that includes Adam (Kingma and Ba 2015), and target weights.

    `config` has ``params`` and ``target``, the f32 weights of both nets by name.
    """

    def __init__(self, config, optimizer, compiler, flatten=identity):
        self.target_start = jax.tree.map(np.array, dict(config["target"]))
        super().__init__(config["params"], optimizer, compiler, flatten=flatten)

    def reset(self):
        super().reset()
        self.target_weights = to_device(self.target_start, self.compiler)

    def sync_target(self):
        """Copy the online weights to the target weights."""
        self.target_weights = jax.tree.map(jnp.copy, self.unflatten(self.weights))

    def state(self):
        return super().state() | {f"target.{name}": np.array(value) for name, value in self.target_weights.items()}

    def load_state(self, state):
        super().load_state(state)
        self.target_weights = self.part(state, "target")


class ProgramLoop(TimedLoop):
    """A loop as one compiled program, ``run(carry, *args) -> carry, out``, which updates a :class:`Learner`.

    Subclasses set ``run``, and ``played``, the parts of the carry after those of the learner.
    """

    def __init__(self, learner):
        self.trained = self.learner = learner
        self.clock = Phases("program", "transfer")  # phases inside a single program cannot be timed separately

    @property
    def carry(self):
        """The program's carry: weights, moments, target weights and ``played``."""
        return (self.learner.weights, self.learner.moments, self.learner.target_weights, *self.played)

    def __call__(self, *args):
        """Run the program on NumPy arrays; return its output as NumPy."""
        self.clock.start()
        carry, out = jax.block_until_ready(self.run(self.carry, *args))
        self.learner.weights, self.learner.moments, self.learner.target_weights, *self.played = carry
        self.clock("program")
        out = tuple(map(np.asarray, out))
        self.clock("transfer")
        return out
