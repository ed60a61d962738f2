"""The description of a machine: its processor and the state of the repository."""

import subprocess
import sys

import pytest

from perf_tests.report.results import name_of
from rlgauge import machine

from .repositories.made import Repository

LINES = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu {}\n\nmodel name\t: other\nflags\t\t: amx_bf16\n"


@pytest.fixture
def cpu(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "CPU", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


@pytest.mark.parametrize(
    ("flags", "vectors", "name"),
    [
        ("sse2", "", "amd-epyc-2-cores"),
        ("avx2 avx512f avx512_bf16", "avx512_bf16", "amd-epyc-avx512-bf16-2-cores"),
    ],
)
def test_name_of_a_machine_includes_its_vector_instructions(cpu, flags, vectors, name):
    cpu.write_text(LINES.format(flags))
    assert (machine.cpu_model(), machine.vectors()) == ("AMD EPYC", vectors)
    assert name_of({"cpu_model": "AMD EPYC", "vectors": vectors, "cores": 2}) == name


def test_a_machine_has_as_many_cores_as_the_process_may_use():
    code = "import os; from rlgauge import machine; os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})"
    code += "; print(machine.this_machine())"
    assert "'cores': 1}" in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout


def test_git_state_is_the_commit_and_whether_files_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))  # as in a hook of another repository
    toy = Repository(tmp_path / "toy", {"a.py": "a = 1\n"})
    commit = toy.git("rev-parse", "HEAD")[:12]
    toy.git("tag", "--annotate", "--message=a release", "v1")
    assert machine.git_state(toy.root) == commit
    toy.write({"new.py": "b = 1\n"})
    assert machine.git_state(toy.root) == commit
    toy.write({"a.py": "a = 2\n"})
    assert machine.git_state(toy.root) == f"{commit}+dirty"
    assert machine.git_state(tmp_path) == "no git"
