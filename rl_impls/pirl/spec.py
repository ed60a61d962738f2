"""What the ops of pirl are built from and called with: every name, with shapes and units, checked at build.

B transitions, P points of each kind, S numbers a state (16 of the vehicle), A = 25 actions, K batches, N requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypedDict

from ..common.shapes import check_mlp
from .physics import DYNAMICS


class Spec(TypedDict, total=False):
    """What an op is built from; which of it an op needs is said in ``NEEDED``.

    Attributes:
        params: weights of the online net, ``w{k}`` f32[I, O], ``b{k}`` f32[O].
        target: weights of the target net, of the same shapes.
        dynamics: name in :data:`.physics.DYNAMICS`: vehicle or brownian.
        sigma: of the noise of the dynamics, per square root of a second; the usual one where it is left out.
        learning_rate: of Adam.
        pde_weight: of the squared PDE residual in the loss.
        boundary_weight: of the boundary terms in the loss.
        epsilon: chance of a drawn action.
        clients: threads that send requests.
        serve: backend that acts beside the one that learns.
        every: updates from one copy of the weights for the backend that acts to the next.
    """

    params: Mapping[str, Any]
    target: Mapping[str, Any]
    dynamics: str
    sigma: float
    learning_rate: float
    pde_weight: float
    boundary_weight: float
    epsilon: float
    clients: int
    serve: str
    every: int


TRAINED = ("params", "target", "dynamics", "learning_rate", "pde_weight", "boundary_weight")
NEEDED = MappingProxyType(
    {
        "forward": ("params",),
        "act": ("params", "epsilon"),
        "pde_loss": ("params", "dynamics"),
        "train_step": TRAINED,
        "sync_target": ("params", "target"),
        "sustained": ("params",),
        "serve": ("params", "clients"),
        "hybrid": (*TRAINED, "serve", "every"),
    }
)
UPDATE = {
    "states": "f32[B, S]", "actions": "i32[B]", "rewards": "f32[B]", "next_states": "f32[B, S]", "terminated": "f32[B]",
    "interior": "f32[P, S]",  # points inside the safe set
    "expired": "f32[P, S]",  # points whose horizon has run out
    "unsafe": "f32[P, S]",  # points on the edge of the safe set
}  # fmt: skip
ARGUMENTS = MappingProxyType(
    {
        "forward": {"states": "f32[B, S]"},
        "act": {"state": "f32[1, S]", "u": "f32", "random_action": "i32"},
        "pde_loss": {"interior": "f32[P, S]"},
        "train_step": UPDATE,
        "sync_target": {},
        "sustained": {"states": "f32[K, B, S]"},
        "serve": {"states": "f32[N, S]"},
        "hybrid": UPDATE,
    }
)


def dynamics_of(spec):
    """Return the :class:`.physics.Dynamics` that an op is built for, with the noise that the spec names, if it does.

    Args:
        spec: what the op is built from.
    """
    named = DYNAMICS[spec["dynamics"]]
    return replace(named, sigma=spec.get("sigma", named.sigma))


def axes(op, spec):
    """Return the sizes that the spec of an op gives: ``{"S": 16, "A": 25}``.

    Args:
        op: its name.
        spec: what it is built from, see :class:`Spec`.

    Raises:
        ValueError: shapes that do not fit each other.
    """
    inputs, actions = check_mlp("params", spec["params"])
    return {"S": inputs, "A": actions}
