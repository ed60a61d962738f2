"""Options that need CUDA are refused elsewhere.

``test_update.py`` tests the options of the update, ``test_loop.py`` those of processes and ``test_memory.py`` those of
the replay buffer.
"""

import pytest

from correctness_tests.mario.problem import build, problem


@pytest.mark.parametrize(
    ("form", "backend", "error"),
    [
        ("float16", "jax", r"^precision='float16' is not available on jax, only on torch with CUDA$"),
        ("cache_cleared", "torch", r"^gpu_cache='cleared' is not available on torch, "),
        ("reduce_overhead", "torch-compile", r"^compile_mode='reduce_overhead' is not available on torch-compile, "),
    ],
)
def test_options_of_cuda_are_refused_elsewhere(form, backend, error):
    config, [batch, *_] = problem()
    with pytest.raises(ValueError, match=error):
        build("train_step", backend, config, batch, form)
