"""The gate with a project's pytest settings, hooks and plugins, and a user's environment variables."""

from __future__ import annotations

import pytest

from .made import FLAT_TESTS, QUICK, Gated, Repository, flat

SETTINGS = """[tool.pytest.ini_options]
addopts = "--gate-against=helped --durations=3 --benchmark-autosave --benchmark-json=run.json"
faulthandler_timeout = 1
"""
HELPED = """from inner import SIZE
from outer import COUNT
from toy import sorting


def test_it(benchmark):
    benchmark(sorting.kept, [1] * COUNT * SIZE)
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
RERUNS = """from _pytest.runner import runtestprotocol


def pytest_runtest_protocol(item, nextitem):
    if not item.get_closest_marker("flaky"):
        return None
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if failed := [report for report in reports if report.failed]:
        for report in failed:
            report.outcome = "rerun"
        runtestprotocol(item, nextitem=nextitem)
    return True
"""
HOOKS = """import pytest


def pytest_runtest_setup(item):
    assert "tmp_path" not in item.fixturenames


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.description = str(item.function.__doc__)
    if "tmp_path" in item.funcargs:
        report.sections.append(("folder", str(item.funcargs["tmp_path"])))
"""


def install(folder, name, entry, code):
    """Write a fake pytest plugin, with its entry point, to a directory on PYTHONPATH."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (folder / f"{name}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[pytest11]\n{entry} = {name}\n")


@pytest.mark.parametrize(
    ("name", "entry", "option", "code"),
    [
        ("pytest_cov", "pytest_cov", "--cov=toy", COVERAGE),
        ("pytest_randomly", "randomly", "--randomly-seed=1", RANDOM),
    ],
)
def test_workers_disable_a_plugin_whose_option_is_in_addopts(tmp_path, name, entry, option, code):
    ini = f"[pytest]\naddopts = {option}\nrequired_plugins = {name.replace('_', '-')}\n"
    made = Repository(tmp_path / "repository", flat() | {"pytest.ini": ini})
    made.write({"toy/sorting.py": flat()["toy/sorting.py"] + "# changed\n"})
    install(tmp_path / "site", name, entry, code)
    ran = made.gate("HEAD", tmp_path, "--collect-only", rule=QUICK, PYTHONPATH=str(tmp_path / "site"))
    assert (ran.code, "3 to time" in ran.text) == (0, True), ran.text


def test_a_timeout_of_the_session_does_not_end_the_gate(tmp_path):
    made = Repository(tmp_path / "repository", flat() | {"pytest.ini": "[pytest]\naddopts = --session-timeout=0.1\n"})
    made.write({"toy/sorting.py": flat()["toy/sorting.py"] + "# changed\n"})
    install(tmp_path / "site", "pytest_timeout", "timeout", TIMEOUT)
    ran = made.gate("HEAD", tmp_path, rule=QUICK, PYTHONPATH=str(tmp_path / "site"))
    assert (ran.code, "3 passed" in ran.text) == (0, True), ran.text


def test_plugins_that_a_variable_names_are_loaded_in_workers(tmp_path):
    tests = FLAT_TESTS.replace("def test_slow(benchmark)", "def test_slow(benchmark, given)")
    made = Repository(tmp_path / "repository", flat() | {"benchmarks/test_sorting.py": tests})
    made.write({
        "toy/sorting.py": flat()["toy/sorting.py"] + "# changed\n",
        str(tmp_path / "site/given.py"): "import pytest\n\n\n@pytest.fixture\ndef given():\n    return 1\n",
    })  # fmt: skip
    variables = {"PYTEST_PLUGINS": "given", "PYTHONPATH": str(tmp_path / "site")}
    ran = made.gate("HEAD", tmp_path, "-k", "slow", rule=QUICK, **variables)
    assert (ran.code, "passed: " in ran.text) == (0, True), ran.text


def test_plugins_may_be_loaded_by_the_names_of_their_modules(tmp_path):
    plugins = "-p rlgauge.plugin -p pytest_benchmark.plugin -p xdist.plugin --benchmark-only -n 2"
    ini = f"[pytest]\naddopts = {plugins}\nfilterwarnings = error::pytest.PytestAssertRewriteWarning\n"
    made = Repository(tmp_path / "repository", flat() | {"pytest.ini": ini})
    made.write({"toy/sorting.py": flat()["toy/sorting.py"] + "# changed\n"})
    ran = made.gate("HEAD", tmp_path, "-k", "slow", "-n", "0", rule=QUICK, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert (ran.code, "passed: " in ran.text) == (0, True), ran.text


@pytest.mark.parametrize("option", ["--benchmark-skip", "--benchmark-disable"])
def test_benchmarks_that_addopts_skip_or_disable_in_other_runs_are_timed(tmp_path, option):
    made = Repository(tmp_path / "repository", flat() | {"pytest.ini": f"[pytest]\naddopts = {option}\n"})
    made.write({"toy/sorting.py": flat()["toy/sorting.py"] + "# changed\n"})
    ran = made.gate("HEAD", tmp_path, "-k", "slow", rule=QUICK)
    assert (ran.code, "passed: " in ran.text) == (0, True), ran.text


def test_options_may_name_files_beside_the_repository_and_in_it(tmp_path):
    reads = """def test_slow(benchmark, pytestconfig):
    inside, beside = map(pathlib.Path, pytestconfig.getoption("--data").split(","))
    assert str(pathlib.Path(__file__).parents[1]) in str(inside)
    assert beside.read_text() == "beside"
"""
    tests = "import pathlib\n\n" + FLAT_TESTS.replace("def test_slow(benchmark):\n", reads)
    conftest = "def pytest_addoption(parser):\n    parser.addoption('--data')\n"
    files = {"conftest.py": conftest, "benchmarks/test_sorting.py": tests}
    made = Repository(tmp_path / "repository", flat() | files)
    beside = tmp_path / "repository-data.txt"
    made.write({"toy/sorting.py": flat()["toy/sorting.py"] + "# changed\n", str(beside): "beside"})
    ran = made.gate("HEAD", tmp_path, "-k", "slow", f"--data={made.root / 'toy'},{beside}", rule=QUICK)
    assert (ran.code, "passed: " in ran.text) == (0, True), ran.text


def test_a_process_that_a_test_starts_reads_no_requests_without_capture(tmp_path):
    reads = "def test_slow(benchmark):\n    assert not subprocess.run(['cat'], capture_output=True, timeout=20).stdout"
    tests = "import subprocess\n\n" + FLAT_TESTS.replace("def test_slow(benchmark):", reads)
    made = Repository(tmp_path / "repository", flat() | {"benchmarks/test_sorting.py": tests})
    made.write({"toy/sorting.py": flat()["toy/sorting.py"] + "# changed\n"})
    ran = made.gate("HEAD", tmp_path, "-s", "-k", "slow", rule=QUICK)
    assert (ran.code, "passed: " in ran.text) == (0, True), ran.text


def test_a_removed_test_is_gone_although_base_lacks_the_configuration_file(tmp_path):
    made = Repository(tmp_path / "repository", flat())
    fewer = FLAT_TESTS.replace("[10, 50]", "[50]")
    made.write({"pytest.ini": "[pytest]\n", "benchmarks/test_sorting.py": fewer})
    ran = made.gate("HEAD", tmp_path, "--collect-only", rule=QUICK)
    assert (ran.code, "2 to time, 1 gone" in ran.text) == (0, True), ran.text


def test_no_test_runs_after_an_error_in_the_collection_although_addopts_continue(tmp_path):
    files = {"pytest.ini": "[pytest]\naddopts = --continue-on-collection-errors\n", "tests/test_broken.py": "1 / 0\n"}
    made = Repository(tmp_path / "repository", flat() | files)
    made.write({"toy/sorting.py": flat()["toy/sorting.py"] + "# changed\n"})
    ran = made.gate("HEAD", tmp_path, rule=QUICK)
    assert (ran.code, "1 error during collection" in ran.text, " passed" in ran.text) == (2, True, False), ran.text


def test_a_flaky_test_that_fails_is_not_run_again(tmp_path):
    fails = "\n\n@pytest.mark.flaky\ndef test_flaky(benchmark):\n    assert benchmark(sorting.kept, NUMBERS) is None\n"
    made = Repository(tmp_path / "repository", flat() | {"conftest.py": RERUNS})
    made.write({
        "toy/sorting.py": flat()["toy/sorting.py"] + "# changed\n",
        "benchmarks/test_sorting.py": FLAT_TESTS + fails,
    })  # fmt: skip
    ran = made.gate("HEAD", tmp_path, "-k", "flaky or kept", rule=QUICK)
    verdict, why = ran.findings["benchmarks/test_sorting.py::test_flaky"]
    assert (verdict, "its test failed: " in why) == ("error", True), ran.text


def test_hooks_of_a_project_may_look_for_fixtures_and_functions(tmp_path):
    made = Repository(tmp_path / "repository", flat() | {"conftest.py": HOOKS})
    made.write({"toy/sorting.py": flat()["toy/sorting.py"] + "# changed\n"})
    ran = made.gate("HEAD", tmp_path, rule=QUICK)
    assert (ran.code, "passed: " in ran.text) == (0, True), ran.text


def test_addopts_reach_only_the_gate_and_the_users_python_path_comes_after_the_sides(tmp_path):
    made = Repository(tmp_path / "repository", flat() | {"benchmarks/test_sorting.py": HELPED})
    folders = made.root / "vendored", tmp_path / "elsewhere"
    for folder in folders:
        made.write({str(folder / "toy/__init__.py"): "raise OSError\n"})
    made.write({str(folders[0] / "inner.py"): "SIZE = 1\n", str(folders[1] / "outer.py"): "COUNT = 50\n"})
    made.commit("helped", {"pyproject.toml": SETTINGS})
    made.write({"toy/sorting.py": flat()["toy/sorting.py"] + "# changed\n"})
    options = f"--gate-json={tmp_path / 'gate.json'}", f"--gate-rule={QUICK}", "-p", "no:cacheprovider", "--gate-strict"
    ran = Gated(*made.run("pytest", *options, PYTHONPATH=":".join(map(str, folders))), tmp_path)
    assert ran.text.count("== gate ==") == 1, ran.text
    assert (ran.code, "passed: " in ran.text) == (0, True), ran.text
    for unwanted in ("slowest", "Stack (most recent call first)", "Saved benchmark data", "Warning"):
        assert unwanted not in ran.text
    assert not list(made.root.glob(".benchmarks/**/*.json"))
    assert ran.ratios["benchmarks/test_sorting.py::test_it"]
    assert made.leftovers() == []
