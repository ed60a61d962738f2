"""Procgen as a vector environment: steps equal those of gym3, and a state resumes exactly."""

import itertools
import os
import pickle
import re
import tracemalloc

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from rl_impls.common.procgen_env import ACTIONS, GAMES, ProcgenVectorEnv, import_procgen
from rl_impls.common.procgen_state import pack, unpack

from .commands import hiding, python

N = 4
ENDING = "chaser"  # has rewards and ends of episodes within a few steps

pytestmark = pytest.mark.usefixtures("installed")


@pytest.fixture
def make():
    made = []

    def create(game="coinrun", num_envs=N, **how):
        made.append(ProcgenVectorEnv(game, num_envs, **{"seed": 3, "threads": 1, **how}))
        return made[-1]

    yield create
    for env in made:
        env.close()


def drawn(steps, num_envs=N, seed=0):
    return np.random.default_rng(seed).integers(ACTIONS, size=(steps, num_envs)).astype(np.int32)


def play(env, actions):
    """Return the results of each step, and the levels and statistics after it."""
    found = []
    for action in actions:
        step = env.advance(action)
        found.append((*step, env.levels, env.returns.copy(), env.lengths.copy(), *env.finished))
    return found


def assert_same(found, wanted):
    assert len(found) == len(wanted)
    for step, step_wanted in zip(found, wanted):
        for array, array_wanted in zip(step, step_wanted, strict=True):
            np.testing.assert_array_equal(array, array_wanted)


@pytest.mark.parametrize(("game", "mode"), list(zip(GAMES, itertools.cycle(("easy", "hard")))))
def test_every_game_resumes_from_its_state(make, game, mode):
    env = make(game, 2, mode=mode)
    obs, infos = env.reset()
    assert obs in env.observation_space
    assert infos["level_seed"].dtype == np.int32
    actions = drawn(24, 2)
    first = play(env, actions[:12])
    shown, state = env.observe(), env.get_state()
    wanted = play(env, actions[12:])
    assert len({step[0].tobytes() for step in first + wanted}) > 4
    other = make(game, 2, mode=mode, seed=8)
    other.set_state(state)
    np.testing.assert_array_equal(other.observe(), shown)
    assert_same(play(other, actions[12:]), wanted)


def test_frames_rewards_and_ends_equal_those_of_gym3(make):
    ours = make(ENDING, 8, num_levels=5, start_level=2)
    bare = import_procgen()(
        num=8, env_name=ENDING, rand_seed=3, distribution_mode="easy", num_levels=5, start_level=2, num_threads=1
    )
    np.testing.assert_array_equal(ours.reset()[0], bare.observe()[1]["rgb"])
    ends = 0
    for action in drawn(100, 8):
        before = ours.levels
        bare.act(action)
        rewards, obs, first = bare.observe()
        got_obs, got_rewards, got_ended = ours.advance(action)
        np.testing.assert_array_equal(got_obs, obs["rgb"])
        np.testing.assert_array_equal(got_rewards, rewards)
        np.testing.assert_array_equal(got_ended, first)
        assert ours.levels.tolist() == [int(info["level_seed"]) for info in bare.get_info()]
        assert set(ours.levels.tolist()) <= set(range(2, 7))
        np.testing.assert_array_equal(ours.finished.levels, before[ours.finished.env])
        ends += int(first.sum())
    bare.close()
    assert ends > 0


def test_episode_statistics_equal_those_of_gymnasium(make):
    plain = make(ENDING, 8)
    wrapped = RecordEpisodeStatistics(make(ENDING, 8))
    for env in (plain, wrapped):
        env.reset()
    ended_episodes = []
    for action in drawn(120, 8):
        obs, rewards, terminated, truncated, infos = plain.step(action)
        *others, infos_wanted = wrapped.step(action)
        for got, wanted in zip((obs, rewards, terminated, truncated), others, strict=True):
            np.testing.assert_array_equal(got, wanted)
            assert got.dtype == wanted.dtype
        assert not truncated.any()
        assert ("final_info" in infos) == ("_final_info" in infos) == ("episode" in infos_wanted) == terminated.any()
        assert "final_obs" not in infos
        if not terminated.any():
            assert len(plain.finished.env) == 0
            continue
        info, finished = infos["final_info"], plain.finished
        for name in ("r", "l"):
            np.testing.assert_array_equal(info["episode"][name], infos_wanted["episode"][name])
        np.testing.assert_array_equal(infos["_final_info"], terminated)
        np.testing.assert_array_equal(np.flatnonzero(terminated), finished.env)
        np.testing.assert_array_equal(info["level_seed"][terminated], finished.levels)
        np.testing.assert_array_equal(info["level_complete"][terminated], finished.solved)
        ended_episodes += zip(finished.returns.tolist(), finished.lengths.tolist())
    assert ended_episodes == list(zip(wrapped.return_queue, wrapped.length_queue))
    assert len({episode[0] for episode in ended_episodes}) > 1


def test_losses_count_in_returns_where_no_other_environment_gains(make):
    env, totals, losses = make("fruitbot", 8), np.zeros(8), 0
    for action in drawn(120, 8):
        _, rewards, ended = env.advance(action)
        totals = totals + rewards
        np.testing.assert_array_equal(env.finished.returns, totals[ended])
        totals[ended] = 0
        np.testing.assert_array_equal(env.returns, totals)
        losses += rewards.min() < 0 == rewards.max()
    assert losses > 0


def test_completed_level_is_solved_and_lost_level_is_not(make):
    env = make("leaper", 16)
    ended = []
    for action in drawn(150, 16):
        env.advance(np.where(action < 11, 5, action))  # mostly upwards
        ended += zip(env.finished.returns.tolist(), env.finished.solved.tolist())
    assert {(0.0, False), (10.0, True)} == set(ended)


def test_state_packs_to_arrays_and_back(make):
    env = make()
    play(env, drawn(5))
    state = env.get_state()
    arrays = pack(state)
    assert {name: array.dtype.name for name, array in arrays.items()} == {
        "games": "uint8", "sizes": "int64", "returns": "float64", "lengths": "int64",
    }  # fmt: skip
    again = unpack(arrays)
    assert again["games"] == state["games"]
    again["lengths"][:] = 77
    assert env.lengths.tolist() == arrays["lengths"].tolist() == [5] * N
    with pytest.raises(ValueError, match=r"^sizes=.* should add up to the \d+ bytes of the games$"):
        unpack(arrays | {"sizes": np.array([-1, len(arrays["games"]) + 1])})


def test_results_do_not_depend_on_the_number_of_threads(make):
    actions, threads = drawn(40, 6), 3
    before = len(os.listdir("/proc/self/task"))
    env = make(num_envs=6, threads=threads)
    assert len(os.listdir("/proc/self/task")) == before + threads
    assert_same(play(env, actions), play(make(num_envs=6), actions))
    assert len(os.listdir("/proc/self/task")) == before + threads, "one thread needs no further thread"
    env.close()
    assert len(os.listdir("/proc/self/task")) == before


def test_frames_are_written_to_the_given_array_without_a_copy(make):
    env, actions = make(num_envs=16), drawn(12, 16)
    rollout = np.zeros((13, 16, 64, 64, 3), np.uint8)
    env.observe(rollout[0])
    for t, action in enumerate(actions[:4]):
        row = rollout[t + 1]
        assert env.advance(action, row)[0] is row
    tracemalloc.start()
    for t, action in enumerate(actions[4:], 4):
        env.advance(action, rollout[t + 1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rollout[0].nbytes / 8, "a copy of the frames was made"
    other = make(num_envs=16)
    frames = [other.reset()[0], *(other.advance(action)[0] for action in actions)]
    np.testing.assert_array_equal(rollout, frames)
    assert not any(np.shares_memory(frame, other.frames) for frame in frames)


def test_seed_determines_the_episodes(make):
    actions = drawn(15)
    env = make(ENDING)
    start, _ = env.reset()
    wanted = play(env, actions)
    np.testing.assert_array_equal(env.reset(seed=3)[0], start)
    assert_same(play(env, actions), wanted)
    assert not np.array_equal(env.reset(seed=4)[0], start)
    np.testing.assert_array_equal(make(ENDING, seed=4).reset()[0], env.observe())


def test_reset_without_a_seed_starts_new_episodes(make):
    env = make(num_levels=0)
    before = env.levels
    env.reset()
    np.testing.assert_array_equal(env.levels, before)
    play(env, drawn(10))
    before = env.levels
    _, infos = env.reset()
    assert (infos["level_seed"] != before).all()
    assert not env.lengths.any()
    assert not env.returns.any()
    assert len(env.finished.env) == 0
    for other in (env, make(num_levels=0)):  # the second was never reset
        other.set_state(env.get_state())
        before = other.levels
        other.reset()
        assert (other.levels != before).all(), "reset after set_state starts new episodes"


OTHER_PROCESS = """
import pickle, sys
from pathlib import Path
from rl_impls.common import procgen_env, procgen_state
assert not {"gym", "gym3", "procgen", "torch", "jax"} & sys.modules.keys()
from gym_notices.notices import notices
kept = dict(notices)
arrays, actions, file = pickle.loads(Path(sys.argv[1]).read_bytes())
print("before", file=sys.stderr)
env = procgen_env.ProcgenVectorEnv(sys.argv[2], len(arrays["sizes"]), seed=5, threads=2)
print("after", file=sys.stderr)
assert "gym" in sys.modules and kept and notices == kept
env.set_state(procgen_state.unpack(arrays))
Path(file).write_bytes(pickle.dumps([env.advance(action) for action in actions]))
env.close()
"""


def test_another_process_resumes_a_state_without_gym_warnings(make, tmp_path):
    env, actions, found = make(ENDING), drawn(210), tmp_path / "found"
    play(env, actions[:10])
    (tmp_path / "given").write_bytes(pickle.dumps((pack(env.get_state()), actions[10:], str(found))))
    wanted = [env.advance(action) for action in actions[10:]]
    assert any(ended.any() for _, _, ended in wanted)
    done = python("-c", OTHER_PROCESS, tmp_path / "given", ENDING)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "before\nafter\n")
    assert_same(pickle.loads(found.read_bytes()), wanted)


def test_missing_package_error_says_how_to_install_it(tmp_path):
    code = "from rl_impls.common.procgen_env import ProcgenVectorEnv; ProcgenVectorEnv()"
    done = python("-c", code, PYTHONPATH=hiding(tmp_path, "procgen"))
    assert done.stderr.splitlines()[-1] == (
        "rl_impls.backends.BackendUnavailable: numpy: "
        "procgen is not installed (pip install --no-deps -r requirements/py311.txt)"
    )


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"game": "chess"}, f"unknown game 'chess' (choose from {', '.join(GAMES)})"),
        ({"seed": 2**31}, "seed=2147483648 should be an integer from 0 to 2147483647"),
        (
            {"num_levels": 10, "start_level": 2**31 - 1},
            "start_level=2147483647 should be an integer from 0 to 2147483637, as levels go to 2**31 - 2",
        ),
    ],
)
def test_invalid_argument_is_rejected(make, how, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make(**how)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((np.zeros(3, np.int32),), "actions=int32[3] should be an array of 4 integers from 0 to 14"),
        ((np.array([0, 1, -1, 15]),), "actions=[0, 1, -1, 15] should be an array of 4 integers from 0 to 14"),
        (
            (np.zeros(N, int), np.zeros((N, 64, 64, 3), np.float32)),
            "out=float32[4, 64, 64, 3] should be a writeable array uint8",
        ),
    ],
)
def test_invalid_actions_or_array_for_frames_is_rejected_and_changes_nothing(make, given, message):
    env = make()
    before = env.get_state()
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        env.advance(*given)
    assert env.get_state()["games"] == before["games"]
    assert not env.lengths.any()


def test_foreign_state_is_rejected_and_changes_nothing(make):
    env = make(num_levels=200)
    env.advance(np.zeros(N, int))
    state = env.get_state()
    wanted = "should be of coinrun, easy, levels 0 to 199"
    others = [
        (
            make("maze", mode="hard", num_levels=50, start_level=7).get_state(),
            f"state of maze, hard, levels 7 to 56 {wanted}",
        ),
        (make(num_envs=3, num_levels=200).get_state(), f"state: games should be a list of {N}"),
        (state | {"games": [game[:-1] for game in state["games"]]}, f"state of invalid bytes {wanted}"),
        (state | {"returns": np.zeros(3)}, f"state: returns of shape (3,) should have shape ({N},)"),
    ]
    for other, message in others:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            env.set_state(other)
        assert env.get_state()["games"] == state["games"]
        assert env.lengths.tolist() == [1] * N


def test_call_after_close_is_an_error(make):
    env = make()
    env.close()
    env.close()
    for name, call in (("reset", env.reset), ("advance", lambda: env.step(np.zeros(N, int)))):
        with pytest.raises(ClosedEnvironmentError, match=rf"^{name}\(\) was called after close"):
            call()
