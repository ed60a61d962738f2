"""Loops on the benchmarks' inputs, against a plain loop in float64; see :mod:`.loops`."""

from contextlib import closing

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.snake.loops import LOOPS, Inputs, check, fresh, options_of, passes_a_multiple, timed
from correctness_tests.snake.problem import build, differences
from correctness_tests.updates import assert_same, seconds_of_phases
from perf_tests.recorded import benchmarks
from rl_impls import backends
from rl_impls.common.parts import part_of
from rl_impls.common.phases import untimed

TIMED = {
    one.name: one
    for one in benchmarks(("snake",))
    if one.op.startswith("collect_and_learn") and one.tier in ("gate", "bench") and one.params["form"] != "tf32"
}
IN_GATE = [name for name, one in TIMED.items() if one.tier == "gate"]


@pytest.mark.parametrize("name", quick(IN_GATE, list(TIMED)))
def test_a_loop_matches_the_plain_loop_on_the_timed_inputs(name, seed, needed):
    form, backend, num_envs, train_frequency, batch_size = TIMED[name].params.values()
    inputs = timed(form, num_envs, train_frequency, batch_size, seed)
    backend, options = backends.get(backend), options_of(form, train_frequency, batch_size)
    needed(backend.require)
    loop = backend.build("snake", "collect_and_learn", inputs.config, inputs.args, options)
    with closing(loop):
        first, wanted = check(loop, inputs, options, backend.name)
        if wanted.truncated == 0 and inputs.config["step"] + wanted.rewards.size >= inputs.config["target_frequency"]:
            assert differences(part_of(wanted.state, "target"), inputs.config["target"]).max() > 0
        ended = loop.state()
        loop.reset()
        again = backend.to_host(loop(*inputs.args))
        for one, other in zip(first, again, strict=True):
            np.testing.assert_array_equal(one, other)
        assert_same(loop.state(), ended)


@pytest.mark.parametrize(
    ("form", "backend", "num_envs"), quick([loop for loop in LOOPS if loop != ("compiled", "jax", 1)], LOOPS)
)
def test_a_loop_matches_where_the_ring_wraps_and_episodes_are_truncated(form, backend, num_envs):
    loop, inputs = fresh(form, backend, num_envs)
    loop(*inputs.args)
    loop.reset()  # the actor of a thread must take the restored weights, too
    _, wanted = check(loop, inputs, options_of(form, 4), backend)
    assert wanted.truncated > 0


@pytest.mark.parametrize(("form", "backend"), [("vectorised", "torch"), ("compiled", "jax")])
def test_a_buffer_smaller_than_a_step_of_all_environments_keeps_the_last_ones(form, backend):
    inputs = timed(form, 64)
    *others, rows = inputs.args
    inputs = Inputs(inputs.config | {"capacity": 48}, (*others, rows % 48))
    loop = build("collect_and_learn", backend, inputs.config, inputs.args, form, train_frequency=4)
    check(loop, inputs, options_of(form, 4), backend)


@pytest.mark.parametrize(
    ("form", "backend", "num_envs", "target_frequency"),
    quick(
        [
            ("naive", "torch", 1, 3),
            ("vectorised", "torch", 64, 96),
            ("threaded", "torch", 64, 128),
        ],
        [(*loop, frequency) for loop in LOOPS for frequency in ((3, 16) if loop[2] == 1 else (96, 128))],
    ),
)
def test_the_target_net_is_synced_when_the_step_passes_a_multiple(form, backend, num_envs, target_frequency):
    inputs = timed(form, num_envs)
    train_frequency = 1 if num_envs == 1 else 16
    start = 2**31 - max(8, num_envs)  # the step exceeds 32 bits on the way
    config = inputs.config | {"target_frequency": target_frequency, "step": start}
    explore, random_actions, draws, _ = inputs.args
    rows = np.arange(32)[None].repeat(max(1, num_envs // train_frequency), axis=0)
    example = (explore[:1], random_actions[:1], draws[:1], rows)
    loop = build("collect_and_learn", backend, config, example, form, train_frequency=train_frequency)
    with closing(loop):
        before = part_of(loop.state(), "target")
        for t in range(len(explore) if num_envs > 1 else 20):
            now = t % len(explore)
            loop(explore[now : now + 1], random_actions[now : now + 1], draws[now : now + 1], rows)
            state = loop.state()
            after, online = part_of(state, "target"), part_of(state, "online")
            step = start + t * num_envs
            due = passes_a_multiple(step, step + num_envs, target_frequency)
            assert state["global_step"] == step + num_envs
            assert (differences(after, before).max() > 0) == due
            assert (differences(after, online).max() == 0) == due
            before = after


@pytest.mark.parametrize(("form", "backend"), [("full", "torch"), ("compiled", "jax")])
def test_the_target_net_is_synced_after_the_next_update(form, backend):
    inputs = timed(form, 1)
    inputs = Inputs(inputs.config | {"target_frequency": 6}, inputs.args)
    loop = build("collect_and_learn", backend, inputs.config, inputs.args, form, train_frequency=4)
    check(loop, inputs, options_of(form, 4), backend)


@pytest.mark.parametrize(("form", "backend", "num_envs"), quick([("full", "torch", 1)], LOOPS))
def test_a_loop_without_a_target_net_bootstraps_from_the_online_net(form, backend, num_envs):
    inputs = timed(form, num_envs)
    inputs = Inputs(inputs.config | {"target_frequency": 0}, inputs.args)
    loop = build("collect_and_learn", backend, inputs.config, inputs.args, form, train_frequency=4)
    with closing(loop):
        check(loop, inputs, options_of(form, 4), backend)


@pytest.mark.parametrize(
    ("form", "num_envs", "phases"),
    [
        ("full", 1, {"environment", "inference", "memory", "learning"}),
        ("threaded", 64, {"inference", "memory", "learning", "waiting"}),
        ("compiled", 64, {"program", "transfer"}),
    ],
)
def test_phases_of_a_loop_add_up_to_its_time(form, num_envs, phases):
    loop, inputs = fresh(form, "jax" if form == "compiled" else "torch", num_envs)
    seconds = seconds_of_phases(loop, *inputs.args)
    assert {name for name, value in seconds.items() if value > 0} == phases


def test_learning_ends_when_jax_has_computed_the_update():
    loop, inputs = fresh("full", "jax", 1)
    *drawn, rows = inputs.args
    rows = iter(rows)
    for step in zip(*drawn):
        *_, transitions = loop.play(*step, untimed)
        assert all(loss.is_ready() for loss in loop.learn(transitions, rows))


@pytest.mark.parametrize(("form", "count"), [("naive", 1), ("plain", 2)])
def test_a_loop_acts_and_learns_on_one_thread_or_all(form, count):
    import torch

    loop, inputs = fresh(form, "torch", 1)
    before, seen = torch.get_num_threads(), set()
    torch.set_num_threads(2)
    hook = torch.nn.modules.module.register_module_forward_pre_hook(lambda *_: seen.add(torch.get_num_threads()))
    try:
        loop(*inputs.args)
    finally:
        hook.remove()
        torch.set_num_threads(before)
    assert seen == {count}


@pytest.mark.parametrize(("num_envs", "lag"), [(1, 32), (64, 64)])
def test_a_loop_with_a_thread_reports_the_age_of_its_weights(num_envs, lag):
    loop, _ = fresh("threaded", "torch", num_envs)
    assert loop.stats() == {"policy_lag_steps": lag}
