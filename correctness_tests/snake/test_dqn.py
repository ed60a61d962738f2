"""The DQN step by step: act, remember, replay."""

import numpy as np
import pytest

from correctness_tests.commands import python
from rl_impls.snake._numpy import q_values
from rl_impls.snake.dqn import DQNAgent

STATE = np.float32([1, 0])


def test_benchmark_of_the_original_code_runs_with_a_changed_import(capsys):
    # fmt: off
    import time

    from rl_impls.snake.dqn import DQNAgent, SnakeEnv

    env = SnakeEnv(startingBlocks=3, dim=10, distToBorder=3)
    obs, _ = env.reset()
    agent = DQNAgent(obs.flatten().shape[0], env.action_space.n)

    start = time.time()
    for episode in range(100):  # noqa: B007
        obs, _ = env.reset()
        state = obs.flatten()
        for step in range(50):
            action = agent.act(state)
            obs, reward, term, trunc, _ = env.step(action)
            state = obs.flatten()
            agent.remember(state, action, reward, state, term or trunc)
            if step % 4 == 0 and len(agent.memory) > 32:
                agent.replay(batch_size=32)
            if term or trunc:
                break

    elapsed = time.time() - start
    print(f'Throughput: {5000/elapsed:.1f} steps/sec')
    # fmt: on
    assert capsys.readouterr().out.startswith("Throughput: ")
    assert len(agent.memory) == agent.step >= 80  # no episode is shorter than four steps
    assert agent.epsilon == pytest.approx(1 - 0.95 * agent.step / 20_000)
    untrained = DQNAgent(100, 4).params
    assert all((agent.params[name] != untrained[name]).any() for name in untrained)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(("given", "spins"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7")])
def test_idle_threads_of_torch_soon_sleep_unless_the_environment_says_otherwise(given, spins):
    start = f"import os; os.environ.pop('GOMP_SPINCOUNT', 0); os.environ.update({given})"
    agent = "from rl_impls.snake.dqn import DQNAgent; DQNAgent(4, 2)"
    done = python("-c", f"{start}; {agent}", OMP_DISPLAY_ENV="VERBOSE")  # libgomp prints its settings
    assert f"GOMP_SPINCOUNT = '{spins}'" in done.stderr


def test_argument_names_of_the_original_code_are_accepted():
    from rl_impls.snake.env import SnakeEnv

    assert SnakeEnv(startingBlocks=2, dim=8, distToBorder=1).geometry == SnakeEnv(2, 8, 1).geometry
    assert DQNAgent(64, 4, hidden_size=128).params["w1"].shape == (128, 128)


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_an_agent_learns_the_values_and_acts_by_them(backend):
    """In the only state, action 2 earns 1; with gamma 0.5, its value is 2 = 1 + 2 / 2, and the others are 1 = 2 / 2."""
    agent = DQNAgent(2, 3, backend=backend, hidden=16, gamma=0.5, capacity=300, learning_rate=5e-3, target_frequency=50)
    rng = np.random.default_rng(0)
    for k in range(1_000):
        action = int(rng.integers(3))
        agent.remember(STATE, action, float(action == 2), STATE, False)
        if len(agent.memory) >= 32:
            loss = agent.replay(32 if k < 900 else 50)
    assert loss < 1e-2
    np.testing.assert_allclose(q_values(agent.params, STATE[None])[0], [1, 1, 2], atol=0.1)
    for _ in range(20_000):
        agent.remember(STATE, 0, 0, STATE, True)
    assert agent.epsilon == 0.05
    assert np.mean([agent.act(STATE) == 2 for _ in range(200)]) > 0.9


@pytest.mark.parametrize(("target_frequency", "done", "value"), [(50, False, 10), (50, True, 5), (0, False, 10)])
def test_the_next_value_counts_unless_done_and_the_target_network_is_due_between_replays_too(
    target_frequency, done, value
):
    """Each step is rewarded by 5, and half of the next value counts: 10 = 5 + 10 / 2.

    A ``target_frequency`` of 0 means no target network.
    """
    agent = DQNAgent(2, 1, hidden=16, gamma=0.5, learning_rate=5e-3, target_frequency=target_frequency)
    agent.remember(STATE, 0, 5.0, STATE, done)
    for _ in range(500):
        for _ in range(2):  # the step is odd at each replay, so never a multiple of 50
            agent.remember(STATE, 0, 5.0, STATE, done)
        if len(agent.memory) >= 32:
            agent.replay()
    np.testing.assert_allclose(q_values(agent.params, STATE[None]), value, atol=0.5)


def test_another_batch_size_keeps_the_target_network():
    agent = DQNAgent(2, 1, hidden=16, gamma=1.0, learning_rate=5e-3, target_frequency=10**6)
    for _ in range(40):
        agent.remember(STATE, 0, 5.0, STATE, False)
    for _ in range(400):
        agent.replay()
    assert agent.replay() < 0.01
    assert agent.replay(20) < 0.01  # 4.5 if the value itself took the place of the target network's


def test_another_batch_size_counts_for_one_replay_only():
    agent = DQNAgent(2, 1, hidden=16, learning_rate=0.0)
    for k in range(32):
        agent.remember(STATE, 0, float(k), STATE, True)
    loss = agent.replay()  # on all that is stored
    assert agent.replay(8) != pytest.approx(loss)
    assert agent.replay() == pytest.approx(loss)


def test_an_agent_is_determined_by_its_seed():
    def trained(seed):
        agent = DQNAgent(2, 3, seed=seed, hidden=8)
        for _ in range(40):
            agent.remember(STATE, agent.act(STATE), 1.0, STATE, True)
        return agent.replay(), agent.params["w0"].tolist()

    assert trained(1) == trained(1) != trained(2)
