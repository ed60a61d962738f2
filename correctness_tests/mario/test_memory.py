"""Mario's replay buffers against plain lists of steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests.updates import assert_same
from rl_impls.mario.memory import FIELDS, Batch, FrameReplay, PrioritisedReplay

SIDE = 3


class Step(NamedTuple):
    frame: np.ndarray
    action: int
    reward: float
    terminated: bool
    time: int


class Collectors:
    """All steps ever pushed, in one list per lane.

    Kinds of step: ``on``, an ordinary step; ``end``, the last of an episode; ``lost``, one before which steps were
    lost; ``replaced``, the first of a replacement collector; ``twice``, a duplicate.
    """

    def __init__(self, lanes, length, stack, seed=0):
        self.length, self.stack, self.rng = length, stack, np.random.default_rng(seed)
        self.lists = [[] for _ in range(lanes)]
        self.times = [0] * lanes

    def steps(self, lane, kinds):
        """Append steps of these kinds to a lane; return them."""
        for kind in kinds:
            self.times[lane] += {"lost": 2, "twice": -1}.get(kind, 0)
            time = self.times[lane] = 0 if kind == "replaced" else max(0, self.times[lane])
            frame = self.rng.integers(256, size=(SIDE, SIDE), dtype=np.uint8)
            action, reward = int(self.rng.integers(-9, 9)), float(np.float32(self.rng.normal()))
            self.lists[lane].append(Step(frame, action, reward, kind == "end", time))
            self.times[lane] = 0 if kind == "end" else time + 1
        return self.lists[lane][len(self.lists[lane]) - len(kinds) :]

    def follows(self, lane, k):
        """Return whether step k of a lane follows the step before it, and both are stored."""
        steps = self.lists[lane]
        stored = max(0, len(steps) - self.length) <= k - 1 and k < len(steps)
        return stored and not steps[k - 1].terminated and steps[k].time == steps[k - 1].time + 1

    def transition(self, lane, k):
        """Return the transition that begins at step k of a lane, or None if part of it is not stored."""
        steps, step = self.lists[lane], self.lists[lane][k]
        if not step.terminated and not self.follows(lane, k + 1):
            return None
        stack = [step.frame]
        for back in range(1, self.stack):
            if back > step.time:
                stack.insert(0, np.zeros_like(step.frame))
            elif self.follows(lane, k - back + 1):
                stack.insert(0, steps[k - back].frame)
            else:
                return None
        following = np.zeros_like(step.frame) if step.terminated else steps[k + 1].frame
        return stack, step.action, step.reward, [*stack[1:], following], step.terminated

    def transitions(self):
        """Return the transitions by row, in ascending order."""
        found = {}
        for lane, steps in enumerate(self.lists):
            for k in range(max(0, len(steps) - self.length), len(steps)):
                if transition := self.transition(lane, k):
                    found[lane * self.length + k % self.length] = transition
        return dict(sorted(found.items()))

    def stored(self):
        return sum(min(len(steps), self.length) for steps in self.lists)


def columns_of(steps):
    shapes = ((-1, SIDE, SIDE), *[(-1,)] * 4)
    return [np.array(column, dtype).reshape(s) for column, dtype, s in zip(zip(*steps), FIELDS.values(), shapes)]


def batch_of(transitions):
    dtypes = np.uint8, np.int32, np.float32, np.uint8, np.float32
    return Batch(*[np.array(column, dtype) for column, dtype in zip(zip(*transitions), dtypes)])


def state_of(replay):
    """Return all that a replay stores, and its valid and newest rows."""
    newest = {f"newest {lane}": np.array(newest) for lane, newest in enumerate(replay.newest)}
    return {**replay.arrays(), "valid": replay.valid.copy(), **newest}


KINDS = st.sampled_from(["on"] * 8 + ["end"] * 2 + ["lost", "replaced", "twice"])
PUSHES = st.lists(st.tuples(st.integers(0, 9), st.lists(KINDS, min_size=1, max_size=14)), max_size=8)
SHAPES = {"lanes": st.integers(1, 3), "more": st.integers(1, 8), "stack": st.sampled_from([1, 2, 3, 4, 4, 4])}


def play(collectors, replay, pushes, one_by_one=False):
    """Push steps, given as ``(lane, kinds)``, to a replay."""
    for lane, kinds in pushes:
        lane %= len(collectors.lists)
        steps = collectors.steps(lane, kinds)
        if one_by_one:
            for step in steps:
                replay.push(lane, *step)
        else:
            replay.push_batch(lane, *columns_of(steps))
    return replay


def made(kind=FrameReplay, lanes=2, length=20, stack=4, pushes=None, seed=0, **how):
    """Return collectors and a replay of their steps; by default, it has wrapped around and steps were lost."""
    collectors = Collectors(lanes, length, stack, seed)
    replay = kind(lanes * length, lanes, SIDE, stack, **how)
    if pushes is None:
        episode = ["on"] * 5 + ["end"]
        pushes = [(lane, [*episode, "on", "lost", *episode, "replaced", *episode, "end"]) for lane in range(lanes)]
        pushes += [(0, ["on"] * 3), (1, ["on", "on", "end"])]
    return collectors, play(collectors, replay, pushes)


@given(pushes=PUSHES, **SHAPES)
def test_the_replay_holds_the_transitions_of_lists_of_steps(pushes, lanes, more, stack):
    collectors, replay = made(FrameReplay, lanes, stack + more, stack, pushes)
    wanted = collectors.transitions()
    assert len(replay) == collectors.stored()
    rows = replay.valid_rows()
    assert (rows.dtype, rows.tolist()) == (np.int64, list(wanted))
    if wanted:
        exact = batch_of(wanted.values())
        assert_same(replay.gather(rows), exact)
        assert_same(replay.gather_one_by_one(rows), exact)
    one_by_one = FrameReplay(replay.capacity, lanes, SIDE, stack)
    play(Collectors(lanes, stack + more, stack), one_by_one, pushes, one_by_one=True)
    assert_same(state_of(one_by_one), state_of(replay))


@pytest.mark.parametrize("one_by_one", [False, True])
def test_stacks_that_come_as_one_frame_are_kept_whole(one_by_one):
    stacks = np.random.default_rng(0).integers(256, size=(30, 4, SIDE, SIDE), dtype=np.uint8)
    numbers = np.arange(30, dtype=np.int32)
    columns = stacks, numbers, numbers.astype(np.float32), numbers % 9 == 8, numbers % 9
    replay = FrameReplay(20, 1, SIDE, 1, planes=4)
    if one_by_one:
        for item in zip(*columns):
            replay.push(0, *item)
    else:
        replay.push_batch(0, *columns)
    rows = replay.valid_rows()
    steps = np.where(rows < 10, rows + 20, rows)  # the ring has wrapped around by ten rows
    assert sorted(steps) == list(range(10, 29))  # the last step has no successor yet
    ends = steps % 9 == 8
    following = np.where(ends[:, None, None, None], 0, stacks[steps + 1]).astype(np.uint8)
    actions, rewards = steps.astype(np.int32), steps.astype(np.float32)
    exact = Batch(stacks[steps][:, None], actions, rewards, following[:, None], ends.astype(np.float32))
    assert_same(replay.gather(rows), exact)
    assert_same(replay.gather_one_by_one(rows), exact)


@given(pushes=PUSHES, further=PUSHES, **SHAPES)
def test_a_restored_replay_goes_on_like_the_original(pushes, further, lanes, more, stack):
    collectors, replay = made(PrioritisedReplay, lanes, stack + more, stack, pushes, beta_increment=0.1)
    rng = np.random.default_rng(0)
    if replay.valid.any():
        rows, _ = replay.draw(rng.random(5))
        replay.update(rows, rng.normal(size=5) * 3)
    _, other = made(PrioritisedReplay, lanes, stack + more, stack, further, seed=1, beta_increment=0.1)
    other.restore(replay.arrays())
    assert_same(state_of(other), state_of(replay))
    for lane, kinds in further:
        lane %= lanes
        columns = columns_of(collectors.steps(lane, kinds))
        for one in (replay, other):
            one.push_batch(lane, *columns)
        assert_same(state_of(other), state_of(replay))
        if replay.valid.any():
            uniforms, errors = rng.random(7), rng.normal(size=7)
            found = [one.draw(uniforms) for one in (replay, other)]
            for a, b in zip(*found):
                np.testing.assert_array_equal(a, b, strict=True)
            for (rows, _), one in zip(found, (replay, other)):
                one.update(rows, errors)
    assert_same(state_of(other), state_of(replay))


@settings(max_examples=60)
@given(pushes=PUSHES, kinds=st.lists(KINDS, min_size=1, max_size=8), **SHAPES)
def test_rows_that_may_be_sampled_stay_as_they_are_until_a_release(pushes, kinds, lanes, more, stack):
    collectors, replay = made(FrameReplay, lanes, stack + more, stack, pushes)
    kinds = kinds[:more]
    replay.hold(len(kinds))
    rows = replay.valid_rows()
    before = replay.gather(rows)
    play(collectors, replay, [(lane, kinds) for lane in range(lanes)])
    np.testing.assert_array_equal(replay.valid_rows(), rows)
    assert_same(replay.gather(rows), before)
    replay.release()
    assert replay.valid_rows().tolist() == list(collectors.transitions())


class Priorities:
    """Expected priorities of steps, by plain loops; a step is identified by its lane and number."""

    def __init__(self, collectors, alpha, epsilon):
        self.collectors, self.alpha, self.epsilon, self.greatest, self.known = collectors, alpha, epsilon, 1.0, {}

    def pushed(self):
        """Keep the priorities of valid steps, give newly valid ones the greatest, and drop invalid ones."""
        valid = {}
        for lane, steps in enumerate(self.collectors.lists):
            for k in range(max(0, len(steps) - self.collectors.length), len(steps)):
                if self.collectors.transition(lane, k):
                    valid[lane, k] = self.known.get((lane, k), self.greatest)
        self.known = valid

    def by_row(self):
        length = self.collectors.length
        return {lane * length + k % length: (lane, k) for lane, k in self.known}

    def update(self, rows, errors):
        names = self.by_row()
        for row, error in zip(rows.tolist(), errors.tolist()):
            if row in names:
                self.known[names[row]] = (abs(error) + self.epsilon) ** self.alpha
                self.greatest = max(self.greatest, self.known[names[row]])

    def array(self):
        found = np.zeros(len(self.collectors.lists) * self.collectors.length)
        for row, name in self.by_row().items():
            found[row] = self.known[name]
        return found


ERRORS = st.lists(st.tuples(st.integers(0, 99), st.floats(-50, 50, width=32)), min_size=1, max_size=12)


@settings(max_examples=40)
@given(
    moves=st.lists(st.tuples(st.integers(0, 9), st.lists(KINDS, min_size=1, max_size=14), ERRORS), max_size=7),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    one_by_one=st.booleans(),
    literal=st.booleans(),
    **SHAPES,
)
def test_priorities_follow_the_rule_and_are_zero_for_invalid_rows(
    moves, alpha, one_by_one, literal, lanes, more, stack
):
    collectors, replay = made(
        PrioritisedReplay, lanes, stack + more, stack, [], alpha=alpha, epsilon=0.01, literal=literal
    )
    model = Priorities(collectors, alpha, 0.01)
    for lane, kinds, errors in moves:
        play(collectors, replay, [(lane, kinds)], one_by_one)
        model.pushed()
        for _ in range(2):
            got = replay.tree.get(np.arange(replay.capacity))
            np.testing.assert_allclose(got, model.array(), 1e-12, 0)
            assert ((got > 0) == replay.valid).all()
            assert replay.tree.total == pytest.approx(got.sum(), rel=1e-12)
            assert replay.greatest == pytest.approx(model.greatest, rel=1e-12)
            rows, errors = (np.array(column) for column in zip(*errors))
            rows %= replay.capacity
            replay.update(rows, errors)
            model.update(rows, errors)
            errors = list(zip(rows[:1], errors[:1]))


def test_gather_writes_frames_into_out():
    _, replay = made()
    rows, out = replay.valid_rows()[:6], replay.frames_of(6)
    exact, got = replay.gather(rows), replay.gather(rows, out)
    assert out.shape == (6, 5, SIDE, SIDE)
    for obs in (got.obs, got.next_obs):
        assert np.shares_memory(obs, out)
    assert not np.shares_memory(exact.obs, out)
    assert_same(got, exact)
    assert_same(replay.gather(rows[::-1].copy(), out), replay.gather_one_by_one(rows[::-1]))
    np.testing.assert_array_equal(got.obs, exact.obs[::-1])  # overwrote the previous batch


def test_stored_and_returned_arrays_are_copies():
    collectors, replay = made(PrioritisedReplay)
    columns = columns_of(collectors.steps(0, ["on"] * 3))
    replay.push_batch(0, *columns)
    frame = np.ones((SIDE, SIDE), np.uint8)
    replay.push(1, frame, 0, 0.0, False, 0)
    before, arrays = state_of(replay), replay.arrays()
    other = PrioritisedReplay(40, 2, SIDE)
    other.restore(arrays)
    batch = replay.gather(replay.valid_rows())
    for array in (*columns, frame, *arrays.values(), *batch):
        array[...] = 1
    for one in (replay, other):
        assert_same(state_of(one), before)


def chi_square(counts, expected):
    """Return the chi-square statistic of counts, in standard deviations from its mean."""
    return (((counts - expected) ** 2 / expected).sum() - len(counts) + 1) / (2 * (len(counts) - 1)) ** 0.5


@pytest.mark.parametrize("length", [21, 400], ids=["most rows valid", "few rows valid"])
def test_valid_rows_are_drawn_uniformly(length):
    _, replay = made(length=length)
    valid, rng = replay.valid_rows(), np.random.default_rng(0)
    rows = np.concatenate([replay.draw(rng, 32) for _ in range(1000)])
    assert rows.dtype == np.int64
    counts = np.bincount(rows, minlength=replay.capacity)
    assert counts.sum() == counts[valid].sum() == 32_000
    assert abs(chi_square(counts[valid], 32_000 / len(valid))) < 4


def prioritised(seed=0, **how):
    """Return a prioritised replay with a random priority for each valid row."""
    _, replay = made(PrioritisedReplay, **how)
    rows = replay.valid_rows()
    replay.update(rows, np.random.default_rng(seed).normal(size=len(rows)) * 3)
    return replay


@pytest.mark.parametrize("literal", [False, True])
def test_each_stratum_of_the_priority_sum_gives_one_row(literal):
    replay = prioritised(literal=literal)
    priorities, uniforms = replay.tree.get(np.arange(40)), np.random.default_rng(1).random(9)
    rows, _ = replay.draw(uniforms)
    masses = (np.arange(9) + uniforms) / 9 * priorities.sum()
    np.testing.assert_array_equal(rows, np.searchsorted(np.cumsum(priorities), masses, side="right"))


@pytest.mark.parametrize("beta", [0.0, 0.4, 0.9])
def test_weights_are_those_of_the_formula(beta):
    replay = prioritised(beta=beta, beta_increment=0.2)
    priorities = replay.tree.get(np.arange(40))
    rows, weights = replay.draw(np.random.default_rng(1).random(9))
    exact = (len(replay.valid_rows()) * priorities[rows] / priorities.sum()) ** -beta
    np.testing.assert_allclose(weights, exact / exact.max(), 1e-6)
    assert weights.max() == 1
    assert replay.beta == pytest.approx(min(1, beta + 0.2))  # grows with each draw


def test_sampling_without_a_valid_row_is_an_error():
    for kind, drawn in ((FrameReplay, (np.random.default_rng(0), 4)), (PrioritisedReplay, (np.zeros(4),))):
        with pytest.raises(ValueError, match=r"^the replay buffer has no valid row to sample$"):
            made(kind, pushes=[(0, ["on", "lost", "lost"])])[1].draw(*drawn)


def test_a_td_error_that_is_not_finite_is_refused_and_changes_nothing():
    _, replay = made(PrioritisedReplay)
    before = state_of(replay)
    with pytest.raises(FloatingPointError, match=r"^a TD error became infinite or NaN$"):
        replay.update(replay.valid_rows()[:2], np.array([1.0, np.nan]))
    assert_same(state_of(replay), before)


@pytest.mark.parametrize("name", ["gather", "gather_one_by_one"])
def test_invalid_rows_are_not_gathered(name):
    _, replay = made()
    valid, [row, *_] = replay.valid_rows(), np.flatnonzero(~replay.valid)
    with pytest.raises(ValueError, match=rf"^rows \[{row}\] are not valid and cannot be sampled$"):
        getattr(replay, name)(np.array([valid[0], row]))


def test_fifty_thousand_frames_are_stored_once():
    replay = PrioritisedReplay(50_000, 8, 84)
    assert sum(array.nbytes for array in replay.fields.values()) < 0.37e9
    assert all(np.shares_memory(ring.fields["frames"], replay.fields["frames"]) for ring in replay.rings)
