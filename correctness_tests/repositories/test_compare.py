"""``rlgauge compare``: which of two tests is faster, and by how much."""

from __future__ import annotations

import json

import pytest

from rlgauge.compare import Ranking

from .made import Repository, flat

FILE = "benchmarks/test_pace.py"
TESTS = """import numpy as np
import pytest

from toy import sorting

NUMBERS = np.random.default_rng(0).random(50)


@pytest.mark.parametrize("name", ["quick", "slow", "kept", "twice"])
def test_pace(benchmark, name):
    benchmark.extra_info |= {"items": 2 if name == "twice" else 1, "unit": "arrays"}
    benchmark(getattr(sorting, name), NUMBERS)


def test_other(benchmark):
    benchmark.extra_info |= {"items": 1, "unit": "lists"}
    benchmark(np.sort, -NUMBERS)


def test_broken(benchmark):
    benchmark(sorting.missing)
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    files = {**flat(quick=1, twice=200), FILE: TESTS}
    made = Repository(tmp_path_factory.mktemp("compare") / "repository", files)
    yield made
    assert made.leftovers() == []


def pace(name):
    return f"{FILE}::test_pace[{name}]"


@pytest.mark.parametrize(("first", "second", "wanted"), [("slow", "quick", 100), ("quick", "slow", 0.01)])
def test_a_hundredfold_difference_is_measured_in_both_directions(repository, tmp_path, first, second, wanted):
    out = tmp_path / "out.json"
    code, text = repository.run("rlgauge", "compare", pace(first), f"*{second}]", "--json", out)
    assert code == 0, text
    found = json.loads(out.read_text())
    assert (found["first"], found["second"], found["per"]) == (pace(first), pace(second), "call")
    assert found["low"] <= found["speedup"] <= found["high"]
    assert found["speedup"] == pytest.approx(wanted, rel=0.03)
    assert found["seconds"][0] / found["seconds"][1] == pytest.approx(wanted, rel=0.03)
    assert len(found["speedups"]) >= 6
    assert f"{pace(second)} is {found['speedup']:.3g}x [" in text


@pytest.mark.parametrize(("second", "options"), [("*kept]", []), ("*twice]", ["--items"])])
def test_the_same_work_is_no_significant_difference(repository, tmp_path, second, options):
    out = tmp_path / "out.json"
    code, text = repository.run("rlgauge", "compare", "*slow]", second, *options, "--json", out)
    assert code == 0, text
    found = json.loads(out.read_text())
    assert found["speedup"] == pytest.approx(1, rel=0.01)
    # one interval of 20 leaves 1 out
    assert ("no significant difference: " in text) == (found["low"] <= 1 <= found["high"])


def test_calls_are_compared_unless_items_are_asked_for(repository):
    code, text = repository.run("rlgauge", "compare", "*slow]", "*twice]")
    assert code == 0, text
    assert f"{pace('twice')} is 0.5" in text


def test_several_tests_are_ordered_with_ties(repository, tmp_path):
    out = tmp_path / "out.json"
    code, text = repository.run("rlgauge", "rank", "*::test_pace[*", "--json", out)
    assert code == 0, text
    found = json.loads(out.read_text())
    ranks = found["ranks"]
    assert (ranks[pace("quick")], ranks[pace("twice")]) == ([1, 1], [4, 4])
    assert sorted((ranks[pace("kept")], ranks[pace("slow")])) in ([[2, 3], [2, 3]], [[2, 2], [3, 3]])
    assert found["baseline"] in found["speedups"]
    for name, (best, worst) in ranks.items():
        (line,) = [line for line in text.splitlines() if line.endswith(f"  {name}") and "x [" in line]
        assert line.split()[0] == (f"{best}" if best == worst else f"{best}-{worst}")


def test_benchmarks_whose_intervals_reach_each_other_are_tied():
    speedups = {"a": [1.0] * 6, "b": [0.97, 0.98, 0.99, 1.01, 1.02, 1.03], "c": [0.5, 0.51, 0.5, 0.49, 0.5, 0.5]}
    assert Ranking("a", speedups).ranks() == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}


@pytest.mark.parametrize("pattern", ["*slow]", "*nothing*"])
def test_an_order_needs_two_tests(repository, pattern):
    code, text = repository.run("rlgauge", "rank", pattern)
    assert code == 2, text
    assert text.startswith(f"{pattern} fits ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["*::test_pace[*", "*slow]"], "A: '*::test_pace[*' fits 4 benchmarks: "),
        (["*slow]", "test_pace[slw]"], "B: 'test_pace[slw]' fits no benchmark; did you mean "),
        (["*slow]", "test_other"], "the outputs differ; if they should, add --outputs ignore"),
        (["*slow]", "test_other", "--outputs=ignore", "--items"], f"--items: {pace('slow')} counts arrays, and "),
        (["*slow]", "test_broken"], f"{FILE}::test_broken: its test fails: AttributeError: "),
        (["test_broken", "*slow]"], f"{FILE}::test_broken: its test fails: AttributeError: "),
        (["*slow]", "*kept]", "--precision=0"], "--precision: got 0; give 0.001 or more"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_code_2(repository, tmp_path, arguments, words):
    code, text = repository.run("rlgauge", "compare", *arguments, "--json", tmp_path / "out.json")
    assert code == 2, text
    assert text.splitlines()[-1].startswith(words), text
    assert not (tmp_path / "out.json").exists()
