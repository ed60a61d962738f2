"""Vehicle dynamics for the environment and the PDE, a bicycle model with Pacejka tyres.

The road has constant curvature. State, 16 numbers: speed ``vx`` m/s, slip ``beta`` deg, yaw rate ``omega`` deg/s,
lateral error ``e`` m, heading error ``psi`` deg, ten road features (offset of the centre line in m at 2, 4, ..., 20 m),
horizon ``tau`` s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

Array = Any

VX, BETA, OMEGA, E, PSI, ROAD, TAU = 0, 1, 2, 3, 4, slice(5, 15), 15
STATES, ACTIONS = 16, 25

MASS, INERTIA = 1265.0, 2093.0  # kg, kg m^2
LF, LR = 1.34, 1.3  # m, centre of mass to the axles
BF, CF, DF = 5.579, 1.2, 16000.0  # front tyre: stiffness, shape, peak N
BR, CR, DR = 7.579, 1.2, 16000.0  # rear tyre
CM1, CR0, CR2 = 550 * 3.45 * 0.919 / 0.34, 50.0, 0.5  # motor N, rolling N, drag N s^2/m^2
DEG = math.pi / 180

DISTANCES = np.arange(2.0, 21.0, 2.0)  # m ahead of the car
FARTHEST = 20.0  # m; a Python number, so that float32 states stay float32


def road(curvature: Array) -> Array:
    """Return the offset of the centre line, ``kappa d^2 / 2``, at ten distances d.  kappa 1/m [...] -> m [..., 10]"""
    return np.asarray(curvature)[..., None] * DISTANCES**2 / 2


def vehicle_drift(states: Array, actions: Array, xp: ModuleType = np) -> Array:
    """Return the drift of the vehicle per second, in the state's own units (degrees where the state has degrees).

    f[B, 16], int[B] -> f[B, 16], or a single state and action. Lateral tyre forces follow the Magic Formula without its
    curvature factor, ``D sin(C arctan(B slip))`` (Pacejka and Bakker 1992), with the slip in radians. An action is
    5 * throttle + steering, each from 0 to 4. `xp` is the array library of the states: numpy, torch or jax.numpy.
    """
    vx, beta, omega, psi = states[..., VX], states[..., BETA] * DEG, states[..., OMEGA] * DEG, states[..., PSI] * DEG
    actions = xp.asarray(actions, dtype=states.dtype)
    throttle = 0.6 + 0.1 * (actions // 5)
    delta = (0.4 * (actions % 5) - 0.8) * 70 * DEG  # steering angle, rad
    vy = vx * xp.tan(beta)
    curvature = states[..., 14] * (2 / FARTHEST**2)  # 1/m, from the offset at 20 m

    slip_front = delta - xp.arctan2(LF * omega + vy, abs(vx))
    slip_rear = xp.arctan2(LR * omega - vy, abs(vx))
    force_front = DF * xp.sin(CF * xp.arctan(BF * slip_front))
    force_rear = DR * xp.sin(CR * xp.arctan(BR * slip_rear))
    force_x = CM1 * throttle - CR0 - CR2 * vx**2

    d_vx = (force_x - force_front * xp.sin(delta)) / MASS + vy * omega
    d_beta = (force_rear + force_front * xp.cos(delta)) / (MASS * vx) - omega
    d_omega = (force_front * LF * xp.cos(delta) - force_rear * LR) / INERTIA
    d_e = vy * xp.cos(psi) + vx * xp.sin(psi)
    d_psi = omega - curvature * vx

    zero = xp.zeros_like(vx)
    return xp.stack([d_vx, d_beta / DEG, d_omega / DEG, d_e, d_psi / DEG, *[zero] * 10, zero - 1], -1)


def brownian_drift(states: Array, actions: Array, xp: ModuleType = np) -> Array:
    """Return the drift of one-dimensional Brownian motion: only the horizon runs down.  f[B, 2] -> f[B, 2]

    `states` are position x and horizon tau in s; actions have no effect.
    """
    return xp.zeros_like(states) - xp.asarray([0.0, 1.0], dtype=states.dtype)


@dataclass(frozen=True)
class Dynamics:
    """A controlled diffusion, ``ds = drift(s, a) dt + sigma dW``, with noise on the first ``noisy`` components only.

    Attributes:
        drift: ``drift(states, actions, xp)``, f[B, S], int[B] -> f[B, S], per second.
        noisy: number of components with noise.
        sigma: noise intensity, in units of a component per square root of a second.
    """

    drift: Callable[..., Array]
    noisy: int
    sigma: float


DYNAMICS = {
    "vehicle": Dynamics(vehicle_drift, noisy=5, sigma=0.01),
    "brownian": Dynamics(brownian_drift, noisy=1, sigma=1.0),
}


def dynamics_of(config: Mapping[str, Any]) -> Dynamics:
    """Return the dynamics that an op's configuration names, with its ``sigma`` if it has one."""
    named = DYNAMICS[config["dynamics"]]
    return replace(named, sigma=config.get("sigma", named.sigma))
