"""Kept memory beside default malloc: the two sides differ in that, and the results say what was measured."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest

from perf_tests import default_malloc
from perf_tests.default_malloc import SIDES, chosen, main
from perf_tests.suite.cases import variants
from perf_tests.suite.process import MEMORY
from rlgauge.pairs import SamplePlan, cores
from rlgauge.workers import Worker, WorkerError

FORWARD = "pirl.forward[full-numpy-batch2048-iohost-hidden32]"
ALONE = "pirl.act[full-numpy]"
SPREAD = "treasurehunt.epoch[compiled-jax-agents5-worlds1]"
CALLS = 50


def page_faults(worker):
    """Return how many page faults without reading a process had so far."""
    after_name = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[7])


def faults_per_call(side):
    """Return the page faults of a call that allocates 260 KB arrays, in a worker of this side."""
    place = cores(False)
    with Worker(side, place.at_start(0), 1, 120) as worker:
        worker.ask("prepare", identity=FORWARD)
        assert "failed" not in worker.reply()
        worker.ask("sample", identity=FORWARD, samples=1, calls=CALLS)
        worker.reply()
        before = page_faults(worker)
        worker.ask("sample", identity=FORWARD, samples=1, calls=CALLS)
        worker.reply()
        return (page_faults(worker) - before) / CALLS


def test_the_default_side_gives_memory_back_and_the_kept_side_does_not():
    kept, default = SIDES
    assert (kept.memory, default.memory) == MEMORY == ("kept", "default")
    assert faults_per_call(kept) < 2
    assert faults_per_call(default) > 20


def test_a_side_that_deals_with_memory_in_an_unknown_way_is_refused():
    with Worker(dataclasses.replace(SIDES[0], memory="lost"), cores(False).at_start(0), 1, 60) as worker:
        worker.ask("hello")
        with pytest.raises(WorkerError, match="memory: got 'lost', wanted kept or default"):
            worker.reply()


def test_without_names_it_takes_the_gate_tier_and_the_first_tables():
    found = {variant.id for variant in chosen([], None)}
    assert {variant.id for variant in variants().values() if variant.tier == "gate"} <= found
    assert FORWARD in found
    assert "snake.collect_and_learn[only_relu-torch-envs1-every1-batch32]" in found
    assert "treasurehunt.epoch[compiled-jax-agents5-worlds16]" in found
    assert "pirl.pde_loss[naive-torch-order2]" not in found
    assert not [name for name in found if variants()[name].tier == "full"]


def test_names_and_tiers_narrow_it():
    assert [variant.id for variant in chosen([ALONE], None)] == [ALONE]
    assert {variant.tier for variant in chosen([], "gate")} == {"gate"}
    with pytest.raises(ValueError, match="unknown id 'pirl'"):
        chosen(["pirl"], None)


def test_each_result_has_both_times_their_ratio_and_n_and_no_worker_is_left(tmp_path, capfd):
    main([ALONE, "--blocks", "6", "--json", str(tmp_path / "out" / "found.json")])
    (found,) = json.loads((tmp_path / "out" / "found.json").read_text())
    assert found["id"] == ALONE
    assert found["version"] == variants()[ALONE].case.version
    assert found["n"] == 6
    assert found["low"] <= found["ratio"] <= found["high"]
    assert found["kept"] > 0
    assert found["default"] > 0
    said = capfd.readouterr()
    assert said.err.startswith(f"[1/1] {ALONE}: ")
    assert "of 1 benchmarks differ by more than 10 % with default malloc" in said.out
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    assert not [pid for pid in children if b"gate.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.fixture
def scripted(monkeypatch):
    """Have blocks of two samples of three calls a turn take these seconds, without workers."""

    def script(*blocks, broken=()):
        def prepare(self, workers, name, record):
            record.words = "kept: it broke"
            return name not in broken

        def workers(self, place):
            script.places.append(place)
            return nullcontext([None, None])

        taken = iter(blocks)
        monkeypatch.setattr(default_malloc.Pairs, "workers", workers)
        monkeypatch.setattr(default_malloc.Pairs, "prepare", prepare)
        monkeypatch.setattr(default_malloc.Pairs, "plan", lambda *args: SamplePlan(calls=3, samples=2, warm=True))
        monkeypatch.setattr(default_malloc.Pairs, "block", lambda *args: next(taken)())
        monkeypatch.setattr(default_malloc, "both", lambda *args, **kwargs: None)

    script.places = []
    return script


def spent(kept, default):
    """Return a block of so many seconds on each side."""
    return lambda: (kept, default)


def test_the_ratio_is_of_default_to_kept_and_times_are_of_a_call(tmp_path, scripted):
    scripted(spent(24.0, 36.0), spent(48.0, 72.0), spent(24.0, 36.0))
    main([ALONE, "--blocks", "3", "--json", str(tmp_path / "found.json")])
    (found,) = json.loads((tmp_path / "found.json").read_text())
    assert (found["ratio"], found["kept"], found["default"]) == pytest.approx((1.5, 2.0, 3.0))


@pytest.mark.parametrize("spread", [False, True])
def test_every_benchmark_has_all_cores_as_in_a_run(scripted, spread):
    scripted(spent(1.0, 1.0))
    assert variants()[SPREAD if spread else ALONE].case.cores == ("all" if spread else "one")
    main([SPREAD if spread else ALONE, "--blocks", "1"])
    assert scripted.places == [cores(True)]


def test_a_benchmark_that_fails_does_not_end_the_others_but_the_run_fails(tmp_path, scripted, capfd):
    scripted(spent(1.0, 1.0), broken=[ALONE])
    with pytest.raises(SystemExit, match="1 of 2 benchmarks failed"):
        main([ALONE, FORWARD, "--blocks", "1", "--json", str(tmp_path / "found.json")])
    assert f"{ALONE}: FAILED: kept: it broke" in capfd.readouterr().err
    assert [found["id"] for found in json.loads((tmp_path / "found.json").read_text())] == [FORWARD]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_the_results_as_they_were(tmp_path, scripted, number, monkeypatch):
    scripted(lambda: os.kill(os.getpid(), number))
    (tmp_path / "found.json").write_text("kept")
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt):
            main([ALONE, "--json", str(tmp_path / "found.json")])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("found.json", "kept")]


@pytest.mark.parametrize("what", ["json", "cache"])
def test_a_file_that_cannot_be_written_is_said_before_anything_is_timed(tmp_path, scripted, monkeypatch, capsys, what):
    scripted()
    file = tmp_path / "file"
    file.touch()
    if what == "cache":
        monkeypatch.setattr(default_malloc, "CACHE", file)
    with pytest.raises(SystemExit, match="2"):
        main([ALONE, *(["--json", str(file / "found.json")] if what == "json" else [])])
    named = file / "found.json" if what == "json" else file
    assert capsys.readouterr().err.splitlines()[-1].endswith(f": error: {named}: cannot be written: File exists")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pirl"], "unknown id 'pirl'"),
        (["--blocks", "0"], "got --pairs 1 --blocks 0, wanted 1 or more of each"),
        (["pirl.act[full-neuron]"], "none of the 1 benchmarks can run here"),
    ],
)
def test_bad_input_gets_one_clear_error(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err


def test_each_pair_is_of_fresh_processes_that_are_closed_and_whose_answers_are_not_compared(
    tmp_path, scripted, monkeypatch
):
    scripted(*[spent(1.0, 1.0)] * 6)
    closed, seen = [], []
    prepare = default_malloc.Pairs.prepare
    monkeypatch.setattr(
        default_malloc.Pairs, "prepare", lambda self, *of: seen.append(set(self.seen)) or prepare(self, *of)
    )
    monkeypatch.setattr(default_malloc, "both", lambda workers, do, identity: closed.append((do, identity)))
    main([ALONE, "--pairs", "2", "--blocks", "3", "--json", str(tmp_path / "found.json")])
    assert json.loads((tmp_path / "found.json").read_text())[0]["n"] == 6
    assert len(scripted.places) == 2
    assert closed == [("close", ALONE)] * 2
    assert seen == [{ALONE}] * 2
