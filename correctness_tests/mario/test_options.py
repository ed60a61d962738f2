"""Optimisation options change how updates are computed, but not their results."""

import pytest

from correctness_tests.mario.problem import build, learner, problem
from correctness_tests.reference import largest_difference

pytestmark = pytest.mark.usefixtures("one_thread")


# test_update tests the form full, test_loop the options of processes, and test_memory those of the replay
def test_one_thread_does_not_change_the_update():
    _, batches = problem()
    (plain, update), (changed, update_changed) = (
        learner("torch", "naive", options=options) for options in ({}, {"threads": "one"})
    )
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
