"""Text tables of results, and figures in words."""

from __future__ import annotations

import pytest

from correctness_tests.result_rows import row
from perf_tests.report.order import Span
from perf_tests.report.table import duration, factor, notes, percent, quantity, ratio_words, text_tables, warnings


def test_text_table_shows_time_spread_rate_and_share_in_the_order_of_timing():
    text = text_tables([row("torch", 3e-5), row("onnx", 1e-5)])
    heading, first, second, *_ = text.splitlines()[2:]
    assert heading == "pirl.forward batch 8, io host, hidden 32 (samples/s)"
    assert first.split() == ["full", "torch", "30", "us", "2", "%", "267k/s", "50", "%"]
    assert second.split() == ["full", "onnx", "10", "us", "2", "%", "800k/s", "50", "%"]


def test_text_table_breaks_headings_and_notes_between_entries_alone():
    axes = {f"an_axis_of_many_letters_{number}": number for number in range(4)}
    one = row(axes=axes, form="a_form_of_many_letters", backend="a-backend-of-many-letters",
              phases={f"phase{number}": 1.0 for number in range(12)})  # fmt: skip
    lines = text_tables([one]).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2:5] == [
        "pirl.forward an_axis_of_many_letters_0 0, an_axis_of_many_letters_1 1,",
        "    an_axis_of_many_letters_2 2, an_axis_of_many_letters_3 3 (samples/s)",
        "  a_form_of_many_letters a-backend-of-many-letters",
    ]
    assert lines[5].split() == ["10", "us", "2", "%", "800k/s", "50", "%"]
    notes = lines[6 : lines.index("")]
    assert all(line.startswith("        phase") and line.endswith(("%", "%,")) for line in notes), notes


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (quantity(2.5), "2.5"), (quantity(999.0), "999"), (quantity(1000.0), "1k"), (quantity(1234), "1.23k"),
        (quantity(1e6), "1M"), (quantity(2.34e9), "2.34G"),
        (duration(2), "2 s"), (duration(1.0), "1 s"), (duration(0.9994), "999 ms"), (duration(1e-3), "1 ms"),
        (duration(9.99e-4), "999 us"), (duration(2e-6), "2 us"),
        (percent(0.1), "10 %"), (percent(0.0994), "9.9 %"), (percent(0.00013), "0.013 %"), (percent(1.4), "140 %"),
        (factor(0.1), "0.10"), (factor(0.0994), "0.099"), (factor(9.99), "9.99"), (factor(10.0), "10"),
        (factor(1234.0), "1.23e+03"), (ratio_words(Span(2.0, 1.5, 3.0)), "2.00 (1.50-3.00)"),
        (ratio_words(Span(0.9, 0.8, 1.0)), "0.90 (0.80-1.00): no significant difference"),
    ],
)  # fmt: skip
def test_figures_have_three_digits_and_a_unit(shown, wanted):
    assert shown == wanted


def test_a_loop_tells_its_phases_longest_first_without_those_that_are_nothing():
    one = row(phases={"a": 1.0, "b": 94.5, "c": 4.0, "d": 0.5}, latency_p50_s=1e-3, latency_p99_s=2.0)
    assert notes(one) == "p50 1 ms, p99 2 s; b 94 %, c 4 %, a 1 %"
    assert notes(row(policy_lag_steps=2.0)) == "policy lag 2 steps"
    assert notes(row()) == ""
    assert notes(row(limit_share=1.03)) == "above the measured peak"
    assert notes(row(limit_share=1.03, bound="bytes")) == ""


def test_uncommitted_changes_and_rows_above_the_peak_are_warnings():
    limits = {"float32_flops": 1e11}
    assert warnings({"git": "abc", "limits": limits}, [row()]) == []
    found = warnings({"git": "abc+dirty", "limits": limits}, [row(limit_share=1.03)])
    assert [words.partition(":")[0] for words in found] == [
        "The working tree had uncommitted changes",
        "Above the machine's measured peak",
    ]
