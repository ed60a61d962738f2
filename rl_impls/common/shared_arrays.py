"""Arrays in memory that several processes have, written and read in place."""

from __future__ import annotations

import math
import mmap
import os
import weakref
from itertools import accumulate
from multiprocessing.reduction import DupFd

import numpy as np

ALIGNED = 64  # bytes


class SharedArrays:
    """Arrays by name, all 0 at first; a process that it is handed to when it starts has the same ones.

    The memory has no name by which it could be left behind: it is gone with the last process that has it, however that
    ends.

    Args:
        layout: shape and dtype of each array, by name.
        descriptor: of the memory, where there is one already.
    """

    def __init__(self, layout, descriptor=None):
        self.layout = layout
        starts = starts_of(layout)
        if descriptor is None:
            descriptor = os.memfd_create("rl_impls", os.MFD_CLOEXEC)
            weakref.finalize(self, os.close, descriptor)
            os.ftruncate(descriptor, max(starts[-1], 1))
        self.descriptor = descriptor
        memory = mmap.mmap(descriptor, max(starts[-1], 1))
        self.arrays = {
            name: np.frombuffer(memory, dtype, math.prod(shape), start).reshape(shape)
            for (name, (shape, dtype)), start in zip(layout.items(), starts)
        }

    def __reduce__(self):
        return attached, (self.layout, DupFd(self.descriptor))

    def __getitem__(self, name):
        """Return an array.

        Args:
            name: of it.
        """
        return self.arrays[name]


def starts_of(layout):
    """Return the bytes at which arrays start in shared memory, and how many all of them take.

    Args:
        layout: shape and dtype of each array, by name.
    """
    sizes = [math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in layout.values()]
    return [0, *accumulate(-(-size // ALIGNED) * ALIGNED for size in sizes)]


def attached(layout, handle):
    """Return the arrays of another process.

    Args:
        layout: shape and dtype of each array, by name.
        handle: of the memory's descriptor.
    """
    descriptor = handle.detach()
    arrays = SharedArrays(layout, descriptor)
    os.close(descriptor)  # the memory stays mapped
    return arrays
