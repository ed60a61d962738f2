"""What was published of JAX in place of torch and NumPy for agents that hunt, each learning alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from rl_impls import backends
from rl_impls.treasurehunt.problem import CAPACITY, epoch, train_step

from ..case import Inputs, inputs_of
from ..claim import Comparison, Figure, Side, between, stated_in

on = stated_in("treasurehunt-jax.md")
BATCH = 64


def of(op: str, form: str, backend: str, agents: int = 5) -> str:
    """Return the id of a benchmark of one world.

    Args:
        op: its name.
        form: its name.
        backend: its name.
        agents: how many.
    """
    axes = {"forward": "-batch64", "first_call": "-batch64", "train_step": "", "sample": ""}.get(op, "-worlds1")
    return f"treasurehunt.{op}[{form}-{backend}-agents{agents}{axes}]"


def to_jax(op: str) -> dict[str, Comparison]:
    """Return an op in torch beside the same in JAX: agent by agent, and all agents at once.

    Args:
        op: its name.
    """
    return {
        "alone": between(of(op, "naive", "torch"), of(op, "one_by_one", "jax")),
        "from full": between(of(op, "full", "torch"), of(op, "full", "jax")),
        "over torch-compile": between(of(op, "full", "torch-compile"), of(op, "full", "jax")),
    }


def of_numpy(op: str) -> dict[str, Comparison]:
    """Return an op in NumPy beside the same in JAX.

    Args:
        op: its name.
    """
    return {
        "alone": between(of(op, "naive", "numpy"), of(op, "full", "jax")),
        "from full": between(of(op, "full", "numpy"), of(op, "full", "jax")),
    }


def gradient(backend: str) -> Side:
    """Return the loss of one agent with its gradient, without the optimiser.

    Args:
        backend: torch or jax.
    """
    make = {"torch": by_autograd, "jax": by_value_and_grad}[backend]
    return Side(f"treasurehunt.gradient[{backend}]", make=make, backend=backend)


def one_agent(rng: Any) -> tuple[Any, Any, list[Any]]:
    """Return the weights of both nets of one agent, and a batch.

    Args:
        rng: the generator of all that is drawn.
    """
    inputs = inputs_of(train_step)(rng, agents=1)
    nets = ({name: value[0] for name, value in inputs.spec[part].items()} for part in ("params", "target"))
    return *nets, [array[0] for array in inputs.args]  # type: ignore[return-value]


def by_autograd(rng: Any) -> Callable[[], Any]:
    """Return a function that computes loss and gradient by torch.

    Args:
        rng: the generator of all that is drawn.
    """
    import torch

    source: Any = import_module("rl_impls.treasurehunt._torch")
    target, (params, target_params, batch) = backends.get("torch").lowering_here(), one_agent(rng)
    net = source.make_net(params, target)
    loss, tensors = (
        source.make_loss(net, source.make_net(target_params, target)),
        [torch.from_numpy(array) for array in batch],
    )

    def compute() -> Any:
        net.zero_grad(set_to_none=True)
        value = loss(*tensors)
        value.backward()
        return value.detach(), {name: weight.grad for name, weight in net.weights.items()}

    return compute


def by_value_and_grad(rng: Any) -> Callable[[], Any]:
    """Return a function that computes loss and gradient by JAX, compiled.

    Args:
        rng: the generator of all that is drawn.
    """
    import jax

    source: Any = import_module("rl_impls.treasurehunt._jax")
    arrays = jax.device_put(one_agent(rng))
    function = jax.jit(jax.value_and_grad(source.make_loss(backends.forms("treasurehunt")["naive"])))
    return lambda: function(arrays[0], arrays[1], *arrays[2])


def indices(library: str) -> Side:
    """Return 64 drawn indices, without repetition.

    Args:
        library: numpy or jax.
    """
    make = {"numpy": by_generator, "jax": by_key}[library]
    return Side(f"treasurehunt.indices[{library}]", make=make, backend=library)


def by_generator(rng: Any) -> Callable[[], Any]:
    """Return a function that draws by NumPy's generator.

    Args:
        rng: the generator of all that is drawn.
    """
    return lambda: rng.choice(CAPACITY, BATCH, replace=False)


def by_key(rng: Any) -> Callable[[], Any]:
    """Return a function that draws by JAX's keys, compiled.

    Args:
        rng: the generator of all that is drawn.
    """
    import jax

    def split_and_draw(key: Any) -> Any:
        key, drawn = jax.random.split(key)
        return key, jax.random.choice(drawn, CAPACITY, (BATCH,), replace=False)

    draw, key = jax.jit(split_and_draw), jax.random.key(int(rng.integers(2**31)))

    def drawn() -> Any:
        nonlocal key
        key, rows = draw(key)
        return rows

    return drawn


def of_two(rng: Any) -> Inputs:
    """Return an epoch of two agents.

    Args:
        rng: the generator of all that is drawn.
    """
    return inputs_of(epoch)(rng, agents=2, worlds=1)


def hunting(form: str, backend: str, agents: int) -> Side:
    """Return an epoch of so many agents.

    Args:
        form: its name.
        backend: its name.
        agents: how many; of two there is no benchmark, but it is that of five with other inputs.
    """
    if agents == 2:
        return Side(of("epoch", form, backend), given=of_two, words="two agents")
    return Side(of("epoch", form, backend, agents))


NETWORK = "neural network forward/backward passes"
TORCH, JAX = functools.partial(of, backend="torch"), functools.partial(of, backend="jax")
EVERYTHING = {
    "naive to compiled": between(TORCH("epoch", "naive"), JAX("epoch", "compiled")),
    "full torch to compiled": between(TORCH("epoch", "full"), JAX("epoch", "compiled")),
}
ALL_ACTING = {"naive to full": between(TORCH("act", "naive"), JAX("act", "full"))}
ALL_LEARNING = {"naive to full": between(TORCH("train_step", "naive"), JAX("train_step", "full"))}

CLAIMS = (
    on(
        "treasure-forward",
        "the net's forward pass is 2 to 5 times as fast by jax.jit as in torch",
        NETWORK,
        promised="2 to 5 x",
        least=2.0,
        contexts=to_jax("forward"),
        same="close",
    ),
    on(
        "treasure-train",
        "an update is 2 to 5 times as fast by jax.jit as in torch",
        NETWORK,
        promised="2 to 5 x",
        least=2.0,
        contexts=to_jax("train_step"),
        same="close",
    ),
    on(
        "treasure-infer",
        "choosing actions is 3 to 10 times as fast by jax.jit as in torch",
        NETWORK,
        promised="3 to 10 x",
        least=3.0,
        contexts=to_jax("act"),
        same="close",
    ),
    on(
        "treasure-eager-10x",
        "later calls of a compiled net are 10 to 100 times as fast as eager torch",
        NETWORK,
        promised="10 to 100 x",
        least=10.0,
        contexts={
            "one agent acts": between(TORCH("act", "naive", agents=1), JAX("act", "full", agents=1)),
            "one agent's batch": between(TORCH("forward", "naive", agents=1), JAX("forward", "full", agents=1)),
        },
    ),
    on(
        "treasure-first-call",
        "the first call takes 100 to 200 ms to compile",
        NETWORK,
        promised="100 to 200 ms",
        figures=[Figure("first call", Side(JAX("first_call", "full")), "100 to 200 ms", "seconds")],
    ),
    on(
        "treasure-steady-call",
        "later calls take 1 to 5 ms",
        "example 1",
        promised="1 to 5 ms",
        figures=[
            Figure("batch of 64, five agents", Side(JAX("forward", "full"), work=1), "1 to 5 ms", "seconds"),
            Figure("batch of 64, one agent", Side(JAX("forward", "full", agents=1), work=1), "1 to 5 ms", "seconds"),
        ],
    ),
    on(
        "treasure-grad",
        "jax.value_and_grad is faster than torch's autograd",
        NETWORK,
        promised="faster",
        least=1.02,
        contexts={"the loss alone": Comparison(gradient("torch"), gradient("jax"))},
        same="close",
    ),
    on(
        "treasure-vmap-act",
        "vmap over agents makes acting 2 to 4 times as fast",
        "parallel processing across agents",
        promised="2 to 4 x",
        least=2.0,
        same="close",
        contexts={"from full": between(JAX("act", "one_by_one"), JAX("act", "full"))},
    ),
    on(
        "treasure-vmap-train",
        "vmap over agents in training",
        "parallel processing across agents",
        same="close",
        contexts={"from full": between(JAX("train_step", "one_by_one"), JAX("train_step", "full"))},
    ),
    on(
        "treasure-batch-agents",
        "batching across agents is worth 3 to 5 times",
        "conclusion",
        promised="3 to 5 x",
        least=3.0,
        contexts={
            "turns in JAX": between(JAX("turn", "one_by_one"), JAX("turn", "full")),
            "turns in torch": between(TORCH("turn", "one_by_one"), TORCH("turn", "full")),
        },
    ),
    on(
        "treasure-buffer",
        "sampling from the memory is 2 to 3 times as fast in JAX",
        "buffer operations",
        promised="2 to 3 x",
        least=2.0,
        contexts=of_numpy("sample"),
        same="close",
    ),
    on(
        "treasure-loss",
        "the quantile Huber loss is 1.5 to 2 times as fast in JAX",
        "loss computation",
        promised="1.5 to 2 x",
        least=1.5,
        same="close",
        contexts={
            "from full": between(
                "treasurehunt.quantile_huber[full-torch-batch64]", "treasurehunt.quantile_huber[full-jax-batch64]"
            )
        },
    ),
    on(
        "treasure-stack",
        "stacking frames is 1.5 to 2 times as fast in JAX",
        "state stacking",
        promised="1.5 to 2 x",
        least=1.5,
        contexts=of_numpy("stack"),
        same="close",
    ),
    on(
        "treasure-observe",
        "observing is 1.2 to 1.5 times as fast in JAX",
        "observation computation",
        promised="1.2 to 1.5 x",
        least=1.2,
        contexts=of_numpy("observe"),
        same="close",
    ),
    on(
        "treasure-vmap-observe",
        "observing all agents at once is faster than one by one",
        "parallel processing across agents",
        promised="faster",
        least=1.02,
        same="close",
        contexts={"alone": between(of("observe", "naive", "numpy"), of("observe", "full", "numpy"))},
    ),
    on(
        "treasure-rng",
        "drawing indices is faster by jax.random than by NumPy",
        "buffer operations",
        promised="faster",
        least=1.02,
        contexts={"64 of 1,024": Comparison(indices("numpy"), indices("jax"))},
    ),
    on(
        "treasure-phase1",
        "the network in JAX makes an epoch 2 to 4 times as fast",
        "phase 1",
        promised="2 to 4 x",
        least=2.0,
        contexts={"alone": between(TORCH("epoch", "naive"), JAX("epoch", "naive"))},
    ),
    on(
        "treasure-phase2",
        "vmap over agents brings 2 to 4 times more",
        "phase 2",
        promised="2 to 4 x more",
        least=2.0,
        contexts={"from full": between(JAX("epoch", "one_by_one"), JAX("epoch", "full"))},
    ),
    on(
        "treasure-phase3",
        "the memory in JAX brings 2 to 3 times more",
        "phase 3",
        promised="2 to 3 x more",
        least=2.0,
        contexts={"from full": between(JAX("epoch", "full"), JAX("epoch", "compiled"))},
        note="Everything in one compiled program, the memory with it.",
    ),
    on(
        "treasure-all",
        "everything in JAX makes an epoch 4 to 12 times as fast",
        "conclusion",
        promised="4 to 12 x (5 to 15 x optimistic)",
        least=4.0,
        contexts=EVERYTHING,
    ),
    on(
        "treasure-conservative-train",
        "the network alone in JAX trains 2 to 3 times as fast",
        "conservative estimate",
        promised="2 to 3 x",
        least=2.0,
        contexts={"alone": between(TORCH("train_step", "naive"), JAX("train_step", "one_by_one"))},
    ),
    on(
        "treasure-conservative-infer",
        "the network alone in JAX acts 3 to 5 times as fast",
        "conservative estimate",
        promised="3 to 5 x",
        least=3.0,
        contexts={"alone": between(TORCH("act", "naive"), JAX("act", "one_by_one"))},
    ),
    on(
        "treasure-optimistic-train",
        "everything in JAX trains 5 to 10 times as fast",
        "optimistic estimate",
        promised="5 to 10 x",
        least=5.0,
        contexts=ALL_LEARNING,
    ),
    on(
        "treasure-optimistic-infer",
        "everything in JAX acts 10 to 20 times as fast",
        "optimistic estimate",
        promised="10 to 20 x",
        least=10.0,
        contexts=ALL_ACTING,
    ),
    on(
        "treasure-multiprocess",
        "JAX with vmap is faster than a process for each of few agents",
        "comparison with multiprocessing",
        promised="faster below about 10 agents",
        least=1.02,
        contexts={"2 agents": Comparison(hunting("processes", "torch", 2), hunting("full", "jax", 2))},
    ),
    on(
        "treasure-multiprocess-many",
        "a process for each of many agents is faster than JAX with vmap",
        "comparison with multiprocessing",
        promised="faster from 10 agents on",
        least=1.02,
        contexts={"16 agents": Comparison(hunting("full", "jax", 16), hunting("processes", "torch", 16))},
        note="On the cores that are here: a process for each agent waits for one of them.",
    ),
)
