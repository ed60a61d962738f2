"""Rings against a model, in one process, with calls in any order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from correctness_tests.mario.collectors import Taken, balanced, put
from correctness_tests.waiting import limit
from rl_impls.mario.ring import SharedRing

limited = limit("a transport")

SHAPE = (4, 30, 31)
INDICES = st.integers(0, 1)


class Machine(RuleBasedStateMachine):
    @initialize(share=st.integers(1, 5), odd=st.booleans())
    def begin(self, share, odd):
        self.share, self.transport = share, SharedRing(2, SHAPE, 2 * share + odd)
        self.taken, self.produced = Taken(2, SHAPE), [0, 0]
        self.senders = [self.transport.sender(index) for index in range(2)]

    def waiting(self, index):
        return self.produced[index] - len(self.taken.numbers[index])

    @rule(index=INDICES, count=st.integers(1, 5))
    def put(self, index, count):
        for _ in range(min(count, self.share - self.waiting(index))):
            put(self.senders[index], self.produced[index], SHAPE)
            self.produced[index] += 1

    @rule()
    def take(self):
        wanted = self.waiting(0) + self.waiting(1)
        assert self.transport.take(self.taken, seconds=100 if wanted else 0) == wanted

    @rule(index=INDICES)
    def replace(self, index):
        self.transport.ended(index)
        self.senders[index] = self.transport.sender(index)

    @rule()
    def close(self):
        self.transport.close()
        assert balanced(self.transport.counters())["lost"].tolist() == [self.waiting(0), self.waiting(1)]
        self.begin(self.share, False)

    @invariant()
    def counts(self):
        if not hasattr(self, "transport"):
            return
        found = balanced(self.transport.counters())
        assert found["produced"].tolist() == self.produced
        assert found["delivered"].tolist() == self.taken.counts()
        assert not found["lost"].any()
        assert found["batches"] == len(self.taken.calls)
        for index, numbers in enumerate(self.taken.numbers):
            assert numbers == list(range(self.produced[index] - self.waiting(index)))

    def teardown(self):
        if hasattr(self, "transport"):
            self.transport.close()


TestRing = Machine.TestCase
TestRing.settings = settings(stateful_step_count=20)
