"""Small nets, batches and learners for the tests of the nets."""

import functools
from dataclasses import asdict, replace

import numpy as np

from correctness_tests import updates
from correctness_tests.reference import in_float64
from correctness_tests.updates import assert_same
from rl_impls import backends
from rl_impls.backends import tree_map
from rl_impls.treasurehunt._numpy import NOISY, layer_sizes, noise_size
from rl_impls.treasurehunt.options import Options
from rl_impls.treasurehunt.vector_env import ACTIONS, VALUES

AGENTS, BATCH, SIZE, HIDDEN, QUANTILES = 3, 6, 10, 8, 5
LEARNERS = [(backend, form) for backend in ("torch", "jax") for form in ("naive", "one_by_one", "full")]
build = functools.partial(updates.build, "treasurehunt")
trainer = functools.partial(updates.learner, "treasurehunt", "train_step")


def called(op, backend, *args):
    implementation = backends.get(backend)
    return implementation.to_host(op(*map(implementation.to_device, args)))


def exact_trainer(config, batch):
    """Return a :func:`trainer` of the naive form on torch, in float64."""
    return trainer("torch", config, batch, "naive", exact=True)


def nets(rng, num_agents=AGENTS, size=SIZE, hidden=HIDDEN):
    """Return the weights of small nets in which every noisy weight has a different sigma."""
    params = {}
    for layer, (rows, columns) in layer_sizes(size, hidden).items():
        edge = rows**-0.5
        params[f"w_{layer}"] = rng.uniform(-edge, edge, (num_agents, rows, columns))
        params[f"b_{layer}"] = rng.uniform(-edge, edge, (num_agents, columns))
        if layer in NOISY:
            params[f"sw_{layer}"] = rng.uniform(0.3 * edge, 0.7 * edge, (num_agents, rows, columns))
            params[f"sb_{layer}"] = rng.uniform(0.3 * edge, 0.7 * edge, (num_agents, columns))
    return {name: value.astype(np.float32) for name, value in params.items()}


def learner(rng, num_agents=AGENTS, size=SIZE, hidden=HIDDEN):
    """Return a configuration of ``train_step`` with rates of a visible effect and a norm that clips some gradients."""
    return {
        "params": nets(rng, num_agents, size, hidden), "target": nets(rng, num_agents, size, hidden),
        "learning_rate": 1e-3, "max_grad_norm": 1.5, "soft_update": 0.1,
    }  # fmt: skip


def transitions(rng, params, batch=BATCH, quantiles=QUANTILES):
    """Return a batch for each agent, with some ended episodes, and TD errors both above and below 1."""
    num_agents, size, _ = params["w_state"].shape
    states, next_states = rng.normal(size=(2, num_agents, batch, size)).astype(np.float32)
    actions = rng.integers(ACTIONS, size=(num_agents, batch)).astype(np.int32)
    returns = rng.choice(VALUES, (num_agents, batch)) / 4
    discounts = rng.choice(np.array([0, 0.97, 0.98, 0.99], np.float32), (num_agents, batch))
    taus = rng.random((num_agents, 3, batch, quantiles), np.float32)
    noise = rng.standard_normal((num_agents, 2, noise_size(params)), np.float32)
    return states, actions, returns, next_states, discounts, taus, noise


def problem(seed, batches=1, num_agents=AGENTS):
    rng = np.random.default_rng(seed)
    config = learner(rng, num_agents)
    return config, [transitions(rng, config["params"]) for _ in range(batches)]


def acting(rng, params, num_worlds=32, quantiles=QUANTILES):
    num_agents, size, _ = params["w_state"].shape
    states = rng.normal(size=(num_agents, num_worlds, size)).astype(np.float32)
    explore = rng.random((num_agents, num_worlds)) < 0.3
    return (
        states, rng.random((num_agents, num_worlds, quantiles), np.float32), explore,
        rng.integers(ACTIONS, size=explore.shape).astype(np.int32),
    )  # fmt: skip


def state_of(config):
    state = {"step": np.array(0, np.int32)}
    for name, value in config["params"].items():
        state |= {f"online.{name}": value, f"target.{name}": config["target"][name]}
        state |= {f"{part}.{name}": np.zeros_like(value) for part in ("first", "second")}
    return state


JAX_OPTIONS = "nets", "cosines", "precision"


@functools.cache
def shared(backend, options):
    """Return a compiled learner that tests share; each of them loads its own state."""
    config, [batch] = problem(0)
    step, update = trainer(backend, config, batch, **asdict(options))
    assert_same(step.state(), state_of(config))
    return step, update


def trained_from(backend, options, state):
    if backend == "jax":  # the other options do not affect nets on JAX
        options = replace(Options(), **{name: getattr(options, name) for name in JAX_OPTIONS})
    step, update = shared(backend, options)
    step.load_state(state)
    return step, update


def trained(backend, options, config, batches):
    """Train from the initial state; return the losses and the final state."""
    step, update = trained_from(backend, options, state_of(config))
    return np.array([update(batch) for batch in batches]), step.state()


def agent(tree, n):
    return tree_map(lambda x: x[n] if getattr(x, "ndim", 0) else x, tree)


def norms(gradient):
    """Return the norm of each agent's gradient.  f[N, ...] by name -> f[N]"""
    return np.sqrt(sum((value.astype(np.float64) ** 2).reshape(len(value), -1).sum(1) for value in gradient.values()))


def torch_gradient(params, target, batch):
    """Return each agent's loss, and the gradients by name, from autograd in float64."""
    import torch

    from rl_impls.treasurehunt import _torch

    net, target_net = map(_torch.Iqn, in_float64((params, target)))
    losses = _torch.make_loss(net, target_net)(*map(torch.tensor, in_float64(batch)))
    losses.sum().backward()
    assert all(weight.grad is None for weight in target_net.parameters())
    return losses.detach().numpy(), {name: weight.grad.numpy() for name, weight in net.weights.items()}
