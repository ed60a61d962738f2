"""What is known of one benchmark: where a sample begins to be disturbed, and which figures samples make."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from perf_tests import test_perf as entry
from perf_tests.report.order import SCATTER
from perf_tests.timed import Timed, part


def sample(seconds=0.125, calls=1, waited=0.0, stolen=0.0, others=0.0):
    return {"seconds": seconds, "calls": calls, "waited": waited, "stolen": stolen, "others": others}


def timed(*samples, calls=3):
    return Timed(SimpleNamespace(), calls, dict(enumerate(samples)))


def test_a_reading_is_a_part_of_all_calls_of_its_sample():
    assert part({"seconds": 0.25, "calls": 8, "waited": 0.5, "stolen": 1.0}, "waited") == 0.25
    assert part({"seconds": 0.25, "calls": 8, "waited": 0.5, "stolen": 1.0}, "stolen") == 0.5


@pytest.mark.parametrize(
    ("reading", "clean"),
    [
        ({"others": 0.4}, True),
        ({"others": 0.41}, False),
        ({"stolen": 0.1}, True),
        ({"stolen": 0.11}, False),
        ({"waited": 0.1}, True),
        ({"waited": 0.11}, False),
    ],
)
def test_a_sample_is_disturbed_beyond_a_tenth_of_its_time_or_four_tenths_of_a_core(reading, clean):
    one = timed(sample(1.0), sample(1.0), sample(1.0, **reading))
    assert list(one.clean()) == [0, 1, 2][: 2 + clean]


@pytest.mark.parametrize(("waited", "clean"), [(0.6, True), (0.61, False)])
def test_twice_what_a_benchmark_usually_waits_is_no_disturbance(waited, clean):
    one = timed(*[sample(1.0, waited=0.25)] * 2, sample(1.0, waited=waited))
    assert (2 in one.clean()) is clean


def test_all_samples_count_where_fewer_than_half_are_undisturbed():
    loud = sample(others=1.0)
    half, fewer = timed(sample(), sample(), loud, loud), timed(sample(), loud, loud)
    assert (half.disturbed(), list(half.counted())) == (0.0, [0, 1])
    assert (fewer.disturbed(), list(fewer.counted())) == (pytest.approx(2 / 3), [0, 1, 2])


def test_of_what_was_never_timed_nothing_is_disturbed():
    assert timed().clean() == {}
    assert timed().disturbed() == 0.0


@pytest.mark.parametrize(("clean", "wanted", "wanting"), [(3, 5, False), (2, 5, True), (5, 8, False), (4, 8, True)])
def test_six_tenths_of_the_samples_are_to_be_undisturbed(clean, wanted, wanting):
    assert timed(*[sample()] * clean, *[sample(others=1.0)] * 9).wanting(wanted) is wanting


@pytest.mark.parametrize(("seconds", "long"), [(0.05, True), (0.0499, False)])
def test_a_benchmark_is_long_where_its_fastest_call_takes_a_twentieth_of_a_second(seconds, long):
    assert timed(sample(9.0), sample(seconds), sample(1.0)).long() is long


def test_passes_end_with_the_last_that_was_taken():
    one = timed()
    one.samples = {2: sample(0.5), 0: sample(0.25)}
    assert one.passes() == [0.25, None, 0.5]


def test_figures_are_the_median_and_the_quartiles_of_what_counts():
    found = timed(*(sample(seconds) for seconds in (0.5, 0.125, 0.25, 1.0)), sample(9.0, others=1.0)).figures()
    assert found == {
        "calls": 3,
        "seconds_per_call": 0.375,
        "low": 0.125 * (1 - SCATTER),
        "high": 1.0 * (1 + SCATTER),
        "spread": pytest.approx((0.625 - 0.21875) / 0.375),
        "passes": [0.5, 0.125, 0.25, 1.0, None],
        "samples": 4,
        "disturbed": 0.0,
    }


def test_one_sample_is_its_own_interval_and_has_no_spread():
    found = timed(sample(0.5)).figures()
    assert (found["seconds_per_call"], found["spread"], found["samples"]) == (0.5, 0.0, 1)
    assert (found["low"], found["high"]) == (0.5 * (1 - SCATTER), 0.5 * (1 + SCATTER))


def test_a_saved_run_has_the_samples_that_count_and_no_disturbed_one(monkeypatch):
    shown = []
    monkeypatch.setattr(entry, "report", lambda benchmark, seconds, calls: shown.append((seconds, calls)))
    monkeypatch.setattr(entry, "row", lambda timed, limits, threads: {"threads": threads})
    variant = SimpleNamespace(id="it", case=SimpleNamespace(name="pirl.forward"))
    one = timed(sample(0.5), sample(9.0, others=2.0), sample(0.25), calls=4)
    benchmark = SimpleNamespace(extra_info={}, group=None)
    entry.test_perf(benchmark, variant, SimpleNamespace(timed={"it": one}, threads=2), {}, pytest.fail)
    assert shown == [([2.0, 1.0], 4)]
    assert (benchmark.group, benchmark.extra_info) == ("pirl.forward", {"threads": 2})
