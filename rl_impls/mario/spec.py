"""What the ops of mario are built from and called with: every name, with shapes and units, checked at build.

B transitions (or N environments), C collectors, S pixels along a side of a frame, A = 15 actions. A state is four
frames, u8[4, S, S], oldest first, zeros before the start of an episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypedDict

import numpy as np

from ..common.shapes import parse, sizes

ACTIONS = 15  # of Procgen, and of the net
STACK = 4  # frames of a state
SIDES = (84, 128)  # pixels
STRIDES = (4, 2, 1)  # of the convolutions
KERNELS = (8, 4, 3)
NORM_EPS, NORM_RATE = 1e-5, 0.1  # of batch norm: added to the variance; how fast the running statistics follow


class Spec(TypedDict, total=False):
    """What an op is built from; which of it an op needs is said in ``NEEDED``.

    Attributes:
        side: pixels along a side of a frame, S.
        params: weights of the online net, see :func:`shapes`.
        target: weights of the target net.
        learning_rate: of Adam.
        gamma: discount of one step.
        gradient_norm: to which the gradient is clipped.
        collectors: processes that play, C.
        capacity: experiences that a replay keeps.
        stored: experiences that it has at the start.
        alpha: how far priorities count, 0 for not at all.
        beta: how far weights make up for it, 1 for wholly.
        beta_increment: what beta grows by with each batch of a pipeline, up to 1; 1e-6 where it is not given.
        shape: of a frame that is handed over, (S, S) or (4, S, S).
        items: that are handed over in a call, by all collectors.
        seed: of all that is random, an integer from 0.
        envs: environments that a collector plays.
        game: of Procgen, or ``mario``, that of the NES.
        mode: easy or hard.
        levels: how many levels are played; 0: all there are.
        start_level: the first of them.
        updates: batches of an epoch.
        batch: experiences of an update, B.
        reuse: how often an experience is learned from, on average: B updates / experiences of an epoch.
        publish_every: epochs from one publication of the weights to the next.
        target_every: updates from one copy of the weights to the target net to the next.
        epsilon: share of drawn actions, at the start and in the end.
        explore: experiences until that end.
        prioritised: whether experiences are drawn by their priorities.
        queue: experiences that may wait between the collectors and the learner.
        chunk: experiences that a consolidating thread hands over at a time.
        worker_timeout: seconds to wait without a sign of life from any collector; 120 by default.
    """

    side: int
    params: Mapping[str, Any]
    target: Mapping[str, Any]
    learning_rate: float
    gamma: float
    gradient_norm: float
    collectors: int
    capacity: int
    stored: int
    alpha: float
    beta: float
    beta_increment: float
    shape: tuple[int, ...]
    items: int
    seed: int
    envs: int
    game: str
    mode: str
    levels: int
    start_level: int
    updates: int
    batch: int
    reuse: float
    publish_every: int
    target_every: int
    epsilon: tuple[float, float]
    explore: int
    prioritised: bool
    queue: int
    chunk: int
    worker_timeout: float


LEARNT = ("side", "params", "target", "learning_rate", "gamma", "gradient_norm")
REPLAYED = ("side", "capacity", "stored", "seed")
NEEDED = MappingProxyType(
    {
        "preprocess": ("side",),
        "transport": ("shape", "collectors", "items", "queue", "chunk"),
        "push": ("side", "capacity"),
        "sample": (*REPLAYED, "batch"),
        "per_sample": (*REPLAYED, "alpha", "beta"),
        "per_update": (*REPLAYED, "alpha", "beta"),
        "train_step": LEARNT,
        "publish": ("params", "collectors"),
        "pipeline": (
            *LEARNT, "collectors", "envs", "game", "mode", "levels", "start_level", "capacity", "seed", "updates",
            "batch", "reuse", "publish_every", "target_every", "epsilon", "explore", "prioritised", "alpha", "beta",
            "queue", "chunk",
        ),
    }
)  # fmt: skip
ITEMS = MappingProxyType(
    {"frames": "u8[B, S, S]", "actions": "i32[B]", "rewards": "f32[B]", "ends": "bool[B]", "times": "i32[B]"}
)
ARGUMENTS = MappingProxyType(
    {
        "preprocess": {"frames": "u8[B, 240, 256, 3]"},
        "transport": {"number": "i64"},
        "push": ITEMS,
        "sample": {"seed": "i64"},
        "per_sample": {"uniforms": "f32[B]"},
        "per_update": {"rows": "i64[B]", "errors": "f32[B]"},
        "train_step": {
            "states": "u8[B, 4, S, S]", "actions": "i32[B]", "rewards": "f32[B]", "next_states": "u8[B, 4, S, S]",
            "ends": "f32[B]", "weights": "f32[B]",
        },
        "publish": {"number": "i64"},
        "pipeline": {"numbers": "i64[I]"},
    }
)  # fmt: skip


def features(side):
    """Return the outputs of the last convolution for one state.

    Args:
        side: pixels along a side of a frame, S.
    """
    for kernel, stride in zip(KERNELS, STRIDES):
        side = (side - kernel) // stride + 1
    return side * side * 64


def shapes(side, norm=False):
    """Return dtype and shape of each weight of the net, by name.

    Convolutions of 32, 64 and 64 outputs, a hidden layer of 512 and the actions' values (Mnih et al. 2015). With batch
    norm (Ioffe and Szegedy 2015) a convolution has no bias of its own: ``b_conv{k}`` is added, and ``g_conv{k}``
    multiplied, after it; ``m_conv{k}`` and ``v_conv{k}`` are the running mean and variance, which are not learned.

    Args:
        side: pixels along a side of a frame, S.
        norm: whether it has batch norm.
    """
    found, inputs = {}, STACK
    for k, (kernel, outputs) in enumerate(zip(KERNELS, (32, 64, 64))):
        found[f"w_conv{k}"] = f"f32[{kernel}, {kernel}, {inputs}, {outputs}]"
        found[f"b_conv{k}"] = f"f32[{outputs}]"
        found |= {f"{name}_conv{k}": f"f32[{outputs}]" for name in ("gmv" if norm else "")}
        inputs = outputs
    found |= {"w_hidden": f"f32[{features(side)}, 512]", "b_hidden": "f32[512]"}
    return found | {"w_value": f"f32[512, {ACTIONS}]", "b_value": f"f32[{ACTIONS}]"}


def has_norm(params):
    """Return whether a net has batch norm.

    Args:
        params: its weights by name.
    """
    return "g_conv0" in params


def is_running(name):
    """Return whether an array is a running statistic, which is not learned.

    Args:
        name: of it.
    """
    return name.startswith(("m_", "v_"))


def axes(op, spec):
    """Return the sizes that the spec of an op gives: ``{"S": 84}`` where it has a side, else none.

    Args:
        op: its name.
        spec: what it is built from, see :class:`Spec`.

    Raises:
        ValueError: weights that are not such a net's, or a number that makes no sense.
    """
    check_counts(spec)
    if "side" not in spec:
        return {}
    if "params" in NEEDED[op]:
        check_net(spec["params"], spec["side"])
    return {"S": spec["side"]}


LEAST = MappingProxyType(
    {
        "side": 36, "collectors": 1, "capacity": 1, "items": 1, "envs": 1, "updates": 1, "batch": 1, "publish_every": 1,
        "target_every": 1, "queue": 1, "chunk": 1,
    }
)  # fmt: skip


def check_counts(spec):
    """Check that what counts something is large enough.

    Args:
        spec: what an op is built from.

    Raises:
        ValueError: it is not.
    """
    for name, least in LEAST.items():
        if spec.get(name, least) < least:
            raise ValueError(f"{name}: got {spec[name]}, wanted {least} or more")


def check_net(params, side):
    """Check that weights are those of the net.

    Args:
        params: arrays by name.
        side: pixels along a side of a frame, S.

    Raises:
        ValueError: another name or shape than that net has.
    """
    wanted = shapes(side, has_norm(params))
    if params.keys() != wanted.keys():
        raise ValueError(f"params: got {', '.join(params)}, wanted {', '.join(wanted)}")
    try:
        sizes(wanted, [params[name] for name in wanted])
    except ValueError as error:
        raise ValueError(f"params: {error}") from None


def uniform(rng, shape, inputs):
    """Return weights as torch draws them: uniform within ``1 / sqrt(inputs)``.

    Args:
        rng: the generator of what is drawn.
        shape: of the weights.
        inputs: of one output.
    """
    return rng.uniform(-(inputs**-0.5), inputs**-0.5, shape)


def normal(rng, shape, inputs):
    """Return weights of variance ``2 / inputs``, by which ReLUs keep the size of what goes through (He et al. 2015).

    Args:
        rng: the generator of what is drawn.
        shape: of the weights.
        inputs: of one output.
    """
    return rng.normal(0, (2 / inputs) ** 0.5, shape)


INITS = MappingProxyType({"uniform": uniform, "he": normal})


def init_net(rng, side, norm=False, init="he"):
    """Return the weights of a new net, f32 arrays by name, see :func:`shapes`; biases are 0.

    Args:
        rng: the generator of all that is drawn.
        side: pixels along a side of a frame, S.
        norm: whether it has batch norm.
        init: how weights are drawn, a key of ``INITS``.
    """
    params = {}
    for name, text in shapes(side, norm).items():
        shape = tuple(map(int, parse(text)[1]))
        if name.startswith("w_"):
            value = INITS[init](rng, shape, int(np.prod(shape[:-1])))
        else:
            value = np.full(shape, 1.0 if name.startswith(("g_", "v_")) else 0.0)
        params[name] = value.astype(np.float32)
    return params
