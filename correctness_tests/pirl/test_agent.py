"""The agent: its Q-values, its actions, and what it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from correctness_tests.quick import quick
from rl_impls.backends import BackendUnavailable
from rl_impls.pirl._numpy import q_values
from rl_impls.pirl.physics import DYNAMICS

from .agents import STATES, everything, live, make


@pytest.mark.parametrize(
    "backend", quick(["numpy", "torch", "torch-trace", "jax"], ["numpy", "torch", "torch-trace", "onnx", "jax"])
)
def test_q_values_of_any_batch_size_match_the_reference(backend, unavailable):
    agent = make(backend)
    for rows in (1, 3, 65, 2500):
        states = np.resize(STATES, (rows, 16)) * np.linspace(0.5, 1, rows, dtype=np.float32)[:, None]
        try:
            batch = agent.get_qs_batch(states)
        except BackendUnavailable as error:
            unavailable(error)
        assert batch.dtype == np.float32
        np.testing.assert_allclose(batch, q_values(agent.params, states), atol=1e-6)
    np.testing.assert_allclose(agent.get_qs(states[0]), batch[0], atol=1e-6)


def test_returned_q_values_belong_to_the_caller(learner):
    agent = make(learner)
    first = agent.get_qs(STATES[0])
    kept = first.copy()
    agent.get_qs(STATES[1])[:] = 0
    np.testing.assert_array_equal(first, kept)
    np.testing.assert_array_equal(agent.get_qs(STATES[0]), kept)


def test_without_exploration_the_best_action_is_taken():
    agent = make()
    assert [agent.act(state, 0.0) for state in STATES] == agent.get_qs_batch(STATES).argmax(axis=1).tolist()


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_exploration_takes_every_action_equally_often(epsilon):
    agent, draws = make(), 5000
    best = agent.get_qs(STATES[0]).argmax()
    counts = np.bincount([agent.act(STATES[0], epsilon) for _ in range(draws)], minlength=25)
    law = np.full(25, epsilon / 25)
    law[best] += 1 - epsilon
    deviation = np.abs(counts - draws * law) / np.sqrt(draws * law * (1 - law))
    assert deviation.max() < 5


def test_no_update_until_a_batch_is_stored(learner):
    agent = make(learner)
    live(agent, 7)
    before = everything(agent)
    assert agent.train() is None
    assert everything(agent) == before
    live(agent, 1)
    assert isinstance(agent.train(), float)


def test_jax_compiles_one_program_for_each_power_of_two_of_rows():
    from jax import monitoring

    programs = []

    def listen(event, duration_secs, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            programs.append(duration_secs)

    agent = make("jax", hidden=(9, 7))  # widths of no other test: JAX shares programs between agents
    agent.get_qs(STATES[0])
    monitoring.register_event_duration_secs_listener(listen)
    try:
        for rows in range(2, 71):
            agent.get_qs_batch(np.resize(STATES, (rows, 16)))
    finally:
        monitoring.unregister_event_duration_listener(listen)
    assert len(programs) == len((2, 4, 8, 16, 32, 64, 128))


def test_q_values_of_every_batch_size_follow_the_updates(learner):
    agent = make(learner)
    live(agent, 20)
    before = agent.get_qs_batch(STATES[:5])
    for _ in range(2):
        agent.train()
        for rows in (7, 5, 8, 12):  # 5, 7 and 8 share a compiled size
            expected = q_values(agent.params, STATES[:rows])
            np.testing.assert_allclose(agent.get_qs_batch(STATES[:rows]), expected, atol=1e-6)
    assert not np.allclose(agent.get_qs_batch(STATES[:5]), before, atol=1e-6)


def test_loss_falls(learner):
    agent = make(learner, learning_rate=1e-2, hidden=(32, 32), points=32)
    live(agent, 20)
    losses = [agent.train() for _ in range(200)]
    assert np.mean(losses[-20:]) < 0.7 * np.mean(losses[:20])


def test_the_order_of_the_configuration_changes_the_loss(monkeypatch):
    noisy = replace(DYNAMICS["vehicle"], sigma=3.0)  # the usual noise is below the precision of the loss
    monkeypatch.setitem(DYNAMICS, "vehicle", noisy)
    agents = [make("torch", "naive", order=order, pde_weight=1.0) for order in (1, 2)]
    for agent in agents:
        live(agent, 20)
    first, second = (agent.train() for agent in agents)
    assert first != second


def same(got, wanted):
    assert got.keys() == wanted.keys()
    return all(np.array_equal(got[name], wanted[name]) for name in wanted)


def test_target_net_takes_the_online_weights_every_third_update(learner):
    def target():
        return {k.removeprefix("target."): v for k, v in agent.state().items() if k.startswith("target.")}

    agent = make(learner)  # with sync_every=3
    live(agent, 20)
    start = agent.params
    assert same(target(), start)
    for _ in range(2):
        agent.train()
    assert same(target(), start)
    assert not same(agent.params, start)
    agent.train()
    synced = agent.params
    assert same(target(), synced)
    agent.train()
    assert same(target(), synced)
    assert not same(agent.params, synced)


def test_the_loss_bootstraps_from_the_target_net(learner):
    fresh, synced = make(learner, sync_every=1000), make(learner, sync_every=1)
    for agent in (fresh, synced):
        live(agent, 20)
    pairs = [(fresh.train(), synced.train()) for _ in range(4)]
    assert pairs[0][0] == pairs[0][1]
    assert pairs[3][0] != pairs[3][1]


BAD_STATES = {
    "a batch": (np.zeros((1, 16), np.float32), r"got float32\[1, 16\], wanted float32\[16\]"),
    "float64": (np.zeros(16), r"got float64\[16\], wanted float32\[16\]"),
    "not a number": (np.where(np.arange(16) == 3, np.nan, 0).astype(np.float32), r"got nan at \[3\], wanted finite"),
}


@pytest.mark.parametrize(("state", "message"), BAD_STATES.values(), ids=BAD_STATES.keys())
def test_a_bad_state_is_refused_by_name_and_changes_nothing(state, message):
    agent, good = make(), STATES[0]
    before = everything(agent)
    for name, use in {
        "state": lambda: agent.act(state, 1.0),
        "next_state": lambda: agent.remember(good, 0, 0.0, state, False),
    }.items():
        with pytest.raises(ValueError, match=f"^{name}: {message}"):
            use()
    assert everything(agent) == before


@pytest.mark.parametrize("shape", [(0, 16), (2, 17)])
def test_a_bad_batch_is_refused(shape):
    with pytest.raises(ValueError, match=r"^states: got float32\[.*\], wanted float32\[B >= 1, 16\]"):
        make().get_qs_batch(np.zeros(shape, np.float32))


@pytest.mark.parametrize(("name", "value"), [("action", 25), ("reward", np.nan), ("terminated", 0.5)])
def test_a_bad_transition_is_refused(name, value):
    agent = make()
    item = {"state": STATES[0], "action": 0, "reward": 0.0, "next_state": STATES[1], "terminated": False}
    with pytest.raises(ValueError, match=f"^{name}: got .*wanted"):
        agent.remember(**{**item, name: value})
    assert len(agent.replay) == 0


@pytest.mark.parametrize("config", [{"form": "fast"}, {"order": 3}, {"hidden": (0,)}, {"capacity": 7}])
def test_a_bad_configuration_is_refused_by_name(config):
    (name,) = config
    with pytest.raises(ValueError, match="batch: got" if name == "capacity" else name):
        make(**config)
