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
from perf_tests.suite.cases import variants
from rl_impls import backends
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
        for name in (FORWARD, LARGER, FORWARD, FORWARD, "pirl.forward[no-such-case]"):
            worker.ask("memory", identity=name)
            counted.append(worker.reply())
    first, larger, *again, unknown = counted
    assert first["page_faults"] > 20
    assert larger["page_faults"] != first["page_faults"]
    differences = [abs(each["page_faults"] - first["page_faults"]) for each in again]
    assert min(differences) <= MARGIN["page_faults"]  # one count in a thousand differs by more on the same code
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


def scripted_count(monkeypatch, faults, sizes, most_calls=None):
    """Count a case whose readings of page faults and of the size of the process are these; return its log, too."""
    log, faults, sizes = [], iter(faults), iter(sizes)
    monkeypatch.setattr(memory, "page_faults", lambda: next(faults))
    monkeypatch.setattr(memory, "size", lambda: next(sizes))
    prepared = SimpleNamespace(
        variant=SimpleNamespace(case=SimpleNamespace(most_calls=most_calls)),
        reset=lambda: log.append("reset"),
        call=lambda: log.append("call"),
    )
    return memory.count(prepared), log


def readings(*taken):
    """Return the readings before and after of samples with so many page faults."""
    return [reading for faults in taken for reading in (100, 100 + faults)]


def test_counts_are_of_a_call_and_the_least_of_all_samples(monkeypatch):
    faults = readings(*[9] * 7, 5, *[9] * 7)
    found, log = scripted_count(monkeypatch, faults, [1000, 1500, 1640, 9000])
    assert found == {"page_faults": 2, "grown_bytes": 14}
    assert log == ["reset", "call", "call"] * 15


@pytest.mark.parametrize(("most", "calls", "found"), [(1, 1, (5, 28)), (2, 2, (2, 14)), (9, 2, (2, 14))])
def test_a_case_is_called_no_more_often_than_it_allows(monkeypatch, most, calls, found):
    counts, log = scripted_count(monkeypatch, readings(*[5] * 15), [1000, 1140, 1280, 1420], most)
    assert log.count("call") == 15 * calls
    assert tuple(counts.values()) == found


def test_a_process_that_becomes_smaller_has_not_grown(monkeypatch):
    assert scripted_count(monkeypatch, readings(*[0] * 15), [9000, 9100, 8000, 9000])[0] == {
        "page_faults": 0, "grown_bytes": 0,
    }  # fmt: skip


def test_readings_are_those_of_this_process(monkeypatch):
    asked, used = [], SimpleNamespace(ru_minflt=7, ru_majflt=900)
    monkeypatch.setattr(memory.resource, "getrusage", lambda who: asked.append(who) or used)
    assert (memory.page_faults(), asked) == (7, [memory.resource.RUSAGE_SELF])
    monkeypatch.setattr(memory.Path, "read_text", lambda self: "30 20 10 0 0 5 0\n" if "statm" in str(self) else "")
    assert memory.size() == 30 * mmap.PAGESIZE


def brought(monkeypatch, identity):
    """Return the modules that are imported for a benchmark."""
    imported = []
    monkeypatch.setattr(memory.importlib, "import_module", imported.append)
    memory.bring(variants()[identity])
    return imported


def test_what_a_case_needs_is_imported_and_torchs_compiler_with_torch(monkeypatch):
    assert brought(monkeypatch, "pirl.act[full-numpy]") == ["rl_impls.pirl._numpy"]
    assert brought(monkeypatch, "pirl.act[full-torch]") == ["torch", "rl_impls.pirl._torch", "torch._dynamo"]
    onnx = [*backends.get("onnx").modules, "rl_impls.pirl._torch", "torch._dynamo"]
    assert brought(monkeypatch, "pirl.act[full-onnx]") == onnx
    assert brought(monkeypatch, "snake.env_step[vectorised-numpy-envs1024]") == ["rl_impls.snake._numpy"]


def test_cases_of_the_same_modules_are_counted_together():
    given = [case("a"), case("b", "torch"), case("c", "torch-compile"), case("d"), case("e", "jax")]
    assert memory.by_modules(given) == [["a", "d"], ["b", "c"], ["e"]]
    assert memory.by_modules([]) == []


def test_counts_are_kept_by_side_and_the_side_that_failed_is_named():
    record = Record()
    memory.note(record, {"base": {"page_faults": 1}, "head": {"page_faults": 2}})
    assert (record.memory, record.words) == (({"page_faults": 1}, {"page_faults": 2}), "")
    for failed, words in (({"base"}, "base: no"), ({"head"}, "head: no"), ({"base", "head"}, "base: no")):
        record = Record()
        sides = {side: {"failed": "no"} if side in failed else {"page_faults": 1} for side in ("base", "head")}
        memory.note(record, sides)
        assert (record.words, record.memory) == (f"fresh memory was not counted: {words}", Record().memory)


def test_workers_that_count_memory_have_one_core_and_the_limit_of_the_run(monkeypatch, tmp_path):
    made, places = [], []

    class Faked:
        def __init__(self, *of):
            made.append(of)

        @contextmanager
        def workers(self, place):
            places.append(place)
            yield "workers"

    monkeypatch.setattr(memory, "Pairs", Faked)
    monkeypatch.setattr(memory, "both", lambda workers, do, identity: [{"of": (workers, do, identity)}] * 2)
    sides, records = [Side(name, tmp_path, PYTHON, WORKER) for name in ("base", "head")], {"a": Record(state="timed")}
    memory.measure(sides, 7.0, tmp_path, records, [case("a", cores="all")])
    ((given, blocks, limit, tolerances, folder, _),) = made
    assert [(side.name, side.memory) for side in given] == [("base", "default"), ("head", "default")]
    assert (blocks, limit, tolerances, folder, places) == (1, 7.0, {}, tmp_path, [cores(False)])
    assert records["a"].memory == ({"of": ("workers", "memory", "a")},) * 2
