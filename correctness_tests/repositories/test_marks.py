"""The mark ``rlgauge``, and a benchmark's reset, output and inputs, in workers that cannot import NumPy."""

import pytest

from rlgauge.benchmarks import marks
from rlgauge.rule import SAME_ON_ALL, SLOWED_ON_ALL, GateError

from .made import HASHING, QUICK, SAME, SLOWED, Repository

BLOCKED = f"""{HASHING}

if "RLGAUGE_GATE_SIDE" in os.environ:
    import sys

    assert "numpy" not in sys.modules
    sys.modules["numpy"] = None  # importing it fails from here on
"""
COUNTING = '''"""Functions to benchmark, with work that advances the fake clock."""

import hashlib

VALUE = 1.0


def work(size=250_000):
    hashlib.sha256(bytes(size))


def slow():
    work(250_000)


def value(given=None):
    work()
    return VALUE if given is None else given


def nested(change):
    work()
    return {"floats": [1.5, 2.5 + change], "nested": ("text", [1, True, None]), "large": 2**70}


class Counter:
    def __init__(self):
        self.total = 0

    def add(self):
        work(25_000)
        self.total += 1
        if self.total > 5:
            raise RuntimeError(f"{self.total} calls after a reset")
        return self.total

    def reset(self):
        self.total = 0
'''
SLOWER = COUNTING.replace("VALUE = 1.0", "VALUE = 1.01").replace("work(250_000)", "work(275_000)")
TESTS = """import random

import pytest
from toy import counting


def test_slow(benchmark):
    benchmark(counting.slow)
    assert benchmark.stats.stats.mean > 0
    assert benchmark.stats["rounds"] >= 1


def test_near(benchmark):
    benchmark(counting.nested, 0.0)


def test_far(benchmark):
    benchmark(counting.nested, counting.VALUE - 1)


@pytest.mark.rlgauge(outputs="ignore")
def test_ignored(benchmark):
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


def test_inputs_in_a_dict(benchmark):
    benchmark.extra_info["inputs"] = {"values": [counting.VALUE]}
    benchmark(counting.value)


def test_state(benchmark):
    counter = counting.Counter()
    output = lambda result: [result, counter.total]  # noqa: E731
    assert benchmark.after_reset(counter.add, reset=counter.reset, max_calls=5, output=output) == counter.total
"""
FILE = "benchmarks/test_counting.py"
FILES = {
    "toy/__init__.py": "",
    "toy/counting.py": COUNTING,
    "benchmarks/conftest.py": BLOCKED,
    FILE: TESTS,
    ".gitignore": "__pycache__/\n",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    made = Repository(tmp_path_factory.mktemp("marks") / "repository", FILES)
    made.write({"toy/counting.py": SLOWER})
    yield made.gate("HEAD", tmp_path_factory.mktemp("out"), rule=QUICK)
    assert made.leftovers() == []


def test_a_slowdown_and_the_canaries_are_found_without_numpy(ran):
    assert ran.ratios[f"{FILE}::test_slow"] == pytest.approx(1.1, abs=0.01), ran.text
    verdicts = {**dict.fromkeys((SAME, SAME_ON_ALL), ("ok",)), **dict.fromkeys((SLOWED, SLOWED_ON_ALL), ("slower",))}
    assert {name: ran.findings[name] for name in verdicts} == verdicts


def test_outputs_are_compared_as_the_mark_says(ran):
    records = {name.partition("::")[2]: record for name, record in ran.artifact["records"].items() if "::" in name}
    untimed = {name for name, record in records.items() if record["state"] != "timed"}
    assert untimed == {"test_inputs", "test_inputs_in_a_dict"}, ran.text
    assert {name for name, record in records.items() if record["output_changed"]} == {
        "test_far",
        "TestMarked::test_narrowed",
    }


def test_a_mark_gives_a_test_all_cores(ran):
    records = ran.artifact["records"]
    assert [name for name, record in records.items() if record["all_cores"] and "::" in name] == [
        f"{FILE}::TestMarked::test_inherited",
        f"{FILE}::TestMarked::test_narrowed",
    ]


@pytest.mark.parametrize("name", ["test_inputs", "test_inputs_in_a_dict"])
def test_inputs_that_differ_between_the_sides_are_an_error(ran, name):
    record = ran.artifact["records"][f"{FILE}::{name}"]
    words = 'extra_info["inputs"] differs between base and head; make the inputs equal'
    assert (record["state"], record["words"]) == ("error", words)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("core", "all", "unknown key (choose from cores, outputs, tolerance)"),
        ("outputs", "near", "unknown value 'near' (choose from close, same, ignore)"),
        ("tolerance", 2, "2 is not valid; choose a number of 0 or more, but below 1"),
    ],
)
def test_a_wrong_mark_is_an_error(name, value, words):
    with pytest.raises(GateError) as error:
        marks.check("its mark", name, value)
    assert str(error.value) == f"its mark: {words}"
