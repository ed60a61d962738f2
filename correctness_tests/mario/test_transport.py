"""Transports: rings against a model with calls in any order, waiting, and dead processes.

``test_transport_kills.py`` checks that every experience is counted, and that a closed transport leaves nothing.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from correctness_tests.mario import collectors as helpers
from correctness_tests.mario.collectors import Taken, balanced, collect, kill, put, start, take_all
from correctness_tests.quick import quick
from correctness_tests.waiting import alive, children, until
from rl_impls.mario.loop import TRANSPORTS
from rl_impls.mario.ring import SharedRing
from rl_impls.mario.transport import TransportBroken

SHAPE = (3, 4)
QUEUES = ["locked_queue", "local_queues"]
ROOM = {"locked_queue": 4 + 4, "local_queues": 2 + 4, "shared_ring": 2}  # of one of two environments, for 4 in all
every_kind = pytest.mark.parametrize("kind", list(TRANSPORTS))


@pytest.fixture
def make():
    with contextlib.ExitStack() as stack:

        def made(kind, streams=2, shape=SHAPE, capacity=100, **sizes):
            transport = TRANSPORTS[kind](streams, shape, capacity, **sizes)

            def close():
                transport.close()
                assert not balanced(transport.counters())["waiting"].any()

            stack.callback(close)
            return transport

        yield made
        for process in multiprocessing.active_children():
            process.kill()
            process.join()


def test_a_ring_is_not_overwritten_while_it_is_read(make):
    transport, threads = make("shared_ring", 1, capacity=4), []
    sender = transport.sender(0)
    for number in range(4):
        put(sender, number, SHAPE)

    def into(index, frames, *fields):
        before = frames.copy()
        threads.append(threading.Thread(target=put, args=(sender, 4, SHAPE)))
        threads[0].start()
        until(lambda: transport.counters()["full"][0] > 0.01, "a full ring")
        np.testing.assert_array_equal(frames, before)

    assert transport.take(into) == 4
    threads[0].join()
    assert transport.take(Taken(1, SHAPE)) == 1


@every_kind
def test_a_sender_waits_for_room_and_the_time_is_counted(kind, make):
    transport, taken, before = make(kind, capacity=4), Taken(2, SHAPE), time.perf_counter()
    start(collect, transport.sender(0), SHAPE, 0, 40)
    until(lambda: transport.counters()["full"][0] > 0.05, "a full transport")
    time.sleep(0.1)
    waited, other = transport.counters()["full"]
    assert waited < time.perf_counter() - before
    assert other == 0
    assert transport.counters()["waiting"][0] <= ROOM[kind] + 1  # the last one waits for room
    take_all(transport, taken, [40, 0])
    assert not transport.counters()["lost"].any()


@pytest.mark.parametrize("kind", QUEUES)
def test_the_time_that_a_sender_waits_for_the_lock_is_counted(kind, make):
    transport, taken = make(kind), Taken(2, SHAPE)
    with transport.queues[0]._wlock:
        start(collect, transport.sender(0), SHAPE, 0, 1)
        until(lambda: transport.counters()["produced"][0] == 1, "a collector")
        time.sleep(0.1)
    take_all(transport, taken, [1, 0])
    waited, other = transport.counters()["lock"]
    assert waited > 0.05
    assert other == 0


@every_kind
def test_take_waits_only_for_the_first_experience_and_no_longer_than_its_limit(kind, make):
    transport, taken = make(kind), Taken(2, SHAPE)
    assert transport.take(taken) == 0
    assert transport.counters()["empty"] == 0
    assert transport.take(taken, 0.02) == 0
    found = transport.counters()["empty"]
    assert found >= 0.019
    sender = transport.sender(0)
    thread = threading.Timer(0.05, put, (sender, 0, SHAPE))
    thread.start()
    assert transport.take(taken, 100) == 1  # if it waited for more, the test would time out
    thread.join()
    assert transport.counters()["empty"] > found


@pytest.mark.parametrize(("kind", "counts"), [("locked_queue", [1] * 7), ("local_queues", [3, 3, 1])])
def test_queues_deliver_at_most_a_chunk_at_once(kind, counts, make):
    transport, taken = make(kind, 1, capacity=10, batch_size=3), Taken(1, SHAPE)
    sender = transport.sender(0)
    for number in range(7):
        put(sender, number, SHAPE)
    until(lambda: len(transport.items) == 7, "the thread that reads")
    assert transport.take(taken) == 7
    assert [count for _, count in taken.calls] == counts


@every_kind
def test_processes_hand_over_everything_to_a_slow_learner(kind, make):
    shape, rng = (70, 71), np.random.default_rng(2)  # larger than the buffer of a pipe
    transport, taken, counts = make(kind, 2, shape, capacity=10), Taken(2, shape), [150, 400]
    for index in range(2):
        start(collect, transport.sender(index), shape, 0, counts[index], 3, 2e-3)
    while taken.counts() != counts:
        transport.take(taken, 0.01)
        balanced(transport.counters())
        time.sleep(float(rng.random()) * 5e-3)
    found = transport.counters()
    np.testing.assert_array_equal(found["produced"], counts)
    assert taken.numbers == [list(range(count)) for count in counts]


@pytest.mark.parametrize("kind", quick(["locked_queue", "shared_ring"], list(TRANSPORTS)))
def test_a_collector_ends_when_the_learner_is_killed(kind):
    ours, theirs = helpers.CONTEXT.Pipe()
    owner = start(helpers.own, theirs, kind, daemon=False)
    pid = ours.recv()
    assert alive(pid)
    owner.kill()
    owner.join()
    try:
        until(lambda: not alive(pid), "the collector to end", seconds=30)
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    ours.close()
    theirs.close()
    assert not children()


def test_a_ring_loses_only_the_experience_being_written(make):
    transport, taken = make("shared_ring", capacity=6), Taken(2, SHAPE)
    for life in range(2):
        process = start(helpers.die_writing, transport.sender(0), SHAPE, 3 * life)
        process.join()
        transport.ended(0)
        assert transport.take(taken) == 2
        found = balanced(transport.counters())
        assert (found["lost"][0], found["waiting"][0]) == (life + 1, 0)
    put(transport.sender(0), 6, SHAPE)
    assert transport.take(taken) == 1
    assert taken.numbers[0] == [0, 1, 3, 4, 6]


@pytest.mark.parametrize("kind", QUEUES)
def test_a_queue_is_broken_once_a_collector_has_died_and_its_loss_is_counted(kind, make):
    transport, taken = make(kind), Taken(2, SHAPE)
    process = start(collect, transport.sender(0), SHAPE, 0, 7)
    take_all(transport, taken, [7, 0])
    with transport.queues[0]._wlock:  # blocks further writes
        kill(process)
        second = start(collect, transport.sender(0), SHAPE, 7, 2)
        until(lambda: transport.counters()["produced"][0] == 9, "the second collector")
        kill(second)
    wanted = r"^environment 0: its collector died, and 2 of its experiences are lost$"
    with pytest.raises(TransportBroken, match=wanted):
        transport.ended(0)
    assert balanced(transport.counters())["lost"].tolist() == [2, 0]
    with pytest.raises(TransportBroken, match=wanted):
        transport.take(taken)


def test_rings_larger_than_memory_are_refused():
    with pytest.raises(ValueError, match=r"^queue=2147483647 should be smaller: the rings take \d[\d,]* bytes"):
        TRANSPORTS["shared_ring"](1, (84, 84), capacity=2**31 - 1)


IMAGE = (4, 30, 31)
INDICES = st.integers(0, 1)


class Machine(RuleBasedStateMachine):
    @initialize(share=st.integers(1, 5), odd=st.booleans())
    def begin(self, share, odd):
        self.share, self.transport = share, SharedRing(2, IMAGE, 2 * share + odd)
        self.taken, self.produced = Taken(2, IMAGE), [0, 0]
        self.senders = [self.transport.sender(index) for index in range(2)]

    def waiting(self, index):
        return self.produced[index] - len(self.taken.numbers[index])

    @rule(index=INDICES, count=st.integers(1, 5))
    def put(self, index, count):
        for _ in range(min(count, self.share - self.waiting(index))):
            put(self.senders[index], self.produced[index], IMAGE)
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
