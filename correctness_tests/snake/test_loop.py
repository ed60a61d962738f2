"""The loops on the very inputs that are timed, against a plain loop in float64 that is told which actions were played.

A loop acts on what it learns, so rounding may flip a move: the reference plays the recorded actions, and says of each
whether it was a greedy one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import pytest

from correctness_tests.snake.problem import (
    assert_state_equal,
    assert_trained_alike,
    build,
    differences,
    exact_trainer,
    net_of,
)
from perf_tests.suite.case import Inputs
from perf_tests.suite.cases import variants
from perf_tests.suite.cases.snake import loop_inputs
from rl_impls import backends
from rl_impls.backends import BackendUnavailable
from rl_impls.snake import _numpy
from rl_impls.snake.env import Geometry
from rl_impls.snake.environments import PlainEnvs
from rl_impls.snake.loop import CHUNK, PHASES
from rl_impls.snake.memory import DTYPES, FIELDS

OP = "snake.collect_and_learn"
IDS = [name for name, v in variants().items() if v.case.name == OP and v.tier in ("gate", "bench")]
# Largest relative difference of a loss, and of 99 % of the weights, in learning rates an update. optax computes
# 1 - 0.999^t in float32: its first steps are 5e-5 off, and hundreds of updates multiply that.
TOLERANCE = {"torch": (1e-4, 0.001), "jax": (2e-2, 0.1)}
LOOPS = [  # form, backend, envs
    ("naive", "torch", 1),
    ("plain", "torch", 1),
    ("full", "torch", 1),
    ("vectorised", "torch", 64),
    ("threaded", "torch", 64),
    ("full", "jax", 1),
    ("compiled", "jax", 1),
    ("compiled", "jax", 64),
]


pytestmark = pytest.mark.usefixtures("one_thread")


@dataclass
class Outcome:
    """What the reference makes of the actions that were played."""

    rewards: np.ndarray
    ended: np.ndarray
    greedy: np.ndarray  # how much less than the best move each action is worth, relative to the largest value
    losses: np.ndarray
    params: dict
    state: dict
    truncated: int


def follow(inputs, actions, every, threaded):
    """Play the recorded actions and learn, one step after the other, in float64.

    A thread plays chunk k by the weights after chunk k - 2 was learned from.
    """
    (_, _, draws, rows), fixed = inputs.varying, inputs.fixed
    steps, envs = actions.shape
    chunk, lag = (max(1, CHUNK // envs), 1) if threaded else (1, 0)
    games = PlainEnvs(envs, Geometry())
    games.set_state(fixed["env_state"])
    stored, step, due = list(zip(*fixed["stored"])), fixed["step"], iter(rows)
    train, update = exact_trainer(fixed, batch_of(stored, rows[0] % 2))
    acting, rewards, ended, lacking, losses, late = [], [], [], [], [], 0
    for t in range(steps):
        if t % chunk == 0:
            acting.append(train.params)
        obs = games.observe()
        q = _numpy.q_values(acting[max(0, t // chunk - lag)], obs.astype(np.float64))
        lacking.append((q.max(axis=1) - q[np.arange(envs), actions[t]]) / np.abs(q).max())
        _, reward, terminated, truncated, final_obs = games.advance(actions[t], draws[t])
        rewards.append(reward)
        ended.append(terminated | truncated)
        late += truncated.sum()
        stored = [*stored, *zip(obs, actions[t], reward, final_obs, terminated)][-fixed["capacity"] :]
        updates = [k for k in range(step + 1, step + envs + 1) if k % every == 0]
        losses += [update(batch_of(stored, next(due))) for _ in updates]
        due_to_sync = passes_a_multiple(step, step + envs, fixed["target_every"])
        step += envs
        if due_to_sync:
            assert updates
            train.sync_target()
    assert next(due, None) is None
    memory = dict(zip((f"memory.{name}" for name in FIELDS), batch_of(stored, range(len(stored)))))
    state = {f"env.{name}": value for name, value in games.get_state().items()} | memory | {"loop.step": step}
    state |= {f"train.{name}": value for name, value in train.state().items()}
    return Outcome(*map(np.array, (rewards, ended, lacking, losses)), train.params, state, late)


def passes_a_multiple(before, after, of):
    """Whether a multiple is among the steps after ``before``, up to ``after``; 0 has none."""
    return of > 0 and any(k % of == 0 for k in range(before + 1, after + 1))


def batch_of(stored, rows):
    return [np.array([stored[row][k] for row in rows], dtype) for k, dtype in enumerate(DTYPES)]


def check(loop, inputs, knobs, backend):
    """Run the loop once from its start and compare all it says and leaves behind; return what it says."""
    explore, random_actions, _, rows = inputs.varying
    out = actions, rewards, ended, losses = backends.get(backend).to_host(loop(*inputs.varying))
    wanted = follow(inputs, actions, knobs.every, knobs.collection == "thread")
    np.testing.assert_array_equal(rewards, wanted.rewards)
    np.testing.assert_array_equal(ended, wanted.ended)
    np.testing.assert_array_equal(actions[explore], random_actions[explore])
    assert wanted.greedy[~explore].max() < 1e-3
    assert losses.shape == (len(rows),)
    rate = inputs.fixed["learning_rate"]
    later, most = TOLERANCE[backends.get(backend).source]
    np.testing.assert_allclose(losses[:8], wanted.losses[:8], rtol=1e-4)
    np.testing.assert_allclose(losses, wanted.losses, rtol=later)
    assert_trained_alike(loop.params, wanted.params, rate, len(rows), most)
    state = loop.state()
    assert state.keys() == wanted.state.keys()
    for name, value in wanted.state.items():
        if name.partition(".")[0] in ("env", "memory", "loop"):
            np.testing.assert_array_equal(state[name], value, err_msg=name)
    targets = (net_of(s, "train.target") for s in (state, wanted.state))
    assert_trained_alike(*targets, rate, len(rows), most)
    assert state["train.step"] == len(rows)
    return out, wanted


def inputs_of(variant, seed):
    """What is timed; of a compiled loop as few steps as of the others: rounding turns moves round in a thousand."""
    if variant.form == "compiled":
        return loop_inputs(np.random.default_rng(seed), **variant.axes)
    return variant.inputs(seed)


@pytest.mark.parametrize("identity", IDS)
def test_loop_does_what_a_plain_loop_does(identity, seed, unavailable):
    variant = variants()[identity]
    backend, inputs, knobs = backends.get(variant.backend), inputs_of(variant, seed), variant.knobs()
    try:
        backend.require()
    except BackendUnavailable as error:
        unavailable(error)
    loop = backend.build("snake", "collect_and_learn", inputs.fixed, inputs.varying, knobs)
    try:
        first, wanted = check(loop, inputs, knobs, variant.backend)
        if wanted.truncated == 0 and inputs.fixed["step"] + wanted.rewards.size >= inputs.fixed["target_every"]:
            assert differences(net_of(wanted.state, "train.target"), inputs.fixed["target"]).max() > 0
        ended = loop.state()
        loop.reset()
        again = backend.to_host(loop(*inputs.varying))
        for one, other in zip(first, again, strict=True):
            np.testing.assert_array_equal(one, other)
        assert_state_equal(loop.state(), ended)
    finally:
        close(loop)


@pytest.mark.parametrize(("form", "envs"), [("full", 1), ("compiled", 1), ("compiled", 64)])
def test_a_call_of_a_compiled_loop_is_a_thousand_environment_steps(form, envs):
    backend = "jax" if form == "compiled" else "torch"
    variant = variants()[f"{OP}[{form}-{backend}-envs{envs}-every4-batch32]"]
    explore, *_, rows = variant.inputs(0).varying
    steps = 1024 if form == "compiled" else 64
    assert explore.size == steps == variant.case.items(**variant.axes)
    assert len(rows) == steps // 4


def timed(form, backend, envs, every=4):
    """The inputs of a loop that is timed."""
    return inputs_of(variants()[f"{OP}[{form}-{backend}-envs{envs}-every{every}-batch32]"], 0)


def full_ring(inputs):
    """Games about to be truncated, a memory about to be full, and batches of what was stored last."""
    rng, (explore, random_actions, draws, rows) = np.random.default_rng(9), inputs.varying
    capacity = len(inputs.fixed["stored"][0]) + 3
    steps = 500 - rng.integers(1, 8, explore.shape[1])
    games = inputs.fixed["env_state"] | {"steps": steps}
    newest = np.arange(capacity - 3 - 60, capacity - 3)
    rows = np.array([rng.choice(newest, len(row), replace=False) for row in rows])
    changed = {"capacity": capacity, "env_state": games}
    return Inputs(inputs.fixed | changed, (explore, random_actions, draws, rows))


@pytest.mark.parametrize(("form", "backend", "envs"), LOOPS)
def test_loop_goes_on_where_the_ring_wraps_and_episodes_are_truncated(form, backend, envs):
    inputs = full_ring(timed(form, backend, envs))
    loop = build("collect_and_learn", backend, inputs.fixed, inputs.varying, form, every=4)
    try:
        _, wanted = check(loop, inputs, knobs(form, 4), backend)
        assert wanted.truncated > 0
    finally:
        close(loop)


def knobs(form, every):
    return replace(backends.forms("snake")[form], every=every)


def close(loop):
    getattr(loop, "close", int)()


def split(inputs):
    """The first half of the steps and updates, and the second."""
    halves = zip(*(np.split(np.asarray(array), 2) for array in inputs.varying))
    return [tuple(half) for half in halves]


def restored(state):
    """A copy, as from a checkpoint."""
    return {name: np.array(value) for name, value in state.items()}


@pytest.mark.parametrize(("form", "backend", "envs"), [loop for loop in LOOPS if loop[0] != "threaded"])
@pytest.mark.parametrize("hard", [False, True])
def test_two_halves_with_a_checkpoint_in_between_are_one_run(form, backend, envs, hard):
    inputs = timed(form, backend, envs)
    inputs = full_ring(inputs) if hard else inputs
    first, second = split(inputs)

    def make(example, fixed=inputs.fixed):
        return build("collect_and_learn", backend, fixed, example, form, every=4)

    whole, before = make(inputs.varying), make(first)
    after = make(second, unlike(inputs.fixed))
    wanted, start = whole(*inputs.varying), before(*first)
    state = before.state()
    kept = restored(state)
    after.load_state(state)
    assert_state_equal(after.state(), kept)
    end = after(*second)
    for one, *two in zip(wanted, start, end, strict=True):
        np.testing.assert_array_equal(np.concatenate(two), one)
    assert_state_equal(after.state(), whole.state())
    assert_state_equal(state, kept)
    before(*second)
    assert_state_equal(before.state(), whole.state())


def unlike(fixed):
    """Start a loop from other weights, games and transitions."""
    games = {
        name: np.roll(value, 1, axis=-1) if name == "food" else value for name, value in fixed["env_state"].items()
    }
    nets = {name: fixed[other] for name, other in (("params", "target"), ("target", "params"))}
    return fixed | nets | {"env_state": games, "step": 0, "stored": tuple(c[::-1].copy() for c in fixed["stored"])}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("full", "torch"), ("naive", "torch")),
        (("naive", "torch"), ("compiled", "jax")),
        (("compiled", "jax"), ("full", "jax")),
        (("full", "jax"), ("compiled", "jax")),
        (("compiled", "jax"), ("full", "torch")),
        (("full", "torch"), ("threaded", "torch")),
    ],
)
def test_another_form_goes_on_from_a_checkpoint(before, after):
    inputs = full_ring(timed("full", "torch", 1))
    _, *rest = inputs.varying
    inputs = Inputs(inputs.fixed, (np.ones_like(inputs.varying[0]), *rest))  # the moves depend on no rounding
    first, second = split(inputs)
    one = build("collect_and_learn", before[1], inputs.fixed, first, before[0], every=4)
    other = build("collect_and_learn", after[1], unlike(inputs.fixed), second, after[0], every=4)
    try:
        start = one(*first)
        other.load_state(one.state())
        end = other(*second)
        actions, rewards, ended, losses = (np.concatenate(two) for two in zip(start, end, strict=True))
        wanted = follow(inputs, actions, 4, threaded=False)
        np.testing.assert_array_equal(rewards, wanted.rewards)
        np.testing.assert_array_equal(ended, wanted.ended)
        np.testing.assert_allclose(losses, wanted.losses, rtol=1e-3)
        assert_trained_alike(other.params, wanted.params, inputs.fixed["learning_rate"], len(losses))
        state = other.state()
        for name, value in wanted.state.items():
            if name.partition(".")[0] in ("env", "memory", "loop"):
                np.testing.assert_array_equal(state[name], value, err_msg=name)
    finally:
        close(one)
        close(other)


def test_two_calls_of_a_threaded_loop_are_the_same_with_a_checkpoint_in_between():
    inputs = timed("threaded", "torch", 64)
    first, second = split(inputs)
    loops = [build("collect_and_learn", "torch", inputs.fixed, inputs.varying, "threaded", every=4) for _ in range(3)]
    whole, before, after = loops
    try:
        whole(*first)
        whole(*second)
        before(*first)
        after.load_state(before.state())
        after(*second)
        assert_state_equal(after.state(), whole.state())
    finally:
        for loop in loops:
            close(loop)


@pytest.mark.parametrize(
    ("form", "backend", "envs", "target_every"),
    [(*loop, target_every) for loop in LOOPS for target_every in ((3, 16) if loop[2] == 1 else (96, 128))],
)
def test_target_is_synced_exactly_where_a_multiple_is_passed(form, backend, envs, target_every):
    inputs = timed(form, backend, envs)
    every = 1 if envs == 1 else 16
    fixed = inputs.fixed | {"target_every": target_every, "step": 0}
    explore, random_actions, draws, _ = inputs.varying
    rows = np.arange(32)[None].repeat(max(1, envs // every), axis=0)
    example = (explore[:1], random_actions[:1], draws[:1], rows)
    loop = build("collect_and_learn", backend, fixed, example, form, every=every)
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


@pytest.mark.parametrize(("form", "backend", "envs"), LOOPS)
def test_loop_learns_without_a_target_net_where_there_is_none(form, backend, envs):
    inputs = timed(form, backend, envs)
    inputs = Inputs(inputs.fixed | {"target_every": 0}, inputs.varying)
    loops = [
        build("collect_and_learn", backend, inputs.fixed | {"target": inputs.fixed[net]}, inputs.varying, form, every=4)
        for net in ("target", "params")
    ]
    try:
        out, _ = check(loops[0], inputs, knobs(form, 4), backend)
        again = backends.get(backend).to_host(loops[1](*inputs.varying))
        for one, other in zip(out, again, strict=True):
            np.testing.assert_array_equal(one, other)  # whatever the weights of a target net would be
    finally:
        for loop in loops:
            close(loop)


@pytest.mark.parametrize(("form", "backend", "envs"), LOOPS)
def test_phases_sum_to_the_time_of_a_call(form, backend, envs):
    inputs = timed(form, backend, envs)
    loop = build("collect_and_learn", backend, inputs.fixed, inputs.varying, form, every=4)
    names = ("program", "transfer") if form == "compiled" else PHASES
    shares = []
    assert getattr(loop, "stats", dict)() == ({"policy_lag_steps": envs} if form == "threaded" else {})
    try:
        loop(*inputs.varying)
        for _ in range(5):  # others may take the core away where nothing is measured
            loop.reset()
            assert loop.phases() == dict.fromkeys(names, 0)
            start = perf_counter()
            loop(*inputs.varying)
            whole = perf_counter() - start
            shares.append(sum(loop.phases().values()) / whole)
    finally:
        close(loop)
    assert max(shares) <= 1
    assert max(shares) > 0.95
    used = {"memory", "learning", "inference"} | {"waiting" if form == "threaded" else "environment"}
    assert {phase for phase in names if loop.phases()[phase] > 0} == (set(names) if form == "compiled" else used)


@pytest.mark.parametrize(("form", "backend"), [("vectorised", "torch"), ("threaded", "torch"), ("compiled", "jax")])
@pytest.mark.parametrize(("envs", "every"), [(3, 4), (6, 4), (3, 16)])
def test_updates_have_to_fall_on_whole_steps(form, backend, envs, every):
    inputs = timed("vectorised", "torch", 64)
    games = {name: value[:envs] for name, value in inputs.fixed["env_state"].items()}
    varying = (*(array[:, :envs] for array in inputs.varying[:3]), inputs.varying[3])
    with pytest.raises(ValueError, match=rf"^envs: got {envs} with an update every {every} steps"):
        build("collect_and_learn", backend, inputs.fixed | {"env_state": games}, varying, form, every=every)


def test_one_program_has_no_thread():
    inputs = timed("compiled", "jax", 1)
    with pytest.raises(ValueError, match=r"^collection: got 'thread' with loop='scan'"):
        build("collect_and_learn", "jax", inputs.fixed, inputs.varying, "compiled", every=4, collection="thread")


def test_a_program_starts_with_a_whole_round():
    inputs = timed("compiled", "jax", 1)
    fixed = {**inputs.fixed, "step": 970}
    with pytest.raises(ValueError, match="step: got 970 with an update every 4 steps, wanted a multiple"):
        build("collect_and_learn", "jax", fixed, inputs.varying, "compiled", every=4)


def test_rows_are_those_of_a_batch():
    inputs = timed("full", "torch", 1)
    with pytest.raises(ValueError, match="rows: got 32 for an update, wanted 64, the value of knob batch"):
        build("collect_and_learn", "torch", inputs.fixed, inputs.varying, "full", every=4, batch=64)
