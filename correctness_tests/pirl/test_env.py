"""The environment: rules, integration of the dynamics, noise, and sampled collocation points."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from correctness_tests.pirl.test_physics import as_state, literal_drift
from rl_impls.pirl.env import PirlEnv, sample_points

STRAIGHT = as_state(10, 0, 0, 0, 0, 0, 5)
AHEAD = 2  # throttle 0.6, no steering


@pytest.fixture
def quiet():
    return PirlEnv(sigma=0)


def start(env, state=STRAIGHT, seed=0):
    return env.reset(seed=seed, options={"state": state})[0]


def test_a_horizon_that_runs_out_safely_is_rewarded(quiet):
    start(quiet)
    for k in range(1, 101):
        obs, reward, terminated, truncated, info = quiet.step(AHEAD)
        assert quiet.state[15] == pytest.approx(5 - 0.05 * k, abs=1e-12)
        assert (reward, terminated) == ((1.0, True) if k == 100 else (0.0, False))
        assert truncated is False
        assert info == {}
    assert obs[15] == 0
    assert obs[3] == pytest.approx(0, abs=1e-6)


def test_leaving_the_road_ends_without_reward(quiet):
    start(quiet, as_state(20, 0, 0, 0.95, 5, 0, 5))
    obs, reward, terminated, _, _ = quiet.step(AHEAD)
    assert (reward, terminated) == (0.0, True)
    assert obs[3] == 1
    assert obs[15] == pytest.approx(5 - 6 * 0.005, abs=1e-6)  # at 1.74 m/s sideways, it leaves the road in substep 6


def test_leaving_the_road_with_the_last_of_the_horizon_is_not_rewarded(quiet):
    start(quiet, as_state(20, 0, 0, 0.99999, 10, 0, 0.001))
    assert quiet.step(AHEAD)[1:3] == (0.0, True)


def test_last_step_ends_with_the_horizon(quiet):
    start(quiet, as_state(10, 0, 0, 0, 5, 0, 0.07))
    quiet.step(AHEAD)
    before = quiet.state[3]
    _, reward, terminated, _, _ = quiet.step(AHEAD)
    assert (reward, terminated, quiet.state[15]) == (1.0, True, 0.0)
    assert quiet.state[3] - before == pytest.approx(0.02 * 10 * math.sin(math.radians(5)), rel=0.02)


@example((3, 0, 0, 0, 0, 0, 5), 0, 0)  # slowed in every substep
@settings(max_examples=30)
@given(
    st.tuples(
        st.floats(5, 25), st.floats(-5, 5), st.floats(-20, 20), st.floats(-0.3, 0.3), st.floats(-10, 10),
        st.floats(-0.02, 0.02), st.floats(0.5, 5),
    ),
    st.integers(0, 4),
    st.integers(0, 4),
)  # fmt: skip
def test_without_noise_a_step_is_ten_literal_euler_steps(car, i, j):
    env = PirlEnv(sigma=0)
    *state, kappa, tau = car
    start(env, as_state(*car))
    _, _, terminated, _, _ = env.step(5 * i + j)
    for _ in range(10):
        drift = literal_drift(*state, kappa, 0.6 + 0.1 * i, 0.4 * j - 0.8)
        state = [x + 0.005 * dx for x, dx in zip(state, drift)]
        state[0] = max(state[0], 3)
        tau -= 0.005
    assert not terminated
    np.testing.assert_allclose(env.state, as_state(*state, kappa, tau), rtol=1e-9, atol=1e-9)


def test_speed_stays_at_3_metres_a_second_or_more(quiet):
    start(quiet, as_state(3, 0, 0, 0, 0, 0, 5))
    assert quiet.step(0)[0][0] == 3  # full steering lock slows the car more than the motor drives it


def test_noise_has_its_size_in_the_states_own_units():
    sigma, tau, draws = 0.5, 1e-3, 1000
    env, still = PirlEnv(sigma=sigma), PirlEnv(sigma=0)
    start(still, as_state(10, 0, 0, 0, 0, 0, tau))
    start(env, as_state(10, 0, 0, 0, 0, 0, tau))
    still.step(AHEAD)
    ends = []
    for _ in range(draws):
        env.reset(options={"state": as_state(10, 0, 0, 0, 0, 0, tau)})
        env.step(AHEAD)
        ends.append(env.state - still.state)
    noise = np.array(ends) / (sigma * math.sqrt(tau))  # the step is too short for the drift to spread the noise
    np.testing.assert_allclose(noise[:, :5].std(axis=0), 1, atol=5 / math.sqrt(2 * draws))
    np.testing.assert_allclose(noise[:, :5].mean(axis=0), 0, atol=5 / math.sqrt(draws))
    np.testing.assert_allclose(np.corrcoef(noise[:, :5].T), np.eye(5), atol=0.15)
    assert (noise[:, 5:] == 0).all()


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 30.0]))
def test_observations_stay_in_their_space_and_the_road_does_not_change(seed, sigma):
    env = PirlEnv(sigma=sigma)
    obs, _ = env.reset(seed=seed)
    features, tau = obs[5:15], obs[15]
    assert 0 < tau <= 5
    steps = 0
    while env.running:
        assert abs(obs[3]) < 1
        obs, _, terminated, truncated, _ = env.step(env.np_random.integers(25))
        steps += 1
        assert env.observation_space.contains(obs)
        np.testing.assert_array_equal(obs[5:15], features)
        assert not truncated
    assert terminated
    assert (obs[15] == 0) != (abs(obs[3]) >= 1)
    assert steps <= math.ceil(tau / 0.05)


def test_any_observation_in_an_episode_is_a_start(quiet):
    obs, _ = quiet.reset(seed=1, options={"state": as_state(9, 1, 2, 0.1, 1, 0.02, 5)})
    for _ in range(5):
        np.testing.assert_array_equal(start(PirlEnv(), obs), obs)
        obs = quiet.step(AHEAD)[0]


BAD = {
    "a start that is no number": as_state(10, math.nan, 0, 0, 0, 0, 5),
    "a start off the road": as_state(10, 0, 0, -1, 0, 0, 5),
    "a road of two curvatures": STRAIGHT + np.eye(16)[7] * 0.1,
}


@pytest.mark.parametrize("state", BAD.values(), ids=BAD.keys())
def test_a_bad_start_is_refused_and_the_episode_goes_on(quiet, state):
    start(quiet)
    draws = quiet.np_random.bit_generator.state
    with pytest.raises(ValueError, match=r"state.* should be"):
        start(quiet, state, seed=9)
    assert quiet.np_random.bit_generator.state == draws
    np.testing.assert_array_equal(quiet.state, STRAIGHT)
    quiet.step(AHEAD)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_sampled_points_lie_inside_at_the_end_of_time_and_on_the_edge(seed, n):
    interior, expired, unsafe = sample_points(np.random.default_rng(seed), n)
    env = PirlEnv()
    for points in (interior, expired, unsafe):
        assert points.shape == (n, 16)
        assert points.dtype == np.float32
        assert all(map(env.observation_space.contains, points))
        curvature = points[:, 14:15] / 200
        assert (abs(curvature) <= 0.02 + 1e-8).all()
        np.testing.assert_allclose(points[:, 5:15], curvature * np.arange(2, 21, 2) ** 2 / 2, atol=1e-6)
    assert (abs(interior[:, 3]) < 1).all()
    assert (interior[:, 15] > 0).all()
    assert (abs(expired[:, 3]) < 1).all()
    assert (expired[:, 15] == 0).all()
    assert (abs(unsafe[:, 3]) == 1).all()
    assert (unsafe[:, 15] > 0).all()


def test_sampled_points_fill_both_edges_and_the_ranges_of_a_reset():
    interior, expired, unsafe = sample_points(np.random.default_rng(0), 2000)
    speeds = np.concatenate([points[:, 0] for points in (interior, expired, unsafe)])
    assert len(np.unique(speeds)) > 0.99 * len(speeds)
    assert 0.4 < (unsafe[:, 3] > 0).mean() < 0.6
    env = PirlEnv()
    resets = np.array([env.reset(seed=seed)[0] for seed in range(500)])
    for column in (0, 1, 2, 3, 4, 14, 15):
        low, high = interior[:, column].min(), interior[:, column].max()
        assert low < high
        margin = 0.02 * (high - low)
        assert low - margin <= resets[:, column].min() <= low + 3 * margin
        assert high - 3 * margin <= resets[:, column].max() <= high + margin
