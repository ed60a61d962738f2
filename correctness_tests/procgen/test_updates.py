"""Updates: the optimisers' rules, bfloat16, and resuming from a state."""

import functools

import numpy as np
import pytest

from correctness_tests import updates
from correctness_tests.procgen.problem import PROBLEMS, exact_learner, learner, problem
from correctness_tests.quick import quick
from correctness_tests.reference import in_float64
from correctness_tests.updates import assert_goes_on, gradient_of
from perf_tests.recorded import benchmarks

FORMS = [("torch", "naive"), ("torch", "full"), ("jax", "full")]
EPS = {"ppo_update": 1e-5, "a2c_update": 1e-5, "impala_update": 0.01}
MOMENTS = {"ppo_update": ("first", "second"), "a2c_update": ("second",), "impala_update": ("second",)}


@functools.cache
def compiled(op):
    """Return a JAX learner that tests share through :func:`fresh`; XLA takes seconds to compile each."""
    return learner(op, "jax")


def fresh(op, backend, form="full"):
    """Return a :func:`learner` in its initial state."""
    if (backend, form) != ("jax", "full"):
        return learner(op, backend, form)
    update, call = compiled(op)
    update.reset()
    return update, call


def adam(step, gradient, first, second, eps):
    """Return the step of Adam (Kingma and Ba 2015, Algorithm 1), without the learning rate."""
    first[:] = 0.9 * first + 0.1 * gradient
    second[:] = 0.999 * second + 0.001 * gradient**2
    return first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + eps)


def rmsprop(step, gradient, first, second, eps, decay=0.99):
    """Return the step of RMSProp with eps outside the root, without the learning rate."""
    second[:] = decay * second + (1 - decay) * gradient**2
    return gradient / (np.sqrt(second) + eps)


RULES = {"ppo_update": adam, "a2c_update": rmsprop, "impala_update": rmsprop}
FASTER = functools.partial(rmsprop, decay=0.5)


@functools.cache
def by_hand(op, rule, norm=1e9, count=3, rate=None, eps=None):
    """Return the weights after some updates, from torch's gradients in float64 and the rule of an optimiser."""
    config, batches = problem(op)
    params, rate = in_float64(config["params"]), rate or config["learning_rate"]
    moments = {name: np.zeros((2, *value.shape)) for name, value in params.items()}
    for k, batch in enumerate(batches[:count]):
        update, call = exact_learner(op, params=params, max_grad_norm=1e9)
        call(batch)
        gradient = gradient_of(update.net)
        scale = min(1, norm / np.sqrt(sum((each**2).sum() for each in gradient.values())))
        moves = {name: rule(k + 1, scale * gradient[name], *moments[name], eps or EPS[op]) for name in params}
        params = {name: params[name] - rate * moves[name] for name in params}
    return params


def apart(op, got, wanted):
    """Return the difference of nearly all weights, relative to the largest change in their array."""
    return updates.apart(got, wanted, problem(op)[0]["params"])


@pytest.mark.parametrize("op", PROBLEMS)
def test_full_update_is_timed_at_the_same_batch_sizes_on_torch_and_jax(op):
    sizes = {"torch": set(), "jax": set()}
    for one in benchmarks(("procgen",)):
        if (one.op, one.params["form"]) == (op, "full") and one.tier != "full" and one.params["backend"] in sizes:
            sizes[one.params["backend"]].add(one.params["batch_size"])
    assert sizes["torch"] == sizes["jax"] >= {256}


@pytest.mark.parametrize("norm", [1e9, 1e-2])
@pytest.mark.parametrize("op", PROBLEMS)
def test_optimiser_follows_its_rule_and_clips_the_gradient_norm(op, norm):
    update, call = exact_learner(op, max_grad_norm=norm)
    for batch in problem(op)[1][:3]:
        call(batch)
    assert apart(op, update.params, by_hand(op, RULES[op], norm)) < 1e-3  # torch adds 1e-6 to the norm
    if norm < 1:
        assert apart(op, update.params, by_hand(op, RULES[op], 10 * norm)) > 1e-2


@pytest.mark.parametrize(
    ("op", "backend", "form"),
    quick(
        [("ppo_update", *form) for form in FORMS] + [("a2c_update", *FORMS[1]), ("impala_update", *FORMS[1])],
        [(op, *form) for op in PROBLEMS for form in FORMS],
    ),
)
def test_eps_and_decay_reach_the_optimiser(op, backend, form):
    config, batches = problem(op)
    rate = 0.01  # large enough for rounding errors of weights to be negligible
    update, call = learner(op, backend, form, learning_rate=rate, eps=0.125, decay=0.5)
    for batch in batches[:2]:
        call(batch)
    rule = adam if op == "ppo_update" else FASTER
    wanted = by_hand(op, rule, config["max_grad_norm"], 2, rate, 0.125)
    assert apart(op, by_hand(op, RULES[op], config["max_grad_norm"], 2, rate), wanted) > 0.1
    assert apart(op, update.params, wanted) < 1e-2  # rounding may switch a ReLU on or off


@pytest.mark.parametrize(
    ("op", "backend"),
    quick(
        [(op, "torch") for op in PROBLEMS],  # XLA takes 5 s to compile each of the others
        [(op, backend) for op in PROBLEMS for backend in ("torch", "jax")],
    ),
)
def test_bfloat16_loss_is_close_to_float32(op, backend):
    _, batches = problem(op)
    (_, rounded), (_, update) = learner(op, backend, "bfloat16"), fresh(op, backend)
    first, exact = rounded(batches[0]), update(batches[0])
    assert first == pytest.approx(exact, rel=0.03)
    assert first != exact


@pytest.mark.parametrize(
    ("before", "after"),
    quick(
        [(FORMS[0], FORMS[1]), (FORMS[1], FORMS[2]), (FORMS[2], FORMS[1])],
        [(before, after) for before in FORMS for after in FORMS],
    ),
)
@pytest.mark.parametrize("op", ["ppo_update", "impala_update"])
def test_another_form_or_backend_resumes_from_a_state(op, before, after):
    config, batches = problem(op)
    start, parts = config["params"], ("online", *MOMENTS[op])
    first, second = fresh(op, *before), (learner if after == before else fresh)(op, *after)
    assert_goes_on(first, second, batches, 1e-4)
    first, second = first[0], second[0]
    assert first.state().keys() == {"step"} | {f"{part}.{name}" for part in parts for name in start}
    np.testing.assert_allclose(np.asarray(second.parts), np.asarray(first.parts), rtol=1e-3, atol=1e-3)
    assert apart(op, second.params, first.params) < 5e-3
    second.reset()
    assert second.state()["step"] == 0
    for name, value in second.params.items():
        np.testing.assert_array_equal(value, start[name])
        assert not second.state()[f"second.{name}"].any()
