"""Text tables of results, and formatted numbers."""

import pytest

from perf_tests.report.order import Span
from perf_tests.report.table import duration, factor, notes, percent, quantity, ratio_words, text_tables

from .made_up import ours


def row(backend="torch", seconds=1e-5, **changed):
    """Return a row of a benchmark with eight items per call."""
    given = {"axes": {"batch": 8, "io": "host", "hidden": 32}, "spread": 0.02, "items_per_second": 8 / seconds}
    return ours(backend=backend, seconds=seconds, **given | {"limit_share": 0.5} | changed)["extra_info"]


def test_the_text_table_shows_time_spread_rate_and_share():
    text = text_tables([row("torch", 3e-5), row("onnx", 1e-5)])
    heading, first, second, *_ = text.splitlines()[2:]
    assert heading == "pirl.forward batch 8, io host, hidden 32 (samples/s)"
    assert first.split() == ["full", "torch", "30", "µs", "2%", "267k/s", "50%"]
    assert second.split() == ["full", "onnx", "10", "µs", "2%", "800k/s", "50%"]


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (quantity(2.5), "2.5"), (quantity(1234), "1.23k"), (quantity(2.34e9), "2.34G"), (quantity(7.74e14), "774T"),
        (quantity(999.4), "999"), (quantity(999.6), "1k"), (quantity(999_600), "1M"),
        (duration(2), "2 s"), (duration(0.9994), "999 ms"), (duration(0.9996), "1 s"), (duration(2e-6), "2 µs"),
        (duration(0.9996e-3), "1 ms"),
        (percent(0.0994), "9.9%"), (percent(1.4), "140%"),
        (factor(0.1), "0.10"), (factor(9.99), "9.99"), (factor(10.0), "10"), (factor(1234.5), "1.23k"),
        (ratio_words(Span(2.0, 1.5, 3.0)), "2.00 (1.50-3.00)"),
        (ratio_words(Span(0.9, 0.8, 1.0)), "0.90 (0.80-1.00): no significant difference"),
    ],
)  # fmt: skip
def test_figures_have_three_digits_and_a_unit(shown, wanted):
    assert shown == wanted


def test_notes_show_latency_and_phases_longest_first():
    one = row(phases={"a": 1.0, "b": 94.5, "c": 4.0, "d": 0.5}, latency_p50_s=1e-3, latency_p99_s=2.0)
    assert notes(one) == "p50 1 ms, p99 2 s; b 94%, c 4%, a 1%"
    assert notes(row(policy_lag_steps=2.0)) == "policy lag 2 steps"
    assert notes(row()) == ""
    assert notes(row(limit_share=1.03)) == "above the measured peak"
    assert notes(row(limit_share=1.03, bound="bytes")) == ""
