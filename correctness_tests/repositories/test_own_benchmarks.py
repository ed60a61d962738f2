"""Each side with its own benchmarks: for a change of the API, or of the benchmarks themselves."""

from __future__ import annotations

import pytest

from .made import FLAT_TESTS, QUICK, Repository, flat

OLD, NEW = "benchmarks/test_sorting.py", "benchmarks/test_renamed.py"
SLOW, KEPT = f"{OLD}::test_slow={NEW}::test_sorts_slowly", f"{OLD}::test_kept[10]={NEW}::test_kept[10]"
RENAMED = FLAT_TESTS.replace("test_slow", "test_sorts_slowly").replace("sorting.slow", "sorting.sorts_slowly")


def after(units):
    """Return what the change writes: another name of a function, and its benchmarks in another file."""
    module = flat(sorts_slowly=units)["toy/sorting.py"]
    return {"toy/sorting.py": module.replace("def slow(", "def unused("), OLD: None, NEW: RENAMED}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Repository(tmp_path_factory.mktemp("flat") / "toy", flat())
    yield toy
    assert toy.leftovers() == []


def test_a_renamed_benchmark_of_a_renamed_function_is_compared(toy, tmp_path):
    toy.at("start", after(110))
    lacking = f"{OLD}::test_never={NEW}::test_kept[50]"
    renamed = (word for pair in (SLOW, KEPT, lacking) for word in ("--gate-renamed", pair))
    ran = toy.gate("HEAD", tmp_path, "--gate-own-benchmarks", *renamed, rule=QUICK)
    assert ran.code == 1, ran.text
    assert ran.findings[f"{NEW}::test_sorts_slowly"] == ("slower",)
    assert ran.findings[f"{NEW}::test_kept[10]"] == ("ok",)
    assert ran.findings[f"{NEW}::test_kept[50]"][0] == "error", "base lacks it"
    assert "benchmarks, each side's own" in ran.text


def test_without_a_map_tests_are_matched_by_id(toy, tmp_path):
    toy.at("start", after(100) | {OLD: FLAT_TESTS.replace("sorting.slow", "sorting.sorts_slowly")})
    ran = toy.gate("HEAD", tmp_path, "--gate-own-benchmarks", rule=QUICK)
    assert ran.findings[f"{OLD}::test_slow"][0] in ("ok", "inconclusive", "slower"), ran.text
    assert ran.findings[f"{NEW}::test_sorts_slowly"][0] == "new"


def test_a_changed_benchmark_is_timed_though_the_package_is_the_same(toy, tmp_path):
    toy.at("start", {OLD: FLAT_TESTS.replace("random(50)", "random(60)")})
    ran = toy.gate("HEAD", tmp_path, "--gate-own-benchmarks", "-k", "slow", rule=QUICK)
    assert ran.ratios[f"{OLD}::test_slow"] == pytest.approx(1.2, abs=0.02), ran.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gate-renamed", SLOW], "--gate-renamed: add --gate-own-benchmarks"),
        (
            ["--gate-own-benchmarks", "--gate-renamed", "a=b"],
            "write OLD=NEW, where NEW is the id of a selected benchmark",
        ),
        (
            ["--gate-own-benchmarks"],
            "base has none of these benchmark files; give the ids of its tests with --gate-renamed",
        ),
    ],
)
def test_a_mistake_is_one_line(toy, tmp_path, options, message):
    toy.at("start", after(100))
    ran = toy.gate("HEAD", tmp_path, *options, rule=QUICK)
    assert ran.code == 2, ran.text
    assert ran.only_says(message), ran.text
