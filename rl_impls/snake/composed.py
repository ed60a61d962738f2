"""Ops that are made of other ops, and so are the same on every backend.

Builders take ``spec``, what an op is built from, see :class:`.spec.Spec`; ``example``, the arguments of its first call;
``knobs``, a setting of :class:`.knobs.Knobs`; ``backend``, that computes. They return the op.
"""

from __future__ import annotations

from .loop import COLLECTIONS


def collect_and_learn(spec, example, *, knobs, backend):
    """Make T steps of N environments, with updates in between; see :class:`.loop.Loop`.

    explore bool[T, N], random_actions i32[T, N], draws i32[T, N, 3], rows i64[U, B] -> actions i32[T, N], rewards
    f32[T, N], ended bool[T, N], losses f32[U]

    Raises:
        ValueError: the knob ``loop`` is ``scan`` on a backend that is not JAX's.
    """
    if knobs.loop == "scan":
        if backend.source != "jax":
            raise ValueError(f"loop: got 'scan' on {backend.name}, wanted jax")
        from .scan_loop import ScanLoop

        return ScanLoop(spec, example, knobs, backend)
    return COLLECTIONS[knobs.collection](spec, example, knobs, backend)
