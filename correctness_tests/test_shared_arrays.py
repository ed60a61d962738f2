"""Arrays in shared memory: seen and written by several processes, and freed afterwards."""

import gc
import multiprocessing
import os
from pathlib import Path

import numpy as np

from correctness_tests.waiting import limit
from rl_impls.common.shared_arrays import SharedArrays

limited = limit("a process")

DTYPES = ("uint8", "int8", "bool", "int32", "int64", "float32", "float64")
LAYOUT = {dtype: ((3, 1 + k), np.dtype(dtype)) for k, dtype in enumerate(DTYPES)}


def count_open():
    """Return how many descriptors and mappings of shared arrays this process has."""
    mapped, links = Path("/proc/self/maps").read_text().count("memfd:rl_impls"), Path("/proc/self/fd").iterdir()
    return sum("memfd:rl_impls" in os.readlink(link) for link in links if link.is_symlink()), mapped


def named():
    """Return the files of /dev/shm that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.partition("/dev/shm/")[2] for line in lines if "/dev/shm/" in line}


def test_arrays_are_aligned_and_do_not_overlap():
    shared = SharedArrays(LAYOUT)
    for k, name in enumerate(LAYOUT):
        assert shared[name].ctypes.data % 64 == 0
        shared[name].view(np.uint8)[:] = 1 + k
    for k, name in enumerate(LAYOUT):
        assert (shared[name].view(np.uint8) == 1 + k).all()


def answer(shared, pipe):
    """Send the contents of all arrays, and write to them."""
    seen = {name: shared[name].tolist() for name in LAYOUT}
    for name in LAYOUT:
        shared[name][1] = 1
    pipe.send((seen, count_open()))
    pipe.recv()
    pipe.send({name: shared[name].tolist() for name in LAYOUT})
    pipe.close()


def test_a_spawned_process_sees_and_writes_the_same_arrays():
    shared, rng = SharedArrays(LAYOUT), np.random.default_rng(0)
    for name in LAYOUT:
        shared[name][:] = rng.integers(2, size=shared[name].shape)
    wanted = {name: shared[name].copy() for name in LAYOUT}
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=answer, args=(shared, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        seen, open_there = pipe.recv()
        assert open_there == (1, 1)  # the mapping has a descriptor of its own; the one that was handed over is closed
        for name, array in wanted.items():
            np.testing.assert_array_equal(seen[name], array)
            array[1] = 1
            np.testing.assert_array_equal(shared[name], array)
            shared[name][2] = array[2] = 1 - array[2]
        pipe.send(None)
        for name, array in pipe.recv().items():
            np.testing.assert_array_equal(array, wanted[name])
    finally:
        process.kill()
        process.join()
        process.close()
        pipe.close()


def test_memory_and_descriptor_are_freed_with_the_arrays():
    gc.collect()
    before, files = count_open(), named()
    shared = SharedArrays(LAYOUT)
    array = shared["int64"]
    assert count_open() == (before[0] + 2, before[1] + 1)  # the mapping has a descriptor of its own
    assert named() == files
    del shared
    gc.collect()
    assert count_open() == (before[0] + 1, before[1] + 1)
    array[:] = 7
    assert (array == 7).all()
    del array
    gc.collect()
    assert count_open() == before
