"""Arrays that are put on a JAX device are copies."""

import numpy as np

from rl_impls import backends


def aligned(size):
    """Return ones f32[size], aligned so that JAX would share rather than copy their memory."""
    memory = np.zeros(4 * size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    ones = memory[start : start + 4 * size].view(np.float32)
    ones[:] = 1
    return ones


def test_arrays_on_the_device_are_copies():
    import jax

    from rl_impls.common.jax_learner import to_device

    compiler = backends.get("jax").new_compiler()
    sources = {"large": aligned(1 << 21), "number": np.int32(3)}
    kept = to_device(sources, compiler)
    again = to_device(kept, compiler)
    sources["large"][:] = 0
    assert kept["large"].min() == again["large"].min() == 1
    jax.tree.map(lambda array: array.delete(), kept)
    assert (again["large"].dtype, again["large"].min(), int(again["number"])) == (np.float32, 1, 3)
