"""The op that steps Procgen's games: what it returns, puts back and holds."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

from rl_impls.backends import BackendUnavailable, get
from rl_impls.common import procgen_env
from rl_impls.common.procgen_env import ACTIONS, ProcgenVectorEnv, check_installed
from rl_impls.procgen.composed import FRAMES, env_step

ENV = {"game": "chaser", "num_envs": 3, "seed": 5, "mode": "easy", "num_levels": 20, "start_level": 4}
STEPS = 60


@pytest.fixture(autouse=True)
def installed(unavailable):
    """Skip, or fail, where Procgen is not installed."""
    try:
        check_installed()
    except BackendUnavailable as error:
        unavailable(error)


def actions(seed=0):
    """Draw i32[T, N]."""
    return np.random.default_rng(seed).integers(ACTIONS, size=(STEPS, 3)).astype(np.int32)


def build(frames="in_place", **changed):
    """Make the op for these games."""
    return env_step(
        {"env": {**ENV, **changed}}, (actions(),), knobs=SimpleNamespace(frames=frames), backend=get("numpy")
    )


@pytest.mark.parametrize("frames", FRAMES)
def test_the_op_makes_the_steps_of_the_environment(frames):
    op, env = build(frames), ProcgenVectorEnv(**ENV, threads=1)
    ends = 0
    for given in (actions(0), actions(1)):
        obs, rewards, ended = op(given)
        wanted = [env.advance(action) for action in given]
        np.testing.assert_array_equal(obs, wanted[-1][0])
        np.testing.assert_array_equal(rewards, [step[1] for step in wanted])
        np.testing.assert_array_equal(ended, [step[2] for step in wanted])
        np.testing.assert_array_equal(op.rows, [step[0] for step in wanted])
        assert (obs.dtype, rewards.dtype, ended.dtype) == (np.uint8, np.float32, bool)
        ends += ended.sum()
    assert ends > 0
    op.close()
    env.close()


@pytest.mark.parametrize("frames", FRAMES)
def test_a_step_writes_its_frames_to_the_row_directly_or_by_way_of_a_copy(frames, monkeypatch):
    given, op = [], build(frames)
    advance = ProcgenVectorEnv.advance
    monkeypatch.setattr(
        ProcgenVectorEnv, "advance", lambda env, actions, out=None: given.append(out) or advance(env, actions, out)
    )
    op(actions())
    direct = [out is not None and np.shares_memory(out, op.rows) for out in given]
    assert direct == [frames == "in_place"] * STEPS
    op.close()


def test_a_reset_puts_the_games_back_to_the_start():
    op = build()
    first = op(actions())
    later = op(actions())
    assert not np.array_equal(first[0], later[0])
    op.reset()
    for again, wanted in zip(op(actions()), first, strict=True):
        np.testing.assert_array_equal(again, wanted)
    op.close()
    op.close()


def test_what_is_returned_stays_as_it_is_when_the_op_is_called_again():
    op = build()
    kept = op(actions())
    copies = [array.copy() for array in kept]
    op(actions(1))
    for array, copy in zip(kept, copies):
        np.testing.assert_array_equal(array, copy)
    op.close()


def test_as_many_threads_compute_as_this_process_has_cores(monkeypatch):
    monkeypatch.setattr(procgen_env, "CHOSEN", [])  # what an earlier command chose
    for cores in (1, 3):
        monkeypatch.setattr(procgen_env.os, "sched_getaffinity", lambda pid, cores=cores: range(cores))
        op = build()
        assert op.envs.threads == cores
        op.close()


def test_a_bad_environment_is_refused_when_the_op_is_built():
    with pytest.raises(ValueError, match=r"^game: got 'chess', wanted one of bigfish"):
        build(game="chess")


def test_without_procgen_the_op_is_unavailable_and_a_run_can_require_it(monkeypatch, unavailable):
    monkeypatch.setattr(procgen_env, "find_spec", lambda name: None)
    with pytest.raises(BackendUnavailable) as raised:
        build()
    said = "numpy: procgen is not installed (pip install --no-deps -r requirements/py311.txt)"
    assert str(raised.value) == said
    monkeypatch.setitem(unavailable.__globals__, "find_spec", lambda name: None if name == "procgen" else name)
    for required, end in (("procgen", "fail"), ("numpy", "fail"), ("torch,gym3", "skip"), ("", "skip")):
        monkeypatch.setenv("RL_PERF_REQUIRE", required)
        with pytest.raises(getattr(pytest, end).Exception, match=re.escape(said)):
            unavailable(raised.value)
