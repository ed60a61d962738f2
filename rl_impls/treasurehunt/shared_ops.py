"""Ops composed of other ops, written once for all backends.

Builders take the arguments described in :mod:`._numpy`, with ``backend`` in place of ``compiler``.
"""

import contextlib

from . import loop


def loops(options, backend):
    """Return the module with the classes ``Turns`` and ``Epoch`` of the ``loop`` option."""
    backend.ops("treasurehunt", "train_step")  # before worlds start and before arrays go to the device
    if options.loop == "python":
        return loop
    if backend.library != "jax":
        raise ValueError(f"loop='scan' needs a JAX backend, not {backend.name}")
    from . import scan_loop  # imports JAX

    return scan_loop


def turn(config, example, *, options, backend):
    """Build ``turn``: T turns of N agents in K worlds, without learning; see :class:`.loop.Turns`.

    draws i32[T, K, C], taus f32[T, N, K, Q], explore bool[T, N, K], random_actions i32[T, N, K] -> actions
    i32[T, N, K], rewards f32[T, N, K]
    """
    return loops(options, backend).Turns(config, options, backend)


def epoch(config, example, *, options, backend):
    """Build ``epoch``: an episode in K worlds and one update of every agent; see :class:`.loop.Epoch`.

    reset_draws i32[K, C], the arguments of :func:`turn`, rows i64[N, B], train_taus f32[N, 3, B, Q], noise f32[N, 2, M]
    -> actions i32[T, N, K], rewards f32[T, N, K], losses f32[N]

    If the ``draws`` option is ``key``, the arguments are a key u32[2] and epsilon f32[], see :mod:`.jax_draws`.
    """
    return loops(options, backend).Epoch(config, options, backend)


def first_call(config, example, *, options, backend):
    """Build ``first_call``: build and call ``forward`` without any compilation cache, to measure compile time."""

    def call(*args):
        compiler = backend.new_compiler()
        with uncached(backend):
            net = backend.ops("treasurehunt").forward(config, args, options=options, compiler=compiler)
            return backend.wait(net(*args))

    return call


def uncached(backend):
    """Return a context that disables the compilation cache of the backend."""
    return {"jax": jax_uncached, "torch": torch_uncached}.get(backend.library, contextlib.nullcontext)()


@contextlib.contextmanager
def jax_uncached():
    """Disable JAX's compilation cache within the context."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    def enable(value):
        jax.config.update("jax_enable_compilation_cache", value)
        compilation_cache.reset_cache()  # JAX checks only once per process whether there is a cache

    enabled = jax.config.jax_enable_compilation_cache
    enable(False)
    try:
        yield
    finally:
        enable(enabled)


def torch_uncached():
    """Return a context that disables the caches of ``torch.compile``."""
    from torch._inductor import config

    return config.patch(force_disable_caches=True)
