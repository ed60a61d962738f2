"""Mario's replays against lists of steps, read with plain loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_impls.mario.memory import Batch, FrameReplay, PrioritisedReplay

SIDE = 3
DTYPES = (np.uint8, np.int32, np.float32, bool, np.int32)


class Step(NamedTuple):
    frame: np.ndarray
    action: int
    reward: float
    end: bool
    time: int


class Collectors:
    """All steps that were ever pushed, in a list for each lane, and how they come about.

    What may happen in a step: it goes on, the episode ends with it, steps before it were lost, another collector
    begins an episode in its place, or it comes twice.
    """

    def __init__(self, lanes, length, stack, seed=0):
        self.length, self.stack, self.rng = length, stack, np.random.default_rng(seed)
        self.lists = [[] for _ in range(lanes)]
        self.times = [0] * lanes

    def steps(self, lane, kinds):
        """Append some steps to a lane; return them."""
        for kind in kinds:
            self.times[lane] += {"lost": 2, "twice": -1}.get(kind, 0)
            time = self.times[lane] = 0 if kind == "replaced" else max(0, self.times[lane])
            frame = self.rng.integers(256, size=(SIDE, SIDE), dtype=np.uint8)
            action, reward = int(self.rng.integers(-9, 9)), float(np.float32(self.rng.normal()))
            self.lists[lane].append(Step(frame, action, reward, kind == "end", time))
            self.times[lane] = 0 if kind == "end" else time + 1
        return self.lists[lane][len(self.lists[lane]) - len(kinds) :]

    def follows(self, lane, k):
        """Whether step k of a lane follows the one before it, which is stored."""
        steps = self.lists[lane]
        stored = max(0, len(steps) - self.length) <= k - 1 and k < len(steps)
        return stored and not steps[k - 1].end and steps[k].time == steps[k - 1].time + 1

    def transition(self, lane, k):
        """The transition that begins in step k of a lane, or None if not all of it is stored."""
        steps, step = self.lists[lane], self.lists[lane][k]
        if not step.end and not self.follows(lane, k + 1):
            return None
        stack = [step.frame]
        for back in range(1, self.stack):
            if back > step.time:
                stack.insert(0, np.zeros_like(step.frame))
            elif self.follows(lane, k - back + 1):
                stack.insert(0, steps[k - back].frame)
            else:
                return None
        following = np.zeros_like(step.frame) if step.end else steps[k + 1].frame
        return stack, step.action, step.reward, [*stack[1:], following], step.end

    def transitions(self):
        """Transitions by their rows, ascending."""
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
    return [np.array(column, dtype).reshape(s) for column, dtype, s in zip(zip(*steps), DTYPES, shapes)]


def batch_of(transitions):
    dtypes = np.uint8, np.int32, np.float32, np.uint8, np.float32
    return Batch(*[np.array(column, dtype) for column, dtype in zip(zip(*transitions), dtypes)])


def assert_same(got, wanted):
    for name, a, b in zip(Batch._fields, got, wanted, strict=True):
        np.testing.assert_array_equal(a, b, name, strict=True)


def state_of(replay):
    """All that is stored, and what follows from it."""
    newest = {f"newest {lane}": np.array(newest) for lane, newest in enumerate(replay.newest)}
    return {**replay.arrays(), "valid": replay.valid.copy(), **newest}


def assert_same_state(got, wanted):
    assert got.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_array_equal(got[name], wanted[name], name, strict=True)


KINDS = st.sampled_from(["on"] * 8 + ["end"] * 2 + ["lost", "replaced", "twice"])
PUSHES = st.lists(st.tuples(st.integers(0, 9), st.lists(KINDS, min_size=1, max_size=14)), max_size=8)
SHAPES = {"lanes": st.integers(1, 3), "more": st.integers(1, 8), "stack": st.sampled_from([1, 2, 3, 4, 4, 4])}


def play(collectors, replay, pushes, one_by_one=False):
    """Make some pushes, ``(lane, kinds)``."""
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
    """Collectors and a replay that has gone round, in which steps were lost."""
    collectors = Collectors(lanes, length, stack, seed)
    replay = kind(lanes * length, lanes, SIDE, stack, **how)
    if pushes is None:
        episode = ["on"] * 5 + ["end"]
        pushes = [(lane, [*episode, "on", "lost", *episode, "replaced", *episode, "end"]) for lane in range(lanes)]
        pushes += [(0, ["on"] * 3), (1, ["on", "on", "end"])]
    return collectors, play(collectors, replay, pushes)


@settings(max_examples=150)
@given(pushes=PUSHES, **SHAPES)
def test_replay_is_that_of_lists_of_steps(pushes, lanes, more, stack):
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
    assert_same_state(state_of(one_by_one), state_of(replay))


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
    steps = np.where(rows < 10, rows + 20, rows)  # the ring has gone round by ten
    assert sorted(steps) == list(range(10, 29))  # what follows the last one is not there
    ends = steps % 9 == 8
    following = np.where(ends[:, None, None, None], 0, stacks[steps + 1]).astype(np.uint8)
    actions, rewards = steps.astype(np.int32), steps.astype(np.float32)
    exact = Batch(stacks[steps][:, None], actions, rewards, following[:, None], ends.astype(np.float32))
    assert_same(replay.gather(rows), exact)
    assert_same(replay.gather_one_by_one(rows), exact)


@settings(max_examples=40)
@given(pushes=PUSHES, further=PUSHES, **SHAPES)
def test_a_restored_replay_goes_on_like_the_original(pushes, further, lanes, more, stack):
    collectors, replay = made(PrioritisedReplay, lanes, stack + more, stack, pushes, beta_increment=0.1)
    rng = np.random.default_rng(0)
    if replay.valid.any():
        rows, _ = replay.draw(rng.random(5))
        replay.update(rows, rng.normal(size=5) * 3)
    _, other = made(PrioritisedReplay, lanes, stack + more, stack, further, seed=1, beta_increment=0.1)
    other.restore(replay.arrays())
    assert_same_state(state_of(other), state_of(replay))
    for lane, kinds in further:
        lane %= lanes
        columns = columns_of(collectors.steps(lane, kinds))
        for one in (replay, other):
            one.push_batch(lane, *columns)
        assert_same_state(state_of(other), state_of(replay))
        if replay.valid.any():
            uniforms, errors = rng.random(7), rng.normal(size=7)
            found = [one.draw(uniforms) for one in (replay, other)]
            for a, b in zip(*found):
                np.testing.assert_array_equal(a, b, strict=True)
            for (rows, _), one in zip(found, (replay, other)):
                one.update(rows, errors)
    assert_same_state(state_of(other), state_of(replay))


class Priorities:
    """What priorities have to be, by plain loops; a step is known by its lane and number."""

    def __init__(self, collectors, alpha, epsilon):
        self.collectors, self.alpha, self.epsilon, self.greatest, self.known = collectors, alpha, epsilon, 1.0, {}

    def pushed(self):
        """Those that are valid now keep theirs, or have the greatest if they were not; all others have none."""
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


@settings(max_examples=100)
@given(
    moves=st.lists(st.tuples(st.integers(0, 9), st.lists(KINDS, min_size=1, max_size=14), ERRORS), max_size=7),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    one_by_one=st.booleans(),
    literal=st.booleans(),
    **SHAPES,
)
def test_priorities_are_those_of_loops_and_zero_where_a_row_is_not_valid(
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


def test_a_lane_is_that_of_one_collector():
    collectors, replay = made(lanes=3, length=10, pushes=[(0, ["on"] * 4), (1, ["on"] * 13), (2, ["on", "end"])])
    assert replay.valid_rows().tolist() == [0, 1, 2, 10, 11, 16, 17, 18, 19, 20, 21]
    assert len(replay) == 16
    assert list(collectors.transitions()) == replay.valid_rows().tolist()


def test_stacks_stay_within_their_episode():
    replay = FrameReplay(20, 1, 1)
    for value, steps in ((1, 3), (100, 6)):
        for time in range(steps):
            replay.push(0, np.full((1, 1), value + time, np.uint8), 0, 0.0, time == steps - 1, time)
    states, _, _, next_states, ends = replay.gather(replay.valid_rows())
    assert states[..., 0, 0].tolist() == [
        [0, 0, 0, 1], [0, 0, 1, 2], [0, 1, 2, 3], [0, 0, 0, 100], [0, 0, 100, 101], [0, 100, 101, 102],
        [100, 101, 102, 103], [101, 102, 103, 104], [102, 103, 104, 105],
    ]  # fmt: skip
    assert next_states[[0, 1, 2, 3, 8], :, 0, 0].tolist() == [
        [0, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 0], [0, 0, 100, 101], [103, 104, 105, 0],
    ]  # fmt: skip
    assert ends.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 1]


def test_fifty_thousand_frames_are_stored_once():
    replay = PrioritisedReplay(50_000, 8, 84)
    tree = replay.tree
    arrays = [*replay.fields.values(), replay.valid, tree.blocks, tree.sums, tree.ends]
    assert sum(array.nbytes for array in arrays) < 0.45e9
    assert all(np.shares_memory(ring.fields["frames"], replay.fields["frames"]) for ring in replay.rings)


def test_frames_go_where_they_are_asked_to():
    _, replay = made()
    rows, out = replay.valid_rows()[:6], replay.frames_of(6)
    exact, got = replay.gather(rows), replay.gather(rows, out)
    assert out.shape == (6, 5, SIDE, SIDE)
    for states in (got.states, got.next_states):
        assert np.shares_memory(states, out)
    assert not np.shares_memory(exact.states, out)
    assert_same(got, exact)
    assert_same(replay.gather(rows[::-1].copy(), out), replay.gather_one_by_one(rows[::-1]))
    np.testing.assert_array_equal(got.states, exact.states[::-1])  # what went there before is gone


def test_what_is_stored_and_what_is_returned_are_copies():
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
        assert_same_state(state_of(one), before)


def chi_square(counts, expected):
    """How far counts are from what is expected, in standard deviations of the statistic."""
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


def test_a_sample_is_of_what_is_drawn():
    _, replay = made()
    for batch in (1, 7):
        drawn = replay.draw(np.random.default_rng(5), batch)
        assert len(drawn) == batch
        out = replay.frames_of(batch)
        assert_same(replay.sample(np.random.default_rng(5), batch, out), replay.gather(drawn))
    _, replay = made(PrioritisedReplay)
    rows, weights = replay.draw(np.random.default_rng(5).random(7))
    got = replay.sample(np.random.default_rng(5), 7)
    assert_same(got[0], replay.gather(rows))
    np.testing.assert_array_equal(got[1], rows)
    assert weights.shape == got[2].shape == (7,)


def prioritised(seed=0, **how):
    """A prioritised replay with other errors for all valid rows."""
    _, replay = made(PrioritisedReplay, **how)
    rows = replay.valid_rows()
    replay.update(rows, np.random.default_rng(seed).normal(size=len(rows)) * 3)
    return replay


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("literal", [False, True])
def test_each_part_of_the_sum_gives_one_row(dtype, literal):
    replay = prioritised(literal=literal)
    priorities, uniforms = replay.tree.get(np.arange(40)), np.random.default_rng(1).random(9).astype(dtype)
    rows, weights = replay.draw(uniforms)
    wanted = []
    for i, u in enumerate(uniforms.tolist()):
        mass, row = (i + u) / 9 * priorities.sum(), 0
        while mass >= priorities[: row + 1].sum():
            row += 1
        wanted.append(row)
    assert (rows.dtype, rows.tolist()) == (np.int64, wanted)
    assert (weights.dtype, weights.shape) == (np.float32, (9,))


def test_rows_are_drawn_by_their_priorities():
    replay, rng = prioritised(alpha=0.7), np.random.default_rng(0)
    priorities = replay.tree.get(np.arange(40))
    counts = np.bincount(np.concatenate([replay.draw(rng.random(1))[0] for _ in range(10_000)]), minlength=40)
    valid = replay.valid_rows()
    assert counts.sum() == counts[valid].sum()
    assert abs(chi_square(counts[valid], 10_000 * priorities[valid] / priorities.sum())) < 4


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_are_those_of_the_formula(beta):
    replay = prioritised(beta=beta)
    priorities = replay.tree.get(np.arange(40))
    rows, weights = replay.draw(np.random.default_rng(1).random(9))
    exact = (len(replay.valid_rows()) * priorities[rows] / priorities.sum()) ** -beta
    np.testing.assert_allclose(weights, exact / exact.max(), 1e-6)
    assert weights.max() == 1


def test_beta_grows_with_each_draw_up_to_one():
    replay = prioritised(beta=0.5, beta_increment=0.2)
    betas = []
    for _ in range(4):
        betas.append(replay.beta)
        replay.draw(np.zeros(2))
    assert betas == pytest.approx([0.5, 0.7, 0.9, 1.0])
    assert replay.beta == 1


def test_the_last_of_several_errors_counts():
    replay = prioritised(alpha=1.0, epsilon=0.5)
    row, other = replay.valid_rows()[[3, 5]]
    replay.update(np.array([row, other, row, row]), np.array([9.0, 1.0, -70.0, -2.0]))
    assert replay.tree.get(np.array([row, other])).tolist() == [2.5, 1.5]
    assert replay.greatest == 70.5


def test_a_row_that_was_pushed_out_since_it_was_drawn_keeps_its_priority():
    collectors, replay = made(PrioritisedReplay, lanes=1, length=8, pushes=[(0, ["on"] * 9)])
    rows, _ = replay.draw(np.zeros(6))
    play(collectors, replay, [(0, ["on", "lost"])])
    gone = np.array([row for row in range(8) if row not in replay.valid_rows()])
    assert len(gone) == 5
    replay.update(rows, np.full(6, 3.0))
    replay.update(gone, np.full(5, 1e6))
    assert not replay.tree.get(gone).any()
    assert replay.tree.get(replay.valid_rows()).tolist() == [1, (3 + 1e-6) ** 0.6, (3 + 1e-6) ** 0.6]
    assert replay.greatest == (3 + 1e-6) ** 0.6


@pytest.mark.parametrize("kinds", [[], ["on"], ["on", "lost", "lost"]])
def test_where_no_row_is_valid_none_is_drawn(kinds):
    pushes = [(0, kinds)] if kinds else []
    with pytest.raises(ValueError, match=r"^batch: got 4, wanted a replay of one valid row or more"):
        made(pushes=pushes)[1].draw(np.random.default_rng(0), 4)
    _, replay = made(PrioritisedReplay, pushes=pushes)
    with pytest.raises(ValueError, match=r"^uniforms: got 4, wanted a replay of one valid row or more"):
        replay.draw(np.zeros(4))
    assert replay.beta == 0.4


def item(**changed):
    step = {"frame": np.ones((SIDE, SIDE), np.uint8), "action": 1, "reward": 1.0, "end": False, "time": 1}
    return {**step, **changed}


def many(**changed):
    columns = {
        "frames": np.ones((2, SIDE, SIDE), np.uint8), "actions": np.ones(2, np.int32),
        "rewards": np.ones(2, np.float32), "ends": np.zeros(2, bool), "times": np.arange(2, dtype=np.int32),
    }  # fmt: skip
    return {**columns, **changed}


def gathered(out):
    return lambda replay: replay.gather(replay.valid_rows()[:1], out)


RNG = np.random.default_rng(0)
BAD_CALLS = [
    ("lane: got 2, wanted an integer from 0 to 1", lambda replay: replay.push(2, **item())),
    ("lane: got -1, wanted", lambda replay: replay.push_batch(-1, **many())),
    ("lane: got True, wanted", lambda replay: replay.push_batch(True, **many())),
    (r"frame: got uint8\[3, 4\], wanted uint8\[3, 3\]", lambda r: r.push(0, **item(frame=np.ones((3, 4), np.uint8)))),
    (r"frame: got float64\[3, 3\], wanted", lambda replay: replay.push(0, **item(frame=np.ones((3, 3))))),
    ("action: got 0.5, wanted", lambda replay: replay.push(0, **item(action=0.5))),
    ("action: got 2147483648, wanted", lambda replay: replay.push(0, **item(action=2**31))),
    ("reward: got nan, wanted", lambda replay: replay.push(0, **item(reward=np.nan))),
    (r"reward: got 1e\+39, wanted", lambda replay: replay.push(0, **item(reward=1e39))),
    ("end: got 1, wanted True or False", lambda replay: replay.push(0, **item(end=1))),
    ("time: got -1, wanted", lambda replay: replay.push(0, **item(time=-1))),
    (r"frames: got uint8\[2, 3\], wanted", lambda r: r.push_batch(0, **many(frames=np.ones((2, 3), np.uint8)))),
    (r"frames: got uint8\[\], wanted", lambda replay: replay.push_batch(0, **many(frames=np.uint8(1)))),
    (r"frames: got int64\[2, 3, 3\], wanted uint8", lambda r: r.push_batch(0, **many(frames=np.ones((2, 3, 3), int)))),
    (r"actions: got int32\[3\], wanted int32\[2\]", lambda r: r.push_batch(0, **many(actions=np.ones(3, np.int32)))),
    (r"actions: got int64\[2\], wanted", lambda replay: replay.push_batch(0, **many(actions=np.ones(2, int)))),
    (r"rewards: got float32\[1\], wanted", lambda r: r.push_batch(0, **many(rewards=np.ones(1, np.float32)))),
    ("rewards: got inf, wanted", lambda r: r.push_batch(0, **many(rewards=np.float32([0, np.inf])))),
    (r"ends: got int32\[2\], wanted bool", lambda replay: replay.push_batch(0, **many(ends=np.ones(2, np.int32)))),
    (r"times: got int32\[2, 1\], wanted", lambda r: r.push_batch(0, **many(times=np.ones((2, 1), np.int32)))),
    ("times: got -1, wanted 0 or more", lambda r: r.push_batch(0, **many(times=np.int32([-1, 0])))),
    ("batch: got 0, wanted", lambda replay: FrameReplay.draw(replay, RNG, 0)),
    ("batch: got 2.0, wanted", lambda replay: FrameReplay.draw(replay, RNG, 2.0)),
    ("batch: got 0, wanted", lambda replay: replay.sample(RNG, 0)),
    ("batch: got 0, wanted", lambda replay: replay.frames_of(0)),
    (r"rows: got int32\[1\], wanted int64\[B\]", lambda replay: replay.gather(np.zeros(1, np.int32))),
    (r"rows: got int64\[0\], wanted", lambda replay: replay.gather_one_by_one(np.zeros(0, np.int64))),
    (r"rows: got int64\[1, 1\], wanted", lambda replay: replay.gather(np.zeros((1, 1), np.int64))),
    (r"out: got uint8\[2, 4, 3, 3\], wanted uint8\[1, 5", gathered(np.zeros((2, 4, 3, 3), np.uint8))),
    ("out: got an array that is not contig", gathered(np.zeros((1, 5, 3, 6), np.uint8)[..., ::2])),
    (r"uniforms: got int64\[2\], wanted", lambda replay: replay.draw(np.zeros(2, int))),
    (r"uniforms: got float64\[0\], wanted", lambda replay: replay.draw(np.zeros(0))),
    (r"uniforms: got float64\[1, 2\], wanted", lambda replay: replay.draw(np.zeros((1, 2)))),
    ("uniforms: got -0.5 to 0.5, wanted 0 to 1", lambda replay: replay.draw(np.array([0.5, -0.5]))),
    ("uniforms: got 0.0 to 1.5, wanted 0 to 1", lambda replay: replay.draw(np.array([0.0, 1.5]))),
    ("uniforms: got nan", lambda replay: replay.draw(np.array([0.5, np.nan]))),
    (r"rows: got int32\[1\], wanted", lambda replay: replay.update(np.zeros(1, np.int32), np.ones(1))),
    (r"rows: got int64\[\], wanted", lambda replay: replay.update(np.int64(1), np.ones(1))),
    ("rows: got 0 to 40, wanted 0 to 39", lambda replay: replay.update(np.array([0, 40]), np.ones(2))),
    ("rows: got -1 to 0, wanted 0 to 39", lambda replay: replay.update(np.array([0, -1]), np.ones(2))),
    (r"errors: got float64\[1\], wanted", lambda replay: replay.update(np.array([0, 1]), np.ones(1))),
    (r"errors: got int64\[2\], wanted", lambda replay: replay.update(np.array([0, 1]), np.ones(2, int))),
    ("errors: got nan, wanted", lambda replay: replay.update(np.array([6, 7]), np.array([1.0, np.nan]))),
    ("errors: got -inf, wanted", lambda replay: replay.update(np.array([6, 7]), np.array([1.0, -np.inf]))),
    (r"errors: got 1e\+250, wanted", lambda replay: replay.update(np.array([6, 7]), np.array([1.0, 1e250]))),
]  # fmt: skip


@pytest.mark.parametrize(("message", "call"), BAD_CALLS, ids=[message for message, _ in BAD_CALLS])
def test_a_bad_call_is_refused_and_nothing_is_changed(message, call):
    _, replay = made(PrioritisedReplay)
    before = state_of(replay)
    with pytest.raises(ValueError, match=f"^{message}"):
        call(replay)
    assert_same_state(state_of(replay), before)


@pytest.mark.parametrize("name", ["gather", "gather_one_by_one"])
def test_rows_that_are_not_valid_are_not_gathered(name):
    _, replay = made()
    valid = replay.valid_rows()
    others = sorted(set(range(-41, 43)) - set(valid.tolist()))
    assert len(others) > 50
    for row in others:
        with pytest.raises(ValueError, match=rf"^rows: got {row}, wanted any of the {len(valid)} valid rows"):
            getattr(replay, name)(np.array([valid[0], row]))


def test_a_push_of_nothing_changes_nothing():
    _, replay = made(PrioritisedReplay)
    before = state_of(replay)
    replay.push_batch(0, **{name: column[:0] for name, column in many().items()})
    replay.update(np.zeros(0, np.int64), np.zeros(0))
    assert_same_state(state_of(replay), before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 3), "capacity: got 0"),
        ((10.0, 1, 3), "capacity: got 10.0"),
        ((10, 0, 3), "lanes: got 0"),
        ((10, 1, 0), "side: got 0"),
        ((10, 1, 3, 0), "stack: got 0"),
        ((10, 3, 3), "capacity: got 10, wanted as many rows in each of 3 lanes, 5 or more"),
        ((8, 2, 3), "capacity: got 8, wanted as many rows in each of 2 lanes, 5 or more"),
        ((10, 2, 3, 5), "capacity: got 10, wanted as many rows in each of 2 lanes, 6 or more"),
    ],
)
def test_a_replay_that_cannot_be_is_refused(arguments, message):
    for kind in (FrameReplay, PrioritisedReplay):
        with pytest.raises(ValueError, match=f"^{message}"):
            kind(*arguments)
    with pytest.raises(ValueError, match=r"^planes: got -1"):
        FrameReplay(10, 1, 3, planes=-1)


@pytest.mark.parametrize(
    "constant",
    [
        {"alpha": -0.1}, {"alpha": 1.1}, {"beta": -0.1}, {"beta": 1.1}, {"beta": float("nan")},
        {"beta_increment": -1e-9}, {"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": 1e250},
    ],
)  # fmt: skip
def test_constants_that_cannot_be_are_refused(constant):
    [(name, value)] = constant.items()
    with pytest.raises(ValueError, match=rf"^{name}: got {value}".replace("+", r"\+")):
        PrioritisedReplay(10, 2, 3, **constant)


def change(array, place, value):
    array = array.copy()
    array.reshape(-1)[place] = value
    return array


WRONG_ARRAYS = {
    "missing": (["frames", "times", "pushed", "priorities", "beta", "greatest"], None),
    "another dtype": (
        ["frames", "actions", "rewards", "ends", "times", "pushed", "priorities", "beta", "greatest"],
        lambda a: a.astype(np.float16),
    ),
    "another shape": (["frames", "actions", "rewards", "ends", "times", "priorities"], lambda a: a[:-1]),
    "one dimension more": (["pushed", "beta", "greatest", "ends"], lambda a: a[None]),
    "negative": (["times", "pushed", "priorities", "beta", "greatest"], lambda a: change(a, 0, -1)),
    "not a number": (["rewards", "priorities", "beta", "greatest"], lambda a: change(a, 0, np.nan)),
    "too large": (["priorities", "beta", "greatest"], lambda a: change(a, -1, 1e300)),
    "of rows that are not stored": (["pushed"], lambda a: a * 0 + 3),
    "zero at a valid row": (["priorities"], lambda a: a * 0),
    "not zero at another": (["priorities"], lambda a: a * 0 + 1),
}


@pytest.mark.parametrize(
    ("name", "wrong"),
    [(name, wrong) for names, wrong in WRONG_ARRAYS.values() for name in names],
    ids=[f"{name} {what}" for what, (names, _) in WRONG_ARRAYS.items() for name in names],
)
def test_corrupt_arrays_are_refused_and_nothing_is_changed(name, wrong):
    _, replay = made(PrioritisedReplay)
    _, other = made(PrioritisedReplay, seed=1)
    before, arrays = state_of(replay), other.arrays()
    good = arrays.pop(name)
    if wrong:
        arrays[name] = wrong(good)
    said = {"pushed": "(pushed|frames)"}.get(name, name) if wrong else "arrays"
    with pytest.raises(ValueError, match=rf"^{said}: got"):
        replay.restore(arrays)
    assert_same_state(state_of(replay), before)


def test_the_arrays_of_another_kind_of_replay_are_refused():
    uniform, by_priority = made()[1], made(PrioritisedReplay)[1]
    for one, other in ((uniform, by_priority), (by_priority, uniform)):
        with pytest.raises(ValueError, match=r"^arrays: got"):
            one.restore(other.arrays())
