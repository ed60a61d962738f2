"""Detection of steps and drift in a history."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from rlgauge import history_table as shown
from rlgauge import steps
from rlgauge.chain import Point, Series, series
from rlgauge.steps import LEVEL, judged

from .entries import CASE, commit, entry, order, over, pairs, unchanged

COMMITS = 12


def conclude(levels, cases=None, **how):
    """Judge the history of commits with these log-ratios to the anchor."""
    (found,) = judged(series(over(levels, **how), order(len(levels))), cases)
    return found


def stepped(place, size=0.05):
    return [size * (k >= place) for k in range(COMMITS)]


@pytest.mark.parametrize("seed", range(3))
def test_noise_alone_has_no_step(seed):
    entries = [entry(k, 0, pairs(0.0, seed=100 * seed + k)) for k in range(1, COMMITS + 1)]
    (found,) = judged(series(entries, order(COMMITS)))
    assert found.steps == []
    assert found.verdict == "ok"


@pytest.mark.parametrize("size", [0.05, -0.05])
@pytest.mark.parametrize("place", [0, 6, COMMITS - 1])
def test_a_step_is_found_in_the_first_a_middle_and_the_last_commit(place, size):
    found = conclude(stepped(place, size), spread=0.015, cases=60)
    assert [step.commit for step in found.steps] == [commit(place + 1)]
    step = found.steps[0]
    assert step.low < size < step.high
    assert step.p <= LEVEL
    assert found.verdict == ("slower" if size > 0 else "faster")


def test_a_repaired_slowdown_is_two_steps_and_ok_by_the_end():
    found = conclude([0.08 * (4 <= k < 8) for k in range(COMMITS)])
    assert [(step.commit, step.log_ratio > 0) for step in found.steps] == [(commit(5), True), (commit(9), False)]
    assert found.verdict == "ok"


def test_a_drift_is_slower_by_the_end():
    found = conclude([math.log1p(0.01) * min(8, k) for k in range(COMMITS)], cases=60)
    assert found.verdict == "slower"
    assert found.end.low < math.log1p(0.01) * 8 < found.end.high + 0.01


def test_a_change_below_one_percent_is_no_step_however_significant():
    found = conclude(stepped(6, 0.005), n=100)
    assert found.steps == []
    assert found.verdict == "ok"


def test_unchanged_commits_add_no_evidence():
    measured = [entry(1, 0, pairs(0.0, seed=1)), entry(2, 0, pairs(0.06, n=2, spread=0.03, seed=2))]
    copies = [unchanged(k, 0, 2, measured[1].log_ratios) for k in range(3, 30)]
    (alone,) = judged(series(measured, order(2)))
    (copied,) = judged(series([*measured, *copies], order(30)))
    assert copied.steps == alone.steps
    assert copied.end.p == alone.end.p


def test_the_error_of_a_release_is_shared_by_the_commits_after_it():
    """More commits do not reduce it."""
    link = entry(1, 0, [0.03, 0.0, 0.06])
    after = [entry(k, 1, pairs(0.0, seed=k)) for k in range(2, 40)]
    (found,) = judged(series([link, *after], order(40)))
    assert found.end.high - found.end.low > 0.04
    assert found.verdict == "ok"


def test_p_values_are_adjusted_for_all_cases():
    entries = over(stepped(11, 0.035))
    others = [replace(e, case=f"benchmarks/test_toy.py::test_other[{n}]") for n in range(59) for e in over([0.0])]
    (alone,) = judged(series(entries, order(COMMITS)))
    together, *rest = judged(series([*entries, *others], order(COMMITS)))
    assert together.steps[0].p == pytest.approx(60 * alone.steps[0].p)
    assert together.end.p == pytest.approx(60 * alone.end.p)
    assert not any(found.steps for found in rest)


def test_a_history_is_shown_as_plain_data_and_as_a_table_that_marks_the_step():
    entries = [*over(stepped(6)), unchanged(13, 0, 12, pairs(0.05, seed=12))]
    (found,) = shown.drawn(entries, order(13))
    assert json.loads(json.dumps(found)) == found
    assert (found["case"], found["root"], found["verdict"]) == (CASE, commit(0), "slower")
    for point, measured in zip(found["points"], entries, strict=True):
        assert point["commit"] == measured.commit
        wanted = [math.exp(x) for x in (measured.middle, *measured.interval)]
        assert [point["ratio"], point["low"], point["high"]] == pytest.approx(wanted, abs=1e-4)
    (step,) = found["steps"]
    assert step["commit"] == commit(7)
    assert 1.03 < step["low"] < step["ratio"] < step["high"] < 1.07
    text = shown.markdown([found])
    lines = {line.split("|")[1].strip().strip("`"): line for line in text.splitlines() if line.startswith("| `")}
    assert [name for name, line in lines.items() if "**" in line] == [commit(7)[:12]]
    assert "unchanged" in lines[commit(13)[:12]]


@pytest.mark.parametrize(
    ("changed", "listed"), [({}, True), ({"steps": [], "verdict": "slower"}, True), ({"steps": []}, False)]
)
def test_the_commits_of_a_test_with_a_step_or_a_drift_are_listed(changed, listed):
    (repaired,) = shown.drawn(over([0.08 * (4 <= k < 8) for k in range(COMMITS)]), order(COMMITS))
    assert (repaired["verdict"], len(repaired["steps"])) == ("ok", 2)
    assert ("| commit | time |" in shown.markdown([repaired | changed])) is listed


def fit_of(values, variances, freedom):
    """Return a fit of the root and of commits 1, 2, ... with independent errors."""
    covariance = np.zeros((len(values), len(values)))
    covariance[1:, 1:] = np.diag(variances)
    points = [Point(commit(k), commit(0), value, value, value, 1, "timed") for k, value in enumerate(values[1:], 1)]
    return steps.Fit(points, np.array(values), covariance, freedom)


def test_p_is_one_sided_with_the_degrees_of_freedom_of_the_errors():
    fit = fit_of([0.0, 0.1], [0.01], freedom=3)
    assert fit.p_of(0.2, 0.1) == pytest.approx(0.0696630)
    assert fit.p_of(-0.2, 0.1) == pytest.approx(1 - 0.0696630)
    assert fit.p_of(0.0, 0.1) == 0.5
    assert fit.p_of(0.2, 0.0) == 1.0


def test_a_step_has_a_two_sided_p_adjusted_for_all_places():
    fit = fit_of([0.0, 0.0, 0.5, 0.7], [0.0004] * 3, freedom=9)
    (step,) = steps.significant_steps(fit, [2])
    error = math.sqrt(0.0004 / 2)  # the root is exact
    assert (step.commit, step.log_ratio) == (commit(2), pytest.approx(0.6))
    assert (step.low, step.high) == pytest.approx((0.6 - 1.96 * error, 0.6 + 1.96 * error))
    assert step.p == pytest.approx(2 * 3 * fit.p_of(0.6, error))
    (faster,) = steps.significant_steps(fit_of([0.0, 0.0, -0.5, -0.7], [0.0004] * 3, freedom=9), [2])
    assert (faster.log_ratio, faster.p) == pytest.approx((-0.6, step.p))


def test_the_p_at_the_end_is_that_of_a_change_beyond_one_percent():
    fit = fit_of([0.0, 0.03, 0.03], [0.0004] * 2, freedom=9)
    end = steps.change_at_end(Series(CASE, "1", commit(0), fit.points, 0.01, 9), fit, [])
    assert (end.commit, end.log_ratio) == (commit(2), pytest.approx(0.03))
    assert end.p == pytest.approx(0.0949750)  # p of t = (0.03 - log 1.01) / sqrt(0.0002)
