"""Two runs are said to agree where both order a pair the same way, and only of pairs that both decide."""

from __future__ import annotations

import json

import pytest

from perf_tests.report.agreement import agreement, main


def row(name, low, high, count=1):
    """Make a row of so many items a call."""
    seconds = (low + high) / 2
    return {
        "id": name, "workload": "toy", "op": "double", "axes": {}, "precision": "float32", "seconds_per_call": seconds,
        "low": low, "high": high, "items_per_second": count / seconds,
    }  # fmt: skip


FIRST = [row("a", 1, 2), row("b", 3, 4), row("c", 1.5, 2.5)]


def test_pairs_are_counted_where_both_runs_decide():
    second = [row("a", 5, 6), row("b", 3, 4), row("c", 1, 2)]
    assert agreement(FIRST, second) == {
        "pairs": 3,
        "undecided in the first": 1,
        "undecided in the second": 0,
        "decided in both": 2,
        "of these in the same order": 1,
        "medians in the same order": 1,
    }


def test_a_run_agrees_with_itself():
    found = agreement(FIRST, FIRST)
    assert found["decided in both"] == found["of these in the same order"] == 2
    assert found["medians in the same order"] == 3


def test_calls_of_more_items_are_compared_by_the_item():
    found = agreement([row("a", 1, 2), row("b", 30, 40, count=100)], [row("a", 1, 2), row("b", 3, 4)])
    assert (found["decided in both"], found["of these in the same order"]) == (1, 0)


def test_rows_of_one_run_alone_are_left_out():
    assert agreement(FIRST, FIRST[:2])["pairs"] == 1


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"benchmarks": []}', '{"benchmarks": [{"extra_info": {}}]}'])
def test_a_file_that_is_no_run_is_refused_in_a_line(tmp_path, text):
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(SystemExit, match=r"run\.json: "):
        main([str(path), str(path)])


def test_counts_are_printed(tmp_path, capsys):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"benchmarks": [{"extra_info": row} for row in FIRST]}))
    main([str(path), str(path)])
    assert "     2 of these in the same order\n" in capsys.readouterr().out


def test_each_runs_undecided_pairs_are_its_own_and_all_counts_are_printed(tmp_path, capsys):
    paths = []
    for name, rows in (("one", [row("a", 1, 2), row("b", 3, 4)]), ("other", [row("b", 3, 4), row("a", 1, 3.5)])):
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps({"benchmarks": [{"extra_info": each} for each in rows]}))
    main([str(path) for path in paths])
    assert capsys.readouterr().out.splitlines() == [
        "     1 pairs", "     0 undecided in the first", "     1 undecided in the second", "     0 decided in both",
        "     0 of these in the same order", "     1 medians in the same order",
    ]  # fmt: skip
