"""The memory of a side, in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from perf_tests.claims import resident
from perf_tests.suite.claim import ClaimsError, Side
from perf_tests.suite.claims import claims_of


def test_the_memory_of_a_side_is_what_a_call_raises_the_most_by(monkeypatch):
    told = iter([("VmHWM", 900), ("VmRSS", 300), ("VmHWM", 800)])

    def status(name):
        of, found = next(told)
        assert name == of
        return found * 4096

    side, written = Side("toy.op[a]", make=lambda rng: lambda: None), []
    monkeypatch.setattr(resident, "status", status)
    monkeypatch.setattr(Path, "write_text", lambda self, text: written.append((str(self), text)))
    assert resident.own_memory(side, 0) == {"resident": 500 * 4096.0, "peak": 900 * 4096.0}
    assert written == [("/proc/self/clear_refs", "5")]


@pytest.fixture
def weighed(monkeypatch):
    """Processes that say how much memory they have, instead of real ones. -> what happens to each, and their codes"""
    log, codes = [], {}

    class Weighed:
        def __init__(self, words, **how):
            self.label, self.returncode = words[-2], codes.get(words[-2], 0)
            log.append(("start", words, how["env"]))

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            log.append(("over", self.label))

        def communicate(self):
            if self.returncode == "interrupted":
                raise KeyboardInterrupt
            log.append(("out", self.label))
            return 'noise\n{"resident": 8.0, "peak": 16.0}\n', None

        def kill(self):
            self.returncode = -9
            log.append(("kill", self.label))

    monkeypatch.setattr(resident.subprocess, "Popen", Weighed)
    monkeypatch.setattr(resident.process, "cores", lambda: 2)
    return log, codes


FIGURES = {"resident": 8.0, "peak": 16.0}


def test_memory_is_that_of_a_process_with_default_malloc(monkeypatch, weighed):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.mmap_max=0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    pair = claims_of("mario")[0].contexts["alone"]
    assert resident.memory("mario", [pair.base], 0) == {pair.base.label: FIGURES}
    ((_, _, given),) = [step for step in weighed[0] if step[0] == "start"]
    assert "GLIBC_TUNABLES" not in given
    assert given["OMP_NUM_THREADS"] == "1"


def test_a_figure_of_the_process_is_in_bytes(monkeypatch):
    told = "Name:\tpython\nVmHWM:\t     900 kB\nVmRSS:\t 300 kB\n"
    monkeypatch.setattr(Path, "read_text", lambda self: told if str(self) == "/proc/self/status" else "")
    assert (resident.status("VmHWM"), resident.status("VmRSS")) == (900 * 1024, 300 * 1024)
    with pytest.raises(ClaimsError, match=r"^/proc/self/status has no VmRS: memory cannot be measured here$"):
        resident.status("VmRS")


def test_a_call_that_raises_nothing_needs_a_page_at_least(monkeypatch):
    told = iter([5000, 9000, 9000])
    monkeypatch.setattr(resident, "status", lambda name: next(told))
    monkeypatch.setattr(Path, "write_text", lambda self, text: None)
    side = Side("toy.op[a]", make=lambda rng: lambda: None)
    assert resident.own_memory(side, 0) == {"resident": 4096.0, "peak": 9000.0}


def test_a_process_for_memory_is_asked_for_its_side_and_runs_beside_as_many_as_there_are_cores(weighed):
    (log, _), sides = weighed, [Side(f"toy.op[{name}]", make=lambda rng: None) for name in "abc"]
    assert resident.memory("toy", sides, 7) == {side.label: FIGURES for side in sides}
    a, b, c = (side.label for side in sides)
    started = [words for step, words, *_ in log if step == "start"]
    command_ = [sys.executable, "-m", "perf_tests.claims.resident", "toy"]
    assert started == [[*command_, label, "7"] for label in (a, b, c)]
    steps = [(step[0], step[1][-2] if step[0] == "start" else step[1]) for step in log]
    assert steps[:4] == [("start", a), ("start", b), ("out", a), ("out", b)]
    assert steps.index(("start", c)) > max(steps.index(("over", label)) for label in (a, b))
    assert resident.memory("toy", [], 7) == {}


def test_a_process_for_memory_that_fails_is_named_and_none_is_left(weighed):
    (log, codes), sides = weighed, [Side(f"toy.op[{name}]", make=lambda rng: None) for name in "ab"]
    codes["toy.op[a]"] = 1
    with pytest.raises(ClaimsError) as failed:
        resident.memory("toy", sides, 7)
    assert str(failed.value) == "toy.op[a]: the process whose memory is measured ended with 1"
    assert [step[:2] for step in log[-4:]] == [(step, f"toy.op[{name}]") for name in "ba" for step in ("kill", "over")]
    log.clear()
    codes["toy.op[a]"] = "interrupted"
    with pytest.raises(KeyboardInterrupt):
        resident.memory("toy", sides, 7)
    assert [step[:2] for step in log[-4:]] == [(step, f"toy.op[{name}]") for name in "ba" for step in ("kill", "over")]


def test_the_memory_of_the_side_that_is_named_is_printed(monkeypatch, capsys):
    set_up, pair = [], claims_of("mario")[0].contexts["alone"]
    monkeypatch.setattr(resident.process, "set_up", lambda threads, memory: set_up.append((threads, memory)))
    monkeypatch.setattr(resident, "own_memory", lambda side, seed: {"label": side.label, "seed": seed})
    monkeypatch.setattr(sys, "argv", ["resident", "mario", pair.change.label, "7"])
    resident.main()
    assert json.loads(capsys.readouterr().out) == {"label": pair.change.label, "seed": 7}
    assert set_up == [(resident.process.cores(), "default")]
