"""Collectors that are killed at any moment: what they had handed over is delivered, and every experience is counted."""

from __future__ import annotations

import gc
import os
import signal
import time
from multiprocessing import resource_tracker

import numpy as np
import pytest

from correctness_tests.mario.collectors import ENDLESS, GONE, Taken, balanced, collect, names_made, start
from correctness_tests.mario.test_transport import held, held_before
from correctness_tests.quick import quick
from correctness_tests.waiting import children, limit, until
from rl_impls.mario.transport import TransportBroken, make_transport

limited = limit("killed collectors")

SHAPES = [(3, 5), (84, 84), (4, 84, 84)]
KILLS = {"locked_queue": 65, "local_queues": 65, "shared_ring": 75}
MARGIN = 2  # seconds within which a death must be settled; it should take half a second


class Killing:
    """A learner that kills its two collectors, again and again.

    Some collectors pause often, so that their queues run empty; others fill theirs.
    """

    def __init__(self, kind, seed):
        self.kind, self.rng = kind, np.random.default_rng(seed)
        self.killed, self.broken, self.lost = 0, 0, 0

    def begin(self):
        shape = SHAPES[self.rng.integers(len(SHAPES))]
        self.transport = make_transport(self.kind, 2, shape, capacity=int(self.rng.integers(2, 40)), batch=5)
        self.taken, self.kills, self.first = Taken(2, shape), [0, 0], [0, 0]
        self.processes = [self.collector(index) for index in range(2)]

    def collector(self, index):
        pause = self.rng.choice([0.0, 0.01])
        return start(collect, self.transport.sender(index), self.first[index], ENDLESS, 0, pause)

    def take(self, count):
        """Take some more, now and then slowly."""
        slow = self.rng.random() < 0.3
        wanted = sum(self.taken.counts()) + count
        while sum(self.taken.counts()) < wanted:
            self.transport.take(self.taken, most=int(self.rng.integers(1, 9)), seconds=0.05)
            time.sleep(2e-3 * self.rng.random() * slow)
        balanced(self.transport.counters())

    def kill(self, index):
        process = self.processes[index]
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        self.killed += 1
        self.kills[index] += 1
        before = time.monotonic()
        try:
            self.transport.ended(index)
        finally:
            assert time.monotonic() - before < MARGIN
        self.all_is_there(index)

    def all_is_there(self, index):
        """Take what an ended collector had handed over; nothing else may be missing."""
        while balanced(self.transport.counters())["waiting"][index]:
            self.transport.take(self.taken, seconds=1)
        found = self.transport.counters()
        produced, lost = int(found["produced"][index]), int(found["lost"][index])
        assert found["delivered"][index] == len(self.taken.numbers[index]) == produced - lost
        assert not found["dropped"].any()
        if self.kind == "shared_ring":
            assert lost <= self.kills[index]
        else:
            assert lost == 0
            assert self.taken.numbers[index] == list(range(produced))
        self.first[index] = produced

    def gave_up(self, index, error):
        """The transport is broken and the error says how much is lost."""
        self.broken += 1
        assert self.kind != "shared_ring"
        found = balanced(self.transport.counters())
        assert f"collector {index} died" in str(error)
        assert f": {found['lost'][index]} of its experiences are lost" in str(error)
        with pytest.raises(TransportBroken):
            self.transport.take(self.taken)

    def end(self, index):
        """Close once the other collector has begun; it must find the learner gone."""
        other = 1 - index
        begun = self.first[other]
        until(lambda: self.transport.counters()["produced"][other] > begun, "a collector")
        self.transport.close()
        found = balanced(self.transport.counters())
        assert not found["waiting"].any()
        assert found["delivered"].tolist() == self.taken.counts()
        self.lost += int(found["lost"].sum())
        self.processes[other].join()
        assert self.processes[other].exitcode == GONE

    def run(self, kills):
        while self.killed < kills:
            self.begin()
            for _ in range(min(10, kills - self.killed)):
                index = int(self.rng.integers(2))
                if self.rng.random() < 0.9:  # in the others, a collector may not even have begun
                    self.take(int(self.rng.integers(1, 60)))
                time.sleep(5e-3 * self.rng.random())
                try:
                    self.kill(index)
                except TransportBroken as error:
                    self.gave_up(index, error)
                    break
                self.processes[index] = self.collector(index)
            else:
                self.kill_last(index)
            self.end(index)

    def kill_last(self, index):
        """Kill a collector without waiting for anything that it has done."""
        self.processes[index].kill()
        self.processes[index].join()


@pytest.mark.parametrize(
    ("kind", "kills"), quick([(kind, 3) for kind in KILLS], [*((kind, 3) for kind in KILLS), *KILLS.items()])
)
def test_killed_collectors_lose_nothing_uncounted(kind, kills):
    resource_tracker.ensure_running()
    before, killing = held_before(), Killing(kind, kills)
    with names_made() as made:
        killing.run(kills)
        assert killing.killed == kills
        killing.processes.clear()
        gc.collect()
    assert bool(made) == (kind == "locked_queue")
    if kind != "shared_ring" and kills > 3:
        assert 0 < killing.broken < kills
    assert not children()
    assert held() == before
