"""The agent: Q-values, action selection, training and checkpoints."""

import json
from time import perf_counter

import numpy as np
import pytest

from correctness_tests.quick import quick
from rl_impls.backends import get
from rl_impls.common.parts import part_of
from rl_impls.pirl.__main__ import main
from rl_impls.pirl._numpy import q_values
from rl_impls.pirl.agent import PirlAgent

from .problem import SMALL, STATES, everything, fill, make


def same(got, wanted):
    assert got.keys() == wanted.keys()
    return all(np.array_equal(got[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize(
    "backend", quick(["numpy", "torch", "torch-trace", "jax"], ["numpy", "torch", "torch-trace", "onnx", "jax"])
)
def test_q_values_of_any_batch_size_match_the_reference(backend, needed):
    needed(get(backend).require)
    agent = make(backend)
    for rows in (1, 3, 65, 2500):
        states = np.resize(STATES, (rows, 16)) * np.linspace(0.5, 1, rows, dtype=np.float32)[:, None]
        batch = agent.get_qs_batch(states)
        assert batch.dtype == np.float32
        np.testing.assert_allclose(batch, q_values(agent.params, states), atol=1e-6)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_states_of_another_width_are_refused(backend):
    agent = make(backend)
    np.testing.assert_array_equal(agent.get_qs(STATES[0].tolist()), agent.get_qs(STATES[0]))
    for states, shape in ((STATES[:, :15], r"\[64, 15\]"), (STATES[0], r"\[16\]")):
        with pytest.raises(ValueError, match=rf"^states={shape} should be an array \[B, 16\]: "):
            agent.get_qs_batch(states)


def test_returned_q_values_belong_to_the_caller(learner):
    agent = make(learner)
    first = agent.get_qs_batch(STATES[:1])
    kept = first.copy()
    agent.get_qs_batch(STATES[1:2])[:] = 0
    np.testing.assert_array_equal(first, kept)
    np.testing.assert_array_equal(agent.get_qs_batch(STATES[:1]), kept)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_exploration_takes_every_action_equally_often(epsilon):
    agent, draws = make(), 5000
    best = agent.get_qs_batch(STATES[:1]).argmax()
    counts = np.bincount([agent.get_epsilon_greedy_action(STATES[0], epsilon) for _ in range(draws)], minlength=25)
    law = np.full(25, epsilon / 25)
    law[best] += 1 - epsilon
    deviation = np.abs(counts - draws * law) / np.sqrt(draws * law * (1 - law))
    assert deviation.max() < 5


def test_exploration_rate_defaults_to_the_current_one():
    agent = make(epsilon_start=1.0, epsilon_end=0.0, epsilon_steps=10)
    assert len({agent.get_epsilon_greedy_action(STATES[0]) for _ in range(50)}) > 1
    agent.step = 10
    assert len({agent.get_epsilon_greedy_action(STATES[0]) for _ in range(50)}) == 1


def test_inference_seconds_are_those_of_one_batch():
    agent, start = make(), perf_counter()
    [found] = agent.benchmark_inference(num_samples=200, batch_sizes=(2,)).values()
    assert 0 < 100 * found["seconds"] <= perf_counter() - start
    assert found["seconds"] * found["samples_per_second"] == pytest.approx(2)
    agent, start = make("jax", hidden=(9, 8)), perf_counter()  # unique to this test, so that JAX compiles the net
    [found] = agent.benchmark_inference(num_samples=1, batch_sizes=(8,)).values()
    assert found["seconds"] * found["samples_per_second"] == pytest.approx(8)
    assert found["seconds"] < 0.5 * (perf_counter() - start)


def test_neuron_pads_to_sizes_that_are_compiled_once(neuron):
    agent = make("torch", serve="neuron")
    fill(agent, 20)
    for _ in range(2):
        for rows in (1, 3, 4, 9, 12, 16):
            states = np.resize(STATES, (rows, 16))
            np.testing.assert_allclose(agent.get_qs_batch(states), q_values(agent.params, states), atol=1e-6)
        agent.train()
    assert len(neuron) == len((1, 4, 16))


def test_jax_compiles_one_program_for_each_power_of_two_of_rows():
    from jax import monitoring

    programs = []

    def listen(event, duration_secs, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            programs.append(duration_secs)

    agent = make("jax", hidden=(9, 7))  # unique to this test: JAX shares compiled programs between agents
    agent.get_qs_batch(STATES[:1])
    monitoring.register_event_duration_secs_listener(listen)
    try:
        for rows in range(2, 71):
            agent.get_qs_batch(np.resize(STATES, (rows, 16)))
    finally:
        monitoring.unregister_event_duration_listener(listen)
    assert len(programs) == len((2, 4, 8, 16, 32, 64, 128))


def test_q_values_follow_every_update_and_the_target_net_every_third_one(learner):
    agent = make(learner)  # with target_frequency=3
    fill(agent, 20)
    before, weights = agent.get_qs_batch(STATES[:5]), [agent.params]
    for update in range(1, 5):
        loss, td_loss = agent.train()
        assert loss > td_loss  # by the physics
        weights.append(agent.params)
        assert not same(weights[update], weights[update - 1])
        assert same(part_of(agent.state(), "target"), weights[0 if update < 3 else 3])
        for rows in (7, 5, 8, 12):  # 5, 7 and 8 share a compiled size
            expected = q_values(agent.params, STATES[:rows])
            np.testing.assert_allclose(agent.get_qs_batch(STATES[:rows]), expected, atol=1e-6)
    assert not np.allclose(agent.get_qs_batch(STATES[:5]), before, atol=1e-6)


def test_the_acting_net_takes_the_weights_once_after_an_update():
    reads = []

    class Watched(PirlAgent):
        @property
        def params(self):
            reads.append(self.updates)
            return super().params

    agent = Watched("torch", seed=0, serve="numpy", **SMALL)
    fill(agent, 20)
    agent.get_qs_batch(STATES)
    agent.train()
    reads.clear()
    for _ in range(3):
        agent.get_qs_batch(STATES)
    assert reads == [1]


def test_agent_acts_on_one_backend_with_the_weights_that_another_learns():
    agent = make("torch", serve="numpy")
    fill(agent, 20)
    for _ in range(2):
        np.testing.assert_array_equal(agent.get_qs_batch(STATES), q_values(agent.params, STATES))
        agent.train()


def test_the_order_of_the_configuration_changes_the_loss():
    steep = np.where(np.arange(16) == 3, np.float32(30), np.float32(1))[:, None]  # else diffusion is negligible
    losses = []
    for order in (1, 2):
        agent = make("torch", order=order, pde_weight=1e6)
        state = agent.state()
        agent.load_state(state | {"online.w0": state["online.w0"] * steep})
        fill(agent, 20)
        losses.append(agent.train()[0])
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)


def test_a_checkpoint_of_one_backend_goes_on_with_another(tmp_path, learner):
    agent = make(learner)
    fill(agent, 20)
    for _ in range(4):
        agent.train()
    agent.save(tmp_path / "agent")
    served = PirlAgent.load(tmp_path / "agent", backend="numpy")
    np.testing.assert_allclose(served.get_qs_batch(STATES), agent.get_qs_batch(STATES), atol=1e-6)
    served.save(tmp_path / "again")
    assert everything(PirlAgent.load(tmp_path / "again", backend=learner)) == everything(agent)
    resumed = PirlAgent.load(tmp_path / "agent", backend="jax" if learner == "torch" else "torch")
    assert resumed.train() == pytest.approx(agent.train(), rel=1e-3)


def test_an_evaluation_on_another_backend_also_acts_on_it(tmp_path):
    PirlAgent("torch", seed=0, serve="onnx", hidden=(8,)).save(tmp_path / "agent")
    main(["evaluate", str(tmp_path / "agent"), "--episodes", "1", "--backend", "numpy"])
    (file,) = tmp_path.glob("evaluation-*.json")
    config = json.loads(file.read_text())["config"]
    assert (config["backend"], config["serve"]) == ("numpy", "same")


def test_a_state_loaded_into_an_agent_that_has_driven_replaces_all_of_its_own():
    agent, start = make("torch", warm_up=1000), make("torch", warm_up=1000, seed=1)
    agent.learn()
    while "episode" not in agent.state():
        agent.learn()
    agent.get_qs_batch(STATES)
    agent.load_state(start.state())
    agent.rng.bit_generator.state, agent.step = start.rng.bit_generator.state, 0
    assert everything(agent) == everything(start)
    np.testing.assert_array_equal(agent.get_qs_batch(STATES), start.get_qs_batch(STATES))
    np.testing.assert_equal(agent.learn(), start.learn())


def test_a_state_with_a_wrong_replay_buffer_changes_nothing():
    agent, other = make("torch"), make("torch", seed=1)
    fill(agent, 9)
    before = everything(agent)
    with pytest.raises(ValueError, match="pushed"):
        agent.load_state(other.state() | {"replay.pushed": np.array(-1)})
    assert everything(agent) == before
