"""Collectors killed at any moment: experiences already sent are delivered, and every experience is counted."""

import gc
import os
import threading
import time
from multiprocessing import resource_tracker
from pathlib import Path

import numpy as np
import pytest

from correctness_tests.mario.collectors import ENDLESS, Taken, balanced, collect, kill, names_made, start
from correctness_tests.quick import quick
from correctness_tests.waiting import children
from rl_impls.mario.loop import TRANSPORTS
from rl_impls.mario.transport import TransportBroken

SHAPES = [(3, 5), (84, 84), (4, 84, 84)]
KILLS = {"locked_queue": 20, "local_queues": 20, "shared_ring": 75}
MARGIN = 2  # seconds within which close() must return


class Killing:
    """A learner that repeatedly kills its two collectors.

    Some collectors pause often, so that their queues run empty; others fill their queues.
    """

    def __init__(self, kind, seed):
        self.kind, self.rng, self.killed = kind, np.random.default_rng(seed), 0

    def begin(self):
        self.shape = SHAPES[self.rng.integers(len(SHAPES))]
        self.transport = TRANSPORTS[self.kind](2, self.shape, int(self.rng.integers(2, 40)), 5)
        self.taken, self.kills, self.first = Taken(2, self.shape), [0, 0], [0, 0]
        self.processes = {index: self.collector(index) for index in range(2)}

    def collector(self, index):
        pause, sender = self.rng.choice([0.0, 0.01]), self.transport.sender(index)
        return start(collect, sender, self.shape, self.first[index], ENDLESS, 0, pause)

    def take(self, count):
        """Take at least `count` more experiences, sometimes slowly."""
        slow = self.rng.random() < 0.3
        wanted = sum(self.taken.counts()) + count
        while sum(self.taken.counts()) < wanted:
            self.transport.take(self.taken, 0.05)
            time.sleep(2e-3 * self.rng.random() * slow)
        balanced(self.transport.counters())

    def kill(self, index):
        """Kill a collector: a ring delivers everything that was sent, and a queue is broken."""
        kill(self.processes.pop(index))
        self.killed += 1
        self.kills[index] += 1
        if self.kind != "shared_ring":
            with pytest.raises(TransportBroken, match=rf"^environment {index}: its collector died"):
                self.transport.ended(index)
            with pytest.raises(TransportBroken):
                self.transport.take(self.taken)
            return
        self.transport.ended(index)
        while balanced(self.transport.counters())["waiting"][index]:
            self.transport.take(self.taken, 1)
        found = self.transport.counters()
        produced, lost = int(found["produced"][index]), int(found["lost"][index])
        assert found["delivered"][index] == len(self.taken.numbers[index]) == produced - lost
        assert lost <= self.kills[index]
        self.first[index] = produced
        self.processes[index] = self.collector(index)

    def end(self):
        """Kill the remaining collectors and close the transport, which must not wait for a torn experience."""
        for process in self.processes.values():
            kill(process)
        before = time.monotonic()
        self.transport.close()
        self.transport.close()
        assert time.monotonic() - before < MARGIN
        found = balanced(self.transport.counters())
        assert not found["waiting"].any()
        assert found["delivered"].tolist() == self.taken.counts()

    def run(self, kills):
        self.begin()
        self.take(20)
        self.end()  # a transport that is not broken
        while self.killed < kills:
            self.begin()
            for _ in range(min(kills, 10) if self.kind == "shared_ring" else 1):
                if self.rng.random() < 0.9:  # otherwise, a collector may be killed before it has begun
                    self.take(int(self.rng.integers(1, 60)))
                time.sleep(5e-3 * self.rng.random())
                self.kill(int(self.rng.integers(2)))
            self.end()


def open_resources():
    """Return the numbers of open file descriptors, shared memory mappings and threads of this process."""
    gc.collect()
    mapped = Path("/proc/self/maps").read_text().count("memfd:rl_impls")
    return len(os.listdir("/proc/self/fd")), mapped, threading.active_count()


@pytest.mark.parametrize(
    ("kind", "kills"), quick([(kind, 1) for kind in KILLS], [*((kind, 1) for kind in KILLS), *KILLS.items()])
)
def test_killed_collectors_lose_nothing_uncounted_and_a_closed_transport_leaves_nothing(kind, kills):
    resource_tracker.ensure_running()
    before, killing = open_resources(), Killing(kind, kills)
    with names_made() as made:
        killing.run(kills)
        killing.processes.clear()
        gc.collect()
    assert bool(made) == (kind != "shared_ring")
    assert not children()
    assert open_resources() == before  # although the last transport still exists
