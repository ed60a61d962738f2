"""Ops composed of other ops, the same for every backend.

Builders take the arguments of those in :mod:`._numpy`, with a ``backend`` in place of the target.
"""

from __future__ import annotations

from .loop import COLLECTIONS


def collect_and_learn(spec, example, *, options, backend):
    """Make T steps of N environments with updates in between; ``loop="scan"`` needs a JAX backend.

    explore bool[T, N], random_actions i32[T, N], draws i32[T, N, 3], rows i64[U, B] -> actions i32[T, N], rewards
    f32[T, N], ended bool[T, N], losses f32[U]
    """
    if options.loop == "scan":
        if backend.library != "jax":
            raise ValueError(f"loop: got 'scan' on {backend.name}, wanted jax")
        from .scan_loop import ScanLoop

        return ScanLoop(spec, example, options, backend)
    return COLLECTIONS[options.collection](spec, example, options, backend)
