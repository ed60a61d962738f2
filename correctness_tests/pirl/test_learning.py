"""The agent learns to stay on the road and to predict the probability of that (minutes of training, so marked slow).

Fraction of 100 greedy episodes that stay on the road after 10,240 steps on JAX: 0.86 to 0.98 with learning rate 2e-3
(seeds 0, 1 and 2 on two processors), 0.07 with the default, 5e-4, which reaches 0.96 after 20,480
steps. The untrained net: 0.23.
"""

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [0, 1])
def test_eight_of_ten_episodes_stay_on_the_road_after_10_240_steps_and_the_net_predicts_it(seed):
    from rl_impls.pirl.agent import PirlAgent

    agent = PirlAgent("jax", seed=seed, learning_rate=2e-3)
    before = agent.evaluate(100, seed=100)["returns"].mean()
    while agent.step < 10_240:
        agent.learn()
    after = {name: np.mean(values) for name, values in agent.evaluate(100, seed=100).items()}
    assert after["returns"] >= 0.8 > before, (before, after)
    assert after["predicted"] == pytest.approx(after["returns"], abs=0.15)
