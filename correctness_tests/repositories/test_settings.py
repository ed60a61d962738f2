"""Settings of a project and variables of its user: the gate works all the same."""

from __future__ import annotations

from .made import QUICK, Gated, Repository, flat

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


def test_addopts_reach_the_gate_but_not_its_workers_and_the_users_python_path_comes_behind_the_sides_own(tmp_path):
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
