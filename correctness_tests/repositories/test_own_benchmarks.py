"""Each side runs its own benchmarks, after a change of the API or of the benchmarks."""

import pytest

from rlgauge.allowed import parse_renamed
from rlgauge.rule import GateError

from .made import FLAT_TESTS, QUICK, flat, tidy

OLD, NEW = "benchmarks/test_sorting.py", "benchmarks/test_renamed.py"
SLOW = f"{OLD}::test_slow={NEW}::test_sorts_slowly"
RENAMED = FLAT_TESTS.replace("test_slow", "test_sorts_slowly").replace("sorting.slow", "sorting.sorts_slowly")

toy = tidy(flat())


def after(units):
    """Return the files of a change that renames a function and moves its benchmarks to another file."""
    module = flat(sorts_slowly=units)["toy/sorting.py"]
    return {"toy/sorting.py": module.replace("def slow(", "def unused("), OLD: None, NEW: RENAMED}


def test_renamed_benchmarks_are_compared_and_the_others_are_matched_by_id(toy, tmp_path):
    others = FLAT_TESTS.replace("def test_slow", "def not_slow").replace("iterations=2", "iterations=4")
    toy.at("start", after(110) | {OLD: others})
    lacking = f"{OLD}::test_never={NEW}::test_kept[50]"
    options = "--gate-renamed", SLOW, "--gate-renamed", lacking
    ran = toy.gate("HEAD", tmp_path, "--gate-own-benchmarks", *options, rule=QUICK, code=1)
    assert ran.findings[f"{NEW}::test_sorts_slowly"] == ("slower",)
    unknown = f"base: pytest does not collect {OLD}::test_never on this side"
    assert ran.findings[f"{NEW}::test_kept[50]"] == ("error", unknown)
    assert ran.findings[f"{NEW}::test_kept[10]"][0] == "new"
    assert ran.findings[f"{OLD}::test_kept[10]"] == ("ok",), "times are those of one iteration"
    assert ran.seconds(f"{OLD}::test_kept[10]") == pytest.approx([1e-3, 1e-3], rel=0.02)
    assert "each side runs its own benchmarks: " in ran.text


def test_a_changed_benchmark_is_timed_though_the_package_is_the_same(toy, tmp_path):
    toy.at("start")
    settings = '[tool.rlgauge]\ndepends = { "*::test_slow" = ["toy"] }\n'
    toy.commit("settings", {"pyproject.toml": settings})
    toy.at("settings", {OLD: FLAT_TESTS.replace("1000), 50)", "1000), 60)")})
    ran = toy.gate("HEAD", tmp_path, "--gate-own-benchmarks", "--collect-only", rule=QUICK)
    assert "3 benchmarks, 3 to time" in ran.text, ran.text  # with and without depends


def test_a_renamed_benchmark_that_is_not_selected_is_refused():
    with pytest.raises(GateError, match="write OLD=NEW, where NEW is the id of a selected benchmark"):
        parse_renamed(["a=b"], [SLOW])


def test_a_base_without_the_benchmark_files_needs_the_ids_of_its_tests(toy, tmp_path):
    toy.at("start", after(100))
    ran = toy.gate("HEAD", tmp_path, "--gate-own-benchmarks", rule=QUICK, code=2)
    words = "base has none of these benchmark files; give the ids of its tests with --gate-renamed"
    assert ran.only_says(words), ran.text
