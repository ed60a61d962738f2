"""NumPy arrays in memory shared between processes."""

import math
import mmap
import os
import weakref
from itertools import accumulate
from multiprocessing.reduction import DupFd

import numpy as np

ALIGNED = 64  # bytes


class SharedArrays:
    """Arrays by name, initially 0, shared with every process that receives this object when it starts.

    The memory is anonymous, so it is freed with the last process that maps it, however that process ends. `layout`
    gives the shape and dtype of each array by name; `descriptor` is that of existing memory.
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
        return self.arrays[name]


def starts_of(layout):
    """Return the byte offset of each array in shared memory, followed by the total size."""
    sizes = [math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in layout.values()]
    return [0, *accumulate(-(-size // ALIGNED) * ALIGNED for size in sizes)]


def attached(layout, handle):
    """Return the arrays of another process, from the handle of its descriptor."""
    descriptor = handle.detach()
    arrays = SharedArrays(layout, descriptor)
    os.close(descriptor)  # the memory stays mapped
    return arrays
