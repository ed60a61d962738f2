"""Gymnasium environments: the API, and calls that are refused and change nothing."""

import math

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from rl_impls.common.procgen_env import ProcgenVectorEnv, check_installed
from rl_impls.pirl.env import PirlEnv
from rl_impls.snake.env import SnakeEnv
from rl_impls.snake.vector_env import SnakeVectorEnv
from rl_impls.treasurehunt.env import TreasurehuntEnv
from rl_impls.treasurehunt.vector_env import Settings


def treasurehunt():
    return TreasurehuntEnv(Settings(num_agents=3, height=4, width=5, radius=1, spawn=0.3, turns=10), "rgb_array")


MAKERS = {"pirl": PirlEnv, "snake": lambda: SnakeEnv(render_mode="ansi"), "treasurehunt": treasurehunt}
ACTION = {"pirl": 2, "snake": 0, "treasurehunt": [0, 1, 2]}
BAD = [
    ("pirl", 25), ("pirl", 1.0), ("snake", 4), ("snake", 1.0), ("treasurehunt", [0, 1, 4]),
    ("treasurehunt", [0.0, 1.0, 2.0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options", "shape", "actions"),
    [("Pirl-v0", {}, (16,), 25), ("Snake-v0", {"dim": 8, "render_mode": "ansi"}, (8, 8), 4)],
)
def test_registered_environment_passes_the_gymnasium_checker(name, options, shape, actions):
    made = gymnasium.make(f"rlgauge/{name}", **options)
    assert (made.observation_space.shape, made.observation_space.dtype) == (shape, np.float32)
    assert made.action_space.n == actions
    check_env(made.unwrapped, skip_render_check=not options)


IMPOSSIBLE = [
    *((PirlEnv, {"sigma": sigma}) for sigma in (-0.5, math.nan, math.inf, False, "1")),
    *((SnakeEnv, options) for options in ({"starting_blocks": 5}, {"dist_to_border": 5}, {"max_steps": 2.5})),
    *((Settings, options) for options in ({"num_agents": 442}, {"radius": 22})),
]


@pytest.mark.parametrize(("kind", "options"), IMPOSSIBLE)
def test_impossible_settings_are_refused(kind, options):
    [(name, value)] = options.items()
    with pytest.raises(ValueError, match=f"^{name}={value!r} should be "):
        kind(**options)


@pytest.mark.parametrize(("workload", "action"), BAD)
def test_bad_action_is_refused_and_changes_nothing(workload, action):
    env, twin = MAKERS[workload](), MAKERS[workload]()
    for one in (env, twin):
        one.reset(seed=0)
    with pytest.raises(ValueError, match=r"^actions?\b.* should be "):
        env.step(action)
    np.testing.assert_equal(env.step(ACTION[workload]), twin.step(ACTION[workload]))


@pytest.mark.parametrize("workload", MAKERS)
def test_step_outside_an_episode_is_refused_and_changes_nothing(workload):
    env, action, ended = MAKERS[workload](), ACTION[workload], False
    uses = [lambda: env.step(action), *([env.render] if env.render_mode else [])]
    for use in uses:
        with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
            use()
    env.reset(seed=0)
    while not ended:
        _, _, *ends, _ = env.step(action)
        ended = any(ends)
    shown = env.render() if env.render_mode else env.state.copy()
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        env.step(action)
    np.testing.assert_array_equal(env.render() if env.render_mode else env.state, shown)
    env.reset()
    env.step(action)


VECTOR = {"snake": lambda: SnakeVectorEnv(4), "procgen": lambda: ProcgenVectorEnv("chaser", 4, seed=0, threads=1)}


@pytest.mark.parametrize("workload", VECTOR)
def test_seed_fixes_all_games_and_no_result_is_overwritten(workload, needed):
    if workload == "procgen":
        needed(check_installed)
    env = VECTOR[workload]()

    def course(seed):
        results = [env.reset(seed=seed)[0]]
        copies = [results[0].copy()]
        for action in range(30):
            *arrays, infos = env.step(np.full(4, action % 4))
            arrays.append(infos.get("level_seed", arrays[0]))
            results += arrays
            copies += [array.copy() for array in arrays]
        env.reset()  # Procgen starts other levels, in the same arrays
        np.testing.assert_equal(results, copies)
        return copies

    first = course(3)
    assert len(np.unique(first[0], axis=0)) > 2
    np.testing.assert_equal(course(3), first)
    assert not np.array_equal(course(4)[0], first[0])
    env.close()
