"""Fresh memory of a call: what is counted, in a fork that nothing came before, and from where on a rise is named."""

from __future__ import annotations

import itertools
import json
import mmap
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from perf_tests.gate import memory
from perf_tests.gate.starts import COMPILERS, WORKER
from rlgauge.pairs import cores
from rlgauge.rule import MARGIN, SHARE, Record, Rule, beyond, find
from rlgauge.workers import PYTHON, Side, Worker, WorkerError

ROOT = Path(__file__).parents[2]
FORWARD = "pirl.forward[full-numpy-batch2048-iohost-hidden32]"
LARGER = "pirl.forward[full-numpy-batch2048-iohost-hidden512]"
PAGES = 64


class Touching:
    """An op that takes fresh pages from the system at every call; offers what is counted of a prepared case."""

    def __init__(self, kept=None, most_calls=None):
        self.variant = SimpleNamespace(case=SimpleNamespace(most_calls=most_calls))
        self.kept, self.calls = kept, 0

    def reset(self):
        self.calls = 0

    def call(self):
        self.calls += 1
        assert self.calls <= (self.variant.case.most_calls or self.calls)
        fresh_pages = mmap.mmap(-1, PAGES * mmap.PAGESIZE)
        for page in range(PAGES):
            fresh_pages[page * mmap.PAGESIZE] = 1
        if self.kept is None:
            fresh_pages.close()
        else:
            self.kept.append(fresh_pages)


@pytest.mark.parametrize("most_calls", [None, 1, 3])
def test_pages_of_a_call_are_counted_and_what_it_keeps(most_calls):
    counted = memory.count(Touching(most_calls=most_calls))
    assert PAGES <= counted["page_faults"] <= PAGES + 2
    assert counted["grown_bytes"] < mmap.PAGESIZE
    counted = memory.count(Touching([], most_calls))
    assert PAGES <= counted["page_faults"] <= PAGES + 2
    assert PAGES <= counted["grown_bytes"] / mmap.PAGESIZE <= PAGES + 1


FORKS = """
import json, os, signal
from perf_tests.gate.memory import forked

seen = []
well = lambda: {"seen": seen.append(1) or len(seen)}
jobs = well, lambda: os._exit(3), lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: 1 / 0, well
print(json.dumps([*map(forked, jobs)]))
"""


def test_a_fork_leaves_nothing_behind_and_says_how_it_ended():
    done = subprocess.run([sys.executable, "-c", FORKS], cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=60)
    failures = [{"failed": f"ended with code {code}"} for code in (3, -9, 1)]
    assert json.loads(done.stdout) == [{"seen": 1}, *failures, {"seen": 1}]


def test_a_case_takes_the_same_whatever_was_counted_before_it():
    place, counted = cores(False), []
    with Worker(Side("head", ROOT, PYTHON, WORKER, COMPILERS, "default"), place.at_start(0), 1, 120) as worker:
        for name in (FORWARD, LARGER, FORWARD, "pirl.forward[no-such-case]"):
            worker.ask("memory", identity=name)
            counted.append(worker.reply())
    first, larger, again, unknown = counted
    assert first["page_faults"] > 20
    assert larger["page_faults"] != first["page_faults"]
    assert abs(again["page_faults"] - first["page_faults"]) <= MARGIN["page_faults"]
    assert unknown["failed"].startswith("KeyError")


def case(name, backend="numpy", cores="one"):
    return SimpleNamespace(id=name, backend=backend, case=SimpleNamespace(cores=cores))


def test_every_timed_case_is_counted_on_both_sides_and_one_that_fails_is_named(monkeypatch, tmp_path):
    pairs, asked = [], []

    class Faked:
        def __init__(self, sides, *rest):
            pairs.append([side.memory for side in sides])

        @contextmanager
        def workers(self, place):
            asked.append([])
            yield ["base", "head"]

    def both(workers, do, identity):
        asked[-1].append(identity)
        if identity == "dies":
            raise WorkerError("base: no answer in 1 s")
        if identity == "fails":
            return [{"page_faults": 1}, {"failed": "KeyError: 'w0'"}]
        return [{"page_faults": 1}, {"page_faults": 2}]

    monkeypatch.setattr(memory, "Pairs", Faked)
    monkeypatch.setattr(memory, "both", both)
    names = "first", "dies", "fails", "last"
    chosen = [case(name) for name in names] + [case("other", "torch"), case("threads", cores="own"), case("kept")]
    records = {v.id: Record(state="unchanged" if v.id == "kept" else "timed") for v in chosen}
    sides = [Side(name, tmp_path, PYTHON, WORKER) for name in ("base", "head")]
    memory.measure(sides, 1.0, tmp_path, records, chosen)
    assert pairs == [["default", "default"]]
    assert sorted(itertools.chain(*asked)) == sorted([*names, "other"])
    assert ["other"] in asked  # torch is not imported beside NumPy alone
    counted = {name for name, record in records.items() if record.memory == ({"page_faults": 1}, {"page_faults": 2})}
    assert counted == {"first", "last", "other"}
    words = {name: record.words for name, record in records.items() if record.words}
    assert words == {
        "dies": "fresh memory was not counted: base: no answer in 1 s",
        "fails": "fresh memory was not counted: head: KeyError: 'w0'",
    }


@pytest.mark.parametrize(("what", "margin"), MARGIN.items())
def test_a_rise_of_fresh_memory_is_named_beyond_the_margin_and_never_fails(what, margin):
    def found(base, head):
        record = Record(screen=[[(1.0, 1.0)]] * 4, memory=({what: base}, {what: head}))
        return find(record, 0, None, Rule())

    large = round(100 * margin / SHARE)
    for base, most in ((0, margin), (large, round(large * (1 + SHARE)))):
        assert (found(base, most).verdict, found(base, most).notes) == ("ok", [])
        assert found(base, most + 1).notes == [f"{what} {base} -> {most + 1}"]
        assert found(base, most + 1).verdict == "ok"
        assert found(most + 1, base).notes == []
    assert not beyond(what, 0, 0)


def test_what_could_not_be_counted_is_noted():
    record = Record(screen=[[(1.0, 1.0)]] * 4, words="fresh memory was not counted: base: ended with code 1")
    assert (find(record, 0, None, Rule()).verdict, find(record, 0, None, Rule()).notes) == ("ok", [record.words])


def test_pages_that_a_reset_takes_are_not_those_of_a_call():
    class Filling(Touching):
        def reset(self):
            super().reset()
            super().call()
            super().reset()

    assert PAGES <= memory.count(Filling())["page_faults"] <= PAGES + 2
