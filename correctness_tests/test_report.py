"""The README's figures are what the generator makes of the kept results."""

from __future__ import annotations

import json

import pytest

from perf_tests.report.readme import END, README, RESULTS, START, agents_table, forward_table, insert, reduce, section
from perf_tests.report.table import duration, quantity, share, text_tables
from perf_tests.suite.cases import variants


def test_readme_shows_the_kept_results():
    text = README.read_text()
    assert insert(text, START, END, section(json.loads(RESULTS.read_text()))) == text
    assert text.count(START) == text.count(END) == 1


def test_kept_results_are_of_benchmarks_that_exist():
    rows = json.loads(RESULTS.read_text())["rows"]
    found = {(v.case.workload, v.case.op, v.form, v.backend, tuple(v.axes.items())) for v in variants().values()}
    assert rows
    for row in rows:
        assert (row["workload"], row["op"], row["form"], row["backend"], tuple(row["axes"].items())) in found
        assert row["seconds_per_call"] > 0


def test_a_readme_without_markers_is_refused():
    with pytest.raises(ValueError, match="wanted the markers"):
        insert("# nothing", START, END, "")


def row(backend, seconds, batch=8, **changed):
    """Make one row of a result."""
    made = {
        "workload": "pirl", "op": "forward", "form": "full", "backend": backend, "unit": "samples",
        "axes": {"batch": batch, "io": "host", "hidden": 32}, "seconds_per_call": seconds,
        "items_per_second": batch / seconds, "limit_share": 0.5,
    }  # fmt: skip
    return made | changed


def test_the_fastest_backend_is_bold_and_named():
    table = forward_table([row("torch", 3e-5), row("onnx", 1e-5), row("torch", 1e-4, 64), row("onnx", 2e-4, 64)])
    assert table[2] == "| 8 | 30 us | **10 us** | onnx |"
    assert table[3] == "| 64 | **100 us** | 200 us | torch |"


def hunt(op, form, backend, seconds, **axes):
    """Make one row of a result with five agents."""
    return row(backend, seconds, workload="treasurehunt", op=op, form=form, axes={"agents": 5, **axes})


def test_what_jax_gains_is_the_best_of_torch_over_the_best_of_jax():
    rows = [
        hunt("train_step", "full", "torch", 3e-2), hunt("train_step", "naive", "torch", 4e-2),
        hunt("train_step", "full", "jax", 2e-2), hunt("train_step", "one_by_one", "jax", 1e-2),
        hunt("train_step", "full", "numpy", 1e-9), hunt("act", "full", "torch", 1e-9, agents=1),
    ]  # fmt: skip
    *_, line = agents_table(rows)
    assert line == "| `train_step` | 40 ms | 30 ms |  | 10 ms | 20 ms |  | 3.00 |"


def test_where_jax_is_not_faster_the_table_says_so():
    rows = [hunt("stack", "full", "numpy", 2e-6, worlds=16), hunt("stack", "full", "jax", 8e-6, worlds=16)]
    assert agents_table(rows)[-1] == "| `stack`, 16 worlds |  | 2 us |  |  | 8 us |  | 0.25: JAX is not faster |"


def test_text_table_shows_time_rate_and_share():
    text = text_tables([row("torch", 3e-5), row("onnx", 1e-5)])
    assert text.index("onnx") < text.index("torch")
    assert "10 us" in text
    assert "800k samples/s" in text
    assert "50 %" in text


def test_only_what_is_shown_is_kept():
    kept = row("numpy", 1e-5)
    extra = {**kept, "counters": {}, "id": "x"}
    result = {
        "machine_info": {"rlgauge": {"git": "x"}},
        "datetime": "2020-01-02T00:00:00",
        "benchmarks": [{"extra_info": extra, "stats": {"rounds": 3, "iqr": 1.0, "median": 4.0}}],
    }
    assert reduce(result) == {
        "date": "2020-01-02",
        "machine": {"git": "x"},
        "rows": [{**kept, "rounds": 3, "spread": 0.25}],
    }


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (quantity(1234), "1.23k"),
        (quantity(12.3e6), "12.3M"),
        (quantity(2.5), "2.5"),
        (duration(2e-6), "2 us"),
        (duration(0.0123), "12.3 ms"),
        (duration(2), "2 s"),
        (share(0), "-"),
        (share(0.123), "12 %"),
    ],
)
def test_figures_have_three_digits_and_a_unit(shown, wanted):
    assert shown == wanted
