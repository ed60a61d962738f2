"""``--gate-memory``: page faults and growth of a call are counted apart from its time, with default malloc."""

from __future__ import annotations

from .made import QUICK, Repository, flat

HUNGRY = '''"""Sorts numbers."""

import numpy as np

KEPT = []


def slow(numbers):
    np.ones({touched} << 20, np.uint8)
    np.sort(np.zeros(5000))  # takes long by the fake clock, so that few calls are made
    return np.sort(numbers)


def kept(numbers):
    KEPT.append(np.ones({left} << 20, np.uint8))
    np.sort(np.zeros(5000))
    return np.sort(numbers)
'''


def test_page_faults_and_growth_are_noted_and_fail_nothing(tmp_path):
    files = flat() | {"toy/sorting.py": HUNGRY.format(touched=0, left=0)}
    toy = Repository(tmp_path / "toy", files)
    toy.at("start", {"toy/sorting.py": HUNGRY.format(touched=40, left=2)})
    ran = toy.gate("start", tmp_path, "--gate-memory", "-k", "slow or 10", rule=QUICK)
    verdict, *notes = ran.findings["benchmarks/test_sorting.py::test_slow"]
    assert verdict == "ok", ran.text
    assert [note.split()[0] for note in notes] == ["page_faults"]
    before, after = (int(number) for number in notes[0].split()[1::2])
    assert after - before >= (40 << 20) // 4096
    verdict, *notes = ran.findings["benchmarks/test_sorting.py::test_kept[10]"]
    assert verdict == "ok", ran.text
    grown = next(note for note in notes if note.startswith("grown_bytes"))
    assert int(grown.split()[-1]) >= 2 << 20
    assert ran.code == 0
    assert toy.leftovers() == []
