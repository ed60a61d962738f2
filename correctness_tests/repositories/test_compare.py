"""``rlgauge compare``: which of two tests is faster, and by how much."""

import json
import os
import signal

import pytest

from rlgauge.__main__ import main
from rlgauge.revisions import measurement_lock

from .made import INI, Repository, flat, tidy

FILE = "benchmarks/test_pace.py"
TESTS = """import os
import random
from fractions import Fraction
from pathlib import Path

import pytest
from conftest import clock

from toy import sorting

NUMBERS = random.Random(0).sample(range(1000), 50)


def test_early(benchmark):
    pytest.skip("too early")


@pytest.mark.parametrize("name", ["quick", "slow", "kept", "twice"])
def test_pace(benchmark, name):
    benchmark.extra_info |= {"items": 2 if name == "twice" else 1, "unit": "arrays"}
    benchmark(getattr(sorting, name), NUMBERS)


def test_other(benchmark):
    benchmark.extra_info |= {"items": 1, "unit": "lists"}
    benchmark(sorting.quick, NUMBERS)


def test_broken(benchmark):
    benchmark(sorting.missing)


def test_checked(benchmark):
    benchmark(sorting.quick, NUMBERS)
    raise AssertionError("unsorted")


@pytest.mark.parametrize("scatter", [0.01, 0.5])
def test_long(benchmark, scatter):
    def long():
        clock.now += 2 + scatter * random.SystemRandom().random()
        return scatter

    benchmark(long)


@pytest.mark.parametrize("size", [640_000, 64_000_000])
def test_held(benchmark, size):
    compiled = Path(__file__).with_name("held.compiled")
    if not compiled.exists():  # in the first process of a side
        b"1" * 160_000_000
        compiled.touch()

    def held():
        clock.now += 0.04  # a long call, so that few are made
        return len(b"1" * size)

    benchmark(held)


@pytest.mark.parametrize("side", ["a", "b"])
def test_threads(benchmark, side):
    benchmark(sorting.quick, NUMBERS)
    threads = 100 * int(os.environ["OMP_NUM_THREADS"]) + len(os.sched_getaffinity(0))  # and number of cores
    benchmark.extra_info["figures"] = {"threads": threads}


@pytest.mark.parametrize("by", [0.0, 1e-9], ids=["exact", "rounded"])
def test_close(benchmark, by):
    benchmark(lambda: [number + by for number in sorting.quick(NUMBERS)])
    benchmark.extra_info["figures"] = {"waits": Fraction(2 if by else 6)}


@pytest.mark.parametrize("iterations", [1, 10])
def test_iterations(benchmark, iterations):
    benchmark.pedantic(sorting.slow, (NUMBERS,), iterations=iterations, rounds=3)


def test_absent(benchmark):
    pytest.importorskip("no_such_module", reason="no_such_module is not installed")
"""

MORE = """def test_same(benchmark):
    benchmark(sorted, [2, 1])
"""
DESELECTS = """

def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "threads" not in item.name]
"""
FILES = {**flat(quick=1, twice=200), **INI, FILE: TESTS, "benchmarks/more.py": MORE}
FILES["benchmarks/conftest.py"] += DESELECTS
repository = tidy(FILES)


def pace(name):
    return f"{FILE}::test_pace[{name}]"


def comparison(name, a, b, **options):
    lines = [f"{key} = {json.dumps(value)}" for key, value in {"name": name, "a": a, "b": b, **options}.items()]
    return "\n".join(["[[comparison]]", *lines, "\n"])


VALUES = {  # low, high
    "half": (1.98, 2.02),
    "hundredfold": (98, 102),
    "items": (0.99, 1.01),
    "difference": (0.0049, 0.0051),
    "difference of items": (-0.0001, 0.0001),
    "close": (0.97, 1.03),
    "iterations": (0.98, 1.02),
    "spread": (2, 1e9),
    "allocated": (80, 400),
    "peak": (1.4, 6),
    "waits": (3, 3),
}
MEASURED = [
    comparison("half", "*twice]", "*slow]"),
    comparison("hundredfold", "*slow]", "*quick]"),
    comparison("no items", "*exact]", "*rounded]", items=True),
    comparison("items", "*twice]", "*slow]", items=True, leaves_out="nothing", note="seen"),
    comparison("difference", "*twice]", "*slow]", measure="difference"),
    comparison("difference of items", "*twice]", "*slow]", measure="difference", items=True),
    comparison("close", "*[exact]", "*[rounded]"),
    comparison("not exactly", "*[exact]", "*[rounded]", tolerance=0),
    comparison("iterations", "*iterations[1]", "*iterations[10]"),
    comparison("not the same", "*[exact]", "*[rounded]", outputs="same"),
    comparison("spread", "*long[0.5]", "*long[0.01]", measure="spread", outputs="ignore"),
    comparison("allocated", "*held[64000000]", "*held[640000]", measure="allocated", outputs="ignore"),
    comparison("peak", "*held[64000000]", "*held[640000]", measure="peak_rss", outputs="ignore"),
    comparison("differ", "*long[0.5]", "*long[0.01]"),
    comparison("broken", "test_broken", "*slow]"),
    comparison("checked", "*slow]", "test_checked"),
    comparison("waits", "*[exact]", "*[rounded]", measure="waits"),
    comparison("no figure", "*[exact]", "*[rounded]", measure="wait"),  # measured first, with the same samples
    comparison("absent", "*slow]", "test_absent"),
]
FAILED = {
    "not the same": f"{FILE}::test_close[exact] and {FILE}::test_close[rounded]: the outputs differ; if they should, ",
    "not exactly": f"{FILE}::test_close[exact] and {FILE}::test_close[rounded]: the outputs differ; if they should, ",
    "no items": f"--items: {FILE}::test_close[exact] does not count its items; set benchmark.extra_info",
    "differ": f"{FILE}::test_long[0.5] and {FILE}::test_long[0.01]: the outputs differ; if they should, add ",
    "broken": f"{FILE}::test_broken: its test failed: AttributeError: ",
    "checked": f"{FILE}::test_checked: its test failed: AssertionError: unsorted",
    "no figure": f"--measure: {FILE}::test_close[exact] has no figure 'wait' (choose from ",
}
SKIPPED = f"{FILE}::test_absent: skipped: no_such_module is not installed"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    file = tmp_path_factory.mktemp("measured") / "comparisons.toml"
    file.write_text("".join(MEASURED))
    return file


@pytest.fixture(scope="module")
def measured(repository, file):
    """Measure the file of comparisons, with an interruption after its first group.

    Return the results and the output, then those of the interrupted command.
    """
    command = "rlgauge", "compare", "--file", file, "--minutes=0"  # six pairs
    interrupted = repository.interrupted("compare: 1 of ", signal.SIGINT, *command)
    out = repository.root / ".rlgauge/compare.json"
    before = json.loads(out.read_text())["comparisons"]
    text = repository.output(2, *command, "--resume")
    return json.loads(out.read_text())["comparisons"], text, before, interrupted


@pytest.mark.parametrize("name", VALUES)
def test_comparisons_of_a_file_have_their_values(measured, name):
    found, *_ = measured
    low, high = VALUES[name]
    assert low <= found[name]["value"] <= high
    assert len(found[name]["values"]) >= 6


def test_the_first_processes_which_compile_do_not_count_in_peak_memory(measured):
    assert min(measured[0]["peak"]["values"]) > 1.2


def test_an_interval_that_includes_equality_is_not_significant(measured):
    row = measured[0]["items"]  # a 95% interval excludes 1 in one run of 20
    assert (row["verdict"] == "no significant difference") == (row["low"] <= 1 <= row["high"])
    assert row["per"] == "item (arrays)"
    assert row["sides"][0] == pytest.approx(row["sides"][1], rel=0.03)  # in seconds per item


@pytest.mark.parametrize("name", FAILED)
def test_a_comparison_that_fails_is_named_and_the_others_go_on(measured, name):
    found, text, *_ = measured
    assert found[name]["error"].startswith(FAILED[name])
    assert f"{name}: error: {FAILED[name]}" in text


def test_a_comparison_of_a_skipped_test_is_skipped(measured):
    assert measured[0]["absent"] == {"skipped": SKIPPED}


def test_an_interrupted_file_of_comparisons_is_resumed(measured):
    found, text, before, interrupted = measured
    progress = f"compare.json has {len(before)} of {len(MEASURED)} comparisons"
    line = interrupted.splitlines()[-1]
    assert line.startswith("interrupted: ")
    assert line.endswith(f"{progress}; to resume, repeat the command with --resume")
    kept = {name: row for name, row in before.items() if "value" in row}
    assert 0 < len(kept) < len(VALUES)
    assert f"compare: resuming with {len(kept)} comparison" in text
    assert {name: found[name] for name in kept} == kept


def test_the_results_of_a_file_are_a_table_with_notes(measured):
    found, text, *_ = measured
    assert (found["items"]["leaves_out"], found["items"]["note"]) == ("nothing", "seen")
    lines = text.splitlines()
    assert lines[-2:] == ["items: seen", "items leaves out: nothing"]
    assert [line.split()[:3] for line in lines if line.startswith(("comparison ", "waits "))] == [
        ["comparison", "measure", "A"],
        ["waits", "waits", "3"],
    ]


@pytest.mark.usefixtures("measured")
def test_a_resumed_file_measures_failed_comparisons_again(repository, file):
    command = "rlgauge", "compare", "--file", file, "--minutes=0", "--resume", "--only", "broken"
    text = repository.output(2, *command)
    assert f"compare: resuming with {len(VALUES)} comparisons from " in text
    assert text.count(f"broken: error: {FAILED['broken']}") == 1


def test_only_the_chosen_comparisons_of_a_file_as_it_was_at_the_start_decide_the_exit_code(repository, tmp_path):
    file, out = tmp_path / "comparisons.toml", tmp_path / "out.json"
    tables = comparison("items", "*slow]", "*twice]") + comparison("absent", "*slow]", "test_absent")
    file.write_text(tables)
    command = "rlgauge", "compare", "--file", file, "--json", out, "--minutes=0", "--only", "absent"
    with measurement_lock(repository.root / ".git/rlgauge"):
        process = repository.start(*command)
        while "waiting for another measurement" not in (line := process.stdout.readline()):
            assert line, "it ends without waiting"
        file.write_text(comparison("absent", "*slow]", "*kept]"))  # too late
    text, _ = process.communicate(timeout=60)
    assert (process.returncode, "compare: 1 of 1: absent: " in text) == (2, True), text
    file.write_text(tables)
    found = json.loads(out.read_text())
    assert found["comparisons"] == {"absent": {"skipped": SKIPPED}}
    found["comparisons"]["items"] = {"value": 2.0}  # of an earlier run
    out.write_text(json.dumps(found))
    repository.output(2, *command)
    assert list(json.loads(out.read_text())["comparisons"]) == ["items", "absent"]


@pytest.mark.skipif(os.cpu_count() < 2, reason="needs two cores")
def test_each_side_has_threads_and_cores_of_its_own(repository, tmp_path):
    # conftest.py deselects test_threads, but benchmarks given by name are compared anyway
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count()))
    out, both = tmp_path / "out.json", ["*threads[a]", "*threads[b]"]
    options = "--threads-a=2", "--threads-b=1", "--measure=threads", "--json", out
    code, text = repository.run("rlgauge", "compare", *both, *options)
    os.sched_setaffinity(0, before)
    assert code == 0, text
    found = json.loads(out.read_text())
    assert found["sides"] == [202, 101]
    assert (found["value"], found["low"], found["high"], len(found["values"])) == (2, 2, 2, 6)
    assert f"threads of {FILE}::test_threads[a] is 2x [2, 2] that of {FILE}::test_threads[b] (6 pairs)" in text


@pytest.mark.slow
def test_items_of_different_units_are_not_compared(repository):
    options = "--items", "--outputs=ignore", "--minutes=0"
    text = repository.output(2, "rlgauge", "compare", "*slow]", "test_other", *options)
    assert f"--items: {FILE}::test_pace[slow] counts arrays, " in text


def test_rank_orders_tests_with_ties_and_leaves_out_skipped_ones(repository, tmp_path):
    out = tmp_path / "out.json"
    tests = "*::test_early", "*::test_pace[*", "*::test_absent"  # the first and the last one are skipped
    text = repository.output(0, "rlgauge", "rank", *tests, "--minutes=0", "--json", out)
    found = json.loads(out.read_text())
    ranks = found["ranks"]
    assert set(ranks) == {pace(name) for name in ("quick", "slow", "kept", "twice")}
    assert (ranks[pace("quick")], ranks[pace("twice")]) == ([1, 1], [4, 4])
    assert sorted((ranks[pace("kept")], ranks[pace("slow")])) in ([[2, 3], [2, 3]], [[2, 2], [3, 3]])
    assert found["baseline"] in found["speedups"]
    for name, (best, worst) in ranks.items():
        (line,) = [line for line in text.splitlines() if line.endswith(f"  {name}") and "x [" in line]
        assert line.split()[0] == (f"{best}" if best == worst else f"{best}-{worst}")
    early = f"{FILE}::test_early: skipped: too early"
    assert found["skipped"] == {f"{FILE}::test_early": early, f"{FILE}::test_absent": SKIPPED}
    assert text.splitlines()[-2:] == [early, SKIPPED]


@pytest.mark.slow
def test_rank_by_memory_measures_each_test_in_processes_of_its_own(repository, tmp_path):
    options = "--measure=peak_rss", "--outputs=ignore", "--minutes=0", "--json", tmp_path / "out.json"
    repository.output(0, "rlgauge", "rank", "*slow]", "*held[*", *options)
    speedups = json.loads(options[-1].read_text())["speedups"]
    assert max(speedups[f"{FILE}::test_held[64000000]"]) < 0.85 < min(speedups[f"{FILE}::test_held[640000]"])


MORE_SAME = "benchmarks/more.py::test_same"  # in a file that pytest does not collect by itself


@pytest.mark.parametrize(
    ("tests", "words"),
    [(["*::test_absent", "*slow]"], SKIPPED), ([MORE_SAME], f"{MORE_SAME}: only {MORE_SAME} matches; ")],
)
def test_rank_needs_two_tests_that_are_not_skipped(repository, monkeypatch, capsys, tests, words):
    monkeypatch.chdir(repository.root)
    assert main(["rank", *tests, "--minutes=0"]) == 2
    assert words in "".join(capsys.readouterr())


NEEDS = "import warnings\n\nimport needed\n\nwarnings.warn('old', DeprecationWarning)\n\n" + TESTS


def test_a_file_is_collected_with_the_users_path_and_options(tmp_path):
    ini = {name: f"{text}filterwarnings = error\n" for name, text in INI.items()}
    made = Repository(tmp_path / "needs", {**flat(), **ini, "benchmarks/test_needs.py": NEEDS})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/needed.py").write_text("")
    command = "rlgauge", "rank", "*test_pace[quick]", "--minutes=0"
    text = made.output(2, *command, PYTEST_ADDOPTS="-o filterwarnings=ignore")
    assert text.startswith("rlgauge rank: '*test_pace[quick]' matches no benchmark")
    reason = "ModuleNotFoundError: No module named 'needed'"
    assert text.endswith(f"; benchmarks/test_needs.py cannot be collected: {reason}\n")
    assert text.count("\n") == 1
    text = made.output(2, *command, PYTEST_ADDOPTS="-o filterwarnings=ignore", PYTHONPATH=tmp_path / "elsewhere")
    assert text.startswith("*test_pace[quick]: only benchmarks/test_needs.py::test_pace[quick] matches; ")
    assert made.leftovers() == []


def test_an_unknown_comparison_is_one_line_and_code_2(repository, file, monkeypatch, capsys):
    monkeypatch.chdir(repository.root)
    assert main(["compare", "--file", str(file), "--only", "wait"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"--only 'wait': {file} has no such comparison; did you mean waits")


def test_a_mistake_in_a_file_is_one_line_and_code_2(repository, tmp_path, monkeypatch, capsys):
    file, out = tmp_path / "comparisons.toml", tmp_path / "out.json"
    file.write_text(comparison("items", "*slow]", "*twise]"))
    monkeypatch.chdir(repository.root)
    assert main(["compare", "--file", str(file), "--json", str(out)]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"{file}: items: b: '*twise]' matches no benchmark; did you mean ")
    assert not out.exists()
