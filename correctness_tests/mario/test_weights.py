"""Weights in shared memory: a reader has all of one version, the newest one that is whole, however fast they change."""

from __future__ import annotations

import gc
import multiprocessing
import sys

import numpy as np
import pytest

from correctness_tests.test_shared_arrays import named, ours
from correctness_tests.waiting import limit
from rl_impls.mario.weights import KEPT, SharedWeights

limited = limit("a process")

SHAPES = {"w_hidden": (300, 200), "b_hidden": (200,), "w_value": (7,), "b_value": ()}
READS, SEEN = 5_000, 20  # how often a process reads, and how many versions it sees, or more


def filled(version):
    """Weights all of which are the number of their version."""
    return {name: np.full(shape, version, np.float32) for name, shape in SHAPES.items()}


def versions_of(params):
    """The versions of which weights are."""
    return {float(value) for array in params.values() for value in (array.min(), array.max())}


def test_the_first_version_is_there_from_the_start():
    params = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float32([7, 8])}
    weights = SharedWeights(params)
    assert weights.newest == 0
    version, found = weights.read()
    assert version == 0
    assert list(found) == ["w", "b"]
    for name, value in params.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == np.float32


def test_the_newest_version_is_read():
    weights = SharedWeights(filled(0))
    for version in (1, 2, 3, 4, 9, 10):
        weights.publish(version, filled(version))
        assert weights.newest == version
        for _ in range(2):
            read, params = weights.read()
            assert read == version
            assert versions_of(params) == {version}
            assert {name: array.shape for name, array in params.items()} == SHAPES


def test_what_was_read_stays_and_what_is_done_to_it_reaches_nobody():
    weights = SharedWeights(filled(0))
    _, first = weights.read()
    first["b_hidden"][:] = 100
    assert versions_of(weights.read()[1]) == {0}
    _, kept = weights.read()
    for version in range(1, 2 * KEPT + 2):
        weights.publish(version, filled(version))
    assert versions_of(kept) == {0}


def test_what_is_published_is_copied():
    weights, params = SharedWeights(filled(0)), filled(1)
    weights.publish(1, params)
    params["w_hidden"][:] = 100
    assert versions_of(weights.read()[1]) == {1}


class Between(dict):
    """Weights of which something is done each time that one array is asked for."""

    def __init__(self, params, do):
        super().__init__(params)
        self.do = do

    def __getitem__(self, name):
        self.do(name)
        return super().__getitem__(name)


def test_until_a_version_is_whole_the_one_before_is_read():
    weights, seen = SharedWeights(filled(0)), []
    for version in range(1, 6):
        weights.publish(version, Between(filled(version), lambda name: seen.append((weights.newest, *weights.read()))))
        for newest, read, params in seen:
            assert newest == read == version - 1
            assert versions_of(params) == {version - 1}
        assert len(seen) == len(SHAPES)
        assert weights.read()[0] == version
        seen.clear()


class Slow:
    """Shared arrays, of a reader that is overtaken: versions are published while it copies."""

    def __init__(self, weights, plan):
        self.weights, self.arrays, self.plan, self.asked = weights, weights.shared, plan, []

    def __getitem__(self, name):
        self.asked.append(name)
        for version in self.plan.pop(len(self.asked), ()):
            writer(self.weights, self.arrays).publish(version, filled(version))
        return self.arrays[name]


def writer(weights, arrays):
    """The same weights, of the process that publishes."""
    other = object.__new__(SharedWeights)
    other.names, other.shared = weights.names, arrays
    return other


ONCE = ["newest", *SHAPES, "begun"]  # what a reader asks for that is not overtaken


@pytest.mark.parametrize("place", [3, 4, 5])
def test_a_reader_that_is_overtaken_reads_again(place):
    weights = SharedWeights(filled(0))
    arrays = weights.shared
    weights.shared = slow = Slow(weights, {place: (1, 2)})  # the second one overwrites what it has begun to copy
    version, params = weights.read()
    assert version == 2
    assert versions_of(params) == {2}
    assert slow.asked == 2 * ONCE
    assert writer(weights, arrays).newest == 2


def test_a_reader_that_is_overtaken_again_and_again_reads_until_it_is_not():
    weights = SharedWeights(filled(0))
    weights.shared = slow = Slow(weights, {4: (1, 2), 4 + len(ONCE): (3, 4, 5), 3 + 2 * len(ONCE): (6, 7)})
    version, params = weights.read()
    assert version == 7
    assert versions_of(params) == {7}
    assert slow.asked == 4 * ONCE


def test_one_version_more_while_it_copies_does_not_disturb_a_reader():
    weights = SharedWeights(filled(0))
    weights.shared = slow = Slow(weights, {3: (1,)})
    version, params = weights.read()
    assert version == 0
    assert versions_of(params) == {0}
    assert slow.asked == ONCE


def test_a_reader_whose_place_is_only_begun_anew_reads_again():
    weights = SharedWeights(filled(0))
    weights.publish(1, filled(1))
    arrays = weights.shared

    class Halfway(Slow):
        """Before a reader copies its last array but one, the next version is whole, and another begun in its place."""

        def __getitem__(self, name):
            self.asked.append(name)
            if len(self.asked) == 4:
                other = writer(self.weights, self.arrays)
                other.publish(2, filled(2))
                with pytest.raises(KeyError):  # the writer comes no further
                    other.publish(3, {name: filled(3)[name] for name in list(SHAPES)[:3]})
            return self.arrays[name]

    weights.shared = half = Halfway(weights, {})
    version, params = weights.read()
    assert version == 2
    assert versions_of(params) == {2}
    assert half.asked == 2 * ONCE
    assert int(arrays["begun"][0]) == 3


def keep_reading(weights, pipe, reads):
    """Read as fast as it goes; tell what was wrong, how many versions were seen, and whether torch was needed."""
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


def test_a_reader_in_another_process_never_has_half_a_version_nor_goes_back():
    weights, files = SharedWeights(filled(0)), named()
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
                array[...] = version % 2**20  # which float32 holds exactly
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
    assert named() == files


def test_nothing_is_left_of_weights_that_are_gone():
    gc.collect()
    before, files = ours(), named()
    weights = SharedWeights(filled(0))
    weights.publish(1, filled(1))
    _, params = weights.read()
    assert ours() != before
    assert named() == files
    del weights
    gc.collect()
    assert ours() == before
    assert versions_of(params) == {1}


def test_weights_of_another_shape_are_refused():
    weights = SharedWeights(filled(0))
    with pytest.raises(ValueError, match="could not broadcast"):
        weights.publish(1, filled(1) | {"b_hidden": np.zeros(3, np.float32)})
    assert weights.newest == 0
    assert versions_of(weights.read()[1]) == {0}
