"""Steps and drift: found where they are, of the size they have, and nowhere else."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from rlgauge import history_table as shown
from rlgauge import steps
from rlgauge.chain import Point, Series, series
from rlgauge.steps import LEVEL, fitted, judged

from .entries import CASE, commit, entry, order, over, pairs, unchanged

COMMITS = 12


def conclude(levels, cases=None, **how):
    """Return what is concluded of commits of which each is slower than the anchor by a log-ratio."""
    (found,) = judged(series(over(levels, **how), order(len(levels))), cases)
    return found


@pytest.mark.parametrize(("cases", "verdict"), [(1, "slower"), (10_000, "ok")])
def test_the_word_for_a_case_is_of_a_p_that_counts_all_cases(cases, verdict):
    assert conclude([0.025] * 3, cases=cases).verdict == verdict


def stepped(place, size=0.05):
    """Return the levels of a history with one step."""
    return [size * (k >= place) for k in range(COMMITS)]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_where_nothing_changes(seed):
    entries = [entry(k, 0, pairs(0.0, seed=100 * seed + k)) for k in range(1, COMMITS + 1)]
    (found,) = judged(series(entries, order(COMMITS)))
    assert found.steps == []
    assert found.verdict == "ok"


@pytest.mark.parametrize("size", [0.05, -0.05])
@pytest.mark.parametrize("place", range(COMMITS))
def test_a_step_is_found_in_any_commit(place, size):
    found = conclude(stepped(place, size), spread=0.015, cases=60)
    assert [step.commit for step in found.steps] == [commit(place + 1)]
    step = found.steps[0]
    assert step.low < size < step.high
    assert step.p <= LEVEL
    assert found.verdict == ("slower" if size > 0 else "faster")


def test_two_steps_are_two():
    found = conclude([0.08 * (k >= 4) + 0.06 * (k >= 8) for k in range(COMMITS)])
    assert [step.commit for step in found.steps] == [commit(5), commit(9)]


def test_a_step_is_sure_once_what_stood_beside_it_by_chance_is_taken_out():
    fit = fitted(*series(over(stepped(6, 0.016)), order(COMMITS)))
    assert steps.tested(fit, [7]) == steps.tested(fit, [7, 8])
    assert [step.commit for step in steps.tested(fit, [7])] == [commit(7)]


def test_what_was_repaired_is_two_steps_and_no_slowdown_by_the_end():
    found = conclude([0.08 * (4 <= k < 8) for k in range(COMMITS)])
    assert [(step.commit, step.log_ratio > 0) for step in found.steps] == [(commit(5), True), (commit(9), False)]
    assert found.verdict == "ok"


def test_a_drift_is_slower_by_the_end():
    found = conclude([math.log1p(0.01) * min(8, k) for k in range(COMMITS)], cases=60)
    assert found.verdict == "slower"
    assert found.end.low < math.log1p(0.01) * 8 < found.end.high + 0.01


def test_a_change_of_half_a_per_cent_is_none_however_sure():
    found = conclude(stepped(6, 0.005), n=4000)
    assert found.steps == []
    assert found.verdict == "ok"


def test_a_p_is_adjusted_for_the_cases():
    (alone,), (many,) = (conclude(stepped(11, 0.035), cases=cases).steps for cases in (1, 60))
    assert many.p == pytest.approx(60 * alone.p)
    assert conclude(stepped(11, 0.025)).steps
    assert not conclude(stepped(11, 0.025), cases=2000).steps


def test_a_commit_that_is_like_another_says_nothing_new():
    measured = [entry(1, 0, pairs(0.0, seed=1)), entry(2, 0, pairs(0.06, n=2, spread=0.03, seed=2))]
    copies = [unchanged(k, 0, 2, measured[1].log_ratios) for k in range(3, 30)]
    (alone,) = judged(series(measured, order(2)))
    (copied,) = judged(series([*measured, *copies], order(30)))
    assert copied.steps == alone.steps
    assert copied.end.p == alone.end.p


def test_what_only_a_release_was_measured_with_moves_all_after_it_together():
    """The error of a link is shared: however many commits follow, they do not make it smaller."""
    link = entry(1, 0, [0.03, 0.0, 0.06])
    after = [entry(k, 1, pairs(0.0, seed=k)) for k in range(2, 40)]
    (found,) = judged(series([link, *after], order(40)))
    assert found.end.high - found.end.low > 0.04
    assert found.verdict == "ok"


def test_a_history_of_one_commit_and_of_unchanged_ones_is_concluded():
    (one,) = judged(series([entry(1, 0, pairs(0.1))], order(1)))
    assert one.verdict == "slower"
    (same,) = judged(series([unchanged(1, 0, 0)], order(1)))
    assert (same.verdict, same.steps, same.end.log_ratio) == ("ok", [], 0.0)


def test_cases_are_judged_together():
    entries = over(stepped(11, 0.035))
    others = [replace(e, case=f"benchmarks/test_toy.py::test_other[{n}]") for n in range(59) for e in over([0.0])]
    (alone,), (together, *rest) = (judged(series(some, order(COMMITS))) for some in (entries, [*entries, *others]))
    assert together.steps[0].p == pytest.approx(60 * alone.steps[0].p)
    assert together.end.p == pytest.approx(60 * alone.end.p)
    assert not any(found.steps for found in rest)


def test_what_is_drawn_is_plain_data():
    entries = over(stepped(6))
    (found,) = shown.drawn(entries, order(COMMITS))
    assert json.loads(json.dumps(found)) == found
    assert (found["case"], found["root"], found["verdict"]) == (CASE, commit(0), "slower")
    assert len(found["points"]) == COMMITS
    for point, measured in zip(found["points"], entries):
        assert point["commit"] == measured.commit
        wanted = [math.exp(x) for x in (measured.middle, *measured.interval)]
        assert [point["ratio"], point["low"], point["high"]] == pytest.approx(wanted, abs=1e-4)
    (step,) = found["steps"]
    assert step["commit"] == commit(7)
    assert 1.03 < step["low"] < step["ratio"] < step["high"] < 1.07


def test_the_table_marks_the_step():
    text = shown.markdown(shown.drawn([*over(stepped(6)), unchanged(13, 0, 12, pairs(0.05, seed=12))], order(13)))
    lines = {line.split("|")[1].strip().strip("`"): line for line in text.splitlines() if line.startswith("| `")}
    assert " slower " in lines[CASE]
    assert commit(7)[:12] in lines[CASE]
    assert [name for name, line in lines.items() if "**" in line] == [commit(7)[:12]]
    assert "unchanged" in lines[commit(13)[:12]]


def of_numbers(values, variances, freedom=5, shared=0.0):
    """Return numbers to be tested: of the root, then of commits 1, 2, ... whose errors share a part."""
    covariance = np.zeros((len(values), len(values)))
    covariance[1:, 1:] = np.diag(variances) + shared
    points = [Point(commit(k), commit(0), value, value, value, 1, "timed") for k, value in enumerate(values[1:], 1)]
    return steps.Fit(points, np.array(values), covariance, freedom)


def test_a_level_is_the_mean_weighed_by_how_exact_each_is_and_the_roots_where_it_is_in_it():
    fit = of_numbers([0.0, 0.1, 0.2, 0.5], [0.01, 0.02, 0.04], shared=0.01)
    assert fit.level(0, 3).tolist() == [1, 0, 0, 0]
    weights = fit.level(1, 3)
    assert weights.tolist() == pytest.approx([0, 0.6, 0.4, 0])
    change, error = fit.change(weights)
    assert change == pytest.approx(0.14)
    assert error == pytest.approx(math.sqrt(0.36 * 0.02 + 0.16 * 0.03 + 2 * 0.24 * 0.01))


def test_a_p_is_one_sided_of_as_many_numbers_as_errors_are_known_by():
    fit = of_numbers([0.0, 0.1], [0.01], freedom=3)
    assert fit.p_of(0.2, 0.1) == pytest.approx(0.0696630)
    assert fit.p_of(-0.2, 0.1) == pytest.approx(1 - 0.0696630)
    assert fit.p_of(0.0, 0.1) == 0.5
    assert fit.p_of(0.2, 0.0) == 1.0


def test_a_step_has_its_change_its_interval_and_a_p_for_all_places_on_both_sides():
    fit = of_numbers([0.0, 0.0, 0.5, 0.7], [0.0004] * 3, freedom=9)
    (step,) = steps.tested(fit, [2])
    error = math.sqrt(0.0004 / 2)  # the root is exact
    assert (step.commit, step.log_ratio) == (commit(2), pytest.approx(0.6))
    assert (step.low, step.high) == pytest.approx((0.6 - 1.96 * error, 0.6 + 1.96 * error))
    assert step.p == pytest.approx(2 * 3 * fit.p_of(0.6, error))
    (faster,) = steps.tested(of_numbers([0.0, 0.0, -0.5, -0.7], [0.0004] * 3, freedom=9), [2])
    assert (faster.log_ratio, faster.p) == pytest.approx((-0.6, step.p))


def test_the_end_is_after_the_last_step_and_its_p_is_of_a_change_beyond_one_per_cent():
    found = Series(CASE, "1", commit(0), of_numbers([0.0, 0.1, 0.5, 0.7], [1.0] * 3).points, 1.0, 9)
    fit = of_numbers([0.0, 0.1, 0.5, 0.7], [0.01] * 3, freedom=9)
    made = [steps.Step(commit(k), 0.1, 0.1, 0.1, 0.0) for k in (1, 2)]
    end, error = steps.at_the_end(found, fit, made), math.sqrt(0.01 / 2)
    assert (end.commit, end.log_ratio) == (commit(3), pytest.approx(0.6))
    assert (end.low, end.high) == pytest.approx((0.6 - 1.96 * error, 0.6 + 1.96 * error))
    assert end.p == pytest.approx(fit.p_of(0.6 - math.log1p(0.01), error))
    whole = steps.at_the_end(found, fit, [])
    assert whole.log_ratio == pytest.approx(1.3 / 3)
    none = steps.at_the_end(found, of_numbers([0.0], []), [])
    assert none == steps.Step(commit(3), 0.0, 0.0, 0.0, 1.0)


def test_steps_are_proposed_by_errors_not_by_sizes():
    for size, penalty, starts in ((0.16, (), [4]), (0.14, (), []), (0.14, (1.0,), [4])):  # 4 (size / 0.1)^2 over 9
        fit = of_numbers([0.0] * 4 + [size] * 4, [0.01] * 7)
        assert steps.proposed(fit, *penalty) == starts


def made_up(name, verdict, found=(), end=1.0, points=()):
    """Return a case as it is drawn, with an interval of a hundredth to each side."""

    def around(ratio):
        return {"ratio": ratio, "low": ratio - 0.01, "high": ratio + 0.02}

    return {
        "case": name, "root": "r" * 40, "verdict": verdict, "end": {**around(end), "p": 0.5},
        "steps": [{"commit": at * 40, "p": p, **around(ratio)} for at, ratio, p in found],
        "points": [{"commit": at * 40, "n": n, "state": state, **around(ratio)} for at, ratio, n, state in points],
    }  # fmt: skip


def test_the_tables_are_of_all_cases_worst_first_and_of_the_commits_of_those_that_changed():
    points = [("a", 1.0, 12, "timed"), ("b", 1.051, 7, "timed"), ("c", 1.051, 7, "unchanged")]
    cases = [
        made_up("toy.b", "ok", points=points[:1]),
        made_up("toy.a", "ok", [("b", 1.051, 0.00123), ("c", 0.9, 0.002)], 0.999, points),
        made_up("toy.d", "faster", end=0.9),
        made_up("toy.c", "slower", end=1.2),
    ]
    assert shown.markdown(cases).splitlines() == [
        "| test | by the end | verdict | commits | steps |",
        "|---|---:|---|---:|---|",
        "| `toy.c` | +20.0 % [+19.0, +22.0] | slower | 0 | - |",
        "| `toy.d` | -10.0 % [-11.0, -8.0] | faster | 0 | - |",
        "| `toy.a` | -0.1 % [-1.1, +1.9] | ok | 3 | `bbbbbbbbbbbb` +5.1 % [+4.1, +7.1]; "
        "`cccccccccccc` -10.0 % [-11.0, -8.0] |",
        "| `toy.b` | +0.0 % [-1.0, +2.0] | ok | 1 | - |",
        *["", "`toy.c`, relative to `rrrrrrrrrrrr`:", "", "| commit | time | pairs | step |", "|---|---:|---:|---|"],
        *["", "`toy.d`, relative to `rrrrrrrrrrrr`:", "", "| commit | time | pairs | step |", "|---|---:|---:|---|"],
        *["", "`toy.a`, relative to `rrrrrrrrrrrr`:", "", "| commit | time | pairs | step |", "|---|---:|---:|---|"],
        "| `aaaaaaaaaaaa` | +0.0 % [-1.0, +2.0] | 12 |  |",
        "| `bbbbbbbbbbbb` | +5.1 % [+4.1, +7.1] | 7 | **+5.1 % [+4.1, +7.1], p = 0.0012** |",
        "| `cccccccccccc` | +5.1 % [+4.1, +7.1] | unchanged | **-10.0 % [-11.0, -8.0], p = 0.002** |",
    ]


def test_what_is_drawn_of_a_case_is_of_its_points_its_steps_and_its_end():
    points = [Point("a", "z", math.log(1.5), math.log(1.25), math.log(1.75), 3, "unchanged")]
    step, end = (
        steps.Step("a", *(math.log(x) for x in (1.1, 1.0, 1.2)), 0.003),
        steps.Step("b", *(math.log(x) for x in (1.300004, 1.200006, 1.4)), 0.004),
    )
    found = steps.Judged(Series(CASE, "4", "root", points, 0.1, 3), [step], "faster", end)
    assert shown.case_of(found) == {
        "case": CASE, "version": "4", "root": "root", "verdict": "faster",
        "points": [
            {"commit": "a", "anchor": "z", "state": "unchanged", "n": 3, "ratio": 1.5, "low": 1.25, "high": 1.75}
        ],
        "steps": [{"commit": "a", "ratio": 1.1, "low": 1.0, "high": 1.2, "p": 0.003}],
        "end": {"commit": "b", "ratio": 1.3, "low": 1.20001, "high": 1.4, "p": 0.004},
    }  # fmt: skip
