"""The package alone, as it is installed, in each Python that it is for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .made import ROOT, environment

OTHERS = ("3.12", "3.13")  # the other tests run in this one
PACKAGE = ("rlgauge", "rl_impls", "pyproject.toml", "README.md", "LICENSE")


def interpreter(version):
    """Return an interpreter of this version that runs; None where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for python in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"versions/{version}.*/bin/python"))):
        if python and subprocess.run([python, "--version"], capture_output=True).returncode == 0:
            return python
    return None


def called(*command, folder):
    """Run a command to its end. -> what it says"""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment(), capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("version", OTHERS)
def test_the_package_passes_its_tests_in_another_python_without_torch(tmp_path, version):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    called(python, "-m", "venv", tmp_path / "env", folder=tmp_path)
    inside = tmp_path / "env" / "bin" / "python"
    quiet = "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"
    called(inside, *quiet, "-r", ROOT / "requirements" / "package.txt", folder=tmp_path)
    (tmp_path / "package").mkdir()
    for name in PACKAGE:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / "package" / name)
    called(inside, *quiet, "--no-build-isolation", tmp_path / "package", folder=tmp_path)
    called(inside, "-m", "pip", "check", folder=tmp_path)

    tests = tmp_path / "tests" / "correctness_tests"
    shutil.copytree(ROOT / "correctness_tests" / "repositories", tests / "repositories")
    (tests / "__init__.py").touch()
    told = ["-c", os.devnull, "--rootdir", tests, "-m", "not slow", "-q", "-p", "no:cacheprovider", "-n", "2"]
    said = called(inside, "-m", "pytest", tests, *told, folder=tmp_path)
    assert " passed" in said
    assert " failed" not in said
    assert "torch" not in called(inside, "-m", "pip", "list", folder=tmp_path)
