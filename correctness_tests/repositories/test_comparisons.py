"""Results, ranks and files of comparisons, without a measurement."""

import json
import re
import time
from types import SimpleNamespace

import pytest

from rlgauge.case import Case
from rlgauge.compare import Comparisons, Result, resolve_id
from rlgauge.compare_file import Comparison, groups, other_rows, read
from rlgauge.pairs import PairError
from rlgauge.plan import Plan
from rlgauge.ranking import Ranking
from rlgauge.rule import GateError
from rlgauge.workers import PYTHON, Side


@pytest.mark.parametrize(
    ("measure", "values", "line"),
    [
        ("seconds", [2.0, 2.1, 2.0, 1.9, 2.0, 2.0], "b is 2x [1.9, 2.1] as fast per call as a (6 pairs)"),
        ("seconds", [1.0, 1.1, 0.9, 1.0, 1.0, 1.0], "no significant difference: 1x [0.9, 1.1] (6 pairs)"),
        ("seconds", [9.5, 102.0, 10, 20, 30, 40], "too wide to use: 25x [9.5, 102] (6 pairs); give more --minutes, "),
        ("peak_rss", [2.0] * 6, "peak_rss of a is 2x [2, 2] that of b (6 pairs)"),
        ("difference", [0.5, 0.6, 0.5, 0.4, 0.5, 0.5], "a minus b: 0.5 s [0.4, 0.6] per call (6 pairs)"),
        ("difference", [0.1, -0.1, 0, 0, 0, 0], "no significant difference: 0 s [-0.1, 0.1] (6 pairs)"),
    ],
)
def test_a_result_is_one_line(measure, values, line):
    result = Result("a", "b", measure, values=values, sides=[2.0, 1.5])
    assert str(result).startswith(line)
    assert result.verdict == (line.partition(":")[0] if ":" in line and "minus" not in line else "")


def test_the_half_width_is_a_fraction_of_the_ratio_or_of_the_longer_time():
    ratio = Result("a", "b", values=[2.0, 2.2, 2.0, 1.8, 2.0, 2.0])
    difference = Result("a", "b", "difference", values=[0.5, 0.6, 0.5, 0.4, 0.5, 0.5], sides=[2.0, 1.5])
    assert (ratio.half_width, difference.half_width) == pytest.approx((0.1, 0.05))


def test_benchmarks_whose_intervals_overlap_are_tied():
    speedups = {"a": [1.0] * 6, "b": [0.97, 0.98, 0.99, 1.01, 1.02, 1.03], "c": [0.5, 0.51, 0.5, 0.49, 0.5, 0.5]}
    assert Ranking("a", speedups).ranks() == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}


@pytest.mark.parametrize(
    ("measure", "line"),
    [
        ("seconds", "Speedup per call over a"),
        ("peak_rss", "peak_rss of a divided by that of each benchmark, highest ratio first"),
    ],
)
def test_a_ranking_says_what_its_numbers_are(measure, line):
    lines = str(Ranking("a", {"a": [1.0] * 6, "b": [2.0] * 6}, measure=measure)).splitlines()
    assert [text.split()[-1] for text in lines[:2]] == ["b", "a"]
    assert lines[2:] == [f"{line}, 6 pairs. A rank such as 2-3 is a tie."]


def test_ranks_compare_pair_by_pair():
    noise = [1.0, 2.0, 0.5, 4.0, 0.3, 3.0]  # of the baseline, and so of both speedups
    speedups = {"a": [1.0] * 6, "b": [1.1 * value for value in noise], "c": noise}
    assert Ranking("a", speedups).ranks() == {"b": (1, 2), "a": (1, 3), "c": (2, 3)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("test_*", "A: 'test_*' matches 4 benchmarks: test_a[1], test_a[2], test_b[1] and 1 more; name one of them"),
        ("test_a[3]", "A: 'test_a[3]' matches no benchmark; did you mean test_a[2] or test_a[1]"),
        ("sort", "A: 'sort' matches no benchmark; to list the benchmarks, run pytest --collect-only"),
    ],
)
def test_an_id_must_match_one_benchmark(text, words):
    names = ["test_a[1]", "test_a[2]", "test_b[1]", "test_b[2]"]
    assert [resolve_id(one, names, "A") for one in ("test_a[1]", "*a[2]", "b[1]")] == names[:3]
    with pytest.raises(GateError, match=f"^{re.escape(words)}"):
        resolve_id(text, names, "A")


def test_results_of_other_comparisons_are_kept_and_never_lost_under_other_conditions(tmp_path):
    out, before = tmp_path / "out.json", {"value": 1.0}
    out.write_text(json.dumps({"conditions": {"seed": 0}, "comparisons": {"items": before, "waits": before}}))
    assert other_rows(out, {"seed": 0}, ["waits"]) == {"items": before}
    with pytest.raises(GateError, match=r"would be lost, because these conditions changed: seed;"):
        other_rows(out, {"seed": 1}, ["waits"])
    assert other_rows(out, {"seed": 1}, ["items", "waits"]) == {}


def grouped(*rows):
    """Return the groups of comparisons, each given as (tests, options)."""
    comparisons = {}
    for number, (tests, options) in enumerate(rows):
        row = Comparison(str(number), *tests, **options)
        comparisons[row.name] = row, row.plan(Plan()), tuple(Case(test, all_cores=test == "pool") for test in tests)
    return groups(comparisons)


def test_comparisons_on_one_core_share_processes_unless_their_options_differ():
    assert grouped(("ab", {}), ("bc", {"items": True}), ("ca", {"outputs": "ignore"})) == [["0", "1", "2"]]
    assert grouped(("ab", {}), ("bc", {"precision": 0.1}), ("cd", {"measure": "peak_rss"})) == [["0"], ["1"], ["2"]]
    assert [len(group) for group in grouped(*[((str(k), "b"), {}) for k in (*range(9), 0)])] == [9, 1]


def test_comparisons_on_all_cores_share_processes_within_a_group():
    both, torch, jax = {"cores": "all"}, {"cores": "all", "group": "torch"}, {"cores": "all", "group": "jax"}
    assert grouped(("ab", both), ("bc", both), ("ab", {**both, "measure": "spread"})) == [["0", "2"], ["1"]]
    assert grouped(("ab", torch), ("bc", jax), ("cd", torch)) == [["0", "2"], ["1"]]
    pool = ("a", "pool")
    assert grouped((pool, torch), ("cd", torch), (pool[::-1], torch)) == [["0", "2"], ["1"]]
    assert grouped((pool, {"cores": "one"}), (("b", "pool"), {"cores": "one"})) == [["0", "1"]]


def measured_by(measure_pair, tests, folder):
    """Return comparisons of two tests each, whose pairs a function measures."""
    layout = SimpleNamespace(folder=folder, side=lambda *_: Side("base", folder, PYTHON, ()))
    comparisons = Comparisons(SimpleNamespace(), layout, tests, dict.fromkeys(tests, Plan(minutes=1.0)))
    comparisons.pairs = SimpleNamespace(measure_pair=measure_pair, skipped={}, info={name: [{}, {}] for name in tests})
    return comparisons


def test_a_group_of_comparisons_has_the_minutes_of_each(tmp_path, monkeypatch):
    now, tests = [0.0], {name: (Case("a"), Case(name)) for name in "bcd"}

    def measure_pair(pair, records, names, *how, **more):
        now[0] += 10.0
        pair |= {name: [(1.0, 1.0 + len(comparisons.results[name].values) % 2)] for name in names}  # noisy

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    comparisons = measured_by(measure_pair, tests, tmp_path)
    comparisons.measure_each(lambda names: None)
    assert [len(result.values) for result in comparisons.results.values()] == [19] * 3  # begun within 180 s


def test_finished_comparisons_keep_their_results_if_a_process_fails_later(tmp_path):
    def measure_pair(pair, records, names, *how, **more):
        if names == ["noisy"]:
            raise PairError("base: killed by SIGKILL")
        pair |= {"steady": [(1.0, 1.0)], "noisy": [(1.0, 1.0 + len(comparisons.results["noisy"].values) % 2)]}

    tests = {name: (Case("a"), Case(name)) for name in ("steady", "noisy")}
    comparisons = measured_by(measure_pair, tests, tmp_path)
    comparisons.measure_each(lambda names: None)
    assert comparisons.results["steady"].values == [1.0] * 6
    assert {name: str(error) for name, error in comparisons.failed.items()} == {"noisy": "base: killed by SIGKILL"}


def test_zero_and_false_in_a_file_override_the_command_line():
    table = Comparison("it", "a", "b", minutes=0.0, items=False, tolerance=0.0)
    assert table.plan(Plan(minutes=9.0, items=True, tolerance=0.1)) == Plan(minutes=0.0, items=False, tolerance=0.0)


TWO = """[[comparison]]
name = "items"
a = "*slow]"
b = "*twice]"
items = true

[[comparison]]
name = "waits"
a = "*waiting[6.0]"
b = "*waiting[2.0]"
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("items = true", "itms = true", "comparison 1.itms: unknown key; did you mean 'items'?"),
        ("items = true", "tolerance = 1.5", "comparison 1.tolerance: 1.5 is out of range; choose 0 or more"),
        ('name = "items"', 'name = "waits"', "comparison 2.name: another comparison is named 'waits'; rename "),
        ('"items"', '"items', "Illegal character "),
    ],
)
def test_a_mistake_in_a_file_names_its_key(tmp_path, old, new, words):
    file = tmp_path / "comparisons.toml"
    file.write_text(TWO.replace(old, new, 1))
    with pytest.raises(GateError, match=f"^{re.escape(f'{file}: {words}')}"):
        read(file, Plan())
