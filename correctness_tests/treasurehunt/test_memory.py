"""The replay memory against plain lists of episodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_impls.treasurehunt.memory import (
    FRAMES,
    HORIZON,
    LEAST,
    TERMINATED,
    TRUNCATED,
    Memory,
)

SIZE = 2
RETURNS = 2  # index of the returns in a transition; only they are sums, and may differ in rounding
ENDS = st.sampled_from([TRUNCATED, TERMINATED])


class Episodes:
    """Everything pushed to a memory, as lists of episodes of ``(number, frame, action, reward)`` per agent and lane.

    The final row of an episode has no action, and how the episode ended in place of a reward.
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
        """Play whole episodes ``(turns, end)``, then some turns of one more."""
        for count, end in episodes:
            for _ in range(count):
                self.turn()
            self.finish(end)
        for _ in range(turns):
            self.turn()
        return self

    def transition(self, rows, t):
        """Return the transition that starts at turn t of an episode, or None if part of it is not stored."""
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
        """Return the transitions by the row they start in, lane by lane, oldest first."""
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
    """Return three agents in two lanes of 30 rows, which have wrapped around, in the middle of an episode."""
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
def test_memory_equals_lists_of_episodes(agents, lanes, length, gamma, episodes, turns):
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
def test_truncated_episode_bootstraps_and_terminated_episode_does_not(end):
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


def test_stored_and_returned_arrays_are_copies():
    played = wrapped()
    row, before = played.turn(), played.memory.arrays()
    others = played.memory.arrays()
    restored = Memory(3, 2, 60, SIZE)
    restored.restore(others)
    for array in (*row, *others.values(), *played.memory.columns(every_start(played.memory))):
        array[...] = 99
    for memory in (played.memory, restored):
        assert_equal_arrays(memory.arrays(), before)


def test_restored_memory_goes_on_like_the_original():
    played = wrapped()
    memory = Memory(3, 2, 60, SIZE)
    memory.restore(played.memory.arrays())
    memory.push(*played.turn())
    memory.finish(played.finish(TRUNCATED))
    memory.push(*played.turn())
    assert_equal_arrays(memory.arrays(), played.memory.arrays())


def test_rows_where_no_transition_starts_are_refused():
    memory = wrapped().memory
    starts = memory.starts()
    others = sorted(set(range(-1, 61)) - set(starts.tolist()))
    assert len(others) > 10
    for row in others:
        rows = np.full((3, 2), starts[0])
        rows[2, 1] = row
        with pytest.raises(ValueError, match=rf"^rows: got {row}, wanted any of the {len(starts)} starts"):
            memory.columns(rows)


def test_bad_input_is_refused_and_changes_nothing():
    played = wrapped()
    memory, before, frames = played.memory, played.memory.arrays(), played.frames()
    with pytest.raises(ValueError, match=r"^actions: got float64\[3, 2\], wanted int32\[3, 2\]"):
        memory.push(frames, np.ones((3, 2)), np.ones((3, 2), np.float32))
    with pytest.raises(ValueError, match=r"^frames: got float32\[3, 1, 2\], wanted float32\[3, 2, 2\]"):
        memory.finish(frames[:, :1])
    with pytest.raises(ValueError, match=r"^terminated: got 2, wanted True or False"):
        memory.finish(frames, terminated=2)
    with pytest.raises(ValueError, match=r"^rewards: got float64\[3, 60\], wanted float32\[3, 60\]"):
        memory.restore(before | {"rewards": before["rewards"].astype(np.float64)})
    with pytest.raises(ValueError, match=r"^pushed: got array\(-1\), wanted an int64 of 0 or more"):
        memory.restore(before | {"pushed": np.array(-1)})
    assert_equal_arrays(memory.arrays(), before)


def test_episode_of_no_turns_is_refused():
    memory = Memory(3, 2, 60, SIZE)
    with pytest.raises(ValueError, match=r"^frames: got the end of an episode of no turns"):
        memory.finish(np.zeros((3, 2, SIZE), np.float32))
    assert len(memory) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 9, 1), "agents: got 0"),
        ((1, 3, 26, 1), "capacity: got 26, wanted as many rows in each of 3 lanes, 9 or more"),
        ((1, 1, 9, 1, 1.5), "gamma: got 1.5, wanted a discount from 0.0 to 1.0"),
    ],
)
def test_impossible_memory_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Memory(*arguments)
