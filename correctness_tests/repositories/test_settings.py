"""Settings of a project and variables of its user: the gate works all the same."""

from __future__ import annotations

import pytest

from rlgauge.__main__ import main

from .made import QUICK, Repository, flat

CHANGED = flat()["toy/sorting.py"] + "# changed\n"
SETTINGS = """[tool.pytest.ini_options]
addopts = "--gate-against=start --durations=3 --benchmark-autosave --benchmark-json=run.json"
faulthandler_timeout = 1
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    made = Repository(tmp_path_factory.mktemp("settings") / "repository", flat())
    yield made
    assert made.leftovers() == []


def test_addopts_reach_the_gate_but_not_its_workers(repository, tmp_path):
    repository.at("start", {"pyproject.toml": SETTINGS, "toy/sorting.py": CHANGED})
    artifact, rule = f"--gate-json={tmp_path / 'gate.json'}", f"--gate-rule={QUICK}"
    code, text = repository.run("pytest", artifact, rule, "-p", "no:cacheprovider", "--gate-strict")
    assert text.count("== gate ==") == 1, text
    assert (code, "passed: " in text) == (0, True), text
    for unwanted in ("slowest", "Stack (most recent call first)", "Saved benchmark data", "Warning"):
        assert unwanted not in text
    assert not list(repository.root.glob(".benchmarks/**/*.json"))


HELPED = """from helper import COUNT
from toy import sorting


def test_it(benchmark):
    benchmark(sorting.kept, [1] * COUNT)
"""


@pytest.mark.parametrize("inside", [False, True])
def test_the_users_python_path_comes_behind_the_sides_own(repository, tmp_path, inside):
    folder = repository.root / "vendored" if inside else tmp_path
    helper = {str(folder / "helper.py"): "COUNT = 50\n", str(folder / "toy" / "__init__.py"): "raise OSError\n"}
    changed = {"benchmarks/test_sorting.py": HELPED, "toy/sorting.py": CHANGED, **helper}
    repository.at("start")
    repository.commit(f"helper-{inside}", {name: text for name, text in changed.items() if name != "toy/sorting.py"})
    repository.write({"toy/sorting.py": changed["toy/sorting.py"]})
    ran = repository.gate(f"helper-{inside}", tmp_path, rule=QUICK, PYTHONPATH=str(folder))
    assert ran.code == 0, ran.text
    assert ran.findings["benchmarks/test_sorting.py::test_it"][0] in ("ok", "inconclusive", "faster")


BROKEN = "\n\ndef test_broken(benchmark):\n    benchmark(sorting.kept, None.missing)\n"
SKIPS = "\n\npytestmark = pytest.mark.skip\n"


@pytest.mark.parametrize(
    ("added", "options", "code", "words"),
    [
        (BROKEN, [], 1, "failed: 1 error, "),
        (BROKEN, ["--gate-allow=*broken=why"], 1, "failed: 1 error, "),
        (BROKEN, ["--gate-allow=benchmarks/test_sorting.py::test_broken=why"], 0, "passed: 1 NOT MEASURED, "),
        (SKIPS, [], 2, "invalid run, no verdict: 3 skipped"),
    ],
)
def test_exit_codes(repository, tmp_path, added, options, code, words):
    tests = flat()["benchmarks/test_sorting.py"] + added
    changed = {"benchmarks/test_sorting.py": tests, "toy/sorting.py": CHANGED}
    repository.at("start", changed)
    ran = repository.gate("start", tmp_path, *options, rule=QUICK)
    assert words in ran.text
    assert ran.code == code, ran.text
    assert main(["replay", str(tmp_path / "gate.json")]) == code


def test_a_conftest_that_base_cannot_import_is_named(repository, tmp_path):
    added = {"toy/new.py": "VALUE = 1\n", "benchmarks/conftest.py": "from toy.new import VALUE\n"}
    repository.at("start", {"toy/sorting.py": CHANGED, **added})
    ran = repository.gate("start", tmp_path, rule=QUICK)
    assert ran.code == 2, ran.text
    why = (
        "benchmarks/conftest.py cannot be imported here: ModuleNotFoundError: No module named 'toy.new'; both sides use"
    )
    assert f"base: ended with code 1; {why}" in ran.text
