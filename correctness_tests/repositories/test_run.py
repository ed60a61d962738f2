"""A complete gate run: verdicts, reports, the artifact and its replay."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from rlgauge.__main__ import main

from .made import CLOCK, SAME, SLOWED, Repository, flat, tidy, work
from .test_layouts import DEPENDING, gated

FILE, FIND = "benchmarks/test_run.py", "screen=1,confirm=3,looks=1,blocks=3,level=0.3"
NAMES = ("kept", "slow", "fast", "other", "passing")
HEAD = """from toy import sorting

NUMBERS = [*range(50)]


def test_no_benchmark():
    assert sorting.kept(NUMBERS) is not None
"""
AFTER = """

import gc
import os
import pathlib

FOLDER = pathlib.Path({folder!r})


def fast(numbers):
    cores = sorted(os.sched_getaffinity(0))
    FOLDER.joinpath(f"seen-{{os.getpid()}}").write_text(f"{{cores}} {{gc.isenabled()}}")
    return work(numbers, 90)


def other(numbers):
    return 2 * work(numbers, 90)


def passing(numbers):
    FOLDER.joinpath(f"called-{{os.getpid()}}").touch()
    return work(numbers, 110 if len(list(FOLDER.glob("called-*"))) <= 1 else 100)
"""


FRESH = """

@pytest.mark.parametrize("number", range(60))
def test_fresh(benchmark, number):
    benchmark(sorting.fresh, NUMBERS)
    assert number != 59
"""


def named(name):
    return f"{FILE}::test_{name}"


def file_of(**functions):
    """Return a test file with a benchmark for each function, given by test name."""
    functions |= {name: name for name in NAMES}
    return HEAD + "".join(
        f"\n\ndef test_{name}(benchmark):\n    benchmark(sorting.{of}, NUMBERS)\n" for name, of in functions.items()
    )


VERSIONED = "import subprocess\n\nsubprocess.run(['git', 'rev-parse', '--show-toplevel'], check=True)\n"
FILES = flat() | {FILE: VERSIONED + file_of(old="kept"), "toy/sorting.py": work(**dict.fromkeys(NAMES, 100))}
del FILES["benchmarks/test_sorting.py"]
toy = tidy(FILES)


@pytest.fixture(scope="module")
def ran(toy, tmp_path_factory):
    """A run with a test for each verdict; the removed test is allowed."""
    folder = tmp_path_factory.mktemp("ran")
    after = work(kept=100, slow=110, fresh=1) + AFTER.format(folder=str(folder))
    toy.at("start", {"toy/sorting.py": after, FILE: f"import pytest\n{file_of(renamed='kept')}{FRESH}"})
    return toy.gate("HEAD", folder, f"--gate-allow={named('old')}=renamed", "--setup-plan", rule=FIND)


def test_each_test_gets_its_verdict(ran):
    assert ran.code == 1, ran.text
    assert {name: found for name, found in ran.findings.items() if named("fresh") not in name} == {
        named("kept"): ("ok",),
        named("slow"): ("slower",),
        named("fast"): ("faster",),
        named("other"): ("ok", "output changed"),  # otherwise faster
        named("passing"): ("ok",),
        named("old"): ("gone",),
        named("renamed"): ("ok",),
        SAME: ("ok",),
        SLOWED: ("slower",),
    }
    assert ran.failed == {"test_slow", "test_fresh[59]"}, "the removed test is allowed"
    assert "Traceback" not in ran.text


def test_summary_and_markdown_show_each_verdict(ran):
    verdict, base, head, change, pairs, p, _ = ran.rows[named("slow")]
    assert (verdict, pairs) == ("slower", "3")
    assert float(p) <= 0.3
    assert 8 < float(change.split("%")[0]) < 12
    assert float(base.removesuffix(" ms")) == pytest.approx(5, rel=0.02)  # 100 sorts of 50 numbers on the fake clock
    low, _, high = change.partition(" (extremes ")[2].removesuffix(")").partition(", ")
    shown = f"{base} -> {head} ({change.split()[0]}, extremes [{low}, {high}])"
    assert f"{named('slow')}: slower, {shown}, n = 3 pairs, p = {p}" in ran.text
    counts = "1 error, 1 slower, 1 gone, 1 faster, 59 new, 4 ok; 1 output changed"
    assert f"failed: {counts}, " in ran.text
    assert f"\n{counts}; " in ran.markdown
    assert ran.markdown.splitlines()[0].endswith(": failed")
    assert ran.rows[named("other")][-1] == "output changed"


def test_files_of_the_package_are_only_listed_with_v(ran):
    assert "both sides run the working tree's benchmarks: benchmarks" in ran.text
    assert "toy: base " not in ran.text
    assert ".git/rlgauge" not in ran.text


def test_progress_counts_benchmarks_without_canaries(ran):
    lines = [line for line in ran.text.splitlines() if line.startswith(("gate: screen", "gate: confirm"))]
    assert lines[0] == "gate: screen 1 of 1: 66 benchmarks on 1 core"
    assert lines[1].startswith("gate: confirm 1 of 3: 4 benchmarks on 1 core")
    assert "case" not in "".join(lines)


def test_a_slowdown_that_is_not_confirmed_is_dropped(ran):
    records = ran.artifact["records"]
    assert [len(records[name]["screen"]) for name in (named("passing"), SLOWED)] == [1, 1]
    assert [len(records[name]["confirm"]) for name in (named("passing"), SLOWED)] == [1, 3]
    assert ran.rows[named("passing")][4:6] == ["1", "stopped for futility after 1 pair"]


def test_a_test_is_timed_on_the_last_core(ran):
    seen = [file.read_text() for file in ran.folder.glob("seen-*")]
    assert len(seen) == 1 + 3, "pairs of the screen and of the confirmation"
    assert set(seen) == {f"{sorted(os.sched_getaffinity(0))[-1:]} True"}


def test_the_artifact_holds_all_measurements(toy, ran):
    artifact, commit = ran.artifact, toy.git("rev-parse", "start")
    assert (artifact["base"], artifact["head"]) == (commit, f"{commit[:12]}+dirty")
    assert f"+dirty (the working tree) against {commit[:12]}: 67 benchmarks, 66 to time, 1 gone\n" in ran.text
    numbers = ("screen", "confirm", "looks", "blocks", "level")
    assert ",".join(f"{name}={artifact['rule'][name]}" for name in numbers) == FIND
    record = artifact["records"][named("slow")]
    assert record["state"] == "timed"
    assert ([len(pair) for pair in record["screen"]], [len(pair) for pair in record["confirm"]]) == ([3], [3] * 3)
    assert all(seconds > 0 for pair in record["confirm"] for block in pair for seconds in block)


def test_replay_gives_the_same_verdicts_and_code(ran, capsys):
    assert main(["replay", str(ran.folder / "gate.json")]) == ran.code
    output, errors = capsys.readouterr()
    assert (output, errors) == (ran.markdown, "")


def test_each_of_many_new_benchmarks_runs_to_its_end(ran):
    *others, last = [ran.findings[named(f"fresh[{number}]")] for number in range(60)]
    assert others == [("new", "base: AttributeError: module 'toy.sorting' has no attribute 'fresh'")] * 59
    assert last[0] == "error"
    assert "head: its test failed: AssertionError: assert 59 != 59" in ran.text


@pytest.fixture(scope="module")
def noted(tmp_path_factory):
    """Run the gate on a repository with lock files and a library in a folder that git ignores."""
    folder = tmp_path_factory.mktemp("noted")
    files = {"uv.lock": "a==1\n", "tests/conftest.py": "import no_such_module\n"}
    made = Repository(folder / "repository", DEPENDING | files)
    core, loads = made.root / "build/libcore.so", "import ctypes\n\nctypes.CDLL(os.environ['CORE'])\n"
    made.at("start", {
        "uv.lock": "a==2\n", "tests/requirements.txt": "b==1\n", "tests/conftest.py": CLOCK + loads,
        "pyproject.toml": f"[project]\ndependencies = ['a>=2']\n\n{DEPENDING['pyproject.toml']}",
        "setup.cfg": "[options]\ninstall_requires = a>=2\n", "setup.py": "import setuptools\n",
        str(core): Path(find_spec("_ctypes").origin).read_bytes(),
    })  # fmt: skip
    return gated(made, folder, CORE=str(core))


def test_lock_files_always_count_and_a_base_whose_benchmarks_cannot_be_listed_is_reported(noted):
    assert "2 to time" in noted
    declared = "the dependencies in pyproject.toml, the dependencies in setup.cfg, setup.py"
    assert f"base and head differ in tests/requirements.txt, uv.lock, {declared}, but both run with the " in noted
    assert "base's own benchmarks cannot be listed, so none is reported as gone: " in noted


def test_the_report_names_a_library_of_the_working_tree_that_both_sides_load(noted):
    assert "both sides load build/libcore.so from the working tree" in noted
