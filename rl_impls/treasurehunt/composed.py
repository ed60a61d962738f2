"""Ops that are made of other ops, and so are the same on every backend."""

from __future__ import annotations

import contextlib

from .loop import Epoch, Turns


def check_form(knobs, backend):
    """Raise a ValueError for knobs that do not go together, or not on this backend."""
    if knobs.loop == "scan":
        if backend.source != "jax":
            raise ValueError(f"loop: got 'scan' on {backend.name}, wanted jax")
        for name, wanted in (("nets", "batched"), ("order", "together"), ("processes", "one")):
            if getattr(knobs, name) != wanted:
                raise ValueError(f"{name}: got {getattr(knobs, name)!r} with loop='scan', wanted {wanted!r}")
    if knobs.nets != "one_by_one" and (knobs.order == "interleaved" or knobs.processes == "per_agent"):
        what = "order='interleaved'" if knobs.order == "interleaved" else "processes='per_agent'"
        raise ValueError(f"nets: got {knobs.nets!r} with {what}, wanted 'one_by_one'")
    if knobs.order == "interleaved" and knobs.processes == "per_agent":
        raise ValueError("order: got 'interleaved' with processes='per_agent', wanted 'together'")


def turn(spec, example, *, knobs, backend):
    """T turns of N agents in K worlds; see :mod:`.loop`."""
    check_form(knobs, backend)
    worlds, batch = example[0].shape[1], 1
    if knobs.loop == "scan":
        from .scan_loop import Program, make_turns

        return Program(make_turns, spec, example, worlds, batch, knobs, backend)
    return Turns(spec, worlds, batch, knobs, backend)


def epoch(spec, example, *, knobs, backend):
    """An episode in K worlds and an update of every agent; see :mod:`.loop`."""
    check_form(knobs, backend)
    worlds, batch = example[0].shape[0], example[5].shape[1]
    if knobs.loop == "scan":
        from .scan_loop import Program, make_epoch

        return Program(make_epoch, spec, example, worlds, batch, knobs, backend)
    return Epoch(spec, worlds, batch, knobs, backend)


def first_call(spec, example, *, knobs, backend):
    """Build ``forward`` anew and call it once: what compiling costs, without any cache.  As ``forward``"""

    def call(*args):
        target = backend.lowering_here()
        with uncached(backend):
            net = backend.build("treasurehunt", "forward", spec, args, knobs, target)
            return backend.wait(net(*args))

    return call


def uncached(backend):
    """Return the context in which the backend's compiler keeps nothing from before."""
    return {"jax": jax_uncached, "torch": torch_uncached}.get(backend.source, contextlib.nullcontext)()


@contextlib.contextmanager
def jax_uncached():
    """Have JAX compile again."""
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
    """Have the compiler of torch compile again."""
    from torch._inductor import config

    return config.patch(force_disable_caches=True)
