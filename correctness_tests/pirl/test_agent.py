"""The agent: what it answers, and how it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from correctness_tests.quick import quick
from rl_impls.backends import BackendUnavailable
from rl_impls.pirl.physics import DYNAMICS

from .agents import STATES, everything, live, make


@pytest.mark.parametrize(
    "backend", quick(["numpy", "torch", "torch-trace", "jax"], ["numpy", "torch", "torch-trace", "onnx", "jax"])
)
def test_a_state_has_the_q_values_of_its_row_in_a_batch_and_of_the_reference(backend, unavailable):
    from rl_impls.pirl._numpy import q_values

    agent = make(backend)
    try:
        batch = agent.get_qs_batch(STATES[:3])
    except BackendUnavailable as error:
        unavailable(error)
    assert batch.shape == (3, 25)
    assert batch.dtype == np.float32
    np.testing.assert_allclose(batch, q_values(agent.params, STATES[:3]), atol=1e-6)
    for state, row in zip(STATES, batch):
        alone = agent.get_qs(state)
        assert alone.dtype == np.float32
        np.testing.assert_allclose(alone, row, atol=1e-6)


def test_answers_belong_to_the_caller(learner):
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


def test_one_seed_makes_one_agent():
    def actions(seed):
        agent = make(seed=seed)
        return [agent.act(state, 0.5) for state in STATES]

    assert actions(1) == actions(1)
    assert actions(1) != actions(2)


def test_nothing_is_learnt_until_a_batch_is_stored(learner):
    agent = make(learner)
    live(agent, 7)
    before = everything(agent)
    assert agent.train() is None
    assert everything(agent) == before
    live(agent, 1)
    assert isinstance(agent.train(), float)


def test_an_update_changes_the_answers_of_every_batch_size(learner):
    from rl_impls.pirl._numpy import q_values

    agent = make(learner)
    live(agent, 20)
    before = agent.get_qs(STATES[0]), agent.get_qs_batch(STATES[:5])
    agent.train()
    after = agent.get_qs(STATES[0]), agent.get_qs_batch(STATES[:5])
    for old, new, states in zip(before, after, (STATES[:1], STATES[:5])):
        assert not np.array_equal(old, new)
        np.testing.assert_allclose(np.atleast_2d(new), q_values(agent.params, states), atol=1e-6)


@pytest.fixture
def compiled_programs():
    """The programs that JAX compiles during a test, as a list that grows."""
    from jax import monitoring

    programs = []

    def listen(event, duration_secs, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            programs.append(duration_secs)

    monitoring.register_event_duration_secs_listener(listen)
    yield programs
    monitoring.unregister_event_duration_listener(listen)


def test_jax_compiles_one_program_for_each_power_of_two_of_rows(compiled_programs):
    agent = make("jax", hidden=(9, 7))  # widths of no other test: JAX shares programs between agents
    agent.get_qs(STATES[0])
    before = len(compiled_programs)
    for rows in range(2, 71):
        agent.get_qs_batch(np.resize(STATES, (rows, 16)))
    assert len(compiled_programs) - before == len((2, 4, 8, 16, 32, 64, 128))


@pytest.mark.parametrize("backend", ["numpy", "torch", "torch-trace", "jax"])
def test_batches_of_any_size_have_the_q_values_of_the_reference(backend, unavailable):
    from rl_impls.pirl._numpy import q_values

    agent = make(backend)
    for rows in (1, 3, 65, 1024, 2500):
        states = np.resize(STATES, (rows, 16)) * np.linspace(0.5, 1, rows, dtype=np.float32)[:, None]
        try:
            batch = agent.get_qs_batch(states)
        except BackendUnavailable as error:
            unavailable(error)
        np.testing.assert_allclose(batch, q_values(agent.params, states), atol=1e-6)


def test_an_update_changes_the_answers_of_batches_that_share_a_compiled_size(learner):
    from rl_impls.pirl._numpy import q_values

    agent = make(learner)
    live(agent, 20)
    agent.get_qs_batch(STATES[:5])
    for _ in range(2):
        agent.train()
        for rows in (7, 5, 8, 12):  # a new size, an old one, the size of both, and one of a new program
            expected = q_values(agent.params, STATES[:rows])
            np.testing.assert_allclose(agent.get_qs_batch(STATES[:rows]), expected, atol=1e-6)


def test_loss_falls(learner):
    agent = make(learner, learning_rate=1e-2, hidden=(32, 32), points=32)
    live(agent, 20)
    losses = [agent.train() for _ in range(200)]
    assert np.mean(losses[-20:]) < 0.7 * np.mean(losses[:20])


def test_the_loss_is_of_the_order_that_an_agent_is_made_with(monkeypatch):
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


def test_target_stands_still_until_it_takes_the_online_weights(learner):
    def part(name):
        return {k.partition(".")[2]: v for k, v in agent.state().items() if k.startswith(name)}

    agent = make(learner)
    live(agent, 20)
    start = agent.params
    assert same(part("target"), start)
    for _ in range(2):
        agent.train()
    assert same(part("target"), start)
    assert not same(agent.params, start)
    agent.train()
    synced = agent.params
    assert same(part("target"), synced)
    agent.train()
    assert same(part("target"), synced)
    assert not same(agent.params, synced)


def test_the_target_is_what_the_loss_uses(learner):
    fresh, synced = make(learner, sync_every=1000), make(learner, sync_every=1)
    for agent in (fresh, synced):
        live(agent, 20)
    pairs = [(fresh.train(), synced.train()) for _ in range(4)]
    assert pairs[0][0] == pairs[0][1]
    assert pairs[3][0] != pairs[3][1]


def test_reset_of_the_train_step_puts_everything_back(learner):
    agent = make(learner)
    live(agent, 20)
    before = everything(agent)[0]
    for _ in range(3):
        agent.train()
    assert everything(agent)[0] != before
    agent._train_step.reset()
    assert everything(agent)[0] == before


def test_backends_learn_alike():
    agents = [make(backend) for backend in ("torch", "jax")]
    for agent in agents:
        live(agent, 20)
    losses = np.array([[agent.train() for _ in range(6)] for agent in agents])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


@pytest.mark.parametrize("backend", ["numpy", "onnx", "torch-trace"])
def test_a_backend_for_inference_says_that_it_does_not_learn(backend, unavailable):
    from rl_impls.backends import OpUnavailable

    agent = make(backend)
    live(agent, 20)
    try:
        with pytest.raises(OpUnavailable, match=f"pirl has no op 'train_step' on {backend}"):
            agent.train()
    except BackendUnavailable as error:
        unavailable(error)


BAD_STATES = {
    "too short": (np.zeros(15, np.float32), r"got float32\[15\], wanted float32\[16\]"),
    "a batch": (np.zeros((1, 16), np.float32), r"got float32\[1, 16\], wanted float32\[16\]"),
    "float64": (np.zeros(16), r"got float64\[16\], wanted float32\[16\]"),
    "a list": ([0.0] * 16, r"got list, wanted float32\[16\]"),
    "not a number": (np.where(np.arange(16) == 3, np.nan, 0).astype(np.float32), r"got nan at \[3\], wanted finite"),
    "infinite": (np.where(np.arange(16) == 0, np.inf, 0).astype(np.float32), r"got inf at \[0\], wanted finite"),
}


@pytest.mark.parametrize(("state", "message"), BAD_STATES.values(), ids=BAD_STATES.keys())
def test_a_bad_state_is_refused_by_name_and_nothing_is_changed(state, message):
    agent, good = make(), STATES[0]
    before = everything(agent)
    calls = {
        "state": [
            lambda: agent.get_qs(state),
            lambda: agent.act(state, 1.0),
            lambda: agent.remember(state, 0, 0.0, good, False),
        ],
        "next_state": [lambda: agent.remember(good, 0, 0.0, state, False)],
    }
    for name, uses in calls.items():
        for use in uses:
            with pytest.raises(ValueError, match=f"^{name}: {message}"):
                use()
    assert everything(agent) == before
    assert not agent._nets


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (np.zeros((0, 16), np.float32), r"got float32\[0, 16\], wanted float32\[B >= 1, 16\]"),
        (np.zeros(16, np.float32), r"got float32\[16\], wanted"),
        (np.zeros((2, 17), np.float32), r"got float32\[2, 17\], wanted"),
        (np.zeros((2, 16), np.int64), r"got int64\[2, 16\], wanted"),
        (np.full((2, 16), np.nan, np.float32), r"got nan at \[0, 0\], wanted finite"),
    ],
)
def test_a_bad_batch_is_refused(states, message):
    with pytest.raises(ValueError, match=f"^states: {message}"):
        make().get_qs_batch(states)


@pytest.mark.parametrize(
    ("name", "value"),
    [("action", 25), ("action", -1), ("action", 1.0), ("action", True), ("reward", np.nan), ("terminated", 0.5)],
)
def test_a_bad_transition_is_refused(name, value):
    agent = make()
    item = {"state": STATES[0], "action": 0, "reward": 0.0, "next_state": STATES[1], "terminated": False}
    with pytest.raises(ValueError, match=f"^{name}: got .*wanted"):
        agent.remember(**{**item, name: value})
    assert len(agent.replay) == 0


@pytest.mark.parametrize("epsilon", [-0.1, 1.1, np.nan])
def test_a_bad_epsilon_is_refused(epsilon):
    with pytest.raises(ValueError, match=r"^epsilon: got .*wanted a number from 0 to 1"):
        make().act(STATES[0], epsilon)


@pytest.mark.parametrize(
    "config",
    [
        {"backend": "abacus"}, {"form": "fast"}, {"order": 3}, {"hidden": (0,)}, {"hidden": (8.0,)}, {"batch": 0},
        {"points": 0}, {"sync_every": 0}, {"capacity": 7}, {"learning_rate": np.nan}, {"pde_weight": -1.0},
    ],
)  # fmt: skip
def test_a_bad_configuration_is_refused_by_name(config):
    (name,) = config
    with pytest.raises(ValueError, match="batch: got" if name == "capacity" else name):
        make(**config)
