"""PPO and IMPALA with actor processes: without lag as the sequential loop, with lag by older weights."""

from __future__ import annotations

import gc
import os
import signal
import sys

import numpy as np
import pytest

from correctness_tests.procgen.loops import (
    ENV,
    ENVS,
    act,
    apart,
    assert_same,
    heard,
    made,
    numbers,
    plain,
    played,
    spec_of,
)
from correctness_tests.procgen.problem import build
from correctness_tests.quick import quick
from correctness_tests.waiting import alive, children, limit, started, until
from rl_impls.common.procgen_env import ProcgenVectorEnv
from rl_impls.procgen.players import part_of_spec, share_of, share_of_state

pytestmark = pytest.mark.usefixtures("one_thread", "installed")

limited = limit("actors")


def assert_alike(got, wanted):
    """Rewards and ends are the same, losses nearly: a batch of other size may be rounded otherwise."""
    for one, other in zip(got[:2], wanted[:2], strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    np.testing.assert_allclose(got[2], wanted[2], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("algorithm", "backend", "form"),
    quick(
        [("ppo", "torch", "full")],
        [(algorithm, *form) for algorithm in ("ppo", "impala")
         for form in (("torch", "full"), ("torch", "naive"), ("jax", "full"))],
    ),
)  # fmt: skip
def test_parallel_loop_without_lag_matches_the_sequential_one(algorithm, backend, form):
    spec, start = spec_of(algorithm), played()[1]
    with made(algorithm, spec, backend, form) as loop:
        wanted = [loop(numbers(0, 1)), loop(numbers(2))]
        state, weights = loop.state(), loop.params
        anew = loop(numbers(7))
        last = loop.params
    with made(f"parallel_{algorithm}", spec, backend, form) as loop:
        assert_same(loop.params, start)
        first = loop(numbers(0, 1))
        kept = [array.copy() for array in first]
        second = loop(numbers(2))
        assert_same(first, kept)
        assert_alike(first, wanted[0])
        assert_alike(second, wanted[1])
        assert apart(loop.params, weights, start) < 5e-3
        assert loop.stats() == {"policy_lag": 0, "most_policy_lag": 0, "replaced_actors": 0}
        niceness = {os.getpriority(os.PRIO_PROCESS, process.pid) for _, process in loop.crew.members}
        assert niceness == {os.getpriority(os.PRIO_PROCESS, 0)}

        found = loop.state()
        assert found.keys() == state.keys()
        assert_alike(loop(numbers(7)), anew)
        loop.reset()
        assert_alike(loop(numbers(0, 1)), wanted[0])
        loop.load_state(state)
        assert_same(loop.state(), state)
        assert_alike(loop(numbers(7)), anew)
        assert apart(loop.params, last, start) < 5e-3
    with made(algorithm, spec, backend, form) as loop:
        loop.load_state(found)
        assert_alike(loop(numbers(7)), anew)
        assert apart(loop.params, last, start) < 5e-3


def assert_played_by(spec, rollouts, weights):
    """The actors have played each rollout with those weights."""
    for index in range(spec["actors"]):
        share = share_of(spec, index)
        envs = ProcgenVectorEnv(**part_of_spec(spec)["env"], threads=1)
        envs.set_state(share_of_state(spec["env_state"], share))
        for number, (rollout, params) in enumerate(zip(rollouts, weights, strict=True)):
            wanted = act(envs, params, spec, number, share)
            for got, array in zip(rollout, wanted):
                np.testing.assert_allclose(got[:, share], array, atol=1e-3)
        envs.close()


def wait_for_what_is_played_ahead(loop):
    """Have a loop learn from a rollout only when its actors have played the next one."""
    learn = loop.learner.learn

    def late(rollout, number):
        for pipe, _ in loop.crew.members:
            assert pipe.poll(60)
        return learn(rollout, number)

    loop.learner.learn = late


@pytest.mark.parametrize(("algorithm", "actors"), quick([("impala", 1)], [("impala", 1), ("impala", 2), ("ppo", 2)]))
def test_lag_of_one_plays_the_next_rollout_with_the_weights_before_the_update(algorithm, actors):
    spec = spec_of(algorithm, lag=1, learning_rate=3e-3, actors=actors)
    with made(f"parallel_{algorithm}", spec) as loop:
        rollouts = heard(loop)
        wait_for_what_is_played_ahead(loop)
        weights = [loop.params]
        for number in range(4):
            loop(numbers(number))
            weights.append(loop.params)
        assert loop.stats() == {"policy_lag": 0.75, "most_policy_lag": 1, "replaced_actors": 0}
        niceness = {os.getpriority(os.PRIO_PROCESS, process.pid) for _, process in loop.crew.members}
        assert niceness == {19}  # actors that play ahead give way to the learner
        assert_played_by(spec, rollouts, [weights[k] for k in (0, 0, 1, 2)])
        with pytest.raises(AssertionError):
            assert_played_by(spec, rollouts, [weights[k] for k in (0, 1, 1, 2)])


@pytest.mark.slow
def test_state_with_lag_includes_rollouts_played_ahead():
    spec = spec_of("impala", lag=1)
    [first], _, _ = plain("impala", spec, (0,))
    with made("parallel_impala", spec) as loop:
        loop(numbers(0))
        state = loop.state()
        asked = loop(numbers(1))
        loop.load_state(state)
        assert_same(loop.state(), state)
        assert_same(loop(numbers(1))[:2], asked[:2])
        assert loop.stats()["most_policy_lag"] <= 1
        loop.reset()
        assert loop.stats()["policy_lag"] == 0
        assert_same(loop(numbers(0))[:2], [first.rewards[None], first.ended[None]])


@pytest.mark.slow
def test_training_continues_when_an_actor_is_killed_twice():
    with made("parallel_impala", spec_of("impala", learning_rate=0.0)) as loop:
        wanted = loop(numbers(*range(3)))
        loop.reset()
        loop(numbers(0))
        for number in (1, 2):
            os.kill(loop.crew.members[1][1].pid, signal.SIGKILL)
            rewards, ended, losses = loop(numbers(number))
            assert np.isfinite(losses).all()
            np.testing.assert_array_equal(rewards[0, :, : ENVS // 2], wanted[0][number][:, : ENVS // 2])
            np.testing.assert_array_equal(ended[0, :, : ENVS // 2], wanted[1][number][:, : ENVS // 2])
            assert loop.stats()["replaced_actors"] == number
        assert len(children()) == 2
        assert loop.state()["env.lengths"].shape == (ENVS,)
        assert set(loop.state()["env.lengths"][ENVS // 2 :]) <= set(range(1, 6))


def test_replacement_actor_gets_another_level_seed():
    spec = spec_of("ppo")
    envs = [part_of_spec(spec, life)["env"] for life in (0, 1, 2)]
    assert [env["seed"] for env in envs] == [ENV["seed"] + life for life in (0, 1, 2)]
    assert part_of_spec({**spec, "env": {**ENV, "seed": 2**31 - 1}}, 1)["env"]["seed"] == 0
    assert all(env == {**ENV, "num_envs": ENVS // 2, "seed": env["seed"]} for env in envs)


@pytest.mark.slow
def test_collected_loop_leaves_no_process():
    loop = build("parallel_ppo", "torch", spec_of("ppo", lag=1), (numbers(0),))
    loop(numbers(0))
    pids = children()
    assert len(pids) == 2
    del loop
    gc.collect()
    until(lambda: not any(map(alive, pids)), "actors that end")


def test_actors_must_divide_the_environments():
    with pytest.raises(ValueError, match=r"^actors: got 3, wanted a divisor of 4 environments$"):
        build("parallel_ppo", "torch", spec_of("ppo", actors=3), (numbers(0),))


MAIN = """
import sys
from correctness_tests.procgen.loops import made, numbers, spec_of
from correctness_tests.waiting import children
if __name__ == "__main__":
    algorithm, number = sys.argv[1], 0
    with made(algorithm, spec_of(algorithm.removeprefix("parallel_").replace("a3c", "a2c"), lag=1)) as loop:
        loop(numbers(0))
        print(*children(), flush=True)
        while True:
            number += 1
            loop(numbers(number))
"""


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["parallel_ppo", "a3c"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=["killed", "ctrl-c", "ended"])
def test_killed_or_interrupted_main_process_leaves_no_actors(algorithm, number, tmp_path):
    (tmp_path / "main.py").write_text(MAIN)
    options = {"env": os.environ | {"PYTHONPATH": os.getcwd()}, "start_new_session": True}
    with started([sys.executable, tmp_path / "main.py", algorithm], **options) as process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(alive, pids))
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.wait(60) != 0
        until(lambda: not any(map(alive, pids)), "actors that end")
