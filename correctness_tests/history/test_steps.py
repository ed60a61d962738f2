"""Steps and drift: found where they are, of the size they have, and nowhere else."""

from __future__ import annotations

import json
import math

import pytest

from perf_tests.history import drawn as shown
from perf_tests.history import steps
from perf_tests.history.chain import series
from perf_tests.history.steps import LEVEL, fitted, judged

from .made import CASE, commit, entry, order, over, pairs, unchanged

COMMITS = 12


def conclude(levels, cases=None, **how):
    """Return what is concluded of commits of which each is slower than the anchor by a log-ratio."""
    (found,) = judged(series(over(levels, **how), order(len(levels))), cases)
    return found


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
    copies = [unchanged(k, 0, 2, measured[1].ratio, 2) for k in range(3, 30)]
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
    (same,) = judged(series([unchanged(1, 0, 0, 1.0, 0)], order(1)))
    assert (same.verdict, same.steps, same.end.log_ratio) == ("ok", [], 0.0)


def test_cases_are_judged_together():
    entries = over(stepped(11, 0.035))
    others = [e.model_copy(update={"case": f"toy.other[{n}]"}) for n in range(59) for e in over([0.0])]
    (alone,), (together, *rest) = (judged(series(some, order(COMMITS))) for some in (entries, [*entries, *others]))
    assert together.steps[0].p == pytest.approx(60 * alone.steps[0].p)
    assert together.end.p == pytest.approx(60 * alone.end.p)
    assert not any(found.steps for found in rest)


def test_what_is_drawn_is_plain_data():
    entries = over(stepped(6))
    (found,) = shown.drawn(entries, order(COMMITS))
    assert json.loads(json.dumps(found)) == found
    assert (found["case"], found["workload"], found["root"], found["verdict"]) == (CASE, "toy", commit(0), "slower")
    assert len(found["points"]) == COMMITS
    for point, measured in zip(found["points"], entries):
        assert point["commit"] == measured.commit
        assert (point["ratio"], point["low"], point["high"]) == pytest.approx(
            (measured.ratio, measured.low, measured.high), abs=1e-4
        )
    (step,) = found["steps"]
    assert step["commit"] == commit(7)
    assert 1.03 < step["low"] < step["ratio"] < step["high"] < 1.07


def test_the_table_marks_the_step():
    text = shown.markdown(shown.drawn([*over(stepped(6)), unchanged(13, 0, 12, 1.05, 12)], order(13)))
    lines = {line.split("|")[1].strip().strip("`"): line for line in text.splitlines() if line.startswith("| `")}
    assert " slower " in lines[CASE]
    assert commit(7)[:12] in lines[CASE]
    assert [name for name, line in lines.items() if "**" in line] == [commit(7)[:12]]
    assert "unchanged" in lines[commit(13)[:12]]
