"""Ops that are made of other ops, and so are the same on every backend."""

from __future__ import annotations

from .loop import COLLECTIONS


def collect_and_learn(spec, example, *, knobs, backend):
    """T steps of N environments with updates in between; see :mod:`.loop`."""
    if knobs.loop == "scan":
        if backend.source != "jax":
            raise ValueError(f"loop: got 'scan' on {backend.name}, wanted jax")
        from .scan_loop import ScanLoop

        return ScanLoop(spec, example, knobs, backend)
    return COLLECTIONS[knobs.collection](spec, example, knobs, backend)
