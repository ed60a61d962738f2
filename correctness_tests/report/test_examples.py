"""Excerpts of command output for the README."""

from perf_tests.report.examples import gate_lines, table_lines

DEMO = """A repository with three benchmarks is in demo.

gate: 1a (the working tree) against 1a: 1 benchmark, 1 to time
gate: screen 1 of 4: 1 benchmark on 1 core
gate: about 25 s expected for the other pairs
gate: confirm 1 of 16: 1 benchmark on 1 core
...                                                [100%]
==================== gate ====================
test_a.py::test_a: slower, 1.20 ms -> 1.32 ms
failed: 1 slower, 0.5 min; all measurements: .rlgauge/gate.json
3 passed in 29.02s
"""
QUICK = """threads: 2

  form              backend                  time
-------------------------------------------------
pirl.forward batch_size 1, io host (samples/s)
  full              numpy                 14.3 µs

pirl.forward batch_size 128, io host (samples/s)
  full              numpy                 48.9 µs
"""


def test_the_readme_shows_the_verdicts_but_not_each_pair():
    assert gate_lines(DEMO.splitlines()) == [
        "gate: 1a (the working tree) against 1a: 1 benchmark, 1 to time",
        "gate: about 25 s expected for the other pairs",
        "test_a.py::test_a: slower, 1.20 ms -> 1.32 ms",
        "failed: 1 slower, 0.5 min; all measurements: .rlgauge/gate.json",
    ]


def test_the_readme_shows_the_head_of_the_table():
    lines = table_lines(QUICK.splitlines())
    assert lines[0].split() == ["form", "backend", "time"]
    assert lines[-1].split() == ["full", "numpy", "14.3", "µs"]
