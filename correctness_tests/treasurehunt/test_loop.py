"""Small loops against a plain loop in float64.

Rounding differences can change an action, and with it the rest of a run. The plain loop therefore replays the recorded
actions, and reports how far the value of each is from the best one.
"""

import copy
import functools

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.snake.problem import assert_trained_alike
from correctness_tests.treasurehunt.hunts import BATCH, PlainHunt, build, draw_turns, hunt, settings_of, shortfall
from correctness_tests.updates import seconds_of_phases
from rl_impls.common.parts import part_of
from rl_impls.treasurehunt import _numpy
from rl_impls.treasurehunt.loop import PHASES

LOOPS = [(form, backend) for backend in ("torch", "jax") for form in ("naive", "one_by_one", "full", "interleaved")]
LOOPS.append(("compiled", "jax"))
FAST = [*[loop for loop in LOOPS if loop[1] == "torch"], ("compiled", "jax")]
WORLDS = 1, 3
EPOCHS = [(*loop, worlds) for loop in LOOPS for worlds in WORLDS]  # form, backend, worlds
QUICK_EPOCHS = [epochs for epochs in EPOCHS if epochs[:2] in FAST and epochs != ("compiled", "jax", 3)]
GREEDY = 1e-4  # an action counts as greedy if its value is within this distance of the best

given = functools.cache(functools.partial(hunt, 1))


@functools.cache
def made(op, form, backend, num_worlds):
    config, epochs = given(num_worlds)
    return build(op, backend, config, epochs[0] if op == "epoch" else epochs[0][1:5], form)


def fresh(*variant):
    loop = made(*variant)
    loop.reset()
    return loop


def order_of(form):
    return "interleaved" if form == "interleaved" else "together"


def check_turns(actions, rewards, explore, random_actions, expected, values):
    """Assert that exploring agents take the random actions and others greedy ones, and that the rewards are correct."""
    assert (actions.dtype, rewards.dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(actions[explore], random_actions[explore])
    assert shortfall(actions, values)[~explore].max() < GREEDY
    np.testing.assert_array_equal(rewards, expected)


@pytest.mark.parametrize("num_worlds", quick([3], WORLDS))
@pytest.mark.parametrize(("form", "backend"), quick(FAST, LOOPS))
def test_turns_equal_those_of_a_plain_loop_before_and_after_a_reset(form, backend, num_worlds):
    config, epochs = given(num_worlds)
    loop = fresh("turn", form, backend, num_worlds)
    for played in (epochs, epochs[:1]):
        loop.reset()
        plain = PlainHunt(config, num_worlds, order_of(form))
        for _, *turns, _, _, _ in played:  # the second call continues where the first ended
            actions, rewards = loop(*turns)
            check_turns(actions, rewards, *turns[2:], *plain.turns(actions, *turns))
    for name, value in config["params"].items():
        np.testing.assert_array_equal(loop.params[name], value)


@pytest.mark.parametrize(("form", "backend", "num_worlds"), quick(QUICK_EPOCHS, EPOCHS))
def test_epochs_equal_those_of_a_plain_loop(form, backend, num_worlds):
    config, epochs = given(num_worlds)
    loop, plain = fresh("epoch", form, backend, num_worlds), PlainHunt(config, num_worlds, order_of(form))
    for k, epoch in enumerate(epochs, start=1):
        actions, rewards, losses = loop(*epoch)
        *played, expected = plain.epoch(actions, *epoch)
        check_turns(actions, rewards, *epoch[3:5], *played)
        assert (losses.shape, losses.dtype) == ((2,), np.float32)
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        assert_trained_alike(loop.params, plain.params, config["learning_rate"], k)
        assert all(np.abs(loop.params[name] - config["params"][name]).max() > 0 for name in config["params"])


@pytest.mark.parametrize("num_worlds", quick([3], WORLDS))
def test_keyed_epochs_equal_those_of_a_plain_loop_with_the_numbers_drawn(num_worlds):
    from rl_impls.treasurehunt.jax_draws import draw_epoch, draw_rows

    (config, _), epsilon = given(num_worlds), np.float32(0.3)
    loop, plain = build("epoch", "jax", config | {"batch_size": BATCH}, (), "keyed"), PlainHunt(config, num_worlds)
    sizes = settings_of(config), num_worlds, BATCH, _numpy.noise_size(config["params"])
    for k in (1, 2):
        key = np.array([0, k], np.uint32)
        actions, rewards, losses = loop(key, epsilon)
        *turns, rows_key, taus, noise = draw_epoch(key, epsilon, *sizes)
        memory = part_of(loop.state(), "memory")
        rows = draw_rows(rows_key, _numpy.stored_fields({"stored": memory}), int(memory["pushed"]), BATCH)
        epoch = tuple(map(np.asarray, (*turns, rows, taus, noise)))
        *played, expected = plain.epoch(actions, *epoch)
        check_turns(actions, rewards, *epoch[3:5], *played)
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        assert_trained_alike(loop.params, plain.params, config["learning_rate"], k)


@pytest.mark.parametrize(("form", "backend"), quick([("full", "torch"), ("compiled", "jax")], LOOPS))
def test_epochs_repeat_after_reset_and_leave_arguments_and_earlier_results_alone(form, backend):
    config, epochs = given(1)
    before = copy.deepcopy((config, epochs))
    loop = fresh("epoch", form, backend, 1)
    first = [loop(*epoch) for epoch in epochs]
    kept, params = copy.deepcopy(first), loop.params
    loop.reset()
    np.testing.assert_equal(loop.params, config["params"])
    again = [loop(*epoch) for epoch in epochs]
    np.testing.assert_equal(again, first)
    np.testing.assert_equal(loop.params, params)
    np.testing.assert_equal(first, kept)
    np.testing.assert_equal((config, epochs), before)


def test_compiled_loop_goes_on_from_a_loaded_state():
    _, epochs = given(1)
    loop = fresh("epoch", "compiled", "jax", 1)
    before, first = copy.deepcopy(loop.state()), loop(*epochs[0])
    assert any(np.any(value != before[name]) for name, value in loop.state().items() if name.startswith("memory."))
    loop.load_state(before)
    for name, value in loop.state().items():
        np.testing.assert_array_equal(value, before[name])
    for value, expected in zip(loop(*epochs[0]), first, strict=True):
        np.testing.assert_array_equal(value, expected)


RGB = [(*loop, worlds) for loop in (("naive", "torch"), ("full", "torch"), ("compiled", "jax")) for worlds in WORLDS]


@pytest.mark.parametrize(
    ("form", "backend", "num_worlds"), quick([("naive", "torch", 3), ("full", "torch", 3), ("compiled", "jax", 1)], RGB)
)
def test_rgb_epochs_equal_those_of_a_plain_loop(form, backend, num_worlds):
    config, [epoch] = hunt(1, num_worlds=num_worlds, epochs=1, observation="rgb")
    loop, plain = build("epoch", backend, config, epoch, form), PlainHunt(config, num_worlds)
    actions, rewards, losses = loop(*epoch)
    *played, expected = plain.epoch(actions, *epoch)
    check_turns(actions, rewards, *epoch[3:5], *played)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("form", "backend", "phases"), [("full", "torch", PHASES), ("compiled", "jax", ("program", "transfer"))]
)
def test_phases_of_a_call_add_up_to_its_time(form, backend, phases):
    _, epochs = given(1)
    loop = fresh("epoch", form, backend, 1)
    seconds = seconds_of_phases(loop, *epochs[0])
    assert tuple(seconds) == phases
    assert min(seconds.values()) > 0


@pytest.mark.parametrize("form", ["full", "interleaved"])
def test_time_in_a_large_world_counts_as_environment(form):
    config, _ = hunt(1, epochs=0, height=60, width=60)
    turns = draw_turns(np.random.default_rng(1), settings_of(config), 1)
    loop = build("turn", "torch", config, turns, form, world="cells")
    loop(*turns)
    loop.reset()
    loop(*turns)
    seconds = loop.phases()
    assert seconds["environment"] > seconds["inference"] + seconds["memory"]
