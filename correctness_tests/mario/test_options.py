"""Optimisation options change how updates are computed, but not their results."""

from __future__ import annotations

import pytest

from correctness_tests.mario.problem import build, learner, problem
from correctness_tests.reference import largest_difference
from rl_impls.mario.options import FULL

pytestmark = pytest.mark.usefixtures("one_thread")

# options of processes are tested in test_loop, those of the replay in test_memory
TORCH_OPTIONS = ("images", "tensors", "memory_format", "relu", "zero_grad", "optimizer")
ALONE = [{name: getattr(FULL, name)} for name in TORCH_OPTIONS]


@pytest.mark.parametrize("options", [*ALONE, {"threads": "one"}, {"accumulate": 4}], ids=str)
def test_a_single_option_does_not_change_the_update(options):
    _, batches = problem()
    (plain, update), (changed, update_changed) = learner("torch", "naive"), learner("torch", "naive", options=options)
    for batch in batches[:2]:
        (loss, errors), (wanted, wanted_errors) = update_changed(batch), update(batch)
        assert loss == pytest.approx(wanted, rel=1e-4)
        assert largest_difference(errors, wanted_errors) < 1e-4
    assert changed.params.keys() == plain.params.keys()


@pytest.mark.parametrize(
    ("form", "backend", "error"),
    [
        ("float16", "torch", r"^precision='float16' is not available on torch, only on torch with CUDA$"),
        ("float16", "jax", r"^precision='float16' is not available on jax, "),
        ("cache_cleared", "torch", r"^gpu_cache='cleared' is not available on torch, "),
        ("reduce_overhead", "torch-compile", r"^compile_mode='reduce_overhead' is not available on torch-compile, "),
    ],
)
def test_options_of_cuda_are_refused_elsewhere(form, backend, error):
    config, [batch, *_] = problem()
    with pytest.raises(ValueError, match=error):
        build("train_step", backend, config, batch, form)
