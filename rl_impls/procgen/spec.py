"""Configuration and arguments of procgen's ops: names, shapes, units, and the checks at build time.

T steps, N environments, B images, A = 15 actions; an image is u8[64, 64, 3]: height, width, colour.
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
SEEN = 60  # pixels per side that affect the output: conv2 reads 6 x 6 pixels of conv1, and those 14 x 14 of conv0
ADAM_EPS = 1e-5  # default epsilon of PPO's Adam
RMS_DECAY = 0.99  # default decay of RMSProp in A2C and IMPALA
A2C_EPS, IMPALA_EPS = 1e-5, 0.01  # default epsilon of RMSProp, added to the root


class Spec(TypedDict, total=False):
    """Configuration of an op; ``NEEDED`` lists the entries that each op needs.

    Attributes:
        params: initial weights of the net, with the shapes of ``NETS`` or ``RESIDUAL``.
        learning_rate: learning rate of Adam or RMSProp.
        epsilon: added to the root of the mean squared gradient; the default depends on the algorithm.
        decay: decay of the mean squared gradient in RMSProp; 0.99 by default.
        gamma: discount factor.
        lam: lambda of generalised advantages.
        rho_bar: largest importance weight of a TD error in V-trace.
        c_bar: largest importance weight of the errors after it.
        clip: clipping range of PPO's probability ratio.
        value_weight: coefficient of the value loss.
        entropy_weight: coefficient of the entropy bonus.
        gradient_norm: norm to which the gradient is clipped.
        env: arguments of :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`, see ``ENV``.
        env_state: state of the environments to start from; that of new ones by default.
        seed: seed of actions and minibatches, an integer from 0.
        unroll: steps of each environment in a rollout, T.
        epochs: passes of PPO over a rollout.
        batch: minibatch size of PPO, a divisor of T N.
        actors: number of actor processes, a divisor of N.
        lag: most updates that the actors' weights may be behind the learner's.
        ahead: most rollouts that a worker of A3C may be ahead of the slowest one; 3 by default.
        processes: number of torchrun's data-parallel processes; 1 by default.
        rank: rank of this process among them.
        cluster: address of the Ray cluster that runs the actors, see :mod:`.cluster`; empty, the default, for processes
            of this machine.
        worker_timeout: seconds without a sign of life from any actor before it counts as hung; 120 by default.
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
STAGES, BLOCKS = ((3, 16), (16, 32), (32, 32)), 2  # input and output channels of each stage; residual blocks per stage


def residual_layers():
    """Yield name, input channels and output channels of each convolution of the residual net, in order."""
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
    """Return the net's name, nature or residual, from the names of its weights."""
    return "residual" if "w_stage0" in params else "nature"


HEADS = MappingProxyType({"w_logits": 0.01, "w_return": 1.0})  # gains of the output layers
GAINS = MappingProxyType({"nature": 2**0.5, "residual": 3**-0.5})  # of other layers; smaller as residual sums grow
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
    """Check an op's configuration; return the axis sizes it fixes: ``{"N": 32}``, or none without environments."""
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
    """Raise a ValueError unless the names and shapes of the weights are those of one of the nets."""
    shapes = SHAPES[net_of(params)]
    if params.keys() != shapes.keys():
        raise ValueError(f"params: got {', '.join(params)}, wanted {', '.join(shapes)}")
    try:
        sizes(shapes, [params[name] for name in shapes])
    except ValueError as error:
        raise ValueError(f"params: {error}") from None


def check_rollout(obs, actions):
    """Raise a ValueError unless obs u8[T + 1, N, 64, 64, 3] has one frame more than actions i32[T, N] has steps."""
    if len(obs) != len(actions) + 1:
        raise ValueError(f"obs: got pictures of {len(obs)} steps, wanted {len(actions) + 1}, one more than of actions")


def init_net(rng, net="nature"):
    """Return initial weights, f32 arrays by name, see ``SHAPES``: orthogonal matrices, and biases of 0.

    Each layer is scaled by its gain: that of ``GAINS``, 0.01 for the logits, so that all actions start about equally
    likely, and 1 for the value. ``net`` is nature or residual.
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
    """Sample a matrix, f64[rows, columns], with orthonormal columns, or orthonormal rows if it has fewer of those."""
    drawn = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    q *= np.sign(np.diag(r))  # makes the distribution uniform over orthogonal matrices
    return q if rows >= columns else q.T
