"""Configuration and arguments of mario's ops: names, shapes and units, and the checks at build.

B transitions (or N environments), C collectors, S pixels along a side of a frame, A = 15 actions. A state is four
frames, u8[4, S, S], oldest first, zeros before the start of an episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypedDict

import numpy as np

from ..common.shapes import parse, sizes

ACTIONS = 15  # of Procgen and of the network
STACK = 4  # frames of a state
SIDES = (84, 128)  # pixels
STRIDES = (4, 2, 1)  # of the convolutions
KERNELS = (8, 4, 3)
NORM_EPS, NORM_RATE = 1e-5, 0.1  # of batch norm: added to the variance; momentum of the running statistics


class Spec(TypedDict, total=False):
    """Configuration of an op; ``NEEDED`` lists the fields that each op requires.

    Attributes:
        side: height and width of a frame in pixels, S.
        params: weights of the online network, see :func:`shapes`.
        target: weights of the target network.
        learning_rate: learning rate of Adam.
        gamma: discount factor.
        gradient_norm: maximum norm to which the gradient is clipped.
        collectors: number of collector processes, C.
        capacity: capacity of the replay in experiences.
        stored: experiences in the replay at the start.
        alpha: exponent of the priorities; 0: uniform.
        beta: exponent of the importance-sampling weights; 1: full correction.
        beta_increment: increase of beta per batch of a pipeline, up to 1; 1e-6 by default.
        shape: shape of a frame that is sent, (S, S) or (4, S, S).
        items: experiences that all collectors together send per call.
        seed: seed of all random numbers, an integer from 0.
        envs: environments per collector.
        game: a game of Procgen, or ``mario``, that of the NES.
        mode: difficulty of Procgen, easy or hard.
        levels: number of levels to play; 0: no limit.
        start_level: first level.
        updates: updates per epoch, U.
        batch: batch size of an update, B.
        reuse: how often an experience is sampled on average: B U / experiences of an epoch.
        publish_every: epochs between publications of the weights.
        target_every: updates between copies of the weights to the target network.
        epsilon: fraction of random actions, initial and final.
        explore: experiences over which epsilon decreases linearly.
        prioritised: whether to sample by priority.
        queue: experiences that may wait between the collectors and the learner.
        chunk: experiences that a gathering thread delivers at a time.
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
    """Return the number of outputs of the last convolution for one state."""
    for kernel, stride in zip(KERNELS, STRIDES):
        side = (side - kernel) // stride + 1
    return side * side * 64


def shapes(side, norm=False):
    """Return dtype and shape of each weight of the network, by name.

    Three convolutions with 32, 64 and 64 outputs, a hidden layer of 512, and a value for each action (Mnih et al.
    2015). With batch norm (Ioffe and Szegedy 2015) the convolutions have no bias; instead their outputs are normalised,
    scaled by ``g_conv{k}`` and shifted by ``b_conv{k}``. ``m_conv{k}`` and ``v_conv{k}`` are the running mean and
    variance, which are not trained.
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
    """Return whether the weights are those of a network with batch norm."""
    return "g_conv0" in params


def is_running(name):
    """Return whether an array is a running statistic, which is not trained."""
    return name.startswith(("m_", "v_"))


def axes(op, spec):
    """Check the configuration of an op; return the sizes that it fixes, ``{"S": 84}`` if it has a side.

    Raises:
        ValueError: weights of another network, or a number that is too small.
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
    """Raise a ValueError if a number is below its minimum in ``LEAST``."""
    for name, least in LEAST.items():
        if spec.get(name, least) < least:
            raise ValueError(f"{name}: got {spec[name]}, wanted {least} or more")


def check_net(params, side):
    """Raise a ValueError unless names and shapes of the weights are those of the network."""
    wanted = shapes(side, has_norm(params))
    if params.keys() != wanted.keys():
        raise ValueError(f"params: got {', '.join(params)}, wanted {', '.join(wanted)}")
    try:
        sizes(wanted, [params[name] for name in wanted])
    except ValueError as error:
        raise ValueError(f"params: {error}") from None


def uniform(rng, shape, inputs):
    """Return weights as torch initialises them: uniform within ``1 / sqrt(inputs)``."""
    return rng.uniform(-(inputs**-0.5), inputs**-0.5, shape)


def normal(rng, shape, inputs):
    """Return weights of variance ``2 / inputs``, which keeps the scale of ReLU activations (He et al. 2015)."""
    return rng.normal(0, (2 / inputs) ** 0.5, shape)


INITS = MappingProxyType({"uniform": uniform, "he": normal})


def init_net(rng, side, norm=False, init="he"):
    """Return the weights of a new network, f32 arrays by name; ``init`` is a key of ``INITS``, biases are 0."""
    params = {}
    for name, text in shapes(side, norm).items():
        shape = tuple(map(int, parse(text)[1]))
        if name.startswith("w_"):
            value = INITS[init](rng, shape, int(np.prod(shape[:-1])))
        else:
            value = np.full(shape, 1.0 if name.startswith(("g_", "v_")) else 0.0)
        params[name] = value.astype(np.float32)
    return params
