"""Ops composed of other ops, the same for every backend.

Builders take the arguments of those in :mod:`._numpy`, with a ``backend`` in place of the compiler.
"""

from .loop import COLLECTIONS


def collect_and_learn(config, example, *, options, backend):
    """Make T steps of N environments with updates in between; ``loop="scan"`` needs a JAX backend.

    explore bool[T, N], random_actions i32[T, N], draws i32[T, N, 3], rows i64[U, B] -> actions i32[T, N], rewards
    f32[T, N], ended bool[T, N], losses f32[U]

    A random action is taken where ``explore``. `draws` are the random numbers of the environments: food, start,
    heading. `rows` are the transitions of each update, 0 the oldest. U is the number of multiples of
    ``options.train_frequency`` among the environment steps; N must be a multiple or a divisor of that frequency.

    ``config`` has the entries of ``train_step`` and ``env_step``; ``stored``, columns [M, ...] of the transitions in
    the replay buffer, oldest first; ``capacity``, in transitions; ``step``, environment steps made before; and
    ``target_frequency``, environment steps between copies of the online weights to the target network (0: no target
    network).
    """
    backend.ops("snake", "train_step")  # before games start and before arrays go to the device
    if options.loop == "scan":
        if backend.library != "jax":
            raise ValueError(f"loop='scan' is not available on {backend.name}, only on jax")
        from .scan_loop import ScanLoop

        return ScanLoop(config, example, options, backend)
    return COLLECTIONS[options.collection](config, example, options, backend)
