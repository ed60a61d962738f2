"""Small loops against a plain one in float64 that is told which actions were played.

A loop acts on what it learns, so rounding may flip a move: the plain loop plays the recorded actions, and says of each
whether it was a greedy one.
"""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest

from correctness_tests.phase_clock import Clock
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
    margins,
    stacked,
)
from rl_impls.treasurehunt import _numpy, team
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
SAME = [loop for loop in LOOPS if loop[0] != "interleaved"]
WORLDS = 1, 3
UP, DOWN, LEFT, RIGHT = range(ACTIONS)

given = functools.cache(functools.partial(hunt, 1))

pytestmark = pytest.mark.usefixtures("one_thread")


@functools.cache
def made(op, form, backend, worlds):
    """Return what the tests share, which they reset."""
    spec, epochs = given(worlds)
    return build(op, backend, spec, epochs[0] if op == "epoch" else epochs[0][1:5], form)


def fresh(*variant):
    loop = made(*variant)
    loop.reset()
    return loop


def order_of(form):
    return "interleaved" if form == "interleaved" else "together"


def check_turns(actions, rewards, explore, random, wanted, values):
    """What was played is greedy or drawn, and rewarded as in the plain loop."""
    assert (actions.dtype, rewards.dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(actions[explore], random[explore])
    assert lacking(actions, values)[~explore].max() < GREEDY
    np.testing.assert_array_equal(rewards, wanted)


@pytest.mark.parametrize("worlds", WORLDS)
@pytest.mark.parametrize(("form", "backend"), LOOPS)
def test_turns_are_those_of_a_plain_loop(form, backend, worlds):
    spec, epochs = given(worlds)
    loop, plain = fresh("turn", form, backend, worlds), PlainHunt(spec, worlds, order_of(form))
    for _, draws, taus, explore, random, *_ in epochs:  # the second go on where the first ended
        actions, rewards = loop(draws, taus, explore, random)
        check_turns(actions, rewards, explore, random, *plain.turns(actions, draws, taus, explore, random))
    for name, value in spec["params"].items():
        np.testing.assert_array_equal(loop.params[name], value)


@pytest.mark.parametrize("worlds", WORLDS)
@pytest.mark.parametrize(
    ("form", "backend"), quick([*[loop for loop in LOOPS if loop[1] == "torch"], ("compiled", "jax")], LOOPS)
)
def test_epochs_are_those_of_a_plain_loop(form, backend, worlds):
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


@pytest.mark.parametrize("worlds", WORLDS)
@pytest.mark.parametrize("op", quick(["turn"], ["turn", "epoch"]))
def test_forms_that_compute_the_same_play_the_same(op, worlds):
    spec, epochs = given(worlds)
    calls = epochs if op == "epoch" else [epoch[1:5] for epoch in epochs]
    plain, wanted = PlainHunt(spec, worlds), None
    for form, backend in SAME:
        loop = fresh(op, form, backend, worlds)
        played = [loop(*call) for call in calls]
        if wanted is None:
            wanted = played
            values = [getattr(plain, op + "s" * (op == "turn"))(out[0], *call)[1] for out, call in zip(played, calls)]
            assert min(margins(v).min() for v in values) > GREEDY  # so that no rounding flips a move
        for got, out in zip(played, wanted):
            np.testing.assert_array_equal(got[0], out[0], err_msg=f"{form} {backend}")
            np.testing.assert_array_equal(got[1], out[1], err_msg=f"{form} {backend}")


@pytest.mark.parametrize("backend", quick(["torch"], ["torch", "jax"]))
def test_bfloat16_plays_and_learns_nearly_the_same(backend):
    spec, epochs = given(1)
    loop, plain = build("epoch", backend, spec, epochs[0], "bfloat16"), PlainHunt(spec, 1)
    for k, epoch in enumerate(epochs):
        actions, rewards, losses = loop(*epoch)
        *played, wanted = plain.epoch(actions, *epoch)
        assert lacking(actions, played[1])[~epoch[3]].max() < 0.02
        np.testing.assert_array_equal(rewards, played[0])
        np.testing.assert_allclose(losses, wanted, rtol=0.02)
        if k == 0:
            exact = fresh("epoch", "full", backend, 1)(*epoch)[2]
            assert (losses != exact).any()
    assert all(value.dtype == np.float32 for value in loop.params.values())


@pytest.mark.parametrize("op", ["turn", "epoch"])
@pytest.mark.parametrize(("form", "backend"), LOOPS)
def test_reset_gives_the_same_again_and_nothing_given_is_written_to(op, form, backend):
    spec, epochs = given(1)
    calls = epochs if op == "epoch" else [epoch[1:5] for epoch in epochs]
    before = copy.deepcopy((spec, calls))
    loop = fresh(op, form, backend, 1)
    first = [loop(*call) for call in calls]
    kept, params = copy.deepcopy(first), loop.params
    loop.reset()
    for name, value in spec["params"].items():
        np.testing.assert_array_equal(loop.params[name], value)
    again = [loop(*call) for call in calls]
    np.testing.assert_equal(again, first)
    np.testing.assert_equal(loop.params, params)
    np.testing.assert_equal(first, kept)  # later calls leave alone what earlier ones returned
    np.testing.assert_equal((spec, calls), before)


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize(("form", "backend"), LOOPS)
def test_who_explores_takes_the_drawn_action(form, backend, share):
    _, epochs = given(3)
    reset, draws, taus, explore, random, *rest = epochs[0]
    actions, _, _ = fresh("epoch", form, backend, 3)(reset, draws, taus, np.full_like(explore, share), random, *rest)
    assert (actions == random).all() == bool(share)


def switches(spec, feature):
    """Weights by which every agent goes up, but right where it sees ``feature``, an index into its state."""
    net = {name: np.zeros_like(value) for name, value in spec["params"].items()}
    net["w_state"][:, feature, 0] = net["b_cos"][:, 0] = net["w_hidden"][:, 0, 0] = 1
    net["w_heads"][:, 0, 1 + RIGHT], net["b_heads"][:, 1 + UP] = 2, 1
    return {"params": net, "target": net}


def feature_of(settings, age, kind, down=0, right=0):
    """The place in a state of one kind in one cell, counted from the agent, of the frame so many turns ago."""
    cell = (settings.radius + down) * settings.side + settings.radius + right
    return (FRAMES - 1 - age) * settings.frame + kind * settings.side**2 + cell


@pytest.mark.parametrize(("form", "backend"), LOOPS)
def test_an_epoch_starts_with_nothing_seen(form, backend):
    spec, epochs = hunt(1, explore=0.0)
    oldest = FRAMES - 1
    eyes = switches(spec, feature_of(settings_of(spec), oldest, AGENT))  # an agent always sees itself
    loop = build("epoch", backend, spec | eyes, epochs[0], form)
    for epoch in epochs:
        actions, _, _ = loop(*epoch)
        assert (actions[:oldest] == UP).all()
        assert (actions[oldest:] == RIGHT).all()


@pytest.mark.parametrize(("form", "backend"), LOOPS)
def test_turns_go_on_with_what_was_seen_before(form, backend):
    spec, epochs = hunt(1, explore=0.0)
    eyes = switches(spec, feature_of(settings_of(spec), FRAMES - 1, AGENT))
    loop = build("turn", backend, spec | eyes, epochs[0][1:5], form)
    first, second = (loop(*epoch[1:5])[0] for epoch in epochs)
    assert (first[: FRAMES - 1] == UP).all()
    assert (first[FRAMES - 1 :] == RIGHT).all()
    assert (second == RIGHT).all()


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
    spec |= switches(spec, feature_of(settings, 0, AGENT, right=-1)) | {"world_state": state}
    draws, taus, explore, random = drawn_turns(np.random.default_rng(1), settings, 1)
    explore[:], random[:] = [[True], [False]], RIGHT  # agent 0 goes right, agent 1 looks
    loop = build("turn", backend, spec, (draws, taus, explore, random), form)
    actions, rewards = loop(draws, taus, explore, random)
    # cells 0 and 2; when 0 has come next to 1, that flees to the right: at once, or a turn later, when 0 bumps into it
    assert (actions[:, 0] == RIGHT).all()
    if form == "interleaved":
        assert actions[:3, 1, 0].tolist() == [RIGHT, RIGHT, RIGHT]
        assert rewards[:3, :, 0].tolist() == [[0, 0], [0, 0], [0, -1]]
    else:
        assert actions[:3, 1, 0].tolist() == [UP, RIGHT, UP]
        assert rewards[:3, :, 0].tolist() == [[0, -1], [0, 0], [0, -1]]


@pytest.mark.parametrize("worlds", WORLDS)
@pytest.mark.parametrize(("form", "backend"), SAME)
def test_last_turns_bootstrap_from_the_final_observation(form, backend, worlds):
    """States, returns and discounts written down turn by turn, without a memory."""
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


def test_one_program_goes_on_from_the_state_that_it_is_given():
    _, epochs = given(1)
    loop = fresh("epoch", "compiled", "jax", 1)
    before, first = copy.deepcopy(loop.state()), loop(*epochs[0])
    assert any(np.any(value != before[name]) for name, value in loop.state().items() if name.startswith("memory."))
    loop.load_state(before)
    for name, value in loop.state().items():
        np.testing.assert_array_equal(value, before[name])
    for value, wanted in zip(loop(*epochs[0]), first, strict=True):
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize(("form", "backend"), [("full", "torch"), ("interleaved", "torch"), ("one_by_one", "jax")])
def test_each_phase_counts_what_is_done_in_it_and_together_they_are_a_call(form, backend, monkeypatch):
    loop, clock = fresh("epoch", form, backend, 1), Clock(monkeypatch)
    assert loop.stats() == {}
    interleaved = ("observe_agent", "move_agent", "end_turn", "observe")
    clock.charge("environment", loop.world, "reset", *(interleaved if form == "interleaved" else ["advance"]))
    clock.charge("environment", loop.team, "begin")
    clock.charge("inference", loop.team, "act_alone" if form == "interleaved" else "act")
    clock.charge("memory", loop.team, "remember", "finish")
    clock.charge("memory", team, "gather")
    for agent in getattr(loop.team, "members", [loop.team]):
        clock.charge("learning", agent, "train", "wait")
    clock.assert_counted(loop, PHASES, given(1)[1][0])


def test_one_program_counts_its_run_and_what_it_takes_to_copy_its_outputs(monkeypatch):
    loop, clock = fresh("epoch", "compiled", "jax", 1), Clock(monkeypatch)
    assert loop.stats() == {}
    clock.charge_program(loop, outputs=3)
    clock.assert_counted(loop, ("program", "transfer"), given(1)[1][0])


def changed(spec, **settings):
    return spec | {"settings": spec["settings"] | settings}


BAD = [  # what is wrong, the op built full on torch otherwise, the message
    ("scan on torch", {"form": "compiled"}, "^loop: got 'scan' on torch, wanted jax"),
    (
        "scan, one by one",
        {"form": "one_by_one", "loop": "scan", "backend": "jax"},
        "^nets: got 'one_by_one' with loop='scan'",
    ),
    ("scan, interleaved", {"loop": "scan", "order": "interleaved", "backend": "jax"}, "^order: got 'interleaved' with"),
    (
        "scan in processes",
        {"loop": "scan", "processes": "per_agent", "backend": "jax"},
        "^processes: got 'per_agent' with",
    ),
    ("interleaved at once", {"order": "interleaved"}, "^nets: got 'batched' with order='interleaved'"),
    ("processes at once", {"processes": "per_agent"}, "^nets: got 'batched' with processes='per_agent'"),
    ("interleaved processes", {"form": "processes", "order": "interleaved"}, "^order: got 'interleaved' with proc"),
]


@pytest.mark.parametrize("op", ["turn", "epoch"])
@pytest.mark.parametrize(("knobs", "message"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_knobs_that_do_not_go_together_are_refused(op, knobs, message):
    spec, epochs = given(1)
    example = epochs[0] if op == "epoch" else epochs[0][1:5]
    with pytest.raises(ValueError, match=message):
        build(op, example=example, spec=spec, **{"backend": "torch", **knobs})


@pytest.mark.parametrize(("form", "backend"), [("naive", "torch"), ("full", "jax"), ("compiled", "jax")])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda spec: changed(spec, agents=3), "^params: got 2 nets of 750 inputs, wanted 3 of 750"),
        (lambda spec: changed(spec, observation="rgb"), "^params: got 2 nets of 750 inputs, wanted 2 of 375"),
        (lambda spec: changed(spec, radius=1), "^params: got 2 nets of 750 inputs, wanted 2 of 270"),
        (lambda spec: changed(spec, observation="smell"), "^observation: got 'smell', wanted one of onehot, rgb"),
        (lambda spec: spec | {"capacity": 61}, "^capacity: got 61, wanted as many rows in each of 3 lanes"),
        (lambda spec: spec | {"capacity": 24}, "^capacity: got 24, wanted as many rows in each of 3 lanes, 9 or"),
        (lambda spec: spec | {"capacity": 63}, "^frames: got float32"),
        (lambda spec: spec | {"gamma": 1.5}, "^gamma: got 1.5, wanted a discount"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused(form, backend, wrong, message):
    spec, epochs = given(3)
    with pytest.raises(ValueError, match=message):
        build("epoch", backend, wrong(spec), epochs[0], form)


@pytest.mark.parametrize("worlds", quick([3], WORLDS))
def test_rgb_loops_are_those_of_a_plain_loop(worlds):
    spec, [epoch] = hunt(1, worlds=worlds, epochs=1, observation="rgb")
    for form, backend in (("naive", "torch"), ("full", "torch"), ("compiled", "jax")):
        loop, plain = build("epoch", backend, spec, epoch, form), PlainHunt(spec, worlds)
        actions, rewards, losses = loop(*epoch)
        *played, wanted = plain.epoch(actions, *epoch)
        check_turns(actions, rewards, *epoch[3:5], *played)
        np.testing.assert_allclose(losses, wanted, rtol=1e-5)
