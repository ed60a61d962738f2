"""The vehicle on its road as a Gymnasium environment, and the points where its equation is learnt."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from ..common.checks import check_number
from .physics import ACTIONS, DYNAMICS, ROAD, STATES, TAU, VX, E, road

VEHICLE = DYNAMICS["vehicle"]
NOISY = VEHICLE.noisy
STEP, SUBSTEPS = 0.05, 10  # s; one Euler step of 0.05 s is unstable at low speed
OVER = 1e-6  # s; a horizon shorter than this is rounding
EDGE = 1.0  # m from the centre line, where the road ends
HORIZON = 5.0  # s
CURVATURE = 0.02  # 1/m

# vx m/s, beta deg, omega deg/s, e m, psi deg
START_LOW, START_HIGH = np.array([5, -5, -20, -0.9, -10]), np.array([25, 5, 20, 0.9, 10])
HIGH = np.array([60, 80, 360, EDGE, 180, *road(CURVATURE), HORIZON])
LOW = -HIGH
LOW[VX], LOW[TAU] = 3.0, 0.0  # the slip angles of the tyres lose their meaning near a stand


def starts(rng, n):
    """States in which an episode may start, with a horizon in (0, 5] s.  -> f64[n, 16]

    Args:
        rng: where they are drawn from.
        n: how many.
    """
    states = np.empty((n, STATES))
    states[:, : ROAD.start] = rng.uniform(START_LOW, START_HIGH, (n, NOISY))
    states[:, ROAD] = road(rng.uniform(-CURVATURE, CURVATURE, n))
    states[:, TAU] = HORIZON - rng.uniform(0, HORIZON, n)
    return states


def sample_points(rng, n):
    """Points where the equation holds, where the horizon has run out safely, and at the edge of the road.

    Args:
        rng: where they are drawn from.
        n: of each kind.

    Returns:
        ``interior, expired, unsafe``, each f32[n, 16] in the ranges of :func:`starts`: ``expired`` with tau = 0,
        ``unsafe`` with e = +-1 m.
    """
    interior, expired, unsafe = starts(rng, n), starts(rng, n), starts(rng, n)
    expired[:, TAU] = 0
    unsafe[:, E] = rng.choice([-EDGE, EDGE], n)
    return interior.astype(np.float32), expired.astype(np.float32), unsafe.astype(np.float32)


def check_start(state):
    """Return ``state`` as f64[16], or raise a ValueError: finite, on the road, of one curvature, with time left.

    Args:
        state: 16 numbers.
    """
    state = np.array(state, np.float64)
    if state.shape != (STATES,) or not np.isfinite(state).all():
        raise ValueError(f"state: got {state.tolist()}, wanted {STATES} finite numbers")
    rounded = state.astype(np.float32)  # as an observation would give it back
    outside = np.flatnonzero((rounded < LOW.astype(np.float32)) | (rounded > HIGH.astype(np.float32)))
    if len(outside):
        k = outside[0]
        raise ValueError(f"state[{k}]: got {state[k]}, wanted {LOW[k]} to {HIGH[k]}")
    if abs(state[E]) >= EDGE or state[TAU] <= 0:
        raise ValueError(f"state: got e = {state[E]}, tau = {state[TAU]}, wanted |e| < {EDGE} m and tau > 0 s")
    curvature = state[ROAD][-1] / road(1.0)[-1]
    if not np.allclose(state[ROAD], road(curvature), rtol=1e-5, atol=1e-6):
        raise ValueError(f"state[5:15]: got {state[ROAD].tolist()}, wanted the features of one curvature")
    return state


class PirlEnv(gymnasium.Env):
    r"""Stay within 1 m of the centre line until the horizon tau has run out.

    ``ds = f(s, a) dt + sigma dW`` by Euler-Maruyama, 0.05 s a step in ten substeps (the last step ends with the
    horizon); sigma acts on vx, beta, omega, e and psi, in the state's own units per square root of a second. At
    \|e\| = 1 m the process stops: terminated, reward 0. When tau runs out before: terminated, reward 1. So with
    gamma = 1 the return of a policy is its probability of staying safe. Never truncated.

    Observation f32[16]: vx m/s, beta deg, omega deg/s, e m, psi deg, ten road features m, tau s. Action: 5 * throttle +
    steering. All components are kept within ``LOW`` and ``HIGH``; only vx >= 3 m/s is reached in ordinary driving.

    Args:
        sigma: of the noise, in the state's own units per square root of a second.

    Raises:
        ValueError: sigma, an action or a start that makes no sense; nothing is changed.
        gymnasium.error.ResetNeeded: a step outside an episode; nothing is changed.
    """

    def __init__(self, sigma=VEHICLE.sigma):
        self.sigma = check_number("sigma", sigma, 0)
        self.observation_space = gymnasium.spaces.Box(LOW.astype(np.float32), HIGH.astype(np.float32))
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)
        self.state, self.running = None, False

    def reset(self, *, seed=None, options=None):
        """Start an episode, in ``options["state"]`` (16 numbers) where it is given.  -> f32[16], {}

        Args:
            seed: of starts and noise from here on; none goes on with the present generator.
            options: ``{"state": 16 numbers}``, or none.
        """
        unknown = set(options or {}) - {"state"}
        if unknown:
            raise ValueError(f"options: got {', '.join(map(repr, sorted(unknown)))}, wanted only 'state'")
        given = check_start(options["state"]) if options else None
        super().reset(seed=seed)
        self.state = starts(self.np_random, 1)[0] if given is None else given
        self.running = True
        return self.observation(), {}

    def step(self, action):
        """Drive on for 0.05 s, or until the episode ends.  -> f32[16], float, bool, False, {}

        Args:
            action: int from 0 to 24, 5 * throttle + steering.
        """
        if not self.running:
            raise ResetNeeded("step: got a step outside an episode, wanted reset() first")
        if not self.action_space.contains(action):
            raise ValueError(f"action: got {action!r}, wanted an integer from 0 to {ACTIONS - 1}")
        state, dt = self.state, min(STEP, self.state[TAU]) / SUBSTEPS
        for noise in self.sigma * math.sqrt(dt) * self.np_random.standard_normal((SUBSTEPS, NOISY)):
            state = state + dt * VEHICLE.drift(state, action)
            state[:NOISY] += noise
            state = np.clip(state, LOW, HIGH)
            if abs(state[E]) >= EDGE:
                break
        if state[TAU] < OVER:
            state[TAU] = 0.0
        safe = bool(abs(state[E]) < EDGE)
        terminated = bool(not safe or state[TAU] == 0)
        self.state, self.running = state, not terminated
        return self.observation(), float(safe and terminated), terminated, False, {}

    def observation(self):
        """Return the state as the net sees it.  -> f32[16]"""
        return self.state.astype(np.float32)


if "rlgauge/Pirl-v0" not in gymnasium.registry:
    gymnasium.register("rlgauge/Pirl-v0", entry_point=f"{__name__}:PirlEnv")
