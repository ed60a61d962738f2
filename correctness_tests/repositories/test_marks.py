"""The mark ``rlgauge``, and a benchmark's own reset, output and inputs."""

from __future__ import annotations

import pytest

from .made import QUICK, Repository, flat

COUNTING = '''"""Values and state that benchmarks time, after work that the fake clock sees."""

import numpy as np

VALUE = 1.0


def value(given=None):
    np.sort(np.zeros(5000))
    return VALUE if given is None else given


class Counter:
    def __init__(self):
        self.total = 0

    def add(self):
        np.sort(np.zeros(500))
        self.total += 1
        if self.total > 5:
            raise RuntimeError(f"{self.total} calls after a reset")
        return self.total

    def reset(self):
        self.total = 0
'''
TESTS = """import random

import pytest
from toy import counting


@pytest.mark.rlgauge(outputs="ignore")
def test_ignored(benchmark):
    benchmark(counting.value)


@pytest.mark.rlgauge(outputs="same")
def test_same(benchmark):
    benchmark(counting.value)


@pytest.mark.rlgauge(cores="all", tolerance=0.1)
class TestMarked:
    def test_inherited(self, benchmark):
        benchmark(counting.value)

    @pytest.mark.rlgauge(tolerance=1e-6)
    def test_narrowed(self, benchmark):
        benchmark(counting.value)


@pytest.mark.parametrize("drawn", [random.random()], ids=["drawn"])
def test_drawn(benchmark, drawn):
    benchmark(counting.value, drawn)


def test_inputs(benchmark):
    benchmark.extra_info["inputs"] = str(counting.VALUE)
    benchmark(counting.value)


def test_state(benchmark):
    counter = counting.Counter()
    output = lambda result: [result, counter.total]  # noqa: E731
    assert benchmark.after_reset(counter.add, reset=counter.reset, max_calls=5, output=output) == 1
"""
FILE = "benchmarks/test_counting.py"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    files = {**flat(), "toy/counting.py": COUNTING, FILE: TESTS}
    made = Repository(tmp_path_factory.mktemp("marks") / "repository", files)
    made.write({"toy/counting.py": COUNTING.replace("VALUE = 1.0", "VALUE = 1.01")})
    yield made.gate("HEAD", tmp_path_factory.mktemp("out"), FILE, rule=QUICK)
    assert made.leftovers() == []


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("test_ignored", False),
        ("test_same", True),
        ("TestMarked::test_inherited", False),
        ("TestMarked::test_narrowed", True),
        ("test_state", False),
        ("test_drawn[drawn]", False),
    ],
)
def test_outputs_are_compared_as_the_mark_says(ran, name, changed):
    assert ran.artifact["records"][f"{FILE}::{name}"]["state"] == "timed", ran.text
    assert ran.artifact["records"][f"{FILE}::{name}"]["answer_changed"] is changed


def test_a_mark_gives_a_test_all_cores(ran):
    records = ran.artifact["records"]
    assert [name for name, record in records.items() if record["all_cores"] and "::" in name] == [
        f"{FILE}::TestMarked::test_inherited",
        f"{FILE}::TestMarked::test_narrowed",
    ]


def test_inputs_that_differ_between_the_sides_are_an_error(ran):
    record = ran.artifact["records"][f"{FILE}::test_inputs"]
    assert (record["state"], record["words"]) == (
        "error",
        "its inputs differ between base and head: make them equal",
    )


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("core='all'", "mark rlgauge: core: unknown key (choose from cores, outputs, tolerance)"),
        ("tolerance=2", "mark rlgauge: tolerance: 2 is out of range; choose a fraction from 0 to below 1"),
    ],
)
def test_a_wrong_mark_ends_the_run_with_its_test(tmp_path, mark, words):
    made = Repository(tmp_path / "repository", {**flat(), "toy/counting.py": COUNTING})
    tests = f"import pytest\nfrom toy import counting\n\n\n@pytest.mark.rlgauge({mark})\n"
    made.write({FILE: f"{tests}def test_it(benchmark):\n    benchmark(counting.value)\n"})
    ran = made.gate("HEAD", tmp_path, FILE, rule=QUICK)
    assert ran.code == 2
    assert ran.only_says(f"{FILE}::test_it: {words}")


def test_patterns_in_the_settings_name_benchmarks_and_override_marks(tmp_path):
    settings = '[tool.rlgauge]\nbenchmarks = ["bench*", "toy/*_data.py"]\n\n[tool.rlgauge.cores]\n"*" = "one"\n'
    files = {
        **flat(),
        "toy/counting.py": COUNTING,
        "toy/all_data.py": "SIZE = 1\n",
        FILE: TESTS,
        "pyproject.toml": settings,
    }
    made = Repository(tmp_path / "repository", files)
    made.write({"toy/all_data.py": "SIZE = 2\n"})
    ran = made.gate("HEAD", tmp_path, f"{FILE}::TestMarked", rule=QUICK)
    assert ran.code == 0, ran.text
    assert {record["state"] for record in ran.artifact["records"].values()} == {"unchanged"}
    assert not any(record["all_cores"] for record in ran.artifact["records"].values())
