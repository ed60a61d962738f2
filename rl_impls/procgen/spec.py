"""What the ops of procgen are built from and called with: every name, with shapes and units, checked at build.

T steps, N environments, B pictures, A = 15 actions; a picture is u8[64, 64, 3]: height, width, colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypedDict

import numpy as np

from ..common.shapes import parse, sizes

ACTIONS = 15
PICTURE = (64, 64, 3)
STRIDES = (4, 2, 1)  # of the convolutions
SEEN = 60  # pixels along a side that reach the last one: 6 x 6 places of the second are of 14 x 14 of the first
ADAM_EPS = 1e-5  # of PPO's optimiser, added to the root, where the spec has no epsilon
RMS_DECAY = 0.99  # of the mean square of gradients, in A2C and IMPALA, where it has no decay
A2C_EPS, IMPALA_EPS = 1e-5, 0.01  # added to the root of that mean, where it has no epsilon


class Spec(TypedDict, total=False):
    """What an op is built from; which of it an op needs is said in ``NEEDED``.

    Attributes:
        params: weights of the net, see ``NETS``, or of the larger one, see ``RESIDUAL``.
        learning_rate: of Adam or RMSProp.
        epsilon: added to the root of the mean square of gradients; by default the algorithm's own.
        decay: of that mean in RMSProp; 0.99 by default.
        gamma: discount of one step.
        lam: discount of one step, beside gamma, of later TD errors in an advantage.
        rho_bar: largest importance weight of a TD error.
        c_bar: largest importance weight of what comes after a step.
        clip: how far from 1 a ratio of probabilities is rewarded to go.
        value_weight: of the values' error in the loss.
        entropy_weight: of the entropy in the loss.
        gradient_norm: to which the gradient is clipped.
        env: the games, the arguments of :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`, see ``ENV``.
        env_state: which of their states is played on from; the first one by default.
        seed: of actions and minibatches, an integer from 0.
        unroll: steps of each environment in a rollout, T.
        epochs: passes of PPO over a rollout.
        batch: pictures in an update of PPO, a divisor of T N.
        actors: processes that play, a divisor of N.
        lag: updates of the weights, at the most, that actors play without.
        ahead: rollouts that a worker of A3C may be ahead of the slowest one; 3 by default.
        processes: that torchrun started and that learn as one; one by default.
        rank: of this one among them.
        cluster: address of a Ray cluster whose actors play, see :mod:`.cluster`; by default, and where it is empty,
            they are processes of this machine.
        worker_timeout: seconds to wait without a sign of life from any actor; 120 by default.
    """

    params: Mapping[str, Any]
    learning_rate: float
    epsilon: float
    decay: float
    gamma: float
    lam: float
    rho_bar: float
    c_bar: float
    clip: float
    value_weight: float
    entropy_weight: float
    gradient_norm: float
    env: Mapping[str, Any]
    env_state: Mapping[str, Any]
    seed: int
    unroll: int
    epochs: int
    batch: int
    actors: int
    lag: int
    ahead: int
    processes: int
    rank: int
    cluster: str
    worker_timeout: float


NETS = MappingProxyType(
    {
        "w_conv0": "f32[8, 8, 3, 32]", "b_conv0": "f32[32]",  # height, width, inputs, outputs
        "w_conv1": "f32[4, 4, 32, 64]", "b_conv1": "f32[64]",
        "w_conv2": "f32[3, 3, 64, 64]", "b_conv2": "f32[64]",
        "w_policy": "f32[1024, 512]", "b_policy": "f32[512]", "w_logits": "f32[512, 15]", "b_logits": "f32[15]",
        "w_value": "f32[1024, 512]", "b_value": "f32[512]", "w_return": "f32[512, 1]", "b_return": "f32[1]",
    }
)  # fmt: skip
STAGES, BLOCKS = ((3, 16), (16, 32), (32, 32)), 2  # inputs and outputs of a stage, residual blocks of each


def residual_layers():
    """Yield each convolution of the residual net, in order: its name, its inputs and its outputs."""
    for stage, (inputs, outputs) in enumerate(STAGES):
        yield f"stage{stage}", inputs, outputs
        for block in range(BLOCKS):
            for conv in range(2):
                yield f"stage{stage}_block{block}_conv{conv}", outputs, outputs


RESIDUAL = MappingProxyType(
    {
        **{
            name: shape
            for layer, inputs, outputs in residual_layers()
            for name, shape in ((f"w_{layer}", f"f32[3, 3, {inputs}, {outputs}]"), (f"b_{layer}", f"f32[{outputs}]"))
        },
        "w_hidden": "f32[2048, 256]", "b_hidden": "f32[256]",
        "w_logits": "f32[256, 15]", "b_logits": "f32[15]", "w_return": "f32[256, 1]", "b_return": "f32[1]",
    }
)  # fmt: skip
SHAPES = MappingProxyType({"nature": NETS, "residual": RESIDUAL})  # by the net's name


def net_of(params):
    """Return the name of the net that weights are of: nature, or residual.

    Args:
        params: arrays by name.
    """
    return "residual" if "w_stage0" in params else "nature"


HEADS = MappingProxyType({"w_logits": 0.01, "w_return": 1.0})  # length of the orthogonal weights of an output
GAINS = MappingProxyType({"nature": 2**0.5, "residual": 3**-0.5})  # the same of all before: sums of blocks grow
ENV = ("game", "num_envs", "seed", "mode", "start_level", "num_levels")

LEARNT = ("params", "learning_rate", "value_weight", "entropy_weight", "gradient_norm")
PLAYED = ("env", "seed", "unroll")
PPO = (*LEARNT, "clip")
VTRACE = ("gamma", "rho_bar", "c_bar")
LOOPS = MappingProxyType(
    {
        "ppo": (*PPO, *PLAYED, "gamma", "lam", "epochs", "batch"),
        "a2c": (*LEARNT, *PLAYED, "gamma", "lam"),
        "impala": (*LEARNT, *PLAYED, *VTRACE),
    }
)
PARALLEL = MappingProxyType(
    {
        "parallel_ppo": (*LOOPS["ppo"], "actors", "lag"),
        "a3c": (*LOOPS["a2c"], "actors"),
        "parallel_impala": (*LOOPS["impala"], "actors", "lag"),
    }
)
NEEDED = MappingProxyType(
    {
        "env_step": ("env",),
        "forward": ("params",),
        "gae": ("gamma", "lam"),
        "vtrace": VTRACE,
        "ppo_update": PPO,
        "a2c_update": LEARNT,
        "impala_update": (*LEARNT, *VTRACE),
        **LOOPS,
        **PARALLEL,
    }
)
OBS = "u8[B, 64, 64, 3]"
STEPS = MappingProxyType(
    {
        "rewards": "f32[T, N]", "values": "f32[T, N]", "next_values": "f32[T, N]", "terminated": "bool[T, N]",
        "truncated": "bool[T, N]",
    }
)  # fmt: skip
ARGUMENTS = MappingProxyType(
    {
        "env_step": {"actions": "i32[T, N]"},
        "forward": {"obs": OBS},
        "gae": STEPS,
        "vtrace": {"log_ratios": "f32[T, N]", **STEPS},
        "ppo_update": {
            "obs": OBS, "actions": "i32[B]", "log_probs": "f32[B]", "advantages": "f32[B]", "returns": "f32[B]",
        },
        "a2c_update": {"obs": OBS, "actions": "i32[B]", "advantages": "f32[B]", "returns": "f32[B]"},
        "impala_update": {
            "obs": "u8[S, N, 64, 64, 3]", "actions": "i32[T, N]", "log_probs": "f32[T, N]", "rewards": "f32[T, N]",
            "terminated": "bool[T, N]", "truncated": "bool[T, N]",
        },
        **{op: {"numbers": "i64[I]"} for op in [*LOOPS, *PARALLEL]},
    }
)  # fmt: skip


def axes(op, spec):
    """Return the sizes that the spec of an op gives: ``{"N": 32}`` where it has environments, else none.

    Args:
        op: its name.
        spec: what it is built from, see :class:`Spec`.

    Raises:
        ValueError: weights that are no such net's, an environment's argument that is unknown, a batch or a number of
            actors that does not divide what it has to.
    """
    if "params" in NEEDED[op]:
        check_net(spec["params"])
    if "env" not in NEEDED[op]:
        return {}
    for name in spec["env"]:
        if name not in ENV:
            raise ValueError(f"env: got the unknown name {name!r}; known: {', '.join(ENV)}")
    envs = spec["env"].get("num_envs", 1)
    if "batch" in NEEDED[op] and spec["unroll"] * envs % spec["batch"]:
        wanted = f"a divisor of unroll times environments, {spec['unroll']} x {envs}"
        raise ValueError(f"batch: got {spec['batch']}, wanted {wanted}")
    if "actors" in NEEDED[op] and envs % spec["actors"]:
        raise ValueError(f"actors: got {spec['actors']}, wanted a divisor of {envs} environments")
    return {"N": envs}


def check_net(params):
    """Check that weights are those of one of the nets.

    Args:
        params: arrays by name.

    Raises:
        ValueError: another name or shape than that net has.
    """
    shapes = SHAPES[net_of(params)]
    if params.keys() != shapes.keys():
        raise ValueError(f"params: got {', '.join(params)}, wanted {', '.join(shapes)}")
    try:
        sizes(shapes, [params[name] for name in shapes])
    except ValueError as error:
        raise ValueError(f"params: {error}") from None


def check_rollout(obs, actions):
    """Check that a rollout has a picture more than steps: what was seen before each step, and after the last one.

    Args:
        obs: u8[T + 1, N, 64, 64, 3].
        actions: i32[T, N].

    Raises:
        ValueError: it has not.
    """
    if len(obs) != len(actions) + 1:
        raise ValueError(f"obs: got pictures of {len(obs)} steps, wanted {len(actions) + 1}, one more than of actions")


def init_net(rng, net="nature"):
    """Return the weights of a new net, f32 arrays by name, see ``SHAPES``: orthogonal, and biases of 0.

    The outputs of a layer are orthogonal to each other, their length is the layer's gain: that of ``GAINS``, 0.01 for
    the logits, so that all actions are about as likely, and 1 for the value.

    Args:
        rng: the generator of all that is drawn.
        net: its name, nature or residual.
    """
    params = {}
    for name, text in SHAPES[net].items():
        shape = tuple(map(int, parse(text)[1]))
        if name.startswith("b_"):
            params[name] = np.zeros(shape, np.float32)
        else:
            gain = HEADS.get(name, GAINS[net])
            params[name] = (gain * orthogonal(rng, int(np.prod(shape[:-1])), shape[-1])).reshape(shape).astype("f4")
    return params


def orthogonal(rng, rows, columns):
    """Return a matrix whose columns, or rows where they are fewer, are orthogonal and of length 1, f64[rows, columns].

    Args:
        rng: the generator of what is drawn.
        rows: of the matrix.
        columns: of the matrix.
    """
    drawn = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    q *= np.sign(np.diag(r))  # otherwise not all orthogonal matrices are equally likely
    return q if rows >= columns else q.T
