"""PPO and IMPALA whose rollouts actors play: without lag the sequential loop, with lag what older weights play."""

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
    STEPS,
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
from rl_impls.backends import BackendUnavailable, get
from rl_impls.common.procgen_env import ProcgenVectorEnv, check_installed
from rl_impls.procgen.knobs import FORMS
from rl_impls.procgen.players import Player, part_of_spec, share_of, share_of_state
from rl_impls.procgen.rollouts import KEPT

pytestmark = pytest.mark.usefixtures("one_thread")

limited = limit("actors")
PHASES = ("waiting", "inference", "advantages", "gathering", "learning", "publishing")


@pytest.fixture(autouse=True)
def installed(unavailable):
    """Skip, or fail, where Procgen is not installed."""
    try:
        check_installed()
    except BackendUnavailable as error:
        unavailable(error)


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
def test_without_lag_a_parallel_loop_does_what_the_sequential_one_does(algorithm, backend, form):
    spec, start = spec_of(algorithm), played()[1]
    with made(algorithm, spec, backend, form) as loop:
        wanted = [loop(numbers(0, 1)), loop(numbers(2))]
        state, weights = loop.state(), loop.params
        anew = loop(numbers(7))
        last = loop.params
    with made(f"parallel_{algorithm}", spec, backend, form) as loop:
        assert loop.phases() == dict.fromkeys(PHASES, 0.0)
        assert_same(loop.params, start)
        first = loop(numbers(0, 1))
        kept = [array.copy() for array in first]
        second = loop(numbers(2))
        assert_same(first, kept)
        assert_alike(first, wanted[0])
        assert_alike(second, wanted[1])
        assert apart(loop.params, weights, start) < 5e-3
        assert all(spent > 0 for phase, spent in loop.phases().items() if (algorithm, phase) != ("impala", "advantages")
                   and phase != "inference")  # fmt: skip
        assert loop.stats() == {"policy_lag": 0, "most_policy_lag": 0, "replaced_actors": 0}

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


def wait_for_what_is_played_ahead(loop):
    """Have a loop learn from a rollout only when its actors have played the next one."""
    learn = loop.learner.learn

    def late(rollout, number):
        for pipe, _ in loop.crew.members:
            assert pipe.poll(60)
        return learn(rollout, number)

    loop.learner.learn = late


def versions_of(loop):
    """Return the list of all weights that are published from now on, and of those each rollout was played by."""
    versions, behind, publish, learn = [loop.params], [], loop.crew.publish, loop.learn

    def noted(version, params):
        assert version == len(versions)
        versions.append({name: value.copy() for name, value in params.items()})
        publish(version, params)

    def counted(rollout, number):
        behind.append(loop.crew.behind(number).tolist())
        assert max(loop.version - version for version in behind[-1]) <= 1
        return learn(rollout, number)

    loop.crew.publish, loop.learn = noted, counted
    return versions, behind


def assert_played_by(spec, rollouts, versions, behind):
    """Each actor has played its share of rollouts by the weights of those versions."""
    for index in range(spec["actors"]):
        share = share_of(spec, index)
        envs = ProcgenVectorEnv(**part_of_spec(spec)["env"], threads=1)
        envs.set_state(share_of_state(spec["env_state"], share))
        for number, rollout in enumerate(rollouts):
            wanted = act(envs, versions[behind[number][index]], spec, number, share)
            for got, array in zip(rollout, wanted):
                np.testing.assert_allclose(got[:, share], array, atol=1e-3)
        envs.close()


@pytest.mark.parametrize(("algorithm", "actors"), quick([("impala", 1)], [("impala", 1), ("impala", 2), ("ppo", 2)]))
def test_with_a_lag_of_one_the_next_rollout_is_played_by_the_weights_before_the_update(algorithm, actors):
    spec = spec_of(algorithm, lag=1, learning_rate=3e-3, actors=actors)
    with made(f"parallel_{algorithm}", spec) as loop:
        rollouts = heard(loop)
        wait_for_what_is_played_ahead(loop)
        versions, behind = versions_of(loop)
        loop(numbers(0, 1, 2, 3))
        assert behind == [[version] * actors for version in (0, 0, 1, 2)]
        assert loop.stats() == {"policy_lag": 0.75, "most_policy_lag": 1, "replaced_actors": 0}
        assert all(len(loop.crew.shared[name]) == 3 for name in spec["params"])
        assert_played_by(spec, rollouts, versions, behind)
        with pytest.raises(AssertionError):
            assert_played_by(spec, rollouts, versions, [[version] * actors for version in (0, 1, 1, 2)])


@pytest.mark.slow
def test_actors_that_are_not_waited_for_play_by_the_newest_weights_there_are_and_never_lag_by_more():
    spec = spec_of("ppo", lag=1)
    with made("parallel_ppo", spec) as loop:
        rollouts = heard(loop)
        versions, behind = versions_of(loop)
        for number in range(8):
            loop(numbers(number))
        assert_played_by(spec, rollouts, versions, behind)
        assert loop.stats()["most_policy_lag"] <= 1
        assert loop.stats()["policy_lag"] > 0


@pytest.mark.slow
def test_with_lag_a_state_is_that_of_all_that_was_played():
    spec = spec_of("impala", lag=1)
    with made("parallel_impala", spec) as loop:
        loop(numbers(0))
        state = loop.state()
        asked = loop(numbers(1))
        loop.load_state(state)
        assert_same(loop.state(), state)
        assert_same(loop(numbers(1))[:2], asked[:2])
        loop.reset()
        assert loop.stats()["policy_lag"] == 0
        assert_same(loop(numbers(0))[:2], [array[:1] for array in first_of(spec)])


def first_of(spec):
    """Rewards and ends of the first rollout."""
    [rollout], _, _ = plain("impala", spec, (0,))
    return rollout.rewards[None], rollout.ended[None]


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_a_loop_goes_on_when_an_actor_is_killed(times):
    with made("parallel_impala", spec_of("impala", learning_rate=0.0)) as loop:
        wanted = loop(numbers(*range(3)))
        loop.reset()
        loop(numbers(0))
        for number in range(1, 1 + times):
            os.kill(loop.crew.members[1][1].pid, signal.SIGKILL)
            rewards, ended, losses = loop(numbers(number))
            assert np.isfinite(losses).all()
            np.testing.assert_array_equal(rewards[0, :, : ENVS // 2], wanted[0][number][:, : ENVS // 2])
            np.testing.assert_array_equal(ended[0, :, : ENVS // 2], wanted[1][number][:, : ENVS // 2])
            assert loop.stats()["replaced_actors"] == number
        assert len(children()) == 2
        assert loop.state()["env.lengths"].shape == (ENVS,)
        assert set(loop.state()["env.lengths"][ENVS // 2 :]) <= set(range(1, 6))


def test_an_actor_that_replaces_another_begins_other_levels():
    spec = spec_of("ppo")
    envs = [part_of_spec(spec, life)["env"] for life in (0, 1, 2)]
    assert [env["seed"] for env in envs] == [ENV["seed"] + life for life in (0, 1, 2)]
    assert part_of_spec({**spec, "env": {**ENV, "seed": 2**31 - 1}}, 1)["env"]["seed"] == 0
    assert all(env == {**ENV, "num_envs": ENVS // 2, "seed": env["seed"]} for env in envs)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "collected"])
def test_no_process_is_left_by_a_loop_that_is(how):
    loop = build("parallel_ppo", "torch", spec_of("ppo", lag=1), (numbers(0),))
    loop(numbers(0))
    pids = children()
    assert len(pids) == 2
    if how == "closed":
        loop.close()
    del loop
    gc.collect()
    until(lambda: not any(map(alive, pids)), "actors that end")


def test_an_actor_makes_no_optimiser(monkeypatch):
    import torch

    for name in ("Adam", "RMSprop"):
        monkeypatch.setattr(torch.optim, name, lambda *args, **options: pytest.fail("it takes long to import"))
    spec = spec_of("ppo")
    actor = Player(spec, 0, 0, 1, FORMS["full"], get("torch"))
    actor.train.load(spec["params"])
    actor.play_into(0, KEPT["in_place"](STEPS, ENVS // 2).read())
    actor.envs.close()


def test_actors_are_a_divisor_of_the_environments():
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
def test_no_process_is_left_by_a_main_process_that_is(algorithm, number, tmp_path):
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
