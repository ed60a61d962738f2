"""A3C: one worker is A2C; gradients go to the shared weights as they are then; staleness is what others applied."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

from correctness_tests.procgen.loops import apart, assert_same, made, numbers, played, spec_of
from correctness_tests.procgen.problem import build
from correctness_tests.quick import quick
from correctness_tests.waiting import limit
from rl_impls.backends import BackendUnavailable, get
from rl_impls.common.procgen_env import check_installed
from rl_impls.procgen.composed import a3c
from rl_impls.procgen.crew import memory
from rl_impls.procgen.knobs import FORMS
from rl_impls.procgen.spec import NETS

pytestmark = pytest.mark.usefixtures("one_thread")

limited = limit("workers")


@pytest.fixture(autouse=True)
def installed(unavailable):
    """Skip, or fail, where Procgen is not installed."""
    try:
        check_installed()
    except BackendUnavailable as error:
        unavailable(error)


def shared_of(actors=2):
    """What workers share."""
    from rl_impls.procgen.a3c import AHEAD, layout

    spec = spec_of("a2c", actors=actors)
    return memory(spec, 1 + AHEAD, 1, layout(spec))


@pytest.mark.parametrize("form", quick(["full"], ["full", "naive"]))
def test_one_worker_is_a2c(form):
    from rl_impls.procgen.a3c import AHEAD, PHASES

    spec, start = spec_of("a2c", actors=1), played()[1]
    with made("a2c", spec, form=form) as loop:
        wanted, weights, state = loop(numbers(0, 1, 2)), loop.params, loop.state()
        following = loop(numbers(3))
    with made("a3c", spec, form=form) as loop:
        assert_same(loop.params, start)
        found = loop(numbers(0, 1, 2))
        assert_same(found[:2], wanted[:2])
        np.testing.assert_allclose(found[2], wanted[2], rtol=1e-3, atol=1e-4)
        assert loop.stats() == {"policy_lag": 0, "most_policy_lag": 0, "replaced_actors": 0}
        spent = loop.phases()
        assert tuple(spent) == ("waiting", *PHASES)
        assert all(seconds > 0 for seconds in spent.values())

        assert loop.state()["train.step"] == 3 + AHEAD  # what is played ahead is learned from too
        loop.load_state(state)
        assert_same(loop.state(), state)
        loop.ahead = 0
        last = loop(numbers(3))
        assert_same(last[:2], following[:2])
        np.testing.assert_allclose(last[2], following[2], rtol=1e-3, atol=1e-4)
        assert loop.state()["train.step"] == 4
        loop.reset()
        assert loop.phases() == dict.fromkeys(spent, 0.0)
        again = loop(numbers(0, 1, 2))
        assert_same(again[:2], wanted[:2])
        assert apart(loop.params, weights, start) < 5e-3
        assert apart(loop.params, start, weights) > 0.1


def test_workers_are_as_many_rollouts_ahead_as_the_spec_says(monkeypatch):
    from rl_impls.procgen import a3c

    made = []
    monkeypatch.setattr(a3c.CrewLoop, "__init__", lambda self, spec, ahead, *_: made.append(ahead))
    for changed, ahead in (({}, 3), ({"ahead": 5}, 5), ({"ahead": 0}, 0)):
        spec = spec_of("a2c", actors=2) | changed
        a3c.A3c(spec, None, None)
        assert made.pop() == ahead
        assert a3c.layout(spec)["losses"][0] == (1 + ahead, 2)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["load_state", "reset"])
def test_nothing_that_was_played_ahead_is_learned_from_after_a_state_or_the_start_is_taken(how):
    with made("a3c", spec_of("a2c", actors=1)) as loop:
        start = loop.state()
        for _ in range(2):
            loop(numbers(0))
            if how == "reset":
                loop.reset()
            else:
                loop.load_state(start)
            assert_same(loop.state(), start)


@pytest.mark.slow
def test_all_workers_apply_their_gradients_and_what_others_did_between_is_counted():
    with made("a3c", spec_of("a2c", actors=2)) as loop:
        behind = []
        loop.ahead = 0
        for number in range(6):
            losses = loop(numbers(number))[2]
            behind.extend(loop.crew.behind(number).tolist())
            assert losses.shape == (1, 2)
            assert losses.all()
        assert loop.crew.shared["applied"].tolist() == [6, 6]
        assert all(0 <= count <= 2 for count in behind)
        assert loop.stats()["policy_lag"] == np.mean(behind)
        assert loop.stats()["most_policy_lag"] == max(behind)
        state = loop.state()
        assert state["train.step"] == 12
        loop.load_state(state)
        assert_same(loop.state(), state)
        loop.reset()
        assert loop.stats()["policy_lag"] == 0
        assert loop.state()["train.step"] == 0
        assert_same(loop.params, played()[1])
        assert not any(loop.state()[f"train.second.{name}"].any() for name in NETS)


def worker_of(shared, index):
    """A worker without games and net, which has copied the weights."""
    from rl_impls.procgen.a3c import Worker

    worker = SimpleNamespace(shared=shared, index=index, copied=int(shared["applied"].sum()))
    worker.count = lambda: Worker.count(worker)
    return worker


def test_staleness_is_how_many_gradients_others_applied_since_the_weights_were_copied():
    shared = shared_of()
    shared["applied"][:] = 5, 2
    first, second = worker_of(shared, 0), worker_of(shared, 1)
    first.count()
    assert first.staleness == 0
    second.count()
    assert second.staleness == 1
    assert shared["applied"].tolist() == [6, 3]
    slow = worker_of(shared, 0)
    for _ in range(3):
        again = worker_of(shared, 1)
        again.count()
        assert again.staleness == 0
    slow.count()
    assert slow.staleness == 3


def sharing(shared, make, count=lambda: None):
    """A worker's own parameter, and what takes its gradient to the shared ones."""
    import torch

    from rl_impls.procgen.a3c import SharedRmsprop

    own = [torch.nn.Parameter(torch.zeros(2))]
    tensors = torch.from_numpy(shared["weights"]), torch.from_numpy(shared["squares"])
    return own[0], SharedRmsprop(own, *([tensor] for tensor in tensors), make, count)


def rule(gradient, weights, squares):
    """RMSProp by hand."""
    squares = 0.9 * squares + 0.1 * gradient**2
    return weights - 0.5 * gradient / (np.sqrt(squares) + 1e-3), squares


def test_a_gradient_is_applied_to_the_shared_weights_as_they_are_then_by_mean_squares_of_all():
    import torch

    shared = {"weights": np.array([1.0, 2.0], "f4"), "squares": np.array([0.25, 0.0], "f4")}
    counted = []

    def make(tensors):
        return torch.optim.RMSprop(tensors, lr=0.5, alpha=0.9, eps=1e-3)

    workers = [sharing(shared, make, lambda k=k: counted.append(k)) for k in range(2)]
    weights, squares = shared["weights"].astype(float), shared["squares"].astype(float)
    drawn = np.random.default_rng(0).standard_normal((4, 2))
    for k, gradient in enumerate(drawn):
        own, optimizer = workers[k % 2]
        own.grad = torch.tensor(gradient, dtype=torch.float32)
        optimizer.step()
        weights, squares = rule(gradient, weights, squares)
        np.testing.assert_allclose(shared["weights"], weights, rtol=1e-5)
        np.testing.assert_allclose(shared["squares"], squares, rtol=1e-5)
        assert not own.detach().any()
    assert counted == [0, 1, 0, 1]
    shared["weights"][:] = 7
    workers[0][0].grad = torch.ones(2)
    workers[0][1].step()
    np.testing.assert_allclose(shared["weights"], rule(np.ones(2), np.full(2, 7.0), squares)[0], rtol=1e-5)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_of_the_workers_own_weights_are_forgotten(set_to_none):
    import torch

    shared = {"weights": np.ones(2, "f4"), "squares": np.zeros(2, "f4")}
    own, optimizer = sharing(shared, lambda tensors: torch.optim.RMSprop(tensors, lr=0.5))
    optimizer.zero_grad(set_to_none)
    assert own.grad is None
    own.grad = torch.ones(2)
    optimizer.zero_grad(set_to_none)
    assert own.grad is None if set_to_none else not own.grad.any()


def test_a_parameter_shares_the_memory_of_an_array():
    from rl_impls.procgen.a3c import as_parameter

    array = np.random.default_rng(0).standard_normal((8, 4, 3, 2)).astype(np.float32)
    tensor = as_parameter(array)
    assert tensor.shape == (2, 3, 8, 4)
    np.testing.assert_array_equal(tensor.numpy(), array.transpose(3, 2, 0, 1))
    tensor[1, 2, 7, 3] = 9
    assert array[7, 3, 2, 1] == 9
    assert as_parameter(array[0, 0, 0]).shape == (2,)


def test_a_state_is_taken_as_it_is_given():
    from rl_impls.procgen.a3c import SharedWeights

    shared, rng = shared_of(), np.random.default_rng(0)
    weights = SharedWeights(played()[1], shared)
    state = {f"{part}.{name}": rng.random(np.shape(value), np.float32)
             for part in ("online", "second") for name, value in played()[1].items()}  # fmt: skip
    state["step"] = np.array(9, np.int32)
    shared["applied"][:] = 3, 4
    assert weights.state()["step"] == 7
    weights.load_state(state)
    assert_same(weights.state(), {name: state[name] for name in weights.state()})
    kept = weights.params
    weights.reset()
    assert weights.state()["step"] == 0
    assert_same(weights.params, played()[1])
    assert (kept["b_policy"] != weights.params["b_policy"]).any()


@pytest.mark.parametrize("backend", ["jax", "jax-cuda", "torch-cuda"])
def test_other_backends_than_those_of_torch_on_the_cpu_are_refused_in_one_line(backend):
    wanted = f"backend of a3c: got {backend}, wanted torch or torch-compile"
    with pytest.raises(ValueError, match=f"^{re.escape(wanted)}$"):
        a3c(spec_of("a2c"), (numbers(0),), knobs=FORMS["full"], backend=get(backend))


def test_a_lag_is_nothing_that_workers_are_given():
    with pytest.raises(ValueError, match=r"^actors: got 3, wanted a divisor of 4 environments$"):
        build("a3c", "torch", spec_of("a2c", actors=3), (numbers(0),))
