"""Arrays in shared memory are aligned and apart, and freed afterwards; ``test_workers.py`` hands them to processes."""

import gc
import os
from pathlib import Path

import numpy as np

from rl_impls.common.shared_arrays import SharedArrays

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


def test_memory_and_descriptor_are_freed_with_the_arrays():
    gc.collect()
    before, files = count_open(), named()
    shared = SharedArrays(LAYOUT)
    array = shared["int64"]
    assert count_open() == (before[0] + 2, before[1] + 1)  # the mapping has a descriptor of its own
    assert named() == files
    del shared
    assert count_open() == (before[0] + 1, before[1] + 1)
    array[:] = 7
    assert (array == 7).all()
    del array
    assert count_open() == before
