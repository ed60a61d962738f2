"""A3C: one worker equals A2C, gradients update shared weights, and staleness counts the gradients of others."""

from types import SimpleNamespace

import numpy as np
import pytest

from correctness_tests.procgen.loops import config_of, made, numbers, played
from correctness_tests.procgen.problem import build
from correctness_tests.quick import quick
from correctness_tests.updates import apart, assert_same
from rl_impls.common.phases import Phases
from rl_impls.procgen.actor_pool import shared_memory

pytestmark = pytest.mark.usefixtures("installed")


@pytest.mark.parametrize("form", quick(["full"], ["full", "naive"]))
def test_one_worker_trains_as_a2c_does(form):
    config, start = config_of("a2c", actors=1), played()[1]
    with made("a2c", config, form=form) as loop:
        wanted, weights, state = loop(numbers(0, 1, 2)), loop.params, loop.state()
        following = loop(numbers(3))
    with made("a3c", config, form=form) as loop:
        assert_same(loop.params, start)
        found = loop(numbers(0, 1, 2))
        assert_same(found[:2], wanted[:2])
        np.testing.assert_allclose(found[2], wanted[2], rtol=1e-3, atol=1e-4)
        assert loop.stats() == {"policy_lag": 0, "most_policy_lag": 0, "replaced_actors": 0}
        assert all(seconds > 0 for seconds in loop.phases().values())

        assert loop.state()["learner.step"] == 3 + config["ahead"]  # includes the rollouts played ahead
        loop.load_state(state)
        assert_same(loop.state(), state)
        loop.ahead = 0
        last = loop(numbers(3))
        assert_same(last[:2], following[:2])
        np.testing.assert_allclose(last[2], following[2], rtol=1e-3, atol=1e-4)
        assert loop.state()["learner.step"] == 4
        loop.reset()
        assert not any(loop.phases().values())
        again = loop(numbers(0, 1, 2))
        assert_same(again[:2], wanted[:2])
        assert apart(loop.params, weights, start) < 5e-3
        assert apart(loop.params, start, weights) > 0.1


@pytest.mark.slow
def test_rollouts_played_ahead_do_not_change_weights_after_load_state_or_reset():
    with made("a3c", config_of("a2c", actors=1)) as loop:
        start = loop.state()
        for restore in (loop.reset, lambda: loop.load_state(start)) * 2:
            loop(numbers(0))
            restore()  # while the worker plays ahead
            assert_same(loop.state(), start)


@pytest.mark.slow
def test_every_worker_applies_its_gradients_and_staleness_is_reported():
    with made("a3c", config_of("a2c", actors=2)) as loop:
        behind = []
        loop.ahead = 0
        for number in range(6):
            losses = loop(numbers(number))[2]
            behind.extend(loop.pool.behind(number).tolist())
            assert losses.shape == (1, 2)
            assert losses.all()
        assert all(0 <= count <= 2 for count in behind)
        assert loop.stats()["policy_lag"] == np.mean(behind)
        assert loop.stats()["most_policy_lag"] == max(behind)
        state = loop.state()
        assert state["learner.step"] == 12
        loop.load_state(state)
        assert_same(loop.state(), state)
        loop.reset()
        assert loop.stats()["policy_lag"] == 0
        assert loop.state()["learner.step"] == 0
        assert_same(loop.params, played()[1])
        assert not any(loop.state()[f"learner.second.{name}"].any() for name in loop.params)


def test_staleness_counts_the_gradients_that_others_applied_since_the_weights_were_copied():
    from rl_impls.procgen.a3c import Worker

    shared = {"applied": np.array([5, 2])}
    first, second, slow = (SimpleNamespace(shared=shared, index=index, copied=7) for index in (0, 1, 0))
    for worker in (first, second):
        Worker.count(worker)
    assert (first.staleness, second.staleness) == (0, 1)
    assert shared["applied"].tolist() == [6, 3]
    Worker.count(slow)
    assert slow.staleness == 2


def test_restored_step_count_is_that_of_all_workers_together():
    from rl_impls.procgen.a3c import SharedWeights

    start = {"b_return": np.ones(1, np.float32)}
    shared = {"b_return": np.zeros((1, 1)), "square.b_return": np.ones(1), "applied": np.array([5, 2])}
    weights = SharedWeights(start, shared)
    state = weights.state()
    assert state["step"] == 7
    weights.load_state(state)
    assert_same(weights.state(), state)


def test_staleness_includes_gradients_applied_while_the_worker_plays_and_seconds_add_up():
    from rl_impls.procgen.a3c import PHASES, Worker, a3c_layout

    def play_into(number, rollout):
        shared["applied"][1] += 2

    def learn(rollout, number):
        Worker.count(worker)
        return np.zeros((1, 4))

    config = {"params": {}, "num_steps": 2, "env": {"num_envs": 2}, "actors": 2, "ahead": 1}
    shared = shared_memory(config, 2, 1, a3c_layout(config))
    update, learner, clock = SimpleNamespace(load=dict), SimpleNamespace(learn=learn), Phases(*PHASES)
    worker = SimpleNamespace(
        shared=shared, config=config, index=0, slice=slice(0, 1), clock=clock, update=update, learner=learner,
        play_into=play_into,
    )  # fmt: skip
    shared["seconds"][0] = 100.0
    Worker.play(worker, 1)
    assert shared["behind"].tolist() == [[0, 0], [2, 0]]
    assert (shared["seconds"][0] >= 100.0).all()
    assert not shared["seconds"][1].any()


def test_phases_are_means_over_the_workers_and_the_rest_is_waiting():
    from rl_impls.procgen.a3c import PHASES, A3c

    seconds = np.array([[1.0] * len(PHASES), [3.0] * len(PHASES)])
    pool, clock = SimpleNamespace(shared={"seconds": seconds}), SimpleNamespace(seconds={"waiting": 20.0})
    loop = SimpleNamespace(pool=pool, clock=clock)
    assert A3c.phases(loop) == {"waiting": 8.0, **dict.fromkeys(PHASES, 2.0)}


def make_worker(shared, make):
    """Return a worker's own parameter, and the optimiser that applies its gradients to the shared weights."""
    import torch

    from rl_impls.procgen.a3c import SharedRmsprop

    own = [torch.nn.Parameter(torch.zeros(2))]
    tensors = torch.from_numpy(shared["weights"]), torch.from_numpy(shared["squares"])
    return own[0], SharedRmsprop(own, *([tensor] for tensor in tensors), make, lambda: None)


def rule(gradient, weights, squares):
    squares = 0.9 * squares + 0.1 * gradient**2
    return weights - 0.5 * gradient / (np.sqrt(squares) + 1e-3), squares


def test_gradients_of_all_workers_update_the_shared_weights_and_mean_squares():
    import torch

    shared = {"weights": np.array([1.0, 2.0], "f4"), "squares": np.array([0.25, 0.0], "f4")}

    def make(tensors):
        return torch.optim.RMSprop(tensors, lr=0.5, alpha=0.9, eps=1e-3)

    workers = [make_worker(shared, make) for _ in range(2)]
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
    shared["weights"][:] = 7
    workers[0][0].grad = torch.ones(2)
    workers[0][1].step()
    np.testing.assert_allclose(shared["weights"], rule(np.ones(2), np.full(2, 7.0), squares)[0], rtol=1e-5)


def test_a3c_rejects_other_backends():
    with pytest.raises(ValueError, match=r"^backend='jax' should be torch or torch-compile for a3c$"):
        build("a3c", "jax", config_of("a2c"), (numbers(0),))
