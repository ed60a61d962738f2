"""The limits of a machine, and the share of them that a benchmark reaches."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from perf_tests.rows import row
from perf_tests.suite import limits
from rl_impls.pirl import problem as pirl
from rl_impls.snake import problem as snake
from rl_impls.treasurehunt import problem as treasurehunt

LIMITS = {
    "threads": 1.0, "float32_flops": 1e9, "bfloat16_flops": 2e9, "copy_bytes": 1e8, "cuda_float32_flops": 1e11,
    "cuda_copy_bytes": 1e10,
}  # fmt: skip


@pytest.mark.slow
def test_limits_of_this_machine_are_plausible():
    found = limits.here(1)
    assert found["threads"] == 1
    assert 1e8 < found["float32_flops"] <= found["bfloat16_flops"] < 1e13
    assert 1e8 < found["copy_bytes"] < 1e12


@pytest.mark.usefixtures("torch")
def test_matrix_products_state_their_flops():
    size = limits.SIZES[-1]
    found = list(limits.products(size))
    assert [figure for figure, *_ in found].count("bfloat16_flops") == 1
    assert len(found) >= 4  # torch twice, JAX, NumPy, and oneDNN if torch has it
    wanted = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    wanted = wanted @ wanted
    for figure, flops, call in found:
        out = call()
        assert str(out.dtype).endswith(figure.removesuffix("_flops"))
        np.testing.assert_allclose(np.asarray(out.tolist()), wanted, atol=2 if figure == "bfloat16_flops" else 1e-3)
        assert flops == size * size * (size + size)  # products and additions of each element


def test_copies_go_through_more_memory_than_the_caches_hold():
    for figure, moved, call in limits.copies():
        copies = [np.asarray(call()) for _ in range(limits.PIECES)]
        size = copies[0].nbytes
        assert (figure, moved) == ("copy_bytes", 2 * size)  # read and written
        assert len({copy.ctypes.data for copy in copies}) * size >= 1 << 27


@pytest.mark.parametrize(
    ("flops", "moved", "precision", "expected"),
    [
        (4e8, 0.0, "float32", (0.2, "flops")),
        (4e8, 0.0, "bfloat16", (0.1, "flops")),
        (4e8, 1e8, "float32", (0.5, "bytes")),
        (4e9, 1e8, "float32", (2.0, "flops")),
        (0.0, 0.0, "float32", (None, None)),
        (4e8, 0.0, "int8", (None, None)),  # a limit that was not measured
    ],
)
def test_share_is_of_the_limit_that_binds(flops, moved, precision, expected):
    assert limits.share(flops, moved, precision, 2.0, LIMITS) == expected


def row_of(name, problem, precision="float32", seconds=1.0, calls=1, **figures):
    """Return the row of a benchmark, ``test_op[form-backend]``, with three samples and their median ``seconds``."""
    op, form, backend = re.match(r"test_(\w+)\[(\w+)-([\w-]+)\]", name).groups()
    info = {**problem.cost, "op": op, "precision": precision, "figures": figures}
    stats = SimpleNamespace(stats=SimpleNamespace(data=[0.9 * seconds, seconds, 1.2 * seconds]), iterations=calls)
    item = SimpleNamespace(
        name=name, originalname=f"test_{op}", path=Path(f"perf_tests/test_{problem.workload}.py"),
        callspec=SimpleNamespace(params={"form": form, "backend": backend}),
    )  # fmt: skip
    return row(item, SimpleNamespace(extra_info=info, stats=stats), LIMITS, threads=1)


def test_later_and_higher_limits_lower_the_shares():
    problem = treasurehunt.train_step(0, num_agents=1)
    found = row_of("test_train_step[full-torch]", problem) | problem.cost
    sample = snake.sample(0, batch_size=32)
    moved = row_of("test_sample[full-torch]", sample) | sample.cost
    result = {"rlgauge": {"limits": LIMITS}, "benchmarks": [{"extra_info": found}, {"extra_info": moved}]}
    before, unchanged = found["limit_share"], moved["limit_share"]
    limits.raise_limits(result, {**LIMITS, "float32_flops": 4e9, "copy_bytes": 1e7})
    assert result["rlgauge"]["limits"] == {**LIMITS, "float32_flops": 4e9}
    assert (found["limit_share"], found["bound"]) == (pytest.approx(before / 4), "flops")
    assert (moved["limit_share"], moved["bound"]) == (unchanged, "bytes"), "the lower limit does not count"


def test_share_depends_on_precision_and_device():
    problem = treasurehunt.train_step(0, num_agents=1)
    full, half, cuda = (
        row_of(f"test_train_step[full-{backend}]", problem, precision)
        for backend, precision in (("torch", "float32"), ("torch", "bfloat16"), ("torch-cuda", "float32"))
    )
    assert half["limit_share"] == full["limit_share"] / 2
    assert cuda["limit_share"] == pytest.approx(full["limit_share"] / 100)
    assert row_of("test_train_step[full-neuron]", problem)["limit_share"] is None
    backends, sample = ("torch", "torch-cuda"), snake.sample(0, batch_size=32)
    on_cpu, on_gpu = (row_of(f"test_sample[full-{backend}]", sample) for backend in backends)
    assert (on_gpu["limit_share"], on_gpu["bound"]) == (pytest.approx(on_cpu["limit_share"] / 100), "bytes")


def test_rate_and_share_are_of_one_call():
    found = row_of("test_forward[full-numpy]", pirl.forward(0, batch_size=32), seconds=1e-3, calls=10)
    assert (found["id"], found["calls"]) == ("pirl.forward[full-numpy]", 10)
    assert found["items_per_second"] == pytest.approx(32_000)
    assert (found["limit_share"], found["bound"]) == (pytest.approx(32 * 2 * 3360 / 1e-3 / 1e9), "flops")
    found = row_of("test_sample[full-numpy]", snake.sample(0, batch_size=32), seconds=1e-3)
    assert (found["limit_share"], found["bound"]) == (pytest.approx(32 * 4 * 400 / 1e-3 / 1e8), "bytes")


def test_phases_of_a_row_are_seconds_per_call():
    found = row_of("test_act[full-numpy]", pirl.forward(0, batch_size=1), calls=10, phases={"a": 5.0}, lag=2.0)
    assert (found["phases"], found["lag"]) == ({"a": 0.5}, 2.0)


@pytest.mark.parametrize(
    ("share", "bound", "words"),
    [
        (None, None, "-"), (0.0123, "flops", "1.2%"), (0.1, "bytes", "10%"), (1.0, "bytes", "100%"),
        (1.5, "bytes", "in cache"), (1.5, "flops", "150%"),
    ],
)  # fmt: skip
def test_share_in_words(share, bound, words):
    assert limits.share_words(share, bound) == words


def test_row_above_the_measured_peak_is_a_warning():
    rows = [
        {"id": "too fast", "limit_share": 1.01, "bound": "flops"},
        {"id": "at the peak", "limit_share": 1.0, "bound": "flops"},
        {"id": "in cache", "limit_share": 1.2, "bound": "bytes"},
        {"id": "free", "limit_share": None, "bound": None},
    ]
    (line,) = limits.above_peak_warnings(rows, LIMITS)
    assert line.startswith("Above the machine's measured peak: too fast (101%). ")
    assert limits.above_peak_warnings(rows[1:], LIMITS) == []
