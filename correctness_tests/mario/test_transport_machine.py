"""Transports against a model, for any order of calls, in one process."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from correctness_tests.mario.collectors import Taken, balanced, put
from correctness_tests.waiting import limit
from rl_impls.mario.transport import make_transport

limited = limit("a transport")

SHAPE = (4, 30, 31)
PIPE = 65536 // (4 * 30 * 31) + 2  # experiences in a pipe, and in the hands of a feeder
INDICES = st.integers(0, 1)


class Machine(RuleBasedStateMachine):
    """Two collectors; experiences are numbered as they are put."""

    kind, extra = "shared_ring", 0

    @initialize(share=st.integers(1, 5), odd=st.booleans(), batch=st.integers(1, 6))
    def begin(self, share, odd, batch):
        self.share, self.behind = share, self.extra and self.extra + batch + 2 * (2 * share + odd)
        self.transport = make_transport(self.kind, 2, SHAPE, capacity=2 * share + odd, batch=batch, patience=0)
        self.taken = Taken(2, SHAPE)
        self.produced, self.dropped, self.kept = [0, 0], [0, 0], [[], []]
        self.senders = [self.transport.sender(index) for index in range(2)]

    @rule(index=INDICES, count=st.integers(1, 9))
    def put(self, index, count):
        for _ in range(count):
            waits = len(self.kept[index]) - len(self.taken.numbers[index])
            done = put(self.senders[index], self.produced[index])
            if waits < self.share:
                assert done
            if waits >= self.share + self.behind:
                assert not done
            if done:
                self.kept[index].append(self.produced[index])
            self.dropped[index] += not done
            self.produced[index] += 1

    def wait(self):
        return sum(map(len, self.kept)) - sum(self.taken.counts())

    @rule(most=st.one_of(st.none(), st.integers(1, 12)))
    def take(self, most):
        wanted = left = min(self.wait(), most or self.transport.capacity)
        if not wanted:
            assert self.transport.take(self.taken, most=most) == 0
        if wanted and self.kind == "shared_ring":
            assert self.transport.take(self.taken, most=most, seconds=100) == wanted
            return
        while left:  # feeders and the gatherer may be behind
            count = self.transport.take(self.taken, most=left, seconds=100)
            assert 1 <= count <= left
            left -= count

    @rule(index=INDICES)
    def replace(self, index):
        if self.kind != "shared_ring":  # it waits for the learner
            self.take(None)
            while self.wait():
                self.take(None)
        self.senders[index].close()
        self.transport.ended(index)
        self.senders[index] = self.transport.sender(index)

    @rule()
    def close_twice(self):
        self.transport.close()
        self.transport.close()
        found = balanced(self.transport.counters())
        lost = [len(kept) - taken for kept, taken in zip(self.kept, self.taken.counts())]
        assert found["lost"].tolist() == lost
        self.begin(self.share, False, 3)

    @invariant()
    def counts(self):
        if not hasattr(self, "transport"):
            return
        found = balanced(self.transport.counters())
        assert found["produced"].tolist() == self.produced
        assert found["dropped"].tolist() == self.dropped
        assert found["delivered"].tolist() == self.taken.counts()
        assert not found["lost"].any()
        assert found["batches"] == len(self.taken.calls)
        for kept, numbers in zip(self.kept, self.taken.numbers):
            assert numbers == kept[: len(numbers)]

    def teardown(self):
        if hasattr(self, "transport"):
            self.transport.close()


class LockedMachine(Machine):
    kind, extra = "locked_queue", PIPE


class LocalMachine(Machine):
    kind, extra = "local_queues", PIPE


FEW, MANY = settings(stateful_step_count=20), settings(stateful_step_count=100, max_examples=200)
TestRing, TestLocked, TestLocal = Machine.TestCase, LockedMachine.TestCase, LocalMachine.TestCase
TestRing.settings = TestLocked.settings = TestLocal.settings = FEW


@pytest.mark.slow
@pytest.mark.parametrize("machine", [Machine, LockedMachine, LocalMachine])
def test_long_sequences_of_calls(machine):
    run_state_machine_as_test(machine, settings=MANY)
