"""Collector processes that send numbered experiences, and checks of the experiences received."""

import contextlib
import functools
import math
import multiprocessing
import os
import signal
import time
from multiprocessing import resource_tracker
from pathlib import Path

import numpy as np

from rl_impls.mario.loop import TRANSPORTS
from rl_impls.mario.transport import TransportBroken

ENDLESS = 10**9
CONTEXT = multiprocessing.get_context("spawn")


@functools.cache
def base(size):
    """Return random bytes, the same in every process."""
    return np.random.default_rng(7).integers(256, size=size)


def frames_of(shape, index, numbers):
    """Return a collector's frames: the first 8 bytes are the experience's number, on which all other bytes depend."""
    numbers = np.ascontiguousarray(numbers, np.int64)
    column = numbers[:, None]
    flat = (base(math.prod(shape)) + 167 * column + 31 * (column >> 8) + 89 * index).astype(np.uint8)
    flat[:, :8] = numbers.view(np.uint8).reshape(-1, 8)
    return flat.reshape(-1, *shape)


def fields_of(index, numbers):
    """Return the actions, rewards, terminated flags and times of a collector."""
    numbers = np.asarray(numbers, np.int64)
    actions, times = (7 * numbers - 500 + index).astype(np.int32), (numbers % 5).astype(np.int32)
    return actions, (numbers / 8).astype(np.float32), numbers % 5 == 4, times


def put(sender, number, shape):
    """Send experience `number`, and overwrite its frame at once."""
    frame = frames_of(shape, sender.index, [number])[0]
    sender.put(frame, *(one[0] for one in fields_of(sender.index, [number])))
    frame[:] = 255 - frame


class Taken:
    """Checks the experiences taken: none is torn, and those of each collector arrive in order, each once."""

    def __init__(self, collectors, shape):
        self.shape, self.numbers, self.calls = shape, [[] for _ in range(collectors)], []

    def __call__(self, index, frames, actions, rewards, terminated, times):
        count = len(frames)
        assert count >= 1
        assert (frames.shape, frames.dtype) == ((count, *self.shape), np.uint8)
        numbers = np.ascontiguousarray(frames.reshape(count, -1)[:, :8]).view(np.int64)[:, 0]
        np.testing.assert_array_equal(frames, frames_of(self.shape, index, numbers))
        for found, wanted in zip((actions, rewards, terminated, times), fields_of(index, numbers), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
        assert (np.diff(numbers, prepend=(self.numbers[index] or [-1])[-1]) > 0).all()
        self.numbers[index].extend(numbers.tolist())
        self.calls.append((index, count))

    def counts(self):
        return [len(numbers) for numbers in self.numbers]


def balanced(counters):
    """Assert that the counters add up, and return them."""
    found = sum(counters[name] for name in ("delivered", "lost", "waiting"))
    np.testing.assert_array_equal(counters["produced"], found)
    assert all((counters[name] >= 0).all() for name in ("produced", "delivered", "lost", "waiting"))
    return counters


def take_all(transport, taken, counts):
    """Take experiences until these numbers of them have been taken from the collectors."""
    while taken.counts() != counts:
        assert all(have <= wanted for have, wanted in zip(taken.counts(), counts)), (taken.counts(), counts)
        transport.take(taken, 0.1)


def collect(sender, shape, first, count, seed=0, pause=0.0):
    """Process that sends `count` experiences from number `first` on, with random pauses, and waits to be killed."""
    rng = np.random.default_rng([seed, sender.index, first])
    try:
        for number in range(first, first + count):
            if pause and rng.random() < 0.1:
                time.sleep(pause * rng.random())
            put(sender, number, shape)
    except TransportBroken:
        return
    signal.pause()


class Deadly:
    """An action that kills the process when it is written."""

    def __index__(self):
        os.kill(os.getpid(), signal.SIGKILL)


def die_writing(sender, shape, first):
    """Process that sends two experiences, and dies while writing a third."""
    put(sender, first, shape)
    put(sender, first + 1, shape)
    sender.put(np.full(shape, 77, np.uint8), Deadly(), 0.0, False, 0)


@contextlib.contextmanager
def names_made():
    """Yield a list of the files that this process creates in /dev/shm; assert that all are gone at the end."""
    made, register = [], resource_tracker.register

    def noted(name, kind):
        made.append(Path("/dev/shm", {"semaphore": "sem."}.get(kind, "") + name.lstrip("/")))
        assert made[-1].exists()
        register(name, kind)

    resource_tracker.register = noted
    try:
        yield made
    finally:
        resource_tracker.register = register
    assert not [path for path in made if path.exists()]


def start(target, *args, daemon=True):
    process = CONTEXT.Process(target=target, args=args, daemon=daemon)
    process.start()
    return process


def kill(process):
    process.kill()
    process.join()
    process.close()


def own(pipe, kind):
    """Process that owns a transport and a collector that fills it, sends the collector's pid, and waits."""
    shape = (300, 300)  # larger than the buffer of a pipe, which nobody empties once this process is killed
    transport = TRANSPORTS[kind](1, shape, capacity=5)
    process = start(collect, transport.sender(0), shape, 0, ENDLESS)
    while not transport.counters()["full"][0]:
        time.sleep(0.01)
    pipe.send(process.pid)
    pipe.recv()
