"""The gate on repositories without rlgauge settings."""

import json
import os

import pytest

from rlgauge.process import cpu_limit

from .made import CLOCK, FIND, FLAT_TESTS, QUICK, SAME, SLOWED, Gated, Repository, flat, sourced, tidy, work

FILE, SERVED = "benchmarks/test_sorting.py", "tests/test_served.py::TestSorting"
SLOW, KEPT = f"{FILE}::test_slow", (f"{FILE}::test_kept[10]", f"{FILE}::test_kept[50]")
MORE = "\n\ndef test_more(benchmark):\n    benchmark(sorting.kept, NUMBERS)\n"
IDS = """def pytest_make_parametrize_id(config, val):
    return None if config.option.verbose >= 2 else f"{val} with less than -vv"
"""
ONCE = 'import builtins\n\nassert not hasattr(builtins, "toys")\nbuiltins.toys = "loaded"\n'  # fails if loaded twice
MOVED = {"conftest.py": None, "benchmarks/conftest.py": f"{CLOCK}\n\n{ONCE}"}
CACHES = (
    "NUMBA_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "JAX_COMPILATION_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "WARP_CACHE_PATH",
)
WATCHED = f"""

import json

if "RLGAUGE_GATE_SIDE" in os.environ and "SEEN" in os.environ:
    tree = pathlib.Path(__file__).parents[1]
    process = {{"side": os.environ["RLGAUGE_GATE_SIDE"], "caches": [os.environ[name] for name in {CACHES}]}}
    process |= {{"tree": str(tree), "compiled": (tree / "src" / "served" / "__pycache__").exists()}}
    pathlib.Path(os.environ["SEEN"], f"process-{{time.monotonic_ns()}}-{{os.getpid()}}").write_text(json.dumps(process))
"""
toy = tidy(flat())


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Run the gate on a repository with a server, whose conftest.py records each process in a file.

    Return the run and the paths of these files.
    """
    folder = tmp_path_factory.mktemp("served")
    files, seen, users = sourced(), folder / "seen", folder / "users"
    files["tests/conftest.py"] += WATCHED
    toy = Repository(folder / "toy", files)
    toy.write({"src/served/core.py": work(slow=110, kept=100)})
    seen.mkdir()
    variables = {"SEEN": str(seen), **dict.fromkeys((*CACHES, "PYTHONPYCACHEPREFIX"), str(users))}
    ran = toy.gate("start", folder, **variables)
    assert not users.exists(), "both sides would share the user's directories"
    assert toy.git("status", "--porcelain") == "M src/served/core.py"
    assert toy.leftovers() == []
    return ran, sorted(seen.iterdir())


def test_fixtures_of_a_test_live_while_it_is_timed(served):
    ran, seen = served
    assert ran.code == 1, ran.text
    slow, kept = ([f"{SERVED}::test_{op}[{order}]" for order in ("up", "down")] for op in ("slow", "kept"))
    assert ran.findings == dict.fromkeys((*slow, SLOWED), ("slower",)) | dict.fromkeys((*kept, SAME), ("ok",))
    started, ended = (
        sorted(path.name.split("-")[1] for path in seen if path.name.startswith(word)) for word in ("started", "ended")
    )
    assert started == ended
    assert len(started) == 2 * (1 + 2), "two processes per pair, each once"


def test_each_side_keeps_what_it_compiles_in_a_folder_of_its_own(served):
    processes = [json.loads(path.read_text()) for path in served[1] if path.name.startswith("process")]
    for side in ("base", "head"):
        own = [one for one in processes if one["side"] == side and f"/sides/{side}/" in one["tree"]]
        assert len(own) >= 3
        assert len({tuple(one["caches"]) for one in own}) == 1
        assert len({*own[0]["caches"]}) == len(CACHES)
        assert all(path.startswith(own[0]["tree"].partition("/tree/")[0]) for path in own[0]["caches"])
        assert [one["compiled"] for one in own] == [False] + [True] * (len(own) - 1)


@pytest.fixture(scope="module")
def generated(toy):
    """Files that a build has left in the tree and that git ignores; the package needs the first.

    The tag ``generated`` has a ``conftest.py`` in the root too.
    """
    toy.at("start")
    package = {"toy/__init__.py": "from ._version import VERSION\n\n__all__ = ['VERSION']\n"}
    toy.commit("generated", {**package, "conftest.py": ONCE, ".gitignore": "__pycache__/\ntoy/_version.py\nbuild/\n"})
    return {"toy/_version.py": "VERSION = 1\n", "build/toy/other.py": "VERSION = 2\n"}


def test_only_selected_tests_run_and_generated_files_are_on_both_sides(toy, generated, tmp_path):
    toy.at("generated", {**generated, "toy/sorting.py": work(slow=101, kept=100), "conftest.py": IDS})
    ran = toy.gate("HEAD", tmp_path, "-vv", "-n", "2", "-k", "kept", rule=QUICK, code=0)
    assert "\ntoy: base toy/__init__.py, head toy/__init__.py\n" in ran.text
    assert all(f"\n{name} PASSED " in ran.text for name in KEPT)
    assert ran.findings.keys() == {*KEPT, SAME, SLOWED}
    assert "generated files, copied from the working tree to both sides: toy/_version.py\n" in ran.text
    assert ran.seconds(KEPT[1]) == pytest.approx([5e-3] * 2, rel=0.05)  # of a call, not of its two iterations


def test_the_same_code_is_unchanged_and_so_is_another_benchmark_of_it(toy, generated, tmp_path):
    beside = {"README.md": "# A toy\n", ".github/workflows/tests.yml": "on: push\n"}
    toy.at("generated", {**generated, **MOVED, **beside, FILE: FLAT_TESTS + MORE})
    options = "--gate-resume", "--junitxml=junit.xml", "--benchmark-json=times.json", "--benchmark-autosave"
    command = toy.command("HEAD", tmp_path, *options)  # pytest --gate-against HEAD ...
    ran = Gated(*toy.run("rlgauge", "gate", "HEAD", *command[3:]), tmp_path)
    assert ran.code == 0, ran.text
    assert "gate: nothing to resume, starting over: " in ran.text
    assert "gate.json does not exist\n" in ran.text
    assert "gate: these options have no effect here: --benchmark-json, --benchmark-autosave; " in ran.text
    assert not (toy.root / "times.json").exists()
    assert set(ran.findings.values()) == {("unchanged",)}
    assert len(ran.findings) == 4


def test_a_removed_test_is_gone_although_base_lacks_files_and_has_another_conftest(toy, generated, tmp_path):
    fewer = {FILE: FLAT_TESTS.replace("[10, 50]", "[50]"), "toy/sorting.py": work(slow=101, kept=100)}
    toy.at("generated", {**generated, **MOVED, **fewer, "pytest.ini": "[pytest]\n"})
    assert "2 to time, 1 gone" in toy.gate("HEAD", tmp_path, "--collect-only", rule=QUICK, code=0).text


def test_a_shard_without_tests_passes(toy, tmp_path):
    toy.at("start", flat(slow=110))
    ran = toy.gate("start", tmp_path, "--gate-shard=4/4")  # of three tests
    assert (ran.code, ran.artifact["records"], ran.artifact["cases"]) == (0, {}, 3), ran.text


@pytest.mark.slow
def test_the_anchor_finds_slow_drift(toy, tmp_path):
    toy.at("start")
    for step in range(9):  # each 0.5% slower, which is less than the tolerated 1%
        toy.commit(f"drift-{step}", {"toy/sorting.py": work(slow=200 + step, kept=100)})
    ran = toy.gate("HEAD~1", tmp_path, "--gate-anchor", "drift-0", code=1)
    assert ran.findings[SLOW][0] != "slower"
    assert "### Speed of " in ran.markdown
    assert f"against the anchor {toy.git('rev-parse', '--short=12', 'drift-0')}: failed" in ran.markdown
    assert ran.failed == {"test_slow"}


@pytest.mark.slow
def test_bisect_names_the_commit(toy):
    toy.at("start")
    for step in range(1, 5):
        toy.commit(f"step-{step}", {"toy/sorting.py": work(slow=100 + 10 * (step >= 3), kept=100 + step)})
    text = toy.output(0, "rlgauge", "bisect", SLOW, "start", "HEAD", "--rule", FIND)
    assert text.splitlines()[-1].startswith(f"slowed by {toy.git('rev-parse', '--short=12', 'step-3')} +")


@pytest.mark.skipif(min(os.cpu_count(), cpu_limit() or 2) < 2, reason="needs two cores")
def test_bisect_gives_a_test_all_cores_where_its_mark_says_so(toy):
    toy.at("start")
    tests = FLAT_TESTS.replace("def test_slow", '@pytest.mark.rlgauge(cores="all")\ndef test_slow')
    units = "100 + 20 * (len(os.sched_getaffinity(0)) > 1)"  # slower on several cores alone
    toy.commit("crowded", {FILE: tests, "toy/sorting.py": f"import os\n\n{work(slow=units, kept=100)}"})
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count()))
    try:
        code, text = toy.run("rlgauge", "bisect", SLOW, "start", "HEAD", "--rule", QUICK)
    finally:
        os.sched_setaffinity(0, before)
    assert code == 0, text
    assert text.splitlines()[-1].startswith(f"slowed by {toy.git('rev-parse', '--short=12', 'crowded')} +")
