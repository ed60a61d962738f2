"""Kept memory beside default malloc: the two sides differ in that, and the results say what was measured."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from perf_tests import default_malloc
from perf_tests.default_malloc import SIDES, chosen, main
from perf_tests.report.order import spans
from perf_tests.report.table import ratio_words
from perf_tests.selection import Selection
from perf_tests.suite.cases import variants
from perf_tests.suite.process import MEMORY
from rlgauge.pairs import CaseError, PairError, SamplePlan, cores
from rlgauge.workers import Worker, WorkerError

FORWARD = "pirl.forward[full-numpy-batch2048-iohost-hidden32]"
ALONE = "pirl.act[full-numpy]"
SMALL = "pirl.forward[full-numpy-batch32-iohost-hidden32]"
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
        with pytest.raises(SystemExit, match=r"^130$"):
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


def test_a_pair_is_of_both_kinds_of_memory_and_its_blocks_are_drawn(monkeypatch):
    made, asked = [], []

    class Faked:
        def __init__(self, *of):
            made.append(of)
            self.seen = set()

        def workers(self, place):
            return nullcontext(["kept", "default"])

        def prepare(self, *of):
            asked.append(of[:2])
            return True

        def plan(self, *of):
            asked.append(of)
            return SamplePlan(calls=3, samples=2, warm=True)

        def block(self, *of):
            asked.append(of[:2])
            return 12.0, 24.0

    monkeypatch.setattr(default_malloc, "Pairs", Faked)
    monkeypatch.setattr(default_malloc, "both", lambda *of, **named: asked.append((*of, named)))
    workers, rng = ["kept", "default"], random.Random(0)
    found = default_malloc.compared(variants()[ALONE], 1, 2, rng)
    assert made == [(SIDES, 2, default_malloc.LIMIT, {}, default_malloc.CACHE, rng)]
    assert asked == [
        (workers, ALONE), ("kept", ALONE, cores(True)), (workers, ALONE), (workers, ALONE),
        (workers, "close", {"identity": ALONE}),
    ]  # fmt: skip
    assert found == {
        "id": ALONE, "version": variants()[ALONE].case.version, "kept": 1.0, "default": 2.0, "ratio": 2.0,
        "low": 2.0, "high": 2.0, "n": 2,
    }  # fmt: skip


def test_medians_are_of_all_blocks_and_the_interval_is_of_their_ratios(monkeypatch, scripted, tmp_path):
    blocks = [(12.0, 12.0), (24.0, 36.0), (12.0, 60.0)]
    scripted(*(spent(*block) for block in blocks))
    main([ALONE, "--blocks", "3", "--json", str(tmp_path / "found.json")])
    (found,) = json.loads((tmp_path / "found.json").read_text())
    assert (found["kept"], found["default"]) == (1.0, 3.0)
    assert (found["ratio"], found["low"], found["high"], found["n"]) == (1.5, 1.0, 5.0, 3)


def result(ratio, low, high):
    return {"id": "a[b]", "kept": 2e-3, "default": 2e-3 * ratio, "ratio": ratio, "low": low, "high": high, "n": 6}


def test_a_result_in_words_is_marked_where_it_is_more_than_a_tenth_off():
    one = result(1.5, 1.4, 1.6)
    times, ratio = "a[b]: 2 ms kept, 3 ms default", ratio_words(spans(one))
    assert default_malloc.told(one) == f"{times}, {ratio} <--"
    assert not default_malloc.told(result(1.05, 1.04, 1.06)).endswith("<--")


def test_what_differs_is_counted_and_what_cannot_run_here_is_left_out(scripted, monkeypatch, capfd):
    scripted(spent(1.0, 1.0), spent(1.0, 2.0), spent(1.0, 0.5))
    monkeypatch.setattr(default_malloc, "remove_halves", lambda folder: "")
    main([ALONE, "pirl.act[full-neuron]", FORWARD, SMALL, "--blocks", "1"])
    said = capfd.readouterr()
    assert said.out == "2 of 3 benchmarks differ by more than 10 % with default malloc\n"
    lines = [line.partition("] ")[2].partition(":")[0] for line in said.err.splitlines()]
    assert lines == [ALONE, FORWARD, SMALL]


def test_a_worker_that_dies_is_a_failure_of_its_benchmark_alone(monkeypatch):
    failed = iter([CaseError(ALONE, "kept: killed by SIGKILL"), PairError("default: did not start"), None])
    seeds, said = [], []

    def compared(variant, pairs, blocks, rng):
        seeds.append((pairs, blocks, rng.random()))
        if error := next(failed):
            raise error
        return result(1.0, 0.9, 1.1)

    monkeypatch.setattr(default_malloc, "compared", compared)
    ones = [variants()[name] for name in (ALONE, FORWARD, SPREAD)]
    assert default_malloc.measure(ones, 2, 3, SimpleNamespace(step=said.append)) == [result(1.0, 0.9, 1.1)]
    assert said[:2] == [f"{ALONE}: FAILED: kept: killed by SIGKILL", f"{FORWARD}: FAILED: default: did not start"]
    assert said[2].startswith("a[b]: ")
    rng = random.Random(0)
    assert seeds == [(2, 3, rng.random()) for _ in range(3)]


def test_what_a_first_table_shows_is_taken_unless_it_is_of_the_full_tier(monkeypatch):
    one, asked = variants()[ALONE], []
    front = SimpleNamespace(holds=lambda row: asked.append(row) or row["form"] == "full")
    monkeypatch.setattr(default_malloc, "front_of", lambda workload: front if workload == "pirl" else None)
    held = [
        default_malloc.in_front(dataclasses.replace(one, **changed))
        for changed in (
            {"tier": "bench"}, {"tier": "full"}, {"tier": "bench", "form": "naive"},
            {"tier": "bench", "case": dataclasses.replace(one.case, workload="other")},
        )
    ]  # fmt: skip
    assert held == [True, False, False, False]
    assert asked[0] == {"op": "act", "form": "full", "backend": "numpy", "axes": dict(one.axes)}


def test_names_are_taken_in_their_order_and_before_a_tier(monkeypatch):
    assert [variant.id for variant in chosen([FORWARD, ALONE], "gate")] == [FORWARD, ALONE]
    with pytest.raises(ValueError, match=r"^unknown id 'x'; pytest --collect-only --benchmark-only --tier full lists"):
        chosen([ALONE, "x", "y"], None)
    asked = []
    monkeypatch.setattr(default_malloc, "select", lambda selection: asked.append(selection) or ["selected"])
    assert chosen([], "full") == ["selected"]
    assert asked == [Selection(tier="full")]


def test_pairs_blocks_and_room_are_as_many_as_are_asked_for(monkeypatch, tmp_path, capsys):
    asked = []

    def measure(ones, pairs, blocks, progress):
        asked.append((len(ones), pairs, blocks))
        return [result(1.0, 0.9, 1.1)] * len(ones)

    reserved, tidied = default_malloc.reserved, []
    monkeypatch.setattr(default_malloc, "measure", measure)
    monkeypatch.setattr(default_malloc, "reserved", lambda *of: asked.append(of) or reserved(*of))
    monkeypatch.setattr(default_malloc, "remove_halves", lambda folder: tidied.append(folder) or "1 removed")
    file = tmp_path / "found.json"
    main([ALONE, FORWARD])
    main([ALONE, "--pairs", "3", "--blocks", "1", "--json", str(file)])
    assert asked == [(None, 2 * 512), (2, 1, 6), (file, 512), (1, 3, 1)]
    assert tidied == [default_malloc.CACHE / "inductor"] * 2
    assert capsys.readouterr().err.splitlines() == ["1 removed"] * 2
    assert json.loads(file.read_text()) == [result(1.0, 0.9, 1.1)]
    with pytest.raises(SystemExit, match="2"):
        main([ALONE, "--pairs", "0"])
    assert "got --pairs 0 --blocks 6, wanted 1 or more of each" in capsys.readouterr().err


def test_a_tier_is_passed_on_and_an_unknown_one_refused(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(default_malloc, "chosen", lambda *of: asked.append(of) or [])
    for arguments in ([], ["--tier", "bench"], [ALONE]):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
    assert asked == [([], None), ([], "bench"), ([ALONE], None)]
    assert "none of the 0 benchmarks can run here" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["--tier", "huge"])
    assert len(asked) == 3
