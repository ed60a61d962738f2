"""Small loops against a plain loop in float64.

A loop acts on what it learns, so rounding may flip a move. The plain loop therefore plays the recorded actions, and
reports how much worse than the best each one is.
"""

from __future__ import annotations

import copy
import functools
from time import perf_counter

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.reference import in_float64
from correctness_tests.snake.problem import assert_trained_alike
from correctness_tests.treasurehunt.hunts import (
    BATCH,
    GREEDY,
    PlainHunt,
    build,
    drawn_turns,
    hunt,
    lacking,
    stacked,
)
from rl_impls.treasurehunt import _numpy
from rl_impls.treasurehunt.loop import PHASES
from rl_impls.treasurehunt.memory import FRAMES, HORIZON
from rl_impls.treasurehunt.spec import ACTIONS, AGENT, settings_of
from rl_impls.treasurehunt.vector_env import CellWorlds, empty_grid, interior

LOOPS = [  # form, backend
    ("naive", "torch"),
    ("one_by_one", "torch"),
    ("full", "torch"),
    ("interleaved", "torch"),
    ("naive", "jax"),
    ("one_by_one", "jax"),
    ("full", "jax"),
    ("interleaved", "jax"),
    ("compiled", "jax"),
]
TOGETHER = [loop for loop in LOOPS if loop[0] != "interleaved"]
WORLDS = 1, 3
UP, DOWN, LEFT, RIGHT = range(ACTIONS)

given = functools.cache(functools.partial(hunt, 1))

pytestmark = pytest.mark.usefixtures("one_thread")


@functools.cache
def made(op, form, backend, worlds):
    """Return a loop that the tests share; each resets it, see :func:`fresh`."""
    spec, epochs = given(worlds)
    return build(op, backend, spec, epochs[0] if op == "epoch" else epochs[0][1:5], form)


def fresh(*variant):
    loop = made(*variant)
    loop.reset()
    return loop


def order_of(form):
    return "interleaved" if form == "interleaved" else "together"


def check_turns(actions, rewards, explore, random, wanted, values):
    """Every action is the drawn one where the agent explores and greedy elsewhere; rewards are the plain loop's."""
    assert (actions.dtype, rewards.dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(actions[explore], random[explore])
    assert lacking(actions, values)[~explore].max() < GREEDY
    np.testing.assert_array_equal(rewards, wanted)


@pytest.mark.parametrize("worlds", WORLDS)
@pytest.mark.parametrize(("form", "backend"), LOOPS)
def test_turns_equal_those_of_a_plain_loop(form, backend, worlds):
    spec, epochs = given(worlds)
    loop, plain = fresh("turn", form, backend, worlds), PlainHunt(spec, worlds, order_of(form))
    for _, draws, taus, explore, random, *_ in epochs:  # the second call goes on where the first ended
        actions, rewards = loop(draws, taus, explore, random)
        check_turns(actions, rewards, explore, random, *plain.turns(actions, draws, taus, explore, random))
    for name, value in spec["params"].items():
        np.testing.assert_array_equal(loop.params[name], value)


@pytest.mark.parametrize("worlds", WORLDS)
@pytest.mark.parametrize(
    ("form", "backend"), quick([*[loop for loop in LOOPS if loop[1] == "torch"], ("compiled", "jax")], LOOPS)
)
def test_epochs_equal_those_of_a_plain_loop(form, backend, worlds):
    spec, epochs = given(worlds)
    loop, plain = fresh("epoch", form, backend, worlds), PlainHunt(spec, worlds, order_of(form))
    for k, epoch in enumerate(epochs, start=1):
        actions, rewards, losses = loop(*epoch)
        *played, wanted = plain.epoch(actions, *epoch)
        check_turns(actions, rewards, *epoch[3:5], *played)
        assert (losses.shape, losses.dtype) == ((2,), np.float32)
        np.testing.assert_allclose(losses, wanted, rtol=1e-5)
        assert_trained_alike(loop.params, plain.params, spec["learning_rate"], k)
        assert all(np.abs(loop.params[name] - spec["params"][name]).max() > 0 for name in spec["params"])


@pytest.mark.parametrize(("form", "backend"), LOOPS)
def test_epochs_repeat_after_reset_and_leave_arguments_and_earlier_results_alone(form, backend):
    spec, epochs = given(1)
    before = copy.deepcopy((spec, epochs))
    loop = fresh("epoch", form, backend, 1)
    first = [loop(*epoch) for epoch in epochs]
    kept, params = copy.deepcopy(first), loop.params
    loop.reset()
    np.testing.assert_equal(loop.params, spec["params"])
    again = [loop(*epoch) for epoch in epochs]
    np.testing.assert_equal(again, first)
    np.testing.assert_equal(loop.params, params)
    np.testing.assert_equal(first, kept)
    np.testing.assert_equal((spec, epochs), before)


def flee_to_the_right(spec, settings):
    """Return weights with which an agent goes right where it sees another in the cell left of its own, else up."""
    cell = settings.radius * settings.side + settings.radius - 1
    seen_now = (FRAMES - 1) * settings.frame + AGENT * settings.side**2 + cell
    net = {name: np.zeros_like(value) for name, value in spec["params"].items()}
    net["w_state"][:, seen_now, 0] = net["b_cos"][:, 0] = net["w_hidden"][:, 0, 0] = 1
    net["w_heads"][:, 0, 1 + RIGHT], net["b_heads"][:, 1 + UP] = 2, 1
    return {"params": net, "target": net}


@pytest.mark.parametrize(
    ("form", "backend"), [("interleaved", "torch"), ("interleaved", "jax"), ("full", "torch"), ("compiled", "jax")]
)
def test_interleaved_agents_see_where_those_before_them_have_gone(form, backend):
    spec, _ = hunt(1, epochs=0, height=1, width=5, spawn=0.0)
    settings = settings_of(spec)
    cells = interior(settings)
    state = {
        "grid": empty_grid(settings)[None],
        "where": cells[[[0], [2]]].astype(np.int32),
        "turn": np.array(0, np.int32),
    }
    spec |= flee_to_the_right(spec, settings) | {"world_state": state}
    draws, taus, explore, random = drawn_turns(np.random.default_rng(1), settings, 1)
    explore[:], random[:] = [[True], [False]], RIGHT  # agent 0 goes right, agent 1 looks
    loop = build("turn", backend, spec, (draws, taus, explore, random), form)
    actions, rewards = loop(draws, taus, explore, random)
    # The agents start in cells 0 and 2. Agent 1 flees to the right as soon as it sees agent 0 beside it.
    assert (actions[:, 0] == RIGHT).all()
    if form == "interleaved":
        assert actions[:3, 1, 0].tolist() == [RIGHT, RIGHT, RIGHT]
        assert rewards[:3, :, 0].tolist() == [[0, 0], [0, 0], [0, -1]]
    else:
        assert actions[:3, 1, 0].tolist() == [UP, RIGHT, UP]
        assert rewards[:3, :, 0].tolist() == [[0, -1], [0, 0], [0, -1]]


@pytest.mark.parametrize("worlds", WORLDS)
@pytest.mark.parametrize(("form", "backend"), TOGETHER)
def test_last_turns_bootstrap_from_the_final_observation(form, backend, worlds):
    spec, [epoch, _] = given(worlds)
    settings, gamma, turns = settings_of(spec), spec["gamma"], settings_of(spec).turns
    reset, draws, *drawn, _, taus, noise = epoch
    length, lane = spec["capacity"] // worlds, worlds - 1
    first = int(spec["stored"]["pushed"])
    last = turns - HORIZON + np.arange(BATCH) % HORIZON
    rows = (lane * length + (first + last) % length)[None].repeat(settings.agents, axis=0)
    actions, rewards, losses = fresh("epoch", form, backend, worlds)(reset, draws, *drawn, rows, taus, noise)
    world = CellWorlds(settings, worlds)
    seen = [world.reset(reset)]
    for turn in range(turns):
        seen.append(world.advance(actions[turn], draws[turn])[0])
    states = np.array([stacked(seen[: t + 1])[:, lane] for t in last]).swapaxes(0, 1)
    next_states = np.array([stacked(seen)[:, lane]] * BATCH).swapaxes(0, 1)
    returns = np.array([sum(gamma**k * rewards[t + k, :, lane] for k in range(turns - t)) for t in last]).T
    discounts = np.array([[gamma ** (turns - t)] * settings.agents for t in last]).T
    nets, draws_of_batch = in_float64((spec["params"], spec["target"])), in_float64((taus, noise))
    batch = states, actions[last, :, lane].T, returns, next_states, discounts
    np.testing.assert_allclose(losses, _numpy.loss(*nets, *batch, *draws_of_batch), rtol=1e-5)
    terminated = _numpy.loss(*nets, *batch[:4], 0 * discounts, *draws_of_batch)
    assert (np.abs(losses - terminated) > 1e-3 * losses).all()


def test_compiled_loop_goes_on_from_a_loaded_state():
    _, epochs = given(1)
    loop = fresh("epoch", "compiled", "jax", 1)
    before, first = copy.deepcopy(loop.state()), loop(*epochs[0])
    assert any(np.any(value != before[name]) for name, value in loop.state().items() if name.startswith("memory."))
    loop.load_state(before)
    for name, value in loop.state().items():
        np.testing.assert_array_equal(value, before[name])
    for value, wanted in zip(loop(*epochs[0]), first, strict=True):
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("worlds", quick([3], WORLDS))
def test_rgb_epochs_equal_those_of_a_plain_loop(worlds):
    spec, [epoch] = hunt(1, worlds=worlds, epochs=1, observation="rgb")
    for form, backend in (("naive", "torch"), ("full", "torch"), ("compiled", "jax")):
        loop, plain = build("epoch", backend, spec, epoch, form), PlainHunt(spec, worlds)
        actions, rewards, losses = loop(*epoch)
        *played, wanted = plain.epoch(actions, *epoch)
        check_turns(actions, rewards, *epoch[3:5], *played)
        np.testing.assert_allclose(losses, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("form", "backend", "phases"), [("full", "torch", PHASES), ("compiled", "jax", ("program", "transfer"))]
)
def test_phases_of_a_call_add_up_to_its_time(form, backend, phases):
    _, epochs = given(1)
    loop = fresh("epoch", form, backend, 1)
    start = perf_counter()
    loop(*epochs[0])
    elapsed, seconds = perf_counter() - start, loop.phases()
    assert tuple(seconds) == phases
    assert min(seconds.values()) > 0
    assert 0.5 * elapsed < sum(seconds.values()) <= elapsed
    loop.reset()
    assert loop.phases() == dict.fromkeys(phases, 0)


@pytest.mark.parametrize(
    ("backend", "options", "message"),
    [
        ("torch", {"form": "compiled"}, "^loop: got 'scan' on torch, wanted jax"),
        ("jax", {"form": "one_by_one", "loop": "scan"}, "^nets: got 'one_by_one' with loop='scan'"),
        ("torch", {"form": "processes", "order": "interleaved"}, "^order: got 'interleaved' with processes="),
    ],
)
def test_options_that_exclude_each_other_are_refused(backend, options, message):
    spec, epochs = given(1)
    with pytest.raises(ValueError, match=message):
        build("epoch", backend, spec, epochs[0], **options)
