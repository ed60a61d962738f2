"""Counts in addition to time: a test's exact counts, and page faults and growth with ``--gate-memory``."""

import pytest

from .made import QUICK, Repository, flat

MODULE = '''"""{title}"""

import heapq

LEFT, MIB = [], 1 << 20


def touch(numbers):
    bytearray(b"1") * ({touched} * MIB)
    return kept(numbers)


def leave(numbers):
    LEFT.append(bytearray(b"1") * ({left} * MIB))
    return kept(numbers)


def kept(numbers):
    heapq.nsmallest(5000, [0.0] * 5000)  # a long call on the fake clock, so that few are made
    return heapq.nsmallest(50, numbers)
'''
TESTS = """import itertools
import os

import pytest

from toy import sorting

NUMBERS = [0.0] * 50


@pytest.mark.parametrize(("name", "count"), [("touch", "letters"), ("leave", "graphs")])
def test_counted(benchmark, monkeypatch, name, count):
    monkeypatch.setattr("pathlib.Path.open", None)  # as a fake file system might
    benchmark(getattr(sorting, name), NUMBERS)
    benchmark.extra_info["exact"] = {count: len(sorting.__doc__)}


def test_words(benchmark):
    benchmark(sorting.kept, NUMBERS)
    benchmark.extra_info["exact"] = {"letters": "many"}


def test_dies(benchmark):
    calls = itertools.count()

    def call():
        if "GLIBC_TUNABLES" not in os.environ and next(calls) > 20:  # while memory is counted
            os._exit(3)
        return sorting.kept(NUMBERS)

    benchmark(call)
    benchmark.extra_info["exact"] = True
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Return verdict and notes by test of a run on a head that allocates more, leaks and has a longer docstring."""
    before = MODULE.format(title="Sorts numbers.", touched=0, left=0)
    files = flat() | {"toy/sorting.py": before, "benchmarks/test_sorting.py": TESTS}
    toy = Repository(tmp_path_factory.mktemp("counts") / "toy", files)
    toy.write({"toy/sorting.py": MODULE.format(title="Sorts many numbers.", touched=40, left=2)})
    ran = toy.gate("HEAD", tmp_path_factory.mktemp("ran"), "--gate-memory", rule=QUICK)
    assert toy.leftovers() == []
    found = {name.partition("::test_")[2]: verdict for name, verdict in ran.findings.items()}
    assert found.keys() >= {"counted[touch-letters]", "counted[leave-graphs]", "words"}, ran.text
    return found


def rise(notes, name):
    """Return the increase of a count according to the notes."""
    (note,) = (note for note in notes if note.startswith(f"{name} "))
    before, after = map(int, note.split()[1::2])
    return after - before


def test_page_faults_growth_and_exact_counts_that_rise_are_noted(ran):
    verdict, *notes = ran["counted[touch-letters]"]
    assert (verdict, "letters 14 -> 19" in notes) == ("ok", True)
    assert (40 << 20) // 4096 <= rise(notes, "page_faults") < (60 << 20) // 4096
    assert 2 << 20 <= rise(ran["counted[leave-graphs]"][1:], "grown_bytes") < 3 << 20


def test_a_worker_that_dies_while_memory_is_counted_does_not_end_the_run(ran):
    verdict, words = ran["dies"]
    assert (verdict, words.partition(":")[0]) == ("ok", "memory was not measured")
    assert "ended with code 3" in words


def test_exact_counts_that_are_no_numbers_are_an_error(ran):
    verdict, words = ran["words"]
    assert verdict == "error"
    why = "{'letters': 'many'} is not a dictionary of whole numbers; use int values"
    assert words.endswith(f'extra_info["exact"]: {why}')
