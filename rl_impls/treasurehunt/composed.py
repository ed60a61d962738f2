"""Ops that are made of other ops, and so are the same on every backend.

Builders take ``spec``, what an op is built from, see :class:`.spec.Spec`; ``example``, the arguments of its first call;
``knobs``, a setting of :class:`.knobs.Knobs`; ``backend``, that computes. They return the op.
"""

from __future__ import annotations

import contextlib

from ..common.shapes import sizes
from .loop import Epoch, Turns
from .spec import ARGUMENTS


def program(make, spec, example, worlds, batch, knobs, backend):
    """Return a loop as one program.

    Args:
        make: ``make_turns`` or ``make_epoch``, by name.
        spec: what it is built from.
        example: what it is called with.
        worlds: K.
        batch: transitions in an update.
        knobs: of the loop.
        backend: that computes.

    Raises:
        ValueError: a backend that is not JAX's.
    """
    if backend.source != "jax":
        raise ValueError(f"loop: got 'scan' on {backend.name}, wanted jax")
    from . import scan_loop  # imports JAX

    return scan_loop.Program(getattr(scan_loop, make), spec, example, worlds, batch, knobs, backend)


def turn(spec, example, *, knobs, backend):
    """Play T turns of N agents in K worlds, without learning; see :class:`.loop.Turns`.

    draws i32[T, K, C], taus f32[T, N, K, Q], explore bool[T, N, K], random_actions i32[T, N, K] -> actions
    i32[T, N, K], rewards f32[T, N, K]
    """
    worlds, batch = sizes(ARGUMENTS["turn"], example)["K"], 1
    if knobs.loop == "scan":
        return program("make_turns", spec, example, worlds, batch, knobs, backend)
    return Turns(spec, worlds, batch, knobs, backend)


def epoch(spec, example, *, knobs, backend):
    """Play an episode in K worlds and make an update of every agent; see :class:`.loop.Epoch`.

    reset_draws i32[K, C], what :func:`turn` takes, rows i64[N, B], train_taus f32[N, 3, B, Q], noise f32[N, 2, M] ->
    actions i32[T, N, K], rewards f32[T, N, K], losses f32[N]
    """
    found = sizes(ARGUMENTS["epoch"], example)
    worlds, batch = found["K"], found["B"]
    if knobs.loop == "scan":
        return program("make_epoch", spec, example, worlds, batch, knobs, backend)
    return Epoch(spec, worlds, batch, knobs, backend)


def first_call(spec, example, *, knobs, backend):
    """Build ``forward`` anew and call it once, without any cache: what compiling costs.  As ``forward``"""

    def call(*args):
        target = backend.lowering_here()
        with uncached(backend):
            net = backend.build("treasurehunt", "forward", spec, args, knobs, target)
            return backend.wait(net(*args))

    return call


def uncached(backend):
    """Return a context in which the backend's compiler has no cache.

    Args:
        backend: whose compiler it is.
    """
    return {"jax": jax_uncached, "torch": torch_uncached}.get(backend.source, contextlib.nullcontext)()


@contextlib.contextmanager
def jax_uncached():
    """Return a context in which JAX compiles again what it has compiled before."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    def enable(value):
        jax.config.update("jax_enable_compilation_cache", value)
        compilation_cache.reset_cache()  # it is asked once in a process whether there is one

    kept = jax.config.jax_enable_compilation_cache
    enable(False)
    try:
        yield
    finally:
        enable(kept)


def torch_uncached():
    """Return a context in which torch compiles again what it has compiled before."""
    from torch._inductor import config

    return config.patch(force_disable_caches=True)
