"""The replay buffers against a plain list of the last transitions."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rl_impls.snake.memory import DTYPES, FIELDS, make_buffer

KINDS = ("lists", "arrays", "ring")
SIZE = 3


def numbered(first, count):
    """Return transitions whose values are all distinct, except for the terminated flags."""
    number = np.arange(first, first + count, dtype=np.float32)
    board = number[:, None] + np.float32([0, 0.25, 0.5])
    return board, number.astype(np.int32), -number, board + np.float32(0.125), number % 2


def columns_of(items):
    return [np.array([item[k] for item in items], dtype) for k, dtype in enumerate(DTYPES)]


def assert_same(got, items):
    wanted = columns_of(items)
    assert len(got) == len(FIELDS)
    for column, exact, dtype in zip(got, wanted, DTYPES):
        np.testing.assert_array_equal(np.asarray(column, dtype).reshape(exact.shape), exact, strict=True)


class LikeAList(RuleBasedStateMachine):
    """All replay buffers behave like a list truncated to its last ``capacity`` items."""

    @initialize(capacity=st.integers(1, 9))
    def make(self, capacity):
        self.capacity, self.items, self.count = capacity, [], 0
        self.memories = [make_buffer(kind, capacity, SIZE) for kind in KINDS]

    def new(self, count):
        columns, items = (numbered(self.count, count) for _ in range(2))
        self.count += count
        return columns, list(zip(*items))

    @rule()
    def push(self):
        _, [item] = self.new(1)
        for memory in self.memories:
            memory.push(*item)
        self.items = [*self.items, item][-self.capacity :]

    @rule(count=st.integers(0, 30))
    def push_many(self, count):
        columns, items = self.new(count)
        for memory in self.memories:
            memory.push_many(*columns)
        for column in columns:
            column[:] = 99  # the memories have copies
        self.items = [*self.items, *items][-self.capacity :]

    @rule(count=st.integers(0, 30))
    def restore(self, count):
        columns, items = self.new(count)
        for memory in self.memories:
            memory.restore(*columns)
        self.items = items[-self.capacity :]

    @rule()
    def go_on_from_what_is_stored(self):
        for memory in self.memories:
            memory.restore(*memory.arrays())

    @rule(count=st.integers(0, 30))
    def go_back_to_a_mark(self, count):
        marks = [memory.mark() for memory in self.memories]
        columns, _ = self.new(count)
        for memory, mark in zip(self.memories, marks):
            memory.push_many(*columns)
            memory.rewind(mark)

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def sample(self, data):
        stored = len(self.items)
        rows = np.array(data.draw(st.lists(st.integers(0, stored - 1), min_size=1, max_size=stored)))
        for memory in self.memories:
            assert_same(memory.sample(rows), [self.items[row] for row in rows])

    @invariant()
    def same(self):
        for memory in self.memories:
            assert len(memory) == len(self.items)
            for column in memory.arrays():
                column[:] = 99  # a copy
            assert [column.dtype for column in memory.arrays()] == list(DTYPES)
            if self.items:
                assert_same(memory.arrays(), self.items)


def test_memories_keep_the_last_items_like_a_list():
    options = settings(max_examples=40, stateful_step_count=15)
    run_state_machine_as_test(LikeAList, settings=options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pushed", [0, 3, 10])
def test_rows_that_are_not_stored_are_refused(kind, pushed):
    memory = make_buffer(kind, 7, SIZE)
    memory.push_many(*numbered(0, pushed))
    stored = len(memory)
    for rows in ([], [stored], [-1]):
        with pytest.raises(ValueError, match=rf"^rows=\[.*\] should be integers from 0 to {stored - 1}: "):
            memory.sample(np.array(rows, np.int64))
