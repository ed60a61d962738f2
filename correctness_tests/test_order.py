"""What samples support: intervals of ratios, and ranks that are no finer."""

from __future__ import annotations

import math

import pytest

from correctness_tests.result_rows import hunt, loop, malloc, row
from perf_tests.report.order import (
    SCATTER,
    Span,
    fastest,
    for_a_user,
    leaders,
    per_item,
    ranks,
    with_default_malloc,
)
from perf_tests.report.table import grouped, ranked


def test_rows_are_compared_pass_by_pass_where_a_run_has_passes():
    slow, fast = Span(3, 1, 5, (1.1, 3.3, 5.5, 3.3)), Span(2.5, 0.9, 4.5, (1.0, 3.0, 5.0, None))
    assert (slow / fast).middle == pytest.approx(1.1)
    assert (slow / fast).low == pytest.approx(1.1 * (1 - SCATTER))
    assert (slow / fast).high == pytest.approx(1.1 * (1 + SCATTER))
    assert fast.below(slow)
    assert ranks([slow, fast]) == [(2, 2), (1, 1)]
    crossed = Span(2.5, 0.9, 4.5, (1.0, 3.0, 6.7, 3.0))
    assert not crossed.below(slow)
    assert ranks([slow, crossed]) == [(1, 2), (1, 2)]


def test_the_interval_of_a_ratio_has_the_standard_error_of_the_passes():
    one, other = Span(2, 1, 3, (2.0, 2.0 * math.e, 2.0 * math.e, 2.0)), Span(1, 1, 1, (1.0, 1.0, 1.0, 1.0))
    found = one / other
    assert found.middle == pytest.approx(2.0 * math.exp(0.5))
    error = math.sqrt(1 / 3) / 2
    assert found.high == pytest.approx(found.middle * math.exp(error) * (1 + SCATTER))
    assert found.low == pytest.approx(min(2.0, found.middle * math.exp(-error)) * (1 - SCATTER))


def test_no_order_is_printed_that_the_fastest_passes_contradict():
    one, other = (1.0, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1), (0.9, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2)
    assert (Span(1, 1, 1, one[1:]) / Span(1, 1, 1, other[1:])).high < 1
    found = Span(1, 1, 1, one) / Span(1, 1, 1, other)
    assert found.middle < 1
    assert found.high == pytest.approx(math.sqrt(1.0 * 1.1) / math.sqrt(0.9 * 1.2) * (1 + SCATTER))
    assert found.undecided


def test_a_difference_of_two_processes_is_no_order():
    near, far = ((1 + part * SCATTER,) * 3 for part in (0.9, 1.1))
    one = Span(1, 0.9, 1.1, (1.0, 1.0, 1.0))
    assert not one.below(Span(near[0], 0.9, 1.1, near))
    assert (one / Span(near[0], 0.9, 1.1, near)).undecided
    assert one.below(Span(far[0], 0.9, 1.1, far))


def test_too_few_common_passes_are_compared_by_their_intervals():
    one, other = Span(1, 0.5, 1.5, (1.0, None, 1.0)), Span(2, 1.4, 2.5, (2.0, 2.0, None))
    assert not one.below(other)
    assert one.below(Span(2, 1.6, 2.5, (2.0, 2.0, None)))


def test_a_pass_goes_by_the_item_as_the_row_does():
    found = per_item(row(count=8, seconds=1e-5, passes=[8e-6, None, 1.6e-5]))
    assert found.passes == (pytest.approx(1e-6), None, pytest.approx(2e-6))


def test_rows_whose_intervals_overlap_share_ranks():
    first, second, third, last = (row(name, s) for name, s in (("a", 1e-5), ("b", 2e-5), ("c", 2.05e-5), ("d", 4e-5)))
    group = grouped([last, third, first, second])["pirl.forward batch 8, io host, hidden 32"]
    assert [one["backend"] for one in group] == ["a", "b", "c", "d"]
    assert ranked(group) == ["1", "2-3", "2-3", "4"]


def test_a_wide_row_between_two_that_are_apart_leaves_these_in_order():
    figures = [Span(1, 0.9, 1.1), Span(1.5, 0.8, 2.5), Span(2, 1.9, 2.1)]
    assert ranks(figures) == [(1, 2), (1, 3), (2, 3)]
    assert leaders(dict(zip("abc", figures))) == ["a", "b"]


def test_forms_with_different_numbers_of_items_are_ranked_by_the_item():
    short, long = loop("full", 1e-3), loop("compiled", 8e-3, count=1000)
    assert per_item(long).middle == pytest.approx(8e-6)
    assert per_item(long).high == pytest.approx(8.16e-6)
    ((first, second),) = grouped([short, long]).values()
    assert (first["form"], second["form"]) == ("compiled", "full")


def test_rows_of_different_precision_are_not_ranked_with_each_other():
    rows = [hunt("act", "full", "torch", 1e-5), hunt("act", "bfloat16", "torch", 1e-6, precision="bfloat16")]
    assert {name: ranked(group) for name, group in grouped(rows).items()} == {
        "treasurehunt.act agents 5, worlds 1": ["1"],
        "treasurehunt.act agents 5, worlds 1 in bfloat16": ["1"],
    }


def test_a_span_has_half_its_width_and_a_product_the_widest_interval():
    one = Span(2.0, 1.0, 5.0, (1.0, 2.0))
    assert one.half == 1.0
    assert one * Span(10.0, 3.0, 20.0) == Span(20.0, 3.0, 100.0)
    assert one / Span(10.0, 4.0, 20.0) == Span(0.2, 0.05, 1.25)


@pytest.mark.parametrize(
    ("low", "high", "undecided"),
    [(0.9, 1.1, True), (1.0, 1.1, True), (0.9, 1.0, True), (1.01, 1.1, False), (0.8, 0.99, False)],
)
def test_a_ratio_is_undecided_where_its_interval_has_1_in_it(low, high, undecided):
    assert Span(1.0, low, high).undecided is undecided


def test_what_may_be_as_small_is_not_below():
    assert not Span(1.0, 0.5, 1.0).below(Span(2.0, 1.0, 3.0))
    assert Span(1.0, 0.5, 0.99).below(Span(2.0, 1.0, 3.0))


@pytest.mark.parametrize(
    ("passes", "best"), [([5.0], 5.0), ([4.0, 1.0, None, 2.0], 1.0), ([9.0, 4.0, 1.0, *[20.0] * 5], 2.0)]
)
def test_the_best_passes_are_the_fastest_quarter(passes, best):
    assert Span(1.0, 1.0, 1.0, tuple(passes)).best == pytest.approx(best)


def test_three_common_passes_are_enough():
    one, other = Span(1.0, 0.1, 9.0, (3.0, 3.0, 3.0)), Span(1.0, 0.1, 9.0, (1.0, 1.0, 1.0))
    assert (one / other).middle == pytest.approx(3.0)
    two = Span(1.0, 0.1, 9.0, (1.0, 1.0, None))
    assert (one / two).middle == 1.0


def test_default_malloc_counts_where_it_makes_a_difference():
    slower, unsure = row(default_malloc=malloc(2.0, 1.5, 3.0)), row(default_malloc=malloc(2.0, 0.9, 3.0))
    assert with_default_malloc(slower) == Span(2.0, 1.5, 3.0)
    assert (
        with_default_malloc(unsure)
        is with_default_malloc(row(default_malloc=None))
        is with_default_malloc(row())
        is None
    )
    own = per_item(row(count=8, seconds=1e-5, width=0.1))
    assert (own.middle, own.low, own.high) == pytest.approx((1.25e-6, 1.125e-6, 1.375e-6))
    found = for_a_user(row(count=8, seconds=1e-5, width=0.1, default_malloc=malloc(2.0, 1.5, 3.0)))
    assert (found.middle, found.low, found.high) == pytest.approx((2.5e-6, 1.6875e-6, 4.125e-6))
    assert for_a_user(unsure) == per_item(unsure)
    assert fastest([slower, row(seconds=1.5e-5), row(seconds=1.6e-5)])["seconds_per_call"] == 1.5e-5


def test_stale_rows_are_last_and_have_no_rank():
    rows = [row("a", 1e-6, stale=True), row("b", 3e-5), row("c", 1e-5)]
    (group,) = grouped(rows).values()
    assert [one["backend"] for one in group] == ["c", "b", "a"]
    assert ranked(group) == ["1", "2", ""]
