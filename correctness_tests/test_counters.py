"""Exact counts of benchmarks: the counts of each backend, and their reproducibility."""

from types import SimpleNamespace

import pytest

from perf_tests.counters import count, gpu_peak, of_torch
from perf_tests.recorded import benchmarks, record


def counted(workload, test, name):
    (one,) = [one for one in benchmarks((workload,)) if (one.op, one.name) == (test, name)]
    recorded = record(one, 0)
    for _ in range(2):
        recorded.function(*recorded.args)
    return count(recorded.op), count(recorded.op)


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("full-numpy-32-host-32", set()),
        ("full-torch-32-host-32", {"aten_ops", "allocated_bytes"}),
        ("full-torch-compile-32-host-32", {"graphs"}),
        ("full-jax-32-host-32", {"graphs", "hlo_flops", "hlo_bytes"}),
        ("full-onnx-32-host-32", set()),
    ],
)
def test_counts_are_those_of_the_backend_and_repeat(name, names):
    first, second = counted("pirl", "forward", name)
    assert first.keys() == names
    assert first == second
    if "graphs" in names:
        assert first["graphs"] <= 1  # another test of this process may have compiled it
    if "hlo_flops" in names:
        assert first["hlo_flops"] >= 32 * 2 * 3360  # two per weight and row
        assert first["hlo_bytes"] >= 4 * 3360  # each weight is read


def test_programs_of_benchmarks_that_ran_before_do_not_count():
    first, second = (counted("pirl", "forward", f"full-jax-{batch}-host-32")[0] for batch in (1, 32))
    assert first["graphs"] <= 1  # as above
    assert second["graphs"] <= 1


def test_a_larger_batch_allocates_more():
    small, large = (counted("pirl", "forward", f"full-torch-{batch}-host-32")[0] for batch in (32, 2048))
    assert large["allocated_bytes"] > 32 * small["allocated_bytes"]
    assert large["aten_ops"] == small["aten_ops"]


def test_results_in_existing_tensors_are_not_allocated():
    torch = pytest.importorskip("torch")
    x, out = torch.ones(8), torch.empty(8)
    op = SimpleNamespace(call=lambda: torch.mul(torch.add(x, x, out=out), x), args=())
    assert of_torch(op) == {"aten_ops": 2, "allocated_bytes": 32}


def test_peak_on_a_gpu_is_that_of_one_call_without_what_was_allocated_before(monkeypatch):
    torch = pytest.importorskip("torch")
    held, peak = 100, 900  # the peak is that of earlier calls

    def reset():
        nonlocal peak
        peak = held

    def call():
        nonlocal peak
        peak = max(peak, held + 40)

    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: held)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: peak)
    assert gpu_peak(SimpleNamespace(call=call, args=())) == {"gpu_peak": 40}
