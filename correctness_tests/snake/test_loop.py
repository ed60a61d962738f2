"""The loops on the timed inputs, against a plain loop in float64; see :mod:`.loops`."""

from __future__ import annotations

import time

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.snake.loops import (
    LOOPS,
    Inputs,
    check,
    close,
    fresh,
    options,
    passes_a_multiple,
    timed,
)
from correctness_tests.snake.problem import assert_state_equal, build, differences, net_of
from correctness_tests.waiting import limit
from perf_tests.recorded import benchmarks
from rl_impls import backends
from rl_impls.backends import BackendUnavailable

TIMED = {
    one.name: one
    for one in benchmarks(("snake",))
    if one.op.startswith("collect_and_learn") and one.tier in ("gate", "bench")
}
IN_GATE = [name for name, one in TIMED.items() if one.tier == "gate"]

pytestmark = pytest.mark.usefixtures("one_thread")

limited = limit("a loop's thread")


@pytest.mark.parametrize("name", quick(IN_GATE, list(TIMED)))
def test_a_loop_matches_the_plain_loop_on_the_timed_inputs(name, seed, unavailable):
    form, backend, num_envs, every, batch = TIMED[name].params.values()
    inputs, chosen = timed(form, num_envs, every, batch, seed), options(form, every, batch)
    backend = backends.get(backend)
    try:
        backend.require()
    except BackendUnavailable as error:
        unavailable(error)
    loop = backend.build("snake", "collect_and_learn", inputs.spec, inputs.args, chosen)
    try:
        first, wanted = check(loop, inputs, options, backend.name)
        if wanted.truncated == 0 and inputs.spec["step"] + wanted.rewards.size >= inputs.spec["target_every"]:
            assert differences(net_of(wanted.state, "train.target"), inputs.spec["target"]).max() > 0
        ended = loop.state()
        loop.reset()
        again = backend.to_host(loop(*inputs.args))
        for one, other in zip(first, again, strict=True):
            np.testing.assert_array_equal(one, other)
        assert_state_equal(loop.state(), ended)
    finally:
        close(loop)


@pytest.mark.parametrize(
    ("form", "backend", "envs"), quick([loop for loop in LOOPS if loop != ("compiled", "jax", 1)], LOOPS)
)
def test_a_loop_matches_where_the_ring_wraps_and_episodes_are_truncated(form, backend, envs):
    loop, inputs = fresh(form, backend, envs)
    _, wanted = check(loop, inputs, options(form, 4), backend)
    assert wanted.truncated > 0


@pytest.mark.parametrize(
    ("form", "backend", "envs", "target_every"),
    quick(
        [
            ("naive", "torch", 1, 3),
            ("vectorised", "torch", 64, 96),
            ("threaded", "torch", 64, 128),
            ("compiled", "jax", 1, 16),
        ],
        [(*loop, target_every) for loop in LOOPS for target_every in ((3, 16) if loop[2] == 1 else (96, 128))],
    ),
)
def test_the_target_net_is_synced_when_the_step_passes_a_multiple_of_target_every(form, backend, envs, target_every):
    inputs = timed(form, envs)
    every = 1 if envs == 1 else 16
    spec = inputs.spec | {"target_every": target_every, "step": 0}
    explore, random_actions, draws, _ = inputs.args
    rows = np.arange(32)[None].repeat(max(1, envs // every), axis=0)
    example = (explore[:1], random_actions[:1], draws[:1], rows)
    loop = build("collect_and_learn", backend, spec, example, form, every=every)
    try:
        before = net_of(loop.state(), "train.target")
        for t in range(len(explore) if envs > 1 else 20):
            now = t % len(explore)
            loop(explore[now : now + 1], random_actions[now : now + 1], draws[now : now + 1], rows)
            state = loop.state()
            after, online = net_of(state, "train.target"), net_of(state, "train.online")
            due = passes_a_multiple(t * envs, (t + 1) * envs, target_every)
            assert (differences(after, before).max() > 0) == due
            assert (differences(after, online).max() == 0) == due
            before = after
    finally:
        close(loop)


@pytest.mark.parametrize(("form", "backend", "envs"), quick([("full", "torch", 1), ("compiled", "jax", 1)], LOOPS))
def test_a_loop_without_a_target_net_bootstraps_from_the_online_net(form, backend, envs):
    inputs = timed(form, envs)
    inputs = Inputs(inputs.spec | {"target_every": 0}, inputs.args)
    loop = build("collect_and_learn", backend, inputs.spec, inputs.args, form, every=4)
    try:
        check(loop, inputs, options(form, 4), backend)
    finally:
        close(loop)


REFUSED = [
    ("jax", "compiled", {}, {"collection": "thread"}, r"collection: got 'thread' with loop='scan'"),
    ("jax", "compiled", {"step": 970}, {}, "step: got 970 with an update every 4 steps, wanted a multiple"),
    ("torch", "full", {}, {"batch": 64}, "rows: got 32 for an update, wanted 64, the value of option batch"),
]


@pytest.mark.parametrize(("backend", "form", "changed", "options", "message"), REFUSED)
def test_an_impossible_loop_is_refused(backend, form, changed, options, message):
    inputs = timed(form, 1)
    with pytest.raises(ValueError, match=f"^{message}"):
        build("collect_and_learn", backend, inputs.spec | changed, inputs.args, form, every=4, **options)


@pytest.mark.parametrize(("form", "backend"), [("vectorised", "torch"), ("compiled", "jax")])
def test_updates_have_to_fall_on_whole_steps(form, backend):
    inputs = timed("vectorised", 64)
    games = {name: value[:6] for name, value in inputs.spec["env_state"].items()}
    args = (*(array[:, :6] for array in inputs.args[:3]), inputs.args[3])
    with pytest.raises(ValueError, match=r"^envs: got 6 with an update every 4 steps"):
        build("collect_and_learn", backend, inputs.spec | {"env_state": games}, args, form, every=4)


@pytest.mark.parametrize(
    ("phase", "owner", "name"),
    [
        ("environment", "environment", "advance"), ("inference", "", "actor"), ("memory", "memory", "columns"),
        ("learning", "", "wait"),
    ],
)  # fmt: skip
def test_a_phase_counts_what_is_done_in_it(phase, owner, name):
    inputs, seconds = timed("full", 1), []
    loop = build("collect_and_learn", "torch", inputs.spec, inputs.args, every=4)
    owner = getattr(loop, owner) if owner else loop
    call = getattr(owner, name)

    def slowly(*args):
        time.sleep(0.01)
        seconds.append(0.01)
        return call(*args)

    setattr(owner, name, slowly)
    loop.reset()
    assert set(loop.phases().values()) == {0}
    before = time.perf_counter()
    loop(*inputs.args)
    assert sum(seconds) <= loop.phases()[phase]
    assert sum(loop.phases().values()) <= time.perf_counter() - before


def test_a_loop_with_a_thread_counts_waiting_and_the_age_of_its_weights():
    loop, inputs = fresh("threaded", "torch", 64)
    loop(*inputs.args)
    assert loop.phases()["waiting"] > 0
    assert loop.stats() == {"policy_lag_steps": 64}


def test_a_compiled_loop_is_one_program():
    loop, inputs = fresh("compiled", "jax", 64)
    before = time.perf_counter()
    loop(*inputs.args)
    assert set(loop.phases()) == {"program", "transfer"}
    assert 0 < sum(loop.phases().values()) <= time.perf_counter() - before
