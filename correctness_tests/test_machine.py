"""What machine a figure belongs to."""

from __future__ import annotations

import pytest

from perf_tests.report.results import name_of
from perf_tests.suite import machine as suite_machine
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
        ("avx avx2 bmi2", "avx2", "amd-epyc-avx2-2-cores"),
        ("avx2 avx512f avx512_vnni", "avx512f", "amd-epyc-avx512f-2-cores"),
        ("avx2 avx512f avx512_bf16", "avx512_bf16", "amd-epyc-avx512-bf16-2-cores"),
    ],
)
def test_processors_of_one_name_are_told_apart_by_their_vector_instructions(cpu, flags, vectors, name):
    cpu.write_text(LINES.format(flags))
    assert (machine.cpu_model(), machine.vectors()) == ("AMD EPYC", vectors)
    assert name_of({"cpu_model": "AMD EPYC", "vectors": vectors, "cores": 2}) == name


def test_arm_names_them_in_another_line(cpu):
    cpu.write_text("processor\t: 0\nFeatures\t: fp asimd\n")
    assert machine.vectors() == "asimd"


def test_where_the_processor_is_not_described_nothing_is_made_up(cpu):
    assert machine.vectors() == ""
    assert machine.cpu_model()


def test_it_is_called_by_both_where_both_are_known():
    assert machine.called({"cpu_model": "AMD EPYC", "vectors": "avx2"}) == "AMD EPYC (avx2)"
    assert machine.called({"cpu_model": "AMD EPYC", "vectors": ""}) == "AMD EPYC"
    assert machine.called({"cpu_model": "AMD EPYC"}) == "AMD EPYC"


@pytest.mark.parametrize(
    ("flags", "vectors"),
    [
        ("avx512_bf16 amx_bf16 avx512f", "amx_bf16"),
        ("asimd sve", "sve"),
        ("sve avx2", "avx2"),
        ("avx512_bf16x avx2_more", ""),
    ],
)
def test_of_several_vector_instructions_the_fastest_is_named(cpu, flags, vectors):
    cpu.write_text(LINES.format(flags))
    assert machine.vectors() == vectors


def test_what_is_described_is_of_the_first_core_and_nothing_where_no_line_says_it(cpu):
    cpu.write_text("a name\t: first\nb name : some: words\na name : second\n")
    assert [machine.described(*names) for names in (("a name",), ("b name",), ("a",), ())] == [
        "first", "some: words", "", "",
    ]  # fmt: skip
    assert machine.described("b name", "a name") == "first"


def test_a_processor_without_a_name_is_called_as_python_does(cpu, monkeypatch):
    cpu.write_text("model name\t:\n")
    monkeypatch.setattr(machine.platform, "processor", lambda: "a processor")
    monkeypatch.setattr(machine.platform, "machine", lambda: "a machine")
    assert machine.cpu_model() == "a processor"
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    assert machine.cpu_model() == "a machine"


def test_the_state_of_a_repository_is_its_commit_and_whether_it_was_changed(tmp_path, monkeypatch):
    toy = Repository(tmp_path / "toy", {"a.py": "a = 1\n"})
    commit = toy.git("rev-parse", "HEAD")[:12]
    toy.git("tag", "--annotate", "--message=a release", "v1")
    assert machine.git_state(toy.root) == commit
    toy.write({"new.py": "b = 1\n"})
    assert machine.git_state(toy.root) == commit
    toy.write({"a.py": "a = 2\n"})
    assert machine.git_state(toy.root) == f"{commit}+dirty"
    assert machine.git_state(tmp_path) == "no git"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.git_state(toy.root) == "no git"


def test_versions_are_of_what_figures_depend_on_and_what_is_missing_is_said(monkeypatch):
    def version(name):
        if name == "jax":
            raise suite_machine.metadata.PackageNotFoundError(name)
        return f"{name} 1"

    monkeypatch.setattr(suite_machine.metadata, "version", version)
    found = suite_machine.versions()
    assert found == {name: f"{name} 1" for name in suite_machine.PACKAGES} | {"jax": "not installed"}
    assert {"numpy", "torch", "jax", "jaxlib", "optax", "onnxruntime"} <= found.keys()


def test_linear_algebra_has_a_name_and_a_version(monkeypatch):
    shown = {"Build Dependencies": {"blas": {"name": "some-blas", "version": "1.2"}, "lapack": {"name": "other"}}}
    monkeypatch.setattr("numpy.show_config", lambda mode: shown)
    assert suite_machine.blas() == "some-blas 1.2"


def test_the_head_of_a_result_says_each_by_its_name(monkeypatch, tmp_path):
    names = ["cpu_model", "vectors", "cores", "waiting_policy", "blas", "versions"]
    for name in names:
        monkeypatch.setattr(suite_machine, name, lambda name=name: f"the {name}")
    monkeypatch.setattr(suite_machine.os, "cpu_count", lambda: 64)
    monkeypatch.setattr(suite_machine, "git_state", lambda root: f"git of {root.name}")
    assert suite_machine.info(tmp_path) == {
        "cpu_model": "the cpu_model",
        "vectors": "the vectors",
        "cores": 64,
        "threads": "the cores",
        "omp_wait_policy": "the waiting_policy",
        "blas": "the blas",
        "versions": "the versions",
        "git": f"git of {tmp_path.name}",
    }
