"""``rlgauge compare``: which of two tests is faster, and by how much."""

from __future__ import annotations

import json
import os
import signal

import pytest

from rlgauge.compare import Ranking, Result, spread

from .made import Repository, flat

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
    files = {**flat(quick=1, twice=200), FILE: TESTS}
    files["benchmarks/conftest.py"] += DESELECTS
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
    assert found["low"] <= found["value"] <= found["high"]
    assert found["value"] == pytest.approx(wanted, rel=0.03)
    assert found["sides"][0] / found["sides"][1] == pytest.approx(wanted, rel=0.03)
    assert len(found["values"]) >= 6
    assert f"{pace(second)} is {found['value']:.3g}x [" in text


@pytest.mark.parametrize(("second", "options"), [("*kept]", []), ("*twice]", ["--items"])])
def test_the_same_work_is_no_significant_difference(repository, tmp_path, second, options):
    out = tmp_path / "out.json"
    code, text = repository.run("rlgauge", "compare", "*slow]", second, *options, "--json", out)
    assert code == 0, text
    found = json.loads(out.read_text())
    assert found["value"] == pytest.approx(1, rel=0.01)
    # a 95 % interval misses 1 in one run of 20
    assert ("no significant difference: " in text) == (found["low"] <= 1 <= found["high"])


def test_calls_are_compared_unless_items_are_asked_for(repository, tmp_path):
    out = tmp_path / "out.json"
    code, text = repository.run("rlgauge", "compare", "*slow]", "*twice]", "--json", out)
    assert code == 0, text
    assert json.loads(out.read_text())["value"] == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize(
    ("first", "second", "options", "low", "high"),
    [
        (pace("twice"), pace("slow"), ["--measure=difference"], 0.0049, 0.0051),  # seconds
        ("*held[4000000]", "*held[1000]", ["--measure=allocated", "--outputs=ignore"], 40, 200),
        ("*held[4000000]", "*held[1000]", ["--measure=peak_rss", "--outputs=ignore"], 1.1, 3),
        pytest.param(pace("slow"), pace("kept"), ["--measure=peak_rss"], 0.9, 1.1, marks=pytest.mark.slow),
        ("*scattered[10000]", "*scattered[1000]", ["--measure=spread", "--outputs=ignore", "--minutes=0"], 2, 100),
    ],
)  # fmt: skip
def test_measures_besides_seconds(repository, tmp_path, first, second, options, low, high):
    out = tmp_path / "out.json"
    code, text = repository.run("rlgauge", "compare", first, second, *options, "--json", out)
    assert code == 0, text
    found = json.loads(out.read_text())
    assert low <= found["value"] <= high
    assert f"--measure={found['measure']}" == options[0]
    assert len(found["values"]) >= 6


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


def test_a_wide_interval_says_what_would_help(repository):
    both = "*::test_moody", "test_pace[slow]"
    code, text = repository.run("rlgauge", "compare", *both, "--outputs=ignore", "--minutes=0")
    assert code == 0, text
    last = text.splitlines()[-1]
    assert last.startswith("too wide to use: ")
    assert last.endswith("give more --minutes, use an idle machine, or write a benchmark with less spread")


@pytest.mark.parametrize(
    ("measure", "values", "line"),
    [
        ("seconds", [2.0, 2.1, 2.0, 1.9, 2.0, 2.0], "b is 2x [1.9, 2.1] as fast per call as a (6 pairs)"),
        ("seconds", [1.0, 1.1, 0.9, 1.0, 1.0, 1.0], "no significant difference: 1x [0.9, 1.1] (6 pairs)"),
        ("seconds", [9.5, 102.0, 10, 20, 30, 40], "too wide to use: 25x [9.5, 102] (6 pairs); "),
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
    ("arguments", "words"),
    [
        (["*::test_pace[*", "*slow]"], "A: '*::test_pace[*' matches 4 benchmarks: "),
        (["*slow]", "test_pace[slw]"], "B: 'test_pace[slw]' matches no benchmark; did you mean "),
        (["*slow]", "test_other"], "the outputs differ; if they should, add --outputs ignore"),
        (["*slow]", "test_other", "--outputs=ignore", "--items"], f"--items: {pace('slow')} counts arrays, and "),
        (["test_broken", "*slow]"], f"{FILE}::test_broken: its test failed: AttributeError: "),
        (["*slow]", "*kept]", "--precision=0"], "--precision: 0 is too small; choose 0.001 or more"),
        (["*waiting[6.0]", "*waiting[2.0]", "--measure=wait"], f"--measure: {FILE}::test_waiting[6.0] has no "),
        (["*waiting[6.0]", "*waiting[0.0]", "--measure=waits"], f"--measure: waits of {FILE}::test_waiting[0.0] "),
        (["*slow]", "test_absent"], f"{FILE}::test_absent: skipped: no_such_module is not installed"),
        (["*slow]"], "rlgauge compare: give two benchmarks, A and B, or --file FILE"),
    ],
)  # fmt: skip
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
    code, text = interrupted(repository, "pair 2", number, command, "*slow]", "*quick]", *out)
    assert code == 2, text
    assert text.splitlines()[-1] == "interrupted: nothing is written"
    assert list(tmp_path.iterdir()) == []
    assert repository.leftovers() == []


COMPARISONS = """
[[comparison]]
name = "a hundredfold"
a = "*slow]"
b = "*quick]"
leaves_out = "nothing"
note = {seen = 1}

[[comparison]]
name = "items"
a = "*slow]"
b = "*twice]"
items = true

[[comparison]]
name = "waits"
a = "*waiting[6.0]"
b = "*waiting[2.0]"
measure = "waits"
"""


@pytest.fixture
def comparisons(tmp_path):
    file = tmp_path / "comparisons.toml"
    file.write_text(COMPARISONS)
    return file


def test_an_interrupted_file_of_comparisons_is_resumed(repository, comparisons, tmp_path):
    out = tmp_path / "out.json"
    command = ["compare", "--file", comparisons, "--json", out]
    code, text = interrupted(repository, "compare: 1 of 3: ", signal.SIGINT, *command)
    assert code == 2, text
    line = f"interrupted: {out} has 1 of 3 comparisons; to resume, repeat the command with --resume"
    assert text.splitlines()[-1] == line
    before = json.loads(out.read_text())
    (first,) = before["comparisons"].items()
    changes = ["--seed=1", "--precision=0.5"], "seed, options"
    for more, options, differing in (("", *changes), ('note = "new"', [], "file of comparisons")):
        comparisons.write_text(COMPARISONS + more)
        code, text = interrupted(repository, "pair 1", signal.SIGINT, *command, "--resume", *options)
        assert f"compare: starting over: changed since the interrupted run: {differing}\n" in text
        assert text.splitlines()[-1] == "interrupted: nothing is written"
        assert json.loads(out.read_text()) == before
    comparisons.write_text(COMPARISONS)
    code, text = repository.run("rlgauge", *command, "--resume")
    assert code == 0, text
    assert f"compare: resuming with 1 comparison from {out}" in text
    assert "compare: 2 of 3: " in text
    found = json.loads(out.read_text())["comparisons"]
    assert list(found) == ["a hundredfold", "items", "waits"]
    assert found[first[0]] == first[1]
    assert found["a hundredfold"]["value"] == pytest.approx(100, rel=0.03)
    assert (found["a hundredfold"]["leaves_out"], found["a hundredfold"]["note"]) == ("nothing", {"seen": 1})
    assert (found["items"]["per"], found["waits"]["value"]) == ("item (arrays)", 3)
    table = text.splitlines()[-4:]
    assert table[0].split("  ")[0] == "comparison"
    assert table[3].split()[:3] == ["waits", "waits", "3"]


def test_a_comparison_that_cannot_be_measured_is_named_and_the_others_go_on(repository, comparisons):
    broken = '\n[[comparison]]\nname = "broken"\na = "*slow]"\nb = "test_broken"\n'
    absent = '\n[[comparison]]\nname = "absent"\na = "*slow]"\nb = "test_absent"\n'
    waits = COMPARISONS[COMPARISONS.index('[[comparison]]\nname = "waits"') :]
    why = f"{FILE}::test_absent: skipped: no_such_module is not installed"
    comparisons.write_text(waits + absent)
    code, text = repository.run("rlgauge", "compare", "--file", comparisons)
    assert code == 0, text
    found = json.loads((repository.root / ".rlgauge/compare.json").read_text())["comparisons"]
    assert (found["waits"]["value"], found["absent"]) == (3, {"skipped": why})
    comparisons.write_text(absent)  # nothing was measured
    code, text = repository.run("rlgauge", "compare", "--file", comparisons)
    assert code == 2, text
    assert text.endswith(f"{why}\n")
    alike = (
        '\n[[comparison]]\nname = "alike"\na = "*slow]"\nb = "*twice]"\n'  # shares pairs of processes with the others
    )
    comparisons.write_text(broken + alike + absent)
    code, text = repository.run("rlgauge", "compare", "--file", comparisons)
    assert code == 2, text
    assert "its test failed: AttributeError: " in text.splitlines()[-3]
    found = json.loads((repository.root / ".rlgauge/compare.json").read_text())["comparisons"]
    assert list(found) == ["broken", "alike", "absent"]
    assert found["alike"]["value"] == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("items = true", "itms = true", "comparison 2.itms: unknown key; did you mean 'items'?"),
        ("items = true", "tolerance = 1.5", "comparison 2.tolerance: 1.5 is out of range; choose a "),
        ('name = "items"', 'name = "waits"', "comparison 3.name: 'waits' names another comparison, too; "),
        ('b = "*twice]"', 'b = "*twise]"', "items: b: '*twise]' matches no benchmark; did you mean "),
        ('"items"', '"items', "Illegal character "),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_one_line_and_code_2(repository, comparisons, tmp_path, old, new, words):
    comparisons.write_text(COMPARISONS.replace(old, new))
    code, text = repository.run("rlgauge", "compare", "--file", comparisons, "--json", tmp_path / "out.json")
    assert code == 2, text
    assert text.splitlines()[-1].startswith(f"{comparisons}: {words}"), text
    assert not (tmp_path / "out.json").exists()


def test_resume_refuses_another_file(repository, comparisons, tmp_path):
    out = tmp_path / "out.json"
    out.write_text('{"speed": 1}')
    code, text = repository.run("rlgauge", "compare", "--file", comparisons, "--json", out, "--resume")
    assert code == 2, text
    assert text.splitlines()[-1].startswith(f"{out}: not a file that rlgauge compare --file writes: ")
    assert out.read_text() == '{"speed": 1}'
