"""``rlgauge compare``: which of two tests is faster, and by how much."""

from __future__ import annotations

import json

import pytest

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


def test_the_same_work_is_no_significant_difference(repository):
    code, text = repository.run("rlgauge", "compare", "*slow]", "*kept]")
    assert code == 0, text
    assert "no significant difference: " in text


def test_items_are_compared_where_a_call_handles_several(repository):
    code, text = repository.run("rlgauge", "compare", "*slow]", "*twice]", "--items")
    assert code == 0, text
    assert "no significant difference: " in text
    code, text = repository.run("rlgauge", "compare", "*slow]", "*twice]")
    assert f"{pace('twice')} is 0.5" in text


def test_several_tests_are_ordered_with_ties(repository, tmp_path):
    out = tmp_path / "out.json"
    code, text = repository.run("rlgauge", "rank", "*::test_pace[*", "--json", out)
    assert code == 0, text
    found = json.loads(out.read_text())
    assert found["ranks"] == {pace("quick"): [1, 1], pace("kept"): [2, 3], pace("slow"): [2, 3], pace("twice"): [4, 4]}
    assert found["baseline"] in found["speedups"]
    assert f"  2-3  1x [1, 1]                  {found['baseline']}" in text or found["baseline"] == pace("quick")
    code, text = repository.run("rlgauge", "rank", "*slow]", "*twice]", "--items")
    assert code == 0, text
    assert text.count("  1-2  ") == 2


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
