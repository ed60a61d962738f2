"""The vehicle on its road as a Gymnasium environment, and sampled points for the PDE and its boundary values."""

import math
from numbers import Real

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from .physics import ACTIONS, DYNAMICS, ROAD, STATES, TAU, VX, E, road

VEHICLE = DYNAMICS["vehicle"]
NOISY = VEHICLE.noisy
STEP, SUBSTEPS = 0.05, 10  # s; one Euler step of 0.05 s is unstable at low speed
OVER = 1e-6  # s; a shorter horizon is rounding error and counts as 0
EDGE = 1.0  # m from the centre line, where the road ends
HORIZON = 5.0  # s
CURVATURE = 0.02  # 1/m

# vx m/s, beta deg, omega deg/s, e m, psi deg
START_LOW, START_HIGH = np.array([5, -5, -20, -0.9, -10]), np.array([25, 5, 20, 0.9, 10])
HIGH = np.array([60, 80, 360, EDGE, 180, *road(CURVATURE), HORIZON])
LOW = -HIGH
LOW[VX], LOW[TAU] = 3.0, 0.0  # tyre slip angles are ill-defined near standstill


def starts(rng, n):
    """Sample n initial states of episodes, with a horizon in (0, 5] s.  -> f64[n, 16]"""
    states = np.empty((n, STATES))
    states[:, : ROAD.start] = rng.uniform(START_LOW, START_HIGH, (n, NOISY))
    states[:, ROAD] = road(rng.uniform(-CURVATURE, CURVATURE, n))
    states[:, TAU] = HORIZON - rng.uniform(0, HORIZON, n)
    return states


def sample_points(rng, n):
    """Sample n points inside the safe set, n with tau = 0 and n with e = +-1 m, in the ranges of :func:`starts`.

    -> ``interior, expired, unsafe``, f32[n, 16] each
    """
    interior, expired, unsafe = starts(rng, n), starts(rng, n), starts(rng, n)
    expired[:, TAU] = 0
    unsafe[:, E] = rng.choice([-EDGE, EDGE], n)
    return interior.astype(np.float32), expired.astype(np.float32), unsafe.astype(np.float32)


def check_start(state):
    """Return `state` as f64[16]; raise ValueError unless it is finite, on a road of one curvature, with time left."""
    state = np.array(state, np.float64)
    if state.shape != (STATES,) or not np.isfinite(state).all():
        raise ValueError(f"state={state.tolist()} should be {STATES} finite numbers")
    rounded = state.astype(np.float32)  # accept a state taken from an observation
    outside = (rounded < LOW.astype(np.float32)) | (rounded > HIGH.astype(np.float32))
    if outside.any():
        k = outside.argmax()
        raise ValueError(f"state[{k}]={state[k]} should be from {LOW[k]} to {HIGH[k]}")
    if abs(state[E]) >= EDGE or state[TAU] <= 0:
        raise ValueError(f"state has e={state[E]}, tau={state[TAU]}; |e| should be below {EDGE} m and tau above 0 s")
    curvature = state[ROAD][-1] / road(1.0)[-1]
    if not np.allclose(state[ROAD], road(curvature), rtol=1e-5, atol=1e-6):
        raise ValueError(f"state[5:15]={state[ROAD].tolist()} should be the features of one curvature")
    return state


class PirlEnv(gymnasium.Env):
    r"""Stay within 1 m of the centre line until the horizon tau has run out.

    The state follows ``ds = f(s, a) dt + sigma dW``, integrated by Euler-Maruyama in steps of 0.05 s with ten substeps
    each; the last step ends with the horizon. sigma acts on vx, beta, omega, e and psi. At \|e\| = 1 m the episode is
    terminated with reward 0; when tau runs out first, it is terminated with reward 1. With gamma = 1, the expected
    return of a policy is therefore its probability of staying safe. Episodes are never truncated.

    Observation f32[16]: vx m/s, beta deg, omega deg/s, e m, psi deg, ten road features m, tau s. Action: int from 0 to
    24, 5 * throttle + steering. The state is clipped to ``LOW`` and ``HIGH``; ordinary driving reaches only the bound
    vx >= 3 m/s.

    Args:
        sigma: noise intensity, in the state's own units per square root of a second.

    Raises:
        ValueError: invalid sigma, action or initial state; the environment is left unchanged.
        gymnasium.error.ResetNeeded: a step outside an episode; the environment is left unchanged.
    """

    def __init__(self, sigma=VEHICLE.sigma):
        if not isinstance(sigma, Real) or isinstance(sigma, bool) or not 0 <= sigma < math.inf:
            raise ValueError(f"sigma={sigma!r} should be a finite number of 0 or more")
        self.sigma = float(sigma)
        self.observation_space = gymnasium.spaces.Box(LOW.astype(np.float32), HIGH.astype(np.float32))
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)
        self.state, self.running = None, False

    def reset(self, *, seed=None, options=None):
        """Start an episode.  -> f32[16], {}

        Args:
            seed: seeds starts and noise from here on; None keeps the current generator.
            options: ``{"state": initial state, 16 numbers}``, or None to sample it.
        """
        if options and options.keys() != {"state"}:
            raise ValueError(f"options={options!r} should have the key 'state' only")
        given = check_start(options["state"]) if options else None
        super().reset(seed=seed)
        self.state = starts(self.np_random, 1)[0] if given is None else given
        self.running = True
        return self.observation(), {}

    def step(self, action):
        """Drive for 0.05 s, or until the episode ends.  -> f32[16], float, bool, False, {}"""
        if not self.running:
            raise ResetNeeded("no episode is running: call reset() before step()")
        if not self.action_space.contains(action):
            raise ValueError(f"action={action!r} should be an integer from 0 to {ACTIONS - 1}")
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
        """Return the state as a network input, f32[16]."""
        return self.state.astype(np.float32)


if "rlgauge/Pirl-v0" not in gymnasium.registry:
    gymnasium.register("rlgauge/Pirl-v0", entry_point=f"{__name__}:PirlEnv")
