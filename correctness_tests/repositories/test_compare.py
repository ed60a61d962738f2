"""``rlgauge compare``: which of two tests is faster, and by how much."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from rlgauge.case import Case
from rlgauge.compare import Plan, Ranking, Result, resolve_id, spread
from rlgauge.compare_file import Comparison, groups, read, resumable_rows
from rlgauge.rule import GateError

from .made import INI, Repository, flat

FILE = "benchmarks/test_pace.py"
TESTS = """import os
import random

import numpy as np
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


@pytest.mark.parametrize("most", [1000, 10_000])
def test_scattered(benchmark, most):
    rng = np.random.default_rng()
    benchmark(lambda: np.sort(np.zeros(rng.integers(10_000 - most, 10_000 + most))))


def test_moody(benchmark):
    numbers = np.zeros(random.SystemRandom().randrange(1000, 20_000))
    benchmark(lambda: np.sort(numbers).sum())


@pytest.mark.parametrize("size", [1000, 4_000_000])
def test_held(benchmark, size):
    def held():
        np.sort(np.zeros(40_000))  # a long call by the fake clock, so that few are made
        return float(np.ones(size).sum())

    benchmark(held)


@pytest.mark.parametrize("waits", [6.0, 2.0, 0.0])
def test_waiting(benchmark, waits):
    benchmark(np.sort, NUMBERS)
    threads = 100 * int(os.environ["OMP_NUM_THREADS"]) + len(os.sched_getaffinity(0))  # and cores
    benchmark.extra_info["figures"] = {"waits": np.float32(waits), "threads": threads}


def test_absent(benchmark):
    pytest.importorskip("no_such_module", reason="no_such_module is not installed")
"""


DESELECTS = """

def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "waiting" not in item.name]
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    files = {**flat(quick=1, twice=200), **INI, FILE: TESTS}
    files["benchmarks/conftest.py"] += DESELECTS
    made = Repository(tmp_path_factory.mktemp("compare") / "repository", files)
    yield made
    assert made.leftovers() == []


def pace(name):
    return f"{FILE}::test_pace[{name}]"


def test_a_hundredfold_difference_is_measured(repository, tmp_path):
    out = tmp_path / "out.json"
    code, text = repository.run("rlgauge", "compare", pace("slow"), "*quick]", "--json", out)
    assert code == 0, text
    found = json.loads(out.read_text())
    assert (found["first"], found["second"], found["per"]) == (pace("slow"), pace("quick"), "call")
    assert found["low"] <= found["value"] <= found["high"]
    assert found["value"] == pytest.approx(100, rel=0.03)
    assert found["sides"][0] / found["sides"][1] == pytest.approx(100, rel=0.03)
    assert len(found["values"]) >= 6
    assert f"{pace('quick')} is {found['value']:.3g}x [" in text


def comparison(name, a, b, **options):
    """Return a table of a file of comparisons."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in {"name": name, "a": a, "b": b, **options}.items()]
    return "\n".join(["[[comparison]]", *lines, "\n"])


VALUES = {  # low, high
    "100 times slower": (0.0097, 0.0103),
    "the same": (0.99, 1.01),
    "half": (0.495, 0.505),
    "items": (0.99, 1.01),
    "difference": (0.0049, 0.0051),
    "allocated": (40, 200),
    "peak_rss": (1.1, 3),
    "spread": (2, 100),
    "moody": (0, 100),
}
MEASURED = [
    comparison("100 times slower", "*quick]", "*slow]"),
    comparison("the same", "*slow]", "*kept]"),
    comparison("half", "*slow]", "*twice]"),
    comparison("items", "*slow]", "*twice]", items=True),
    comparison("difference", "*twice]", "*slow]", measure="difference"),
    comparison("allocated", "*held[4000000]", "*held[1000]", measure="allocated", outputs="ignore"),
    comparison("peak_rss", "*held[4000000]", "*held[1000]", measure="peak_rss", outputs="ignore"),
    comparison("spread", "*scattered[10000]", "*scattered[1000]", measure="spread", outputs="ignore", minutes=0.0),
    comparison("moody", "*::test_moody", "*slow]", outputs="ignore", minutes=0.0),
    comparison("differ", "*slow]", "test_other"),
    comparison("units", "*slow]", "test_other", items=True, outputs="ignore"),
    comparison("broken", "test_broken", "*slow]"),
    comparison("no figure", "*waiting[6.0]", "*waiting[2.0]", measure="wait"),
    comparison("not positive", "*waiting[6.0]", "*waiting[0.0]", measure="waits"),
    comparison("absent", "*slow]", "test_absent"),
]
FAILED = {
    "differ": "the outputs differ; if they should, add --outputs ignore",
    "units": f"--items: {FILE}::test_pace[slow] counts arrays, and {FILE}::test_other lists; ",
    "broken": f"{FILE}::test_broken: its test failed: AttributeError: ",
    "no figure": f"--measure: {FILE}::test_waiting[6.0] has no figure 'wait' (choose from ",
    "not positive": f"--measure: waits of {FILE}::test_waiting[0.0] is 0; a ratio needs a positive number",
}


@pytest.fixture(scope="module")
def measured(repository, tmp_path_factory):
    """A file of comparisons, some of which fail. -> their results, and what is printed"""
    file = tmp_path_factory.mktemp("measured") / "comparisons.toml"
    file.write_text("".join(MEASURED))
    code, text = repository.run("rlgauge", "compare", "--file", file)
    assert code == 2, text
    return json.loads((repository.root / ".rlgauge/compare.json").read_text())["comparisons"], text


@pytest.mark.parametrize("name", VALUES)
def test_comparisons_of_a_file_have_their_values(measured, name):
    found, _ = measured
    low, high = VALUES[name]
    assert low <= found[name]["value"] <= high
    assert len(found[name]["values"]) >= 6


def test_an_interval_that_includes_equality_is_not_significant(measured):
    for name in ("the same", "items"):  # a 95% interval misses 1 in one run of 20
        row = measured[0][name]
        assert (row["verdict"] == "no significant difference") == (row["low"] <= 1 <= row["high"])
    assert measured[0]["items"]["per"] == "item (arrays)"
    assert measured[0]["moody"]["verdict"] == "too wide to use"


@pytest.mark.parametrize("name", FAILED)
def test_a_comparison_that_fails_is_named_and_the_others_go_on(measured, name):
    found, text = measured
    assert found[name]["error"].startswith(FAILED[name])
    assert f"{name}: error: {FAILED[name]}" in text


def test_a_comparison_of_a_skipped_test_is_skipped(measured):
    assert measured[0]["absent"] == {"skipped": f"{FILE}::test_absent: skipped: no_such_module is not installed"}


def test_a_file_of_skipped_comparisons_alone_is_code_2(repository, tmp_path):
    (tmp_path / "comparisons.toml").write_text(comparison("absent", "*slow]", "test_absent"))
    code, text = repository.run("rlgauge", "compare", "--file", tmp_path / "comparisons.toml")
    assert code == 2, text
    assert text.endswith("skipped: no_such_module is not installed\n")


@pytest.fixture
def all_cores():
    """Allow all cores of the machine to the processes that the test starts."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count()))
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.skipif(os.cpu_count() < 2, reason="it takes two cores")
@pytest.mark.parametrize(
    ("options", "sides"),
    [(["--threads-a=2", "--threads-b=1"], [202, 101]), (["--cores=all"], [101 * os.cpu_count()] * 2)],
)
@pytest.mark.usefixtures("all_cores")
def test_each_side_has_threads_and_cores_of_its_own(repository, tmp_path, options, sides):
    # the conftest.py deselects test_waiting: a benchmark that is named is compared all the same
    out, both = tmp_path / "out.json", ["*waiting[6.0]", "*waiting[2.0]"]
    code, text = repository.run("rlgauge", "compare", *both, *options, "--measure=threads", "--json", out)
    assert code == 0, text
    assert json.loads(out.read_text())["sides"] == sides


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


def test_spread_is_the_interquartile_range_over_the_median():
    assert spread([5.0, 1.0, 2.0, 4.0, 3.0]) == pytest.approx(2 / 3)


def test_rank_orders_tests_with_ties(repository, tmp_path):
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


def test_benchmarks_whose_intervals_overlap_are_tied():
    speedups = {"a": [1.0] * 6, "b": [0.97, 0.98, 0.99, 1.01, 1.02, 1.03], "c": [0.5, 0.51, 0.5, 0.49, 0.5, 0.5]}
    assert Ranking("a", speedups).ranks() == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}


def test_rank_needs_two_tests(repository):
    code, text = repository.run("rlgauge", "rank", "*slow]")
    assert code == 2, text
    assert text.startswith("*slow]: only ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("test_*", "A: 'test_*' matches 4 benchmarks: test_a[1], test_a[2], test_b[1] and 1 more; name one of them"),
        ("test_a[3]", "A: 'test_a[3]' matches no benchmark; did you mean test_a[2] or test_a[1]"),
        ("sort", "A: 'sort' matches no benchmark of 4; pytest --collect-only lists them"),
    ],
)
def test_an_id_must_match_one_benchmark(text, words):
    names = ["test_a[1]", "test_a[2]", "test_b[1]", "test_b[2]"]
    assert [resolve_id(one, names, "A") for one in ("test_a[1]", "*a[2]", "b[1]")] == names[:3]
    with pytest.raises(GateError, match=f"^{re.escape(words)}"):
        resolve_id(text, names, "A")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["*slow]", "*kept]", "--precision=0"], "--precision: 0 is too small; choose 0.001 or more"),
        (["*slow]"], "rlgauge compare: give two benchmarks, A and B, or --file FILE"),
        (["*slow]", "test_other"], "the outputs differ; if they should, add --outputs ignore"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(repository, tmp_path, arguments, words):
    code, text = repository.run("rlgauge", "compare", *arguments, "--json", tmp_path / "out.json")
    assert code == 2, text
    assert text.splitlines()[-1].startswith(words), text
    assert not (tmp_path / "out.json").exists()


def interrupted(repository, said, number, *arguments):
    """Start a command, send it a signal when it has said something; return its exit code and all that it said."""
    process, text = repository.start("rlgauge", *arguments), ""
    while said not in text:
        line = process.stdout.readline()
        assert line, text
        text += line
    process.send_signal(number)
    rest, _ = process.communicate(timeout=60)
    return process.returncode, text + rest


@pytest.mark.parametrize(("command", "number"), [("compare", signal.SIGINT), ("rank", signal.SIGTERM)])
def test_an_interrupt_is_one_line_and_leaves_nothing(repository, tmp_path, command, number):
    out = "--json", tmp_path / "out.json"
    code, text = interrupted(repository, "pair 1", number, command, "*slow]", "*quick]", *out)
    assert code == 2, text
    assert text.splitlines()[-1] == "interrupted: nothing is written"
    assert list(tmp_path.iterdir()) == []
    assert repository.leftovers() == []


COMPARISONS = (  # of different precision, so that they share no pairs
    comparison("a hundredfold", "*slow]", "*quick]", leaves_out="nothing", note="seen", precision=0.05),
    comparison("items", "*slow]", "*twice]", items=True, precision=0.04),
    comparison("waits", "*waiting[6.0]", "*waiting[2.0]", measure="waits"),
)


@pytest.fixture
def comparisons(tmp_path):
    file = tmp_path / "comparisons.toml"
    file.write_text("".join(COMPARISONS))
    return file


def test_an_interrupted_file_of_comparisons_is_resumed(repository, comparisons, tmp_path):
    out = tmp_path / "out.json"
    command = ["compare", "--file", comparisons, "--json", out]
    code, text = interrupted(repository, "compare: 1 of 3: ", signal.SIGINT, *command)
    assert code == 2, text
    line = f"interrupted: {out} has 1 of 3 comparisons; to resume, repeat the command with --resume"
    assert text.splitlines()[-1] == line
    before = json.loads(out.read_text())
    ((first, row),) = before["comparisons"].items()
    code, text = repository.run("rlgauge", *command, "--resume")
    assert code == 0, text
    assert f"compare: resuming with 1 comparison from {out}" in text
    assert "compare: 2 of 3: " in text
    found = json.loads(out.read_text())["comparisons"]
    assert list(found) == ["a hundredfold", "items", "waits"]
    assert found[first] == row
    assert found["a hundredfold"]["value"] == pytest.approx(100, rel=0.03)
    assert (found["a hundredfold"]["leaves_out"], found["a hundredfold"]["note"]) == ("nothing", "seen")
    assert (found["items"]["per"], found["waits"]["value"]) == ("item (arrays)", 3)
    table = text.splitlines()[-4:]
    assert table[0].split("  ")[0] == "comparison"
    assert table[3].split()[:3] == ["waits", "waits", "3"]


def grouped(*rows):
    """Return the groups of comparisons, each given by its tests and the options that it sets."""
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


def test_only_results_of_the_same_conditions_are_resumed(tmp_path):
    out, said = tmp_path / "out.json", []
    rows = {"measured": {"value": 2.0}, "failed": {"error": "why"}}
    out.write_text(json.dumps({"conditions": {"seed": 0, "options": {}}, "comparisons": rows}))
    assert resumable_rows(out, {"seed": 0, "options": {}}, said.append) == {"measured": {"value": 2.0}}
    assert resumable_rows(out, {"seed": 1, "options": {"minutes": 5}}, said.append) == {}
    assert resumable_rows(tmp_path / "none", {}, said.append) == {}
    assert said == [
        f"compare: resuming with 1 comparison from {out}",
        "compare: starting over: changed since the interrupted run: seed, options",
        f"compare: nothing to resume: {tmp_path / 'none'} does not exist",
    ]
    out.write_text('{"speed": 1}')
    with pytest.raises(GateError, match="not a file that rlgauge compare --file writes: "):
        resumable_rows(out, {}, said.append)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("items = true", "itms = true", "comparison 2.itms: unknown key; did you mean 'items'?"),
        ("items = true", "tolerance = 1.5", "comparison 2.tolerance: 1.5 is out of range; choose a "),
        ('name = "items"', 'name = "waits"', "comparison 3.name: 'waits' names another comparison, too; "),
        ('"items"', '"items', "Illegal character "),
    ],
)
def test_a_mistake_in_a_file_names_its_key(comparisons, old, new, words):
    comparisons.write_text(comparisons.read_text().replace(old, new))
    with pytest.raises(GateError, match=f"^{re.escape(f'{comparisons}: {words}')}"):
        read(comparisons, Plan())


def test_a_mistake_in_a_file_is_one_line_and_code_2(repository, comparisons, tmp_path):
    comparisons.write_text(comparisons.read_text().replace('"*twice]"', '"*twise]"'))
    code, text = repository.run("rlgauge", "compare", "--file", comparisons, "--json", tmp_path / "out.json")
    assert code == 2, text
    words = f"{comparisons}: items: b: '*twise]' matches no benchmark; did you mean "
    assert text.splitlines()[-1].startswith(words), text
    assert not (tmp_path / "out.json").exists()
