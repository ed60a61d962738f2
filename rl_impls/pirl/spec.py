"""Configuration fields and arguments of pirl's ops, with shapes and units; both are checked at build time.

B transitions, P points of each kind, S features per state (16 for the vehicle), A = 25 actions, K batches, N requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypedDict

from ..common.shapes import check_mlp
from .physics import DYNAMICS


class Spec(TypedDict, total=False):
    """Configuration of an op; ``NEEDED`` lists the fields that each op requires.

    Attributes:
        params: weights of the online network, ``w{k}`` f32[I, O], ``b{k}`` f32[O].
        target: weights of the target network, of the same shapes.
        dynamics: key of :data:`.physics.DYNAMICS`: vehicle or brownian.
        sigma: noise intensity of the dynamics, per square root of a second; by default that of the named dynamics.
        learning_rate: learning rate of Adam.
        pde_weight: weight of the squared PDE residual in the loss.
        boundary_weight: weight of the boundary terms in the loss.
        epsilon: probability of a random action.
        clients: number of threads that send requests.
        serve: backend that acts while another one learns.
        every: updates between copies of the weights to the acting backend.
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
    "expired": "f32[P, S]",  # points with tau = 0
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
    """Return the :class:`.physics.Dynamics` named in the spec, with the spec's sigma if it has one."""
    named = DYNAMICS[spec["dynamics"]]
    return replace(named, sigma=spec.get("sigma", named.sigma))


def axes(op, spec):
    """Return the axis sizes implied by an op's spec, ``{"S": 16, "A": 25}``; the layers must fit each other."""
    inputs, actions = check_mlp("params", spec["params"])
    return {"S": inputs, "A": actions}
