"""The op ``first_call`` compiles in every call, even if the program is in JAX's compilation cache."""

import numpy as np
import pytest

from correctness_tests.treasurehunt.hunts import hunt
from correctness_tests.treasurehunt.problem import build, called
from rl_impls import backends
from rl_impls.treasurehunt import _numpy

COMPILED, HIT = "/jax/core/compile/backend_compile_duration", "/jax/compilation_cache/cache_hits"


@pytest.fixture
def events(tmp_path):
    """Yield a list of the events that JAX reports, and enable a persistent compilation cache in a temporary folder."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    options = {
        "jax_enable_compilation_cache": True,
        "jax_compilation_cache_dir": str(tmp_path),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    before, events = {name: getattr(jax.config, name) for name in options}, []

    def record(event, *_, **__):
        events.append(event)

    def configure(values):
        for name, value in values.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()

    configure(options)
    jax.monitoring.register_event_listener(record)
    jax.monitoring.register_event_duration_secs_listener(record)
    yield events
    jax.monitoring.unregister_event_listener(record)
    jax.monitoring.unregister_event_duration_listener(record)
    configure(before)


def problem():
    rng, (config, _) = np.random.default_rng(0), hunt(0, epochs=0)
    states = rng.standard_normal((2, 3, 750), np.float32)
    noise = rng.standard_normal((2, _numpy.noise_size(config["params"])), np.float32)
    return config, (states, rng.random((2, 3, _numpy.QUANTILES), np.float32), noise)


def test_first_call_compiles_what_the_cache_holds_and_leaves_the_cache_enabled(events):
    import jax

    config, arrays = problem()
    args = tuple(map(backends.get("jax").to_device, arrays))
    build("forward", "jax", config, arrays)(*args)
    call = build("first_call", "jax", config, arrays)
    with pytest.raises(TypeError):
        call()
    for _ in range(2):
        events.clear()
        call(*args)
        assert COMPILED in events
        assert HIT not in events
    assert jax.config.jax_enable_compilation_cache
    build("forward", "jax", config, arrays)(*args)
    assert HIT in events


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_first_call_returns_what_forward_returns(backend):
    config, arrays = problem()
    forward, first_call = (
        called(build(op, backend, config, arrays), backend, *arrays) for op in ("forward", "first_call")
    )
    np.testing.assert_array_equal(first_call, forward)
