"""The drift of the vehicle, against the equations written out for a single car."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rl_impls.pirl.physics import road, vehicle_drift

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
cars = st.tuples(
    st.floats(3, 40),
    st.floats(-30, 30),
    st.floats(-100, 100),
    st.floats(-1, 1),
    st.floats(-60, 60),
    st.floats(-0.02, 0.02),
    st.floats(0, 5),
)
throttles, steerings = st.integers(0, 4), st.integers(0, 4)


def as_state(vx, beta, omega, e, psi, kappa, tau):
    return np.array([vx, beta, omega, e, psi, *(kappa * d * d / 2 for d in range(2, 21, 2)), tau])


def literal_drift(vx, beta, omega, e, psi, kappa, throttle, steering):
    """Return the drift in the units of the state; the equations are in SI units, with angles in radians."""
    beta, omega, psi, delta = math.radians(beta), math.radians(omega), math.radians(psi), math.radians(70 * steering)
    m, iz, lf, lr = 1265, 2093, 1.34, 1.3
    vy = vx * math.tan(beta)
    frx = 550 * 3.45 * 0.919 / 0.34 * throttle - 50 - 0.5 * vx**2
    alpha_f = delta - math.atan2(lf * omega + vy, abs(vx))
    alpha_r = math.atan2(lr * omega - vy, abs(vx))
    ffy = 16000 * math.sin(1.2 * math.atan(5.579 * alpha_f))
    fry = 16000 * math.sin(1.2 * math.atan(7.579 * alpha_r))
    return [
        (frx - ffy * math.sin(delta)) / m + vy * omega,
        math.degrees((fry + ffy * math.cos(delta)) / (m * vx) - omega),
        math.degrees((ffy * lf * math.cos(delta) - fry * lr) / iz),
        vy * math.cos(psi) + vx * math.sin(psi),
        math.degrees(omega - kappa * vx),
        *[0.0] * 10,
        -1.0,
    ]


@given(cars, throttles, steerings)
def test_drift_matches_the_equations_written_out(car, i, j):
    *state, kappa, _ = car
    wanted = literal_drift(*state, kappa, [0.6, 0.7, 0.8, 0.9, 1.0][i], [-0.8, -0.4, 0.0, 0.4, 0.8][j])
    np.testing.assert_allclose(vehicle_drift(as_state(*car), 5 * i + j), wanted, **CLOSE)


def test_road_features_are_the_parabola_of_the_centre_line():
    wanted = [[kappa * d**2 / 2 for d in range(2, 21, 2)] for kappa in (-0.02, 0.0, 0.01)]
    np.testing.assert_allclose(road([-0.02, 0.0, 0.01]), wanted)
    assert road(0.01).shape == (10,)
