"""rlgauge without torch, with the versions of Python, pytest, pytest-benchmark and NumPy in the workflow."""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from .commands import ROOT

JOB = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]["package"]
ROWS = {row["name"]: row for row in JOB["strategy"]["matrix"]["include"]}
FILES = (
    "rlgauge", "pyproject.toml", "VERSION", "README.md", "LICENSE", "correctness_tests/repositories",
    "correctness_tests/commands.py", "correctness_tests/waiting.py",
)  # fmt: skip


def pinned(row):
    requirements = [Requirement(word) for word in row["packages"].split()]
    return {requirement.name: requirement.specifier for requirement in requirements}


def interpreter(version):
    """Return a working interpreter of this version; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for python in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"versions/{version}.*/bin/python"))):
        if python and subprocess.run([python, "--version"], capture_output=True).returncode == 0:
            return python
    return None


def test_each_promised_version_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pythons = [name.rpartition(" ")[2] for name in project["classifiers"] if "Python :: " in name]
    assert list(dict.fromkeys(row["python"] for row in ROWS.values())) == pythons
    wanted = {"pytest": ("7.4", "8", "9"), "pytest-benchmark": ("4", "5"), "numpy": ("1.26", "2")}
    for package, versions in wanted.items():
        pins = [str(pinned(row)[package]) for row in ROWS.values()]
        assert all(any(pin.startswith(f"=={version}.") for pin in pins) for version in versions), package


def test_the_oldest_row_pins_the_lowest_versions_that_the_package_accepts():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = pinned(ROWS["oldest"])
    lowest = {one.name: str(one.specifier).removeprefix(">=") for one in map(Requirement, project["dependencies"])}
    assert project["requires-python"] == f">={ROWS['oldest']['python']}"
    for name in ("numpy", "pluggy", "pytest"):
        assert str(oldest[name]).startswith(f"=={lowest[name]}.")


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("name", ROWS)
def test_package_passes_its_tests_in_these_versions(tmp_path, name):
    row = ROWS[name]
    python = interpreter(row["python"])
    if python is None:
        pytest.skip(f"Python {row['python']} is not installed")
    subprocess.run([python, "-m", "venv", tmp_path / "env"], check=True, timeout=120)
    clone = tmp_path / "clone"
    for file in FILES:
        (clone / file).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / file).is_dir() else shutil.copy
        copy(ROOT / file, clone / file)
    (clone / "correctness_tests/__init__.py").touch()

    left_out = "GIT_", "PYTEST_", "PYTHON"
    kept = {variable: value for variable, value in os.environ.items() if not variable.startswith(left_out)}
    environment = {**kept, "PATH": f"{tmp_path / 'env/bin'}:{os.environ['PATH']}", "PACKAGES": row["packages"]}
    for step in JOB["steps"]:
        if "run" in step:
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            how = {"cwd": clone, "env": environment, "capture_output": True, "text": True, "timeout": 1800}
            done = subprocess.run(command, **how)
            assert done.returncode == 0, done.stdout[-10000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    listed = [str(tmp_path / "env/bin/python"), "-m", "pip", "list", "--format=freeze"]
    installed = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
    assert set(row["packages"].split()) <= set(installed)
    assert not any(package.startswith("torch==") for package in installed)
