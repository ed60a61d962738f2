"""Hybrid training: one backend learns and another acts."""

import sys

import numpy as np
import pytest

from correctness_tests.pirl.problem import SMALL, build, config_of, slow, small_net
from correctness_tests.workload_agents import as_options
from rl_impls.backends import get
from rl_impls.pirl import _numpy
from rl_impls.pirl.__main__ import main
from rl_impls.pirl.agent import PirlAgent
from rl_impls.pirl.problem import training_batch


@pytest.mark.parametrize("backend", ["torch", slow("jax")])
@pytest.mark.parametrize("serve", ["numpy", "torch-trace", slow("onnx"), "jax"])
@pytest.mark.parametrize("sync_frequency", [slow(1), 5])
def test_hybrid_acts_on_the_weights_of_the_last_refresh(backend, serve, sync_frequency):
    rng = np.random.default_rng(3)
    params, batch = small_net(rng), training_batch(rng, 12)
    state = batch[0][:1]
    config = config_of(params, learning_rate=0.05)
    hybrid = build("hybrid", backend, {**config, "serve": serve, "sync_frequency": sync_frequency}, batch)
    acted = hybrid(*batch)

    step = build("train_step", backend, config, batch)
    acting, wanted = params, []
    for update in range(1, 11):
        step(*map(get(backend).to_device, batch))
        if update % sync_frequency == 0:
            acting = step.params
        wanted.append(_numpy.q_values(acting, state)[0])
    assert np.allclose(acted, wanted, atol=1e-5)
    assert not np.allclose(acted[0], acted[-1], atol=1e-2)
    hybrid.reset()
    assert np.allclose(hybrid(*batch), acted, atol=1e-6)


def test_serve_is_an_option_of_train_and_evaluate(tmp_path, monkeypatch):
    path = str(tmp_path / "agent")
    main(["train", path, "--steps", "1", "--serve", "numpy", *as_options(SMALL)])
    assert PirlAgent.load(path).config.serve == "numpy"
    monkeypatch.setitem(sys.modules, "torch_neuronx", None)
    with pytest.raises(SystemExit, match=r"^evaluate: neuron: torch_neuronx is not installed"):
        main(["evaluate", path, "--serve", "neuron"])
