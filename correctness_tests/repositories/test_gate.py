"""The gate on repositories without any configuration for it."""

from __future__ import annotations

import re

import pytest

from .made import FIND, FLAT_TESTS, QUICK, SAME, SLOWED, Repository, flat, sourced, work

FILE, ANSWERS, SERVED = "benchmarks/test_sorting.py", "benchmarks/test_answers.py", "tests/test_served.py::TestSorting"
SLOW, KEPT = f"{FILE}::test_slow", (f"{FILE}::test_kept[10]", f"{FILE}::test_kept[50]")

OTHER = "\n\ndef test_{0}(benchmark):\n    benchmark(sorting.{0}, NUMBERS)\n"
RENAMED = OTHER.format("kept").replace("test_kept", "test_{}")
ANSWERED = '''"""Returns something of each kind, after work that the clock sees."""

import random
from dataclasses import dataclass

import numpy as np

from .sorting import kept

NUMBERS = np.zeros(50)


@dataclass
class Found:
    name: str
    values: list


class Unlike:
    pass


def number():
    kept(NUMBERS)
    return {number}


def nested():
    kept(NUMBERS)
    return {{"a": ["text", Found("x", [1, 2, {number}])]}}


def drawn():
    kept(NUMBERS)
    return random.SystemRandom().random()


def nothing_said():
    kept(NUMBERS)
    return Unlike()
'''
ANSWER_TESTS = """from toy import answers


def test_number(benchmark):
    benchmark(answers.number)


def test_nested(benchmark):
    benchmark(answers.nested)


def test_drawn(benchmark):
    benchmark(answers.drawn)


def test_nothing_said(benchmark):
    benchmark(answers.nothing_said)
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Repository(tmp_path_factory.mktemp("flat") / "toy", flat())
    toy.commit("slower", flat(slow=110))
    yield toy
    assert toy.leftovers() == []


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    toy = Repository(tmp_path_factory.mktemp("sourced") / "toy", sourced())
    yield toy
    assert toy.leftovers() == []


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A change that slows one function, adds one, renames a test of another, and changes what some return."""
    before = {FILE: FLAT_TESTS + RENAMED.format("old"), "toy/answers.py": ANSWERED.format(number=1)}
    toy = Repository(tmp_path_factory.mktemp("changed") / "toy", flat() | before | {ANSWERS: ANSWER_TESTS})
    after = {FILE: FLAT_TESTS + RENAMED.format("renamed") + OTHER.format("fresh")}
    after |= {"toy/sorting.py": work(slow=110, kept=100, fresh=100), "toy/answers.py": ANSWERED.format(number=2)}
    toy.commit("slower", after)
    ran = toy.gate("start", tmp_path_factory.mktemp("ran"), rule="screen=2,confirm=2,looks=1,blocks=2,level=0.3")
    yield toy, ran
    assert toy.leftovers() == []


def test_a_slowdown_is_found_without_a_line_of_configuration(ran):
    _, ran = ran
    assert ran.code == 1, ran.text
    wanted = {SLOW: "slower", **dict.fromkeys(KEPT, "ok"), SAME: "ok", SLOWED: "slower"}
    assert wanted.items() <= {name: verdict for name, (verdict, *_) in ran.findings.items()}.items()
    assert ran.failed == {"test_slow", "test_old"}
    assert re.search(rf"^{SLOW}: slower, [45]\.\d\d ms -> 5\.\d\d ms \(\+", ran.text, re.MULTILINE), ran.text
    assert "test_no_benchmark" not in ran.text


def test_tests_that_only_one_side_has_are_new_or_gone(ran):
    _, ran = ran
    assert ran.findings[f"{FILE}::test_old"] == ("gone",)
    verdict, words = ran.findings[f"{FILE}::test_fresh"]
    assert (verdict, words) == ("new", "base: AttributeError: module 'toy.sorting' has no attribute 'fresh'")
    assert ran.findings[f"{FILE}::test_renamed"] == ("ok",)


def test_changed_answers_are_noted_where_they_can_be_compared(ran):
    _, ran = ran
    changed = {name for name, words in ran.findings.items() if "output changed" in words}
    assert changed == {f"{ANSWERS}::test_number", f"{ANSWERS}::test_nested"}, ran.text
    assert ran.findings[f"{ANSWERS}::test_drawn"][0] == ran.findings[f"{ANSWERS}::test_nothing_said"][0] == "ok"


def test_files_of_the_package_are_only_listed_with_v(ran):
    _, ran = ran
    assert "benchmarks, head's version on both sides: benchmarks" in ran.text
    assert "toy: base " not in ran.text
    assert ".git/rlgauge" not in ran.text


def test_the_gate_leaves_the_repository_unchanged(ran):
    toy, ran = ran
    assert toy.git("status", "--porcelain") == ""
    assert ran.artifact["head"] == toy.git("rev-parse", "--short=12", "slower")


def test_fixtures_of_a_test_live_while_it_is_timed(served, tmp_path):
    seen = tmp_path / "seen"
    seen.mkdir()
    served.at("start", {"src/served/core.py": work(slow=110, kept=100)})
    rule = "screen=1,confirm=2,looks=1,blocks=2,level=0.8"  # of three suspects
    ran = served.gate("HEAD", tmp_path, rule=rule, SEEN=str(seen))
    assert ran.code == 1, ran.text
    slow, kept = (tuple(f"{SERVED}::test_{op}[{order}]" for order in ("up", "down")) for op in ("slow", "kept"))
    slow += ("tests/test_single.py::test_single",)  # of a file of its own
    assert ran.findings == dict.fromkeys((*slow, SLOWED), ("slower",)) | dict.fromkeys((*kept, SAME), ("ok",))
    started, ended = (
        sorted(path.name.split("-")[1] for path in seen.glob(f"{word}-*")) for word in ("started", "ended")
    )
    assert started == ended
    assert len(started) == 2 * (1 + 2), "two processes of each pair, once each"


@pytest.fixture(scope="module")
def generated(toy):
    """The files that a build has left in the tree, which git ignores; without the first there is no package."""
    toy.at("start")
    package = {"toy/__init__.py": "from ._version import VERSION\n\n__all__ = ['VERSION']\n"}
    toy.commit("generated", {**package, ".gitignore": "__pycache__/\ntoy/_version.py\nbuild/\n"})
    return {"toy/_version.py": "VERSION = 1\n", "build/toy/other.py": "VERSION = 2\n"}


def test_only_selected_tests_run_and_generated_files_are_on_both_sides(toy, generated, tmp_path):
    toy.at("generated", {**generated, "toy/sorting.py": work(slow=101, kept=100)})
    ran = toy.gate("HEAD", tmp_path, "-v", "-k", "kept", rule=QUICK)
    assert ran.code == 0, ran.text
    assert "\ntoy: base toy/__init__.py, head toy/__init__.py\n" in ran.text
    assert ran.findings.keys() == {*KEPT, SAME, SLOWED}
    assert "generated files, copied from the working tree to both sides: toy/_version.py\n" in ran.text


def test_the_same_code_is_unchanged_and_so_is_another_benchmark_of_it(toy, generated, tmp_path):
    more = FLAT_TESTS + RENAMED.format("more")
    toy.at("generated", {**generated, FILE: more, "README.md": "# A toy\n"})
    ran = toy.gate("HEAD", tmp_path)
    assert ran.code == 0, ran.text
    assert set(ran.findings.values()) == {("unchanged",)}
    assert len(ran.findings) == 4


def test_rlgauge_gate_is_pytest_against_a_revision(toy):
    toy.at("start")
    code, text = toy.run("rlgauge", "gate", "HEAD", "-k", "kept", "-p", "no:cacheprovider")
    assert code == 0, text
    assert "2 unchanged" in text


def test_rlgauge_gate_compares_with_the_revision_of_the_settings(toy):
    toy.at("start")
    code, text = toy.run("rlgauge", "gate", "-k", "kept", "-p", "no:cacheprovider")
    assert (code, len(text.splitlines())) == (2, 1), text
    assert text.startswith("rlgauge gate: give a revision, for example main, or set against = ")
    toy.write({"pyproject.toml": '[tool.rlgauge]\nagainst = "slower"\nignore = ["pyproject.toml"]\n'})
    code, text = toy.run("rlgauge", "gate", "-k", "kept", "--collect-only", "-p", "no:cacheprovider")
    assert code == 0, text
    assert f"against {toy.git('rev-parse', '--short=12', 'slower')}: 2 benchmarks" in text


def test_bisect_suggests_an_id_like_the_unknown_one(toy):
    toy.at("start")
    code, text = toy.run("rlgauge", "bisect", f"{FILE}::test_slwo", "start", "slower")
    assert code == 2, text
    assert f"rlgauge bisect: '{FILE}::test_slwo' matches no benchmark; did you mean {SLOW}" in text.splitlines()[-1]


@pytest.mark.slow
def test_shards_decide_as_the_whole_does(toy, tmp_path):
    toy.at("slower")
    files = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        ran = toy.gate("start", folder, f"--gate-shard={number}/2")
        assert {SAME, SLOWED} < ran.findings.keys(), ran.text
        files.append(folder / "gate.json")
    code, text = toy.run("rlgauge", "merge", *files, "--markdown", tmp_path / "all.md")
    assert code == 1, text
    assert f"| `{SLOW}` | slower |" in text
    assert all(f"| `{name}` | ok |" in text for name in KEPT)


@pytest.mark.slow
def test_the_anchor_finds_slow_drift(toy, tmp_path):
    toy.at("start")
    for step in range(9):  # each 0.5% slower, which is less than the tolerated 1%
        toy.commit(f"drift-{step}", {"toy/sorting.py": work(slow=200 + step, kept=100)})
    ran = toy.gate("HEAD~1", tmp_path, "--gate-anchor", "drift-0")
    assert ran.code == 1, ran.text
    assert ran.findings[SLOW][0] != "slower"
    assert "### Speed of " in ran.markdown
    assert f"against the anchor {toy.git('rev-parse', '--short=12', 'drift-0')}: failed" in ran.markdown
    assert ran.failed == {"test_slow"}


@pytest.mark.slow
def test_bisect_names_the_commit(toy):
    toy.at("start")
    for step in range(1, 5):
        toy.commit(f"step-{step}", {"toy/sorting.py": work(slow=100 + 10 * (step >= 3), kept=100 + step)})
    code, text = toy.run("rlgauge", "bisect", SLOW, "start", "HEAD", "--rule", FIND)
    assert code == 0, text
    assert text.splitlines()[-1].startswith(f"slowed by {toy.git('rev-parse', '--short=12', 'step-3')} +")
