"""Weights in shared memory: a reader gets the newest version, never a mix of two, however fast they change."""

import contextlib
import multiprocessing
import sys

import numpy as np

from rl_impls.mario.weights import KEPT, SharedWeights

SHAPES = {"w_hidden": (300, 200), "b_hidden": (200,), "w_value": (7,), "b_value": ()}
READS, SEEN = 5_000, 20  # minimum numbers of reads and of versions seen in a process


def filled(version):
    return {name: np.full(shape, version, np.float32) for name, shape in SHAPES.items()}


def versions_of(params):
    return {float(value) for array in params.values() for value in (array.min(), array.max())}


def test_the_newest_version_is_read_and_the_first_is_0():
    weights = SharedWeights(filled(0))
    for version in (0, 1, 2, 3, 4, 9, 10):
        if version:
            weights.publish(version, filled(version))
        assert weights.newest == version
        for _ in range(2):
            read, params = weights.read()
            assert read == version
            assert versions_of(params) == {version}
            assert {name: (array.shape, array.dtype) for name, array in params.items()} == {
                name: (shape, np.float32) for name, shape in SHAPES.items()
            }


def test_weights_that_were_read_are_a_copy():
    weights = SharedWeights(filled(0))
    _, first = weights.read()
    first["b_hidden"][:] = 100
    assert versions_of(weights.read()[1]) == {0}
    _, kept = weights.read()
    for version in range(1, 2 * KEPT + 2):
        weights.publish(version, filled(version))
    assert versions_of(kept) == {0}


class Overtaken(SharedWeights):
    """After a reader has looked up version 0, publishes version 1 and a part of version 2."""

    @property
    def newest(self):
        version = super().newest
        if version == 0:
            self.publish(1, filled(1))
            with contextlib.suppress(KeyError):
                self.publish(2, {"w_hidden": filled(2)["w_hidden"]})
        return version


def test_a_version_that_is_overwritten_while_it_is_read_is_not_returned():
    read, params = Overtaken(filled(0)).read()
    assert (read, versions_of(params)) == (1, {1})


def keep_reading(weights, pipe, reads):
    """Read as fast as possible; send errors, the numbers of versions, and whether torch or JAX was imported."""
    wrong, seen, last = [], set(), -1
    pipe.send("begun")
    while reads > 0 or len(seen) < SEEN:
        version, params = weights.read()
        if versions_of(params) != {version % 2**20} or version < last:
            wrong.append((last, version, sorted(versions_of(params))))
        seen.add(version)
        last, reads = version, reads - 1
    pipe.send((wrong[:5], len(seen), last, "torch" in sys.modules or "jax" in sys.modules))
    pipe.close()


def test_a_reader_in_another_process_never_gets_a_torn_version_nor_an_older_one():
    weights = SharedWeights(filled(0))
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=keep_reading, args=(weights, theirs, READS), daemon=True)
    process.start()
    theirs.close()
    try:
        assert pipe.recv() == "begun"
        params, version = filled(0), 0
        while not pipe.poll():
            version += 1
            for array in params.values():
                array[...] = version % 2**20  # exact in float32
            weights.publish(version, params)
        wrong, seen, last, heavy = pipe.recv()
    finally:
        process.kill()
        process.join()
        process.close()
        pipe.close()
    assert wrong == []
    assert SEEN <= seen <= 1 + last
    assert last <= version
    assert not heavy
