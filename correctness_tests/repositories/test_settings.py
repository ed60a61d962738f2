"""The gate with a project's pytest settings, hooks and plugins, and a user's environment variables."""

import pytest

from .made import QUICK, SAME, SLOW_TO_START, SLOWED, Gated, Repository, dist_info, flat

FILE = "benchmarks/test_sorting.py"
CHANGED = {"toy/sorting.py": flat()["toy/sorting.py"] + "# changed\n"}
SETTINGS = """[tool.pytest.ini_options]
addopts = "--gate-against=helped --durations=3 --benchmark-autosave --benchmark-json=run.json"
faulthandler_timeout = 1
"""
REPORTER = """def pytest_addoption(parser):
    parser.addoption("--testmon", action="store_true")  # as pytest-testmon does


def pytest_runtest_logreport(report):
    assert report.location[1] + 1 > 1


def pytest_collection_finish(session):
    assert not session.config.getoption("testmon")
"""
HELPED = """from inner import SIZE
from outer import COUNT
from toy import sorting


def test_it(benchmark):
    benchmark(sorting.kept, [1] * COUNT * SIZE)
"""
HELPED_BY_TESTS = """from tests.helpers import COUNT
from toy import sorting


def test_slow(benchmark):
    benchmark(sorting.slow, [1] * COUNT)
"""
COVERAGE = """import pytest


def pytest_addoption(parser):
    parser.addoption("--cov", dest="cov_source", action="append", nargs="?", const=True, default=[])
    parser.addoption("--no-cov", action="store_true")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    options = early_config.known_args_namespace
    if options.cov_source and not options.no_cov:
        raise pytest.UsageError("coverage is on")
"""
RANDOM = """def pytest_addoption(parser):
    parser.addoption("--randomly-seed", type=int)
"""
TIMEOUT = """import time


def pytest_addoption(parser):
    parser.addoption("--timeout", type=float)
    parser.addoption("--session-timeout", type=float)


def pytest_configure(config):
    config.end = time.time() + config.getoption("session_timeout")


def pytest_runtest_teardown(item):
    if item.config.end < time.time():
        item.session.shouldfail = "session-timeout"
"""
PLUGINS = (  # module, name of its entry point, code
    ("pytest_cov", "pytest_cov", COVERAGE),
    ("pytest_randomly", "randomly", RANDOM),
    ("pytest_timeout", "timeout", TIMEOUT),
)
GIVEN = """import pytest


@pytest.fixture
def given():
    return 50
"""
INI = """[pytest]
addopts = -x --benchmark-skip --benchmark-disable --session-timeout=0.1 --cov=toy --randomly-seed=1
required_plugins = pytest_cov pytest_randomly
"""
CONFTEST = """import gc
import random

import pytest
from _pytest.runner import runtestprotocol

DRAWN = random.random()
gc.disable()


@pytest.fixture
def drawn():
    return DRAWN


def pytest_addoption(parser):
    parser.addoption("--data")


def pytest_runtest_protocol(item, nextitem):
    if not item.get_closest_marker("flaky"):
        return None
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if failed := [report for report in reports if report.failed]:
        for report in failed:
            report.outcome = "rerun"
        runtestprotocol(item, nextitem=nextitem)
    return True


def pytest_runtest_setup(item):
    assert "tmp_path" not in item.fixturenames


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.description = str(item.function.__doc__)
    if "tmp_path" in item.funcargs:
        report.sections.append(("folder", str(item.funcargs["tmp_path"])))
"""
TESTS = """import gc
import os
import pathlib
import subprocess

import pytest

from toy import sorting

NUMBERS = [*range(50)]


def test_plugins(benchmark, pytestconfig, drawn):
    assert not pytestconfig.pluginmanager.hasplugin("randomly")
    assert pytestconfig.getoption("randomly_seed") == 1
    benchmark.extra_info["inputs"] = drawn
    benchmark(sorting.kept, NUMBERS)


def test_given(benchmark, given):
    benchmark(sorting.kept, NUMBERS[:given])


def test_skipped(benchmark):
    benchmark(sorting.kept, NUMBERS)


def test_data(benchmark, pytestconfig):
    inside, linked, beside = map(pathlib.Path, pytestconfig.getoption("--data").split(","))
    assert linked == inside
    assert str(pathlib.Path(__file__).parents[1]) in str(inside)
    assert beside.read_text() == "beside"
    benchmark(sorting.kept, NUMBERS)


def test_process(benchmark):
    assert not subprocess.run(["cat"], capture_output=True, timeout=20).stdout
    assert pathlib.Path(os.environ["PWD"]).samefile(".")
    benchmark(sorting.kept, NUMBERS)


def test_collector(benchmark):
    assert not gc.isenabled()
    benchmark(sorting.kept, NUMBERS)


def test_variables(benchmark):
    for name in ("TOY_FILE", "TOY_LINKED"):
        assert pathlib.Path(os.environ[name]).samefile(pathlib.Path(__file__).parents[1] / "toy/sorting.py")
    assert pathlib.Path(os.environ["TOY_CACHE"]).read_text() == "cached"
    assert os.environ["TOY_FOLDER"].endswith("/link/toy/")
    benchmark(sorting.kept, NUMBERS)


@pytest.mark.flaky
def test_flaky(benchmark):
    assert benchmark(sorting.kept, NUMBERS) is None
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run of a project whose addopts, hooks and plugins would skip, repeat or end its benchmarks."""
    folder = tmp_path_factory.mktemp("settings")
    made = Repository(folder / "repository", flat() | {"pytest.ini": INI, "conftest.py": CONFTEST, FILE: TESTS})
    site, beside = folder / "site", folder / "repository-data.txt"
    for name, entry, code in PLUGINS:
        entries = {f"{name}-1.dist-info/entry_points.txt": f"[pytest11]\n{entry} = {name}\n", f"{name}.py": code}
        made.write(dist_info(site, name) | {str(site / file): text for file, text in entries.items()})
    made.write({
        **CHANGED,
        str(site / "given.py"): GIVEN,
        str(beside): "beside",
        ".rlgauge/cache": "cached",
        "toy/toy": "",
    })  # fmt: skip
    options = "-s", f"--data={made.root / 'toy'},{folder}/link/toy,{beside}"
    (folder / "link").symlink_to(made.root)
    files = {"TOY_FILE": f"{made.root}/toy/sorting.py", "TOY_CACHE": f"{made.root}/.rlgauge/cache"}
    files |= {"TOY_LINKED": f"{folder}/link/toy/sorting.py", "PWD": f"{folder}/link"}  # as in a shell
    files["TOY_FOLDER"] = f"{folder}/link/toy/"  # which holds a file of the same name
    files |= {"PYTEST_PLUGINS": "given", "PYTHONPATH": str(site)}
    return made.gate("HEAD", folder, *options, rule=QUICK, code=1, **files)  # test_flaky fails


@pytest.mark.parametrize(
    "name",
    [
        "plugins",  # workers disable plugins whose options are in addopts
        "given",  # and load those that a variable names
        "skipped",  # benchmarks that addopts skip or disable in other runs are timed
        "data",  # options may name files beside the repository and in it
        "process",  # a process that a test starts reads no requests without capture, and starts in its side's tree
        "collector",  # a conftest.py may disable garbage collection
        "variables",  # a variable that names a file names the side's copy, if git does not ignore it
    ],
)
def test_settings_of_a_project_do_not_keep_a_test_from_being_timed(ran, name):
    assert ran.findings[f"{FILE}::test_{name}"] == ("ok",)


def test_a_timeout_of_the_session_does_not_end_the_gate(ran):
    assert {f"{FILE}::{name}" for name in ran.junit} == ran.findings.keys() - {SAME, SLOWED}


def test_a_flaky_test_that_fails_is_not_run_again_and_hooks_may_look_for_fixtures_and_functions(ran):
    verdict, why = ran.findings[f"{FILE}::test_flaky"]
    assert (verdict, "its test failed: " in why) == ("error", True)
    assert ran.failed == {"test_flaky"}


HOSTILE = """import os
import sys

import pytest

assert "--benchmark-only" in sys.argv or "RLGAUGE_GATE_SIDE" not in os.environ


@pytest.fixture(autouse=True)
def prepared(benchmark):
    pass


@pytest.fixture(scope="session", autouse=True)
def without_variables():
    kept = dict(os.environ)
    os.environ.clear()
    yield
    os.environ.update(kept)


def pytest_collection_modifyitems(items):
    half = items[: len(items) // 2]  # of base's tests, which are more, test_kept[50] too
    items[:] = [*half, *(item for item in items if item.name == "test_no_benchmark")]
"""
MORE = """

@pytest.mark.parametrize("number", [1, 2])
def test_last(benchmark, number):
    benchmark(sorting.kept, NUMBERS)
"""
STEPWISE = "[tool.rlgauge]\nagainst = 'start'\n[tool.pytest.ini_options]\naddopts = '--sw'\n"


def test_the_gate_does_not_depend_on_the_results_variables_and_selection_of_other_runs(tmp_path):
    files = flat() | {"pyproject.toml": STEPWISE, ".gitignore": ".pytest_cache/\n"}
    files["benchmarks/conftest.py"] += HOSTILE
    toy = Repository(tmp_path / "toy", files | {FILE: files[FILE] + MORE})
    toy.at("start", {FILE: files[FILE], "toy/sorting.py": flat(slow=120)["toy/sorting.py"]})
    failed = toy.root / ".pytest_cache/v/cache/lastfailed"
    failed.parent.mkdir(parents=True)
    before = f'{{"{FILE}::test_no_benchmark": true}}'
    failed.write_text(before)
    text = toy.output(1, "rlgauge", "gate", "benchmarks", "--gate-rule", QUICK, *SLOW_TO_START)
    assert "failed: 1 slower, 1 ok, 1 skipped" in text
    assert "gone" not in text
    assert f"a hook deselects them on head but not on base: 1 benchmark, for example {FILE}::test_kept[50]\n" in text
    assert failed.read_text() == before


def test_plugins_may_be_loaded_by_the_names_of_their_modules_and_need_lines_and_the_terminal_may_be_left_out(tmp_path):
    plugins = "-p rlgauge.plugin -p pytest_benchmark.plugin -p xdist.plugin --benchmark-only -n 2 --testmon"
    errors = "error::pytest.PytestAssertRewriteWarning\n  error::EncodingWarning:rlgauge"
    ini = f"[pytest]\naddopts = {plugins}\nfilterwarnings =\n  {errors}\n"
    made = Repository(tmp_path / "repository", flat() | {"pytest.ini": ini, "conftest.py": REPORTER})
    made.write(CHANGED)
    options = "-k", "slow", "-n", "0", "-p", "no:terminal"
    variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONWARNDEFAULTENCODING": "1"}
    ran = made.gate("HEAD", tmp_path, *options, rule=QUICK, code=0, **variables)
    assert ran.findings[f"{FILE}::test_slow"] == ("ok",), ran.text


def test_a_hook_that_skips_the_verdicts_is_explained(tmp_path):
    skips = "if 'benchmark' not in item.fixturenames:\n        pytest.skip('no benchmark')\n"
    hook = f"import pytest\n\n\ndef pytest_runtest_setup(item):\n    {skips}"
    made = Repository(tmp_path / "repository", flat() | {"conftest.py": hook})
    ran = made.gate("HEAD", tmp_path, rule=QUICK, code=2)
    assert "no verdict: a hook of conftest.py or a plugin has skipped" in ran.text


def test_no_test_runs_after_an_error_in_the_collection_although_addopts_continue(tmp_path):
    files = {"pytest.ini": "[pytest]\naddopts = --continue-on-collection-errors\n", "tests/test_broken.py": "1 / 0\n"}
    made = Repository(tmp_path / "repository", flat() | files)
    made.write(CHANGED)
    ran = made.gate("HEAD", tmp_path, rule=QUICK, code=2)
    assert ("1 error during collection" in ran.text, " passed" in ran.text) == (True, False), ran.text


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        ({"tox.ini": "[pytest]\ntestpaths = benchmarks perf"}, {"tox.ini": "[pytest]\ntestpaths = benchmarks"}, 3),
        ({}, {"tox.ini": "[pytest]\ntestpaths = benchmarks"}, 3),
        ({"setup.cfg": "[tool:pytest]"}, {"setup.cfg": "[tool:pytest]\naddopts = -k slow"}, 2 + 2),
        ({"pytest.ini": "[pytest]"}, {"pytest.ini": "[pytest]\naddopts = --deselect perf"}, 3),
        (  # the same settings in another file
            {"setup.cfg": "[tool:pytest]\naddopts = --deselect perf", "pyproject.toml": "[project]\n"},
            {"setup.cfg": "", "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--deselect perf'"},
            0,
        ),
    ],
)
def test_benchmarks_that_heads_settings_leave_out_are_gone(tmp_path, before, after, gone):
    made = Repository(tmp_path / "repository", flat() | {"perf/test_other.py": flat()[FILE]} | before)
    made.write(CHANGED | after)
    ran = made.gate("HEAD", tmp_path, "--collect-only", rule=QUICK, code=0)
    assert f"{6 - gone} to time, {gone} gone" in ran.text if gone else "3 benchmarks, 3 to time\n" in ran.text, ran.text


def test_a_benchmark_that_base_lacks_too_or_that_a_hook_deselects_is_not_gone_against_an_anchor(tmp_path):
    removed = "benchmarks/test_removed.py"
    files = flat() | {"pytest.ini": "[pytest]\naddopts = -k slow", removed: flat()[FILE]}
    made = Repository(tmp_path / "repository", files)
    made.commit("base", {"pytest.ini": "[pytest]", removed: None})
    hook = "\n\ndef pytest_collection_modifyitems(items):\n    items[:] = items[1:]\n"
    made.write(CHANGED | {"benchmarks/conftest.py": flat()["benchmarks/conftest.py"] + hook})
    ran = made.gate("base", tmp_path, "--collect-only", "--gate-anchor=start", rule=QUICK, code=0)
    assert ran.text.count("2 benchmarks, 2 to time\n") == 2, ran.text


def test_both_sides_use_heads_helpers_in_the_folder_tests(tmp_path):
    made = Repository(tmp_path / "repository", flat() | {"tests/__init__.py": "", "tests/helpers.py": ""})
    made.write(CHANGED | {"tests/helpers.py": "COUNT = 50\n", FILE: HELPED_BY_TESTS})
    ran = made.gate("HEAD", tmp_path, FILE, "--collect-only", rule=QUICK, code=0)
    assert "3 benchmarks, 1 to time, 2 gone" in ran.text, ran.text


def test_addopts_reach_only_the_gate_and_the_users_python_path_comes_after_the_sides(tmp_path):
    made = Repository(tmp_path / "repository", flat() | {FILE: HELPED})
    folders = made.root / "vendored", tmp_path / "repository-other"  # whose name begins like that of the repository
    for folder in folders:
        made.write({str(folder / "toy/__init__.py"): "raise OSError\n"})
    made.write({str(folders[0] / "inner.py"): "SIZE = 1\n", str(folders[1] / "outer.py"): "COUNT = 50\n"})
    made.commit("helped", {"pyproject.toml": SETTINGS})
    made.write(CHANGED)
    options = f"--gate-json={tmp_path / 'gate.json'}", f"--gate-rule={QUICK}", "-p", "no:cacheprovider", "--gate-strict"
    ran = Gated(*made.run("pytest", *options, PYTHONPATH=":".join(map(str, folders))), tmp_path)
    assert ran.text.count("== gate ==") == 1, ran.text
    assert (ran.code, "passed: " in ran.text) == (0, True), ran.text
    for unwanted in ("slowest", "Stack (most recent call first)", "Saved benchmark data", "Warning"):
        assert unwanted not in ran.text
    assert not list(made.root.glob(".benchmarks/**/*.json"))
    assert ran.ratios[f"{FILE}::test_it"]
    assert made.leftovers() == []
