"""The replay memory against plain lists of episodes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from correctness_tests import updates
from correctness_tests.draws import assert_as_often
from correctness_tests.treasurehunt.problem import build, called
from rl_impls.treasurehunt.memory import FRAMES, MIN_ROWS, N_STEP, Memory, gather

SIZE = 2
RETURNS = 2  # index of the returns in a transition, the only sums, which may differ by rounding


class Episodes:
    """A memory, and all rows pushed to it: a list of episodes per agent and world.

    A row is ``(number, frame, action, reward)``; the last row of an episode has no action and no reward.
    """

    def __init__(self, num_agents, num_worlds, length, gamma, seed=0):
        self.shape, self.length, self.gamma, self.pushed = (num_agents, num_worlds), length, gamma, 0
        self.rng, self.open = np.random.default_rng(seed), False
        self.lists = [[[] for _ in range(num_worlds)] for _ in range(num_agents)]
        self.memory = Memory(num_agents, num_worlds, num_worlds * length, SIZE)

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

    def finish(self):
        frames, none = self.frames(), np.full(self.shape, None)
        self.append(frames, none, none)
        self.memory.finish(frames)
        self.open = False
        return frames

    def play(self, episodes, turns=0):
        """Play complete episodes of the given lengths, then some turns of another one."""
        for count in episodes:
            for _ in range(count):
                self.turn()
            self.finish()
        for _ in range(turns):
            self.turn()
        return self

    def transition(self, rows, t):
        """Return the transition that starts at turn t of an episode, or None if part of it is not stored."""
        if rows[t][2] is None:
            return None
        total, m = 0.0, 0
        while m < N_STEP and t + m < len(rows) and rows[t + m][2] is not None:
            total += self.gamma**m * float(rows[t + m][3])
            m += 1
        if t + m >= len(rows) or rows[max(0, t - FRAMES + 1)][0] < self.pushed - self.length:
            return None
        return stack_of(rows, t), rows[t][2], total, stack_of(rows, t + m), self.gamma**m

    def transitions(self, agent):
        """Return the transitions by their first row, world by world, oldest first."""
        found = {}
        for world, episodes in enumerate(self.lists[agent]):
            for rows in episodes:
                for t in range(len(rows)):
                    transition = self.transition(rows, t)
                    if transition:
                        found[world * self.length + rows[t][0] % self.length] = transition
        return found


def stack_of(rows, t):
    frames = []
    for turn in range(t - FRAMES + 1, t + 1):
        frames.extend([0.0] * SIZE if turn < 0 else rows[turn][1])
    return frames


def columns_of(transitions):
    dtypes = np.float32, np.int32, np.float32, np.float32, np.float32
    return [np.array(column, dtype) for column, dtype in zip(zip(*transitions), dtypes)]


def assert_same(actual, expected):
    for k, (a, b) in enumerate(zip(actual, expected, strict=True)):
        if k == RETURNS:
            np.testing.assert_allclose(a, b, 1e-6, 1e-6, strict=True)
        else:
            np.testing.assert_array_equal(a, b, strict=True)


def every_start(memory):
    return np.tile(memory.starts(), (memory.num_agents, 1))


def wrapped():
    """Return three agents in two worlds of 30 rows, which have wrapped around, in mid-episode."""
    return Episodes(3, 2, 30, 0.99).play([6, 9, 1, 12], 11)


@given(
    num_agents=st.integers(1, 3),
    num_worlds=st.integers(1, 3),
    length=st.integers(MIN_ROWS, 14),
    gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
    episodes=st.lists(st.integers(1, 8), max_size=6),
    turns=st.integers(0, 20),
)
def test_memory_equals_lists_of_episodes(num_agents, num_worlds, length, gamma, episodes, turns):
    played = Episodes(num_agents, num_worlds, length, gamma).play(episodes, turns)
    memory, expected = played.memory, [played.transitions(agent) for agent in range(num_agents)]
    starts = memory.starts()
    assert starts.dtype == np.int64
    for transitions in expected:
        assert starts.tolist() == list(transitions)
    assert played.pushed < length or len(starts) > 0
    if len(starts):
        rows = np.random.default_rng(0).permuted(every_start(memory), axis=1)  # each agent reads its own
        columns = gather(memory.fields, rows, gamma)
        for agent, transitions in enumerate(expected):
            assert_same([column[agent] for column in columns], columns_of([transitions[row] for row in rows[agent]]))


@pytest.mark.parametrize(("episodes", "turns"), [([6, 9, 1, 12], 11), ([6, 9], 3)], ids=["wrapped", "not full"])
def test_rows_drawn_from_keys_are_distinct_starts_and_each_is_as_likely(episodes, turns):
    import jax

    from rl_impls.treasurehunt.jax_draws import draw_rows

    memory = Episodes(3, 2, 30, 0.99).play(episodes, turns).memory
    fields = jax.tree.map(jax.numpy.asarray, memory.fields)
    draw = jax.jit(jax.vmap(lambda key: draw_rows(key, fields, memory.pushed, 8)))
    rows, starts = np.asarray(draw(jax.random.split(jax.random.key(0), 500))), np.sort(memory.starts())
    assert rows.shape == (500, 3, 8)
    assert np.diff(np.sort(rows), axis=-1).min() > 0
    assert np.isin(rows, starts).all()
    assert_as_often(np.searchsorted(starts, rows), len(starts))
    assert (rows[:, 0] != rows[:, 1]).any(axis=-1).mean() > 0.99


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_rows_of_the_op_draw_are_distinct_and_new_in_each_call(backend):
    draw = build("draw", backend, {"seed": 0, "capacity": 100, "batch_size": 60}, ())
    rows = np.array([called(draw, backend) for _ in range(20)])
    assert np.diff(np.sort(rows)).min() > 0
    assert (rows[1:] != rows[:-1]).any(axis=1).all()
    np.testing.assert_array_equal(np.unique(rows), np.arange(100))


def test_truncated_episode_bootstraps():
    memory = Episodes(1, 1, 20, 0.5).play([5], 4).memory
    *_, discounts = gather(memory.fields, every_start(memory), 0.5)
    assert discounts.tolist() == [[0.125, 0.125, 0.125, 0.25, 0.5, 0.125]]


def test_stored_and_returned_arrays_are_copies_and_a_restored_memory_goes_on_like_the_original():
    played = wrapped()
    row, before = played.turn(), played.memory.arrays()
    others = played.memory.arrays()
    restored = Memory(3, 2, 60, SIZE)
    restored.restore(others)
    for array in (*row, *others.values(), *gather(played.memory.fields, every_start(played.memory), 0.99)):
        array[...] = 99
    for memory in (played.memory, restored):
        updates.assert_same(memory.arrays(), before)
    restored.push(*played.turn())
    restored.finish(played.finish())
    restored.push(*played.turn())
    updates.assert_same(restored.arrays(), played.memory.arrays())


def test_bad_input_is_refused_and_changes_nothing():
    played = wrapped()
    memory, before, frames = played.memory, played.memory.arrays(), played.frames()
    with pytest.raises(ValueError, match=r"^actions should be int32\[3, 2\], not float64\[3, 2\]$"):
        memory.push(frames, np.ones((3, 2)), np.ones((3, 2), np.float32))
    with pytest.raises(ValueError, match=r"^frames should be float32\[3, 2, 2\], not float32\[3, 1, 2\]$"):
        memory.finish(frames[:, :1])
    with pytest.raises(ValueError, match=r"^rewards should be float32\[3, 60\], not float64\[3, 60\]$"):
        memory.restore(before | {"rewards": before["rewards"].astype(np.float64)})
    with pytest.raises(ValueError, match=r"^pushed=-1 should be an integer from 0"):
        memory.restore(before | {"pushed": np.array(-1)})
    updates.assert_same(memory.arrays(), before)


def test_capacity_that_gives_worlds_unequal_rows_is_refused():
    with pytest.raises(ValueError, match=r"^capacity=26 should be a multiple of num_worlds=3, at least 9 per"):
        Memory(1, 3, 26, 1)
