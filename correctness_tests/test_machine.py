"""What machine a figure belongs to."""

from __future__ import annotations

import pytest

from perf_tests.report.page import name_of
from rlgauge import machine

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
