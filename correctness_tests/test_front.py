"""What is shown first of a workload: which rows a table holds, and in which column."""

from __future__ import annotations

import pytest

from perf_tests.suite.front import ByBackend, ByColumn, ByForm, Front, holds

ROW = {"op": "act", "form": "full", "backend": "torch", "axes": {"batch": 32}}


@pytest.mark.parametrize(
    ("pattern", "held"),
    [
        ({}, True),
        ({"op": "act"}, True),
        ({"op": "step"}, False),
        ({"form": ("naive", "full")}, True),
        ({"form": "naive"}, False),
        ({"backend": "torch", "batch": 32}, True),
        ({"backend": "jax", "batch": 32}, False),
        ({"backend": "torch", "batch": (1, 8)}, False),
        ({"io": "host"}, False),
        ({"batch": "32"}, False),
    ],
)
def test_a_row_is_held_where_each_part_is_one_that_is_wanted(pattern, held):
    assert holds(pattern, ROW) is held
    assert ByBackend(pattern).holds(ROW) is held
    assert ByForm(pattern, "head", "item").holds(ROW) is held


def test_a_row_is_in_the_first_column_that_wants_it_and_elsewhere_in_none():
    table = ByColumn({"op": "act"}, "head", {"first": {"form": "full"}, "second": {"backend": "torch"}})
    assert table.column(ROW) == "first"
    assert table.column(ROW | {"form": "naive"}) == "second"
    assert table.column(ROW | {"form": "naive", "backend": "jax"}) is None
    assert table.holds(ROW)
    assert not table.holds(ROW | {"form": "naive", "backend": "jax"})
    assert not table.holds(ROW | {"op": "step"})


def test_what_any_table_holds_is_in_front():
    front = Front("caption", [ByBackend({"op": "act"}), ByBackend({"op": "step"}, by="batch")])
    assert front.holds(ROW)
    assert front.holds(ROW | {"op": "step"})
    assert not front.holds(ROW | {"op": "learn"})
    assert not Front("caption", []).holds(ROW)
    assert [table.by for table in front.tables] == ["", "batch"]
