"""The two distributions, installed from their sdists."""

import os
import re
import subprocess
import sys

import pytest

from rlgauge import revisions

from .commands import ROOT
from .repositories.made import FIND, Repository, flat, work

BUILD = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
WITH_NUMPY_ALONE = """
from pathlib import Path

import numpy as np

from rl_impls import backends, params
from rl_impls.snake.vector_env import SnakeVectorEnv

weights = params.init_mlp(np.random.default_rng(0), (16, 8, 8, 8, 25))
config = {"params": weights, "epsilon": 0.1}
state = np.ones((1, 16), np.float32)
numpy, form = backends.get("numpy"), backends.forms("pirl")["naive"]
q_values = numpy.build("pirl", "forward", config, (state,), form)(state)
action = numpy.build("pirl", "act", config, (state, 0.5, 7), form)(state, 0.5, 7)
assert int(action) == np.argmax(q_values)

params.save("weights.safetensors", weights)
assert params.load("weights.safetensors").keys() == weights.keys()
SnakeVectorEnv(2).reset(seed=0)
print(backends.__file__)
"""


def ran(*command, folder):
    left_out = "GIT_", "PYTEST_", "PYTHON"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 600}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=kept, **how)
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the working tree, in which builds may leave files."""
    folder = tmp_path_factory.mktemp("clone") / "repository"
    revisions.snapshot(ROOT, folder)
    return folder


@pytest.fixture
def installed(clone, tmp_path):
    """Return a function that installs the distribution of a directory with other packages in a new environment.

    It returns the environment's directory of programs and the distribution's files.
    """

    def install(name, folder, *packages):
        code, output = ran(sys.executable, "-c", BUILD, tmp_path, folder=clone / folder)
        assert code == 0, output
        sdist = tmp_path / f"{name}-{(clone / 'VERSION').read_text().strip()}.tar.gz"
        programs = tmp_path / "env/bin"
        for command in (
            (sys.executable, "-m", "venv", tmp_path / "env"),
            (programs / "python", "-m", "pip", "install", sdist, *packages),
            (programs / "python", "-m", "pip", "check"),
        ):
            code, output = ran(*command, folder=tmp_path)
            assert code == 0, output
        (record,) = (tmp_path / "env").glob("lib/python*/site-packages/rlgauge*.dist-info/RECORD")
        return programs, {line.partition(",")[0] for line in record.read_text().splitlines()}

    return install


def tracked(clone, package):
    return {path.relative_to(clone).as_posix() for path in (clone / package).rglob("*") if path.is_file()}


def own(files):
    """Return the files of a distribution except metadata, commands and bytecode."""
    return {file for file in files if not re.search(r"\.dist-info/|^\.\./|__pycache__", file)}


@pytest.mark.slow
@pytest.mark.alone
def test_rlgauge_distribution_gates_a_repository(clone, installed, tmp_path):
    programs, files = installed("rlgauge", ".", "pytest-benchmark")
    assert own(files) == tracked(clone, "rlgauge")
    assert any(file.endswith("licenses/LICENSE") for file in files)

    toy = Repository(tmp_path / "toy", flat())
    toy.write({"toy/sorting.py": work(slow=115, kept=100)})
    code, output = ran(
        programs / "python", "-m", "pytest", "--gate-against", "HEAD", "--gate-rule", FIND, folder=toy.root
    )
    assert code == 1, output
    assert "benchmarks/test_sorting.py::test_slow" in output
    code, table = ran(programs / "rlgauge", "replay", ".rlgauge/gate.json", folder=toy.root)
    assert code == 1, table
    assert "slower" in table


@pytest.mark.slow
@pytest.mark.alone
def test_workloads_distribution_needs_no_torch(clone, installed, tmp_path):
    programs, files = installed("rlgauge_workloads", "workloads")
    assert own(files) == tracked(clone, "rl_impls")
    assert any(file.endswith("licenses/LICENSE") for file in files)

    code, output = ran(programs / "python", "-c", WITH_NUMPY_ALONE, folder=tmp_path)
    assert code == 0, output
    assert output.startswith(str(tmp_path / "env"))
    code, output = ran(programs / "python", "-m", "rl_impls", folder=tmp_path)
    assert code == 0, output
    assert "torch is not installed (pip install 'rlgauge-workloads[torch]')" in output
