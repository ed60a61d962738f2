"""The memory of a treasure hunt against lists of episodes, read with plain loops."""

from __future__ import annotations

import functools
import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_impls.treasurehunt.memory import (
    CAPACITY,
    FRAMES,
    HORIZON,
    LEAST,
    TERMINATED,
    TRUNCATED,
    Memory,
    gather,
    push_recent,
    stack,
)

SIZE = 2
RETURNS = 2  # the place of the returns in a transition: the only sums, which may differ in their rounding
ENDS = st.sampled_from([TRUNCATED, TERMINATED])


class Episodes:
    """All that was ever given to a memory: for each agent and lane, episodes of ``(number, frame, action, reward)``.

    The final row of an episode has no action; in place of its reward is how the episode ended.
    """

    def __init__(self, agents, lanes, length, gamma, seed=0):
        self.shape, self.length, self.gamma, self.pushed = (agents, lanes), length, gamma, 0
        self.rng, self.open = np.random.default_rng(seed), False
        self.lists = [[[] for _ in range(lanes)] for _ in range(agents)]
        self.memory = Memory(agents, lanes, lanes * length, SIZE, gamma)

    def frames(self):
        return self.rng.normal(size=(*self.shape, SIZE)).astype(np.float32)

    def append(self, frames, actions, rewards):
        for n, agent in enumerate(self.lists):
            for k, episodes in enumerate(agent):
                if not self.open:
                    episodes.append([])
                episodes[-1].append((self.pushed, frames[n, k], actions[n][k], rewards[n][k]))
        self.pushed += 1

    def turn(self):
        actions = self.rng.integers(0, 100, self.shape, np.int32)
        row = self.frames(), actions, self.rng.normal(size=self.shape).astype(np.float32)
        self.append(*row)
        self.memory.push(*row)
        self.open = True
        return row

    def finish(self, end):
        frames, (agents, lanes) = self.frames(), self.shape
        self.append(frames, [[None] * lanes] * agents, [[end] * lanes] * agents)
        self.memory.finish(frames, terminated=end == TERMINATED)
        self.open = False
        return frames

    def play(self, episodes, turns=0):
        """Whole episodes ``(turns, end)``, then some turns of one more."""
        for count, end in episodes:
            for _ in range(count):
                self.turn()
            self.finish(end)
        for _ in range(turns):
            self.turn()
        return self

    def transition(self, rows, t):
        """What begins at turn t of an episode, or None if any of it is not stored."""
        if rows[t][2] is None:
            return None
        total, m = 0.0, 0
        while m < HORIZON and t + m < len(rows) and rows[t + m][2] is not None:
            total += self.gamma**m * float(rows[t + m][3])
            m += 1
        if t + m >= len(rows) or rows[max(0, t - FRAMES + 1)][0] < self.pushed - self.length:
            return None
        _, _, action, reward = rows[t + m]
        discount = 0.0 if action is None and reward == TERMINATED else self.gamma**m
        return stack_of(rows, t), rows[t][2], total, stack_of(rows, t + m), discount

    def transitions(self, agent):
        """Transitions by the row they begin in, lane by lane, oldest first."""
        found = {}
        for lane, episodes in enumerate(self.lists[agent]):
            for rows in episodes:
                for t in range(len(rows)):
                    transition = self.transition(rows, t)
                    if transition:
                        found[lane * self.length + rows[t][0] % self.length] = transition
        return found


def stack_of(rows, t):
    frames = []
    for turn in range(t - FRAMES + 1, t + 1):
        frames.extend([0.0] * SIZE if turn < 0 else rows[turn][1])
    return frames


def columns_of(transitions):
    dtypes = np.float32, np.int32, np.float32, np.float32, np.float32
    return [np.array(column, dtype) for column, dtype in zip(zip(*transitions), dtypes)]


def assert_same(got, wanted):
    for k, (a, b) in enumerate(zip(got, wanted, strict=True)):
        if k == RETURNS:
            np.testing.assert_allclose(a, b, 1e-6, 1e-6, strict=True)
        else:
            np.testing.assert_array_equal(a, b, strict=True)


def assert_equal_arrays(got, wanted):
    assert got.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_array_equal(got[name], wanted[name], name, strict=True)


def every_start(memory):
    return np.tile(memory.starts(), (memory.agents, 1))


def wrapped():
    """Three agents in two lanes of 30 rows, gone round, in the middle of an episode."""
    return Episodes(3, 2, 30, 0.99).play([(6, TRUNCATED), (9, TERMINATED), (1, TERMINATED), (12, TRUNCATED)], 11)


@settings(max_examples=500)
@given(
    agents=st.integers(1, 3),
    lanes=st.integers(1, 3),
    length=st.integers(LEAST, 14),
    gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
    episodes=st.lists(st.tuples(st.integers(1, 8), ENDS), max_size=6),
    turns=st.integers(0, 20),
)
def test_memory_is_that_of_lists_of_episodes(agents, lanes, length, gamma, episodes, turns):
    played = Episodes(agents, lanes, length, gamma).play(episodes, turns)
    memory, wanted = played.memory, [played.transitions(agent) for agent in range(agents)]
    assert len(memory) == min(played.pushed, length)
    starts = memory.starts()
    assert starts.dtype == np.int64
    for found in wanted:
        assert starts.tolist() == list(found)
    assert len(memory) < length or len(starts) > 0
    if len(starts):
        for agent, found in enumerate(wanted):
            got = [column[agent] for column in memory.columns(every_start(memory))]
            assert_same(got, columns_of(found.values()))


def test_each_agent_reads_its_own_rows():
    played = wrapped()
    rows = played.memory.draw(np.random.default_rng(0), 7)
    got = played.memory.columns(rows)
    for agent in range(3):
        found = played.transitions(agent)
        assert_same([column[agent] for column in got], columns_of([found[row] for row in rows[agent]]))


@pytest.mark.parametrize("end", [TRUNCATED, TERMINATED])
def test_only_a_truncated_episode_goes_on_after_its_end(end):
    played = Episodes(1, 1, 20, 0.5).play([(5, end)], 4)
    *_, discounts = played.memory.columns(every_start(played.memory))
    at_the_end = [0.125, 0.25, 0.5] if end == TRUNCATED else [0, 0, 0]
    assert discounts.tolist() == [[0.125, 0.125, *at_the_end, 0.125]]


@pytest.mark.parametrize("end", [TRUNCATED, TERMINATED])
def test_stacks_and_returns_stay_within_their_episode(end):
    memory = Memory(1, 1, 20, 1, 1.0)
    for episode, value in ((3, 1), (7, 100)):
        for _ in range(episode):
            memory.push(*(np.full(shape, value, t) for shape, t in (((1, 1, 1), "f4"), ((1, 1), "i4"), ((1, 1), "f4"))))
        memory.finish(np.full((1, 1, 1), value, np.float32), terminated=end == TERMINATED)
    states, _, returns, next_states, _ = memory.columns(every_start(memory))
    assert states[0, :3].tolist() == [[0, 0, 0, 0, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]]
    assert next_states[0, :3].tolist() == [[0, 1, 1, 1, 1]] * 3
    assert returns[0].tolist() == [3, 2, 1, 300, 300, 300, 300, 300, 200, 100]
    assert states[0, 3:5].tolist() == [[0, 0, 0, 0, 100], [0, 0, 0, 100, 100]]
    assert next_states[0, 3].tolist() == [0, 100, 100, 100, 100]


def test_every_agent_draws_all_starts_once():
    memory = wrapped().memory
    starts = memory.starts()
    rows = memory.draw(np.random.default_rng(0), len(starts))
    assert rows.shape == (3, len(starts))
    assert rows.dtype == np.int64
    for own in rows:
        assert sorted(own) == sorted(starts)
    assert len({tuple(own) for own in rows}) == 3


def test_starts_are_drawn_uniformly():
    memory, rng, draws, batch = wrapped().memory, np.random.default_rng(0), 1000, 8
    starts = memory.starts()
    rows = np.stack([memory.draw(rng, batch) for _ in range(draws)])
    chance = batch / len(starts)
    for agent in range(3):
        counts = np.array([(rows[:, agent] == start).sum() for start in starts])
        assert np.abs(counts - draws * chance).max() < 4.5 * (draws * chance * (1 - chance)) ** 0.5


@pytest.mark.parametrize("turns", [0, 3, 11])
def test_a_batch_of_more_than_the_starts_is_refused(turns):
    memory = Episodes(2, 2, 20, 0.99).play([], turns).memory
    starts = 2 * max(0, turns - HORIZON)
    for batch in (0, -1, starts + 1, 2.0, True):
        with pytest.raises(ValueError, match=rf"^batch: got {batch}, wanted an integer from 1 to {starts}, the number"):
            memory.draw(np.random.default_rng(0), batch)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99, 1.0])
def test_compiled_gather_equals_that_of_numpy(gamma):
    import jax
    import jax.numpy as jnp

    memory = wrapped().memory
    compiled = jax.jit(functools.partial(gather, gamma=gamma, xp=jnp))
    rows = every_start(memory)
    assert_same([np.asarray(column) for column in compiled(memory.fields, rows)], gather(memory.fields, rows, gamma))


@pytest.mark.parametrize("library", ["numpy", "jax.numpy"])
def test_an_agent_acts_on_the_states_it_learns_from(library):
    xp = importlib.import_module(library)
    played = Episodes(2, 3, 40, 0.9)
    acted, following = {}, {}
    for turns, end in ((2, TRUNCATED), (9, TERMINATED), (8, TRUNCATED)):
        recent, first = xp.zeros((2, 3, FRAMES - 1, SIZE)).astype(np.float32), played.pushed
        for t in range(turns + 1):
            frame = xp.asarray(played.turn()[0] if t < turns else played.finish(end))
            acted[first + t] = np.asarray(stack(recent, frame, xp))
            following[first + t] = min(first + t + HORIZON, first + turns)
            recent = push_recent(recent, frame, xp)
    rows = every_start(played.memory)
    states, _, _, next_states, _ = played.memory.columns(rows)
    assert rows.shape[1] == 3 * (2 + 9 + 8)
    for i, row in enumerate(rows[0]):
        lane, number = divmod(int(row), 40)
        np.testing.assert_array_equal(acted[number][:, lane], states[:, i], strict=True)
        np.testing.assert_array_equal(acted[following[number]][:, lane], next_states[:, i], strict=True)


def test_rows_that_are_no_starts_are_refused():
    memory = wrapped().memory
    starts, before = memory.starts(), memory.arrays()
    others = sorted(set(range(-1, 61)) - set(starts.tolist()))
    assert len(others) > 10
    for row in others:
        rows = np.full((3, 2), starts[0])
        rows[2, 1] = row
        with pytest.raises(ValueError, match=rf"^rows: got {row}, wanted any of the {len(starts)} starts"):
            memory.columns(rows)
    for rows in (starts, starts[None], np.tile(starts, (3, 1)).astype(np.int32), np.zeros((3, 1))):
        with pytest.raises(ValueError, match=r"^rows: got .*, wanted int64\[3, B\]"):
            memory.columns(rows)
    assert_equal_arrays(memory.arrays(), before)


@pytest.mark.parametrize("name", ["frames", "actions", "rewards"])
@pytest.mark.parametrize(
    "wrong", [lambda a: a[:1], lambda a: a[:, :1], lambda a: a[..., None], lambda a: a.astype(np.float64)]
)
def test_turns_that_do_not_fit_are_refused(name, wrong):
    played = wrapped()
    memory, before = played.memory, played.memory.arrays()
    row = {"frames": played.frames(), "actions": np.ones((3, 2), np.int32), "rewards": np.ones((3, 2), np.float32)}
    row[name] = wrong(row[name])
    with pytest.raises(ValueError, match=rf"^{name}: got .*, wanted (float|int)32\[3, 2"):
        memory.push(**row)
    if name == "frames":
        with pytest.raises(ValueError, match=r"^frames: got .*, wanted float32\[3, 2, 2\]"):
            memory.finish(row["frames"])
    assert_equal_arrays(memory.arrays(), before)


def test_ends_that_do_not_fit_are_refused():
    played = wrapped()
    memory, before = played.memory, played.memory.arrays()
    with pytest.raises(ValueError, match=r"^terminated: got 2, wanted True or False"):
        memory.finish(played.frames(), terminated=2)
    assert_equal_arrays(memory.arrays(), before)
    memory.finish(played.frames())
    for ended in (memory, Memory(3, 2, 60, SIZE)):
        before = ended.arrays()
        with pytest.raises(ValueError, match=r"^frames: got the end of an episode of no turns"):
            ended.finish(played.frames())
        assert_equal_arrays(ended.arrays(), before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 9, 1), "agents: got 0"),
        ((1, 0, 9, 1), "lanes: got 0"),
        ((1, 1, 0, 1), "capacity: got 0"),
        ((1, 1, 9.0, 1), "capacity: got 9.0"),
        ((1, 1, 9, 0), "size: got 0"),
        ((1, 1, 8, 1), "capacity: got 8, wanted as many rows in each of 1 lanes, 9 or more"),
        ((1, 3, 26, 1), "capacity: got 26, wanted as many rows in each of 3 lanes, 9 or more"),
        ((1, 3, 28, 1), "capacity: got 28, wanted as many rows in each of 3 lanes, 9 or more"),
        ((1, 1, 9, 1, 1.5), "gamma: got 1.5, wanted a discount from 0.0 to 1.0"),
        ((1, 1, 9, 1, float("nan")), "gamma: got nan"),
    ],
)
def test_a_memory_that_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Memory(*arguments)


def test_arrays_are_allocated_once_and_of_the_size_asked_for():
    memory = Memory(5, 8, CAPACITY, 3)
    before = [field.ctypes.data for field in memory.fields]
    for _ in range(200):
        memory.push(np.ones((5, 8, 3), np.float32), np.ones((5, 8), np.int32), np.ones((5, 8), np.float32))
    assert [field.ctypes.data for field in memory.fields] == before
    assert memory.fields.frames.shape == (5, CAPACITY, 3)
    assert len(memory) == 128
    assert memory.pushed == 200


@pytest.mark.parametrize("more", [0, 5])
def test_restored_memory_goes_on_like_the_original(more):
    played = wrapped()
    memory = Memory(3, 2, 60, SIZE)
    memory.restore(played.memory.arrays())
    for _ in range(more):
        memory.push(*played.turn())
    memory.finish(played.finish(TRUNCATED))
    memory.push(*played.turn())
    assert_equal_arrays(memory.arrays(), played.memory.arrays())
    rows, wanted = (m.draw(np.random.default_rng(3), 5) for m in (memory, played.memory))
    np.testing.assert_array_equal(rows, wanted)
    assert_same(memory.columns(rows), played.memory.columns(wanted))


def test_what_is_stored_and_what_is_returned_are_copies():
    played = wrapped()
    row, before = played.turn(), played.memory.arrays()
    others = played.memory.arrays()
    restored = Memory(3, 2, 60, SIZE)
    restored.restore(others)
    for array in (*row, *others.values(), *played.memory.columns(every_start(played.memory))):
        array[...] = 99
    for memory in (played.memory, restored):
        assert_equal_arrays(memory.arrays(), before)


@pytest.mark.parametrize("name", ["frames", "actions", "rewards", "time", "last", "pushed"])
@pytest.mark.parametrize(
    "wrong", [None, lambda a: a.astype(np.float16), lambda a: a.reshape(1, *a.shape), lambda a: np.array(-1)]
)
def test_corrupt_arrays_are_refused(name, wrong):
    memory = wrapped().memory
    before = memory.arrays()
    arrays = Episodes(3, 2, 30, 0.5, seed=1).play([(4, TRUNCATED)], 3).memory.arrays()
    good = arrays.pop(name)
    if wrong:
        arrays[name] = wrong(good)
    with pytest.raises(ValueError, match=rf"^{name if wrong else 'arrays'}: got"):
        memory.restore(arrays)
    assert_equal_arrays(memory.arrays(), before)
