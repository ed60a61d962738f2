"""A run of the gate, step by step: which cases it has, in what order it measures, and what it keeps."""

from __future__ import annotations

import math
import random
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlgauge import run as module
from rlgauge.pairs import Cores, PairError
from rlgauge.rule import SAME, SAME_ON_ALL, SLOWED, SLOWED_ON_ALL, GateError, Record, Rule
from rlgauge.run import Gate, compared, of_shard, opened
from rlgauge.source import TOLERANCE, Case
from rlgauge.workers import PYTHON, Side

from .sources import Given

CASES = [Case("a", tolerance=0.5), Case("b", True, 0.25), Case("c")]
RULE = Rule(screen=1, confirm=7, looks=1, blocks=3)
CANARIES = {SAME: Record(), SLOWED: Record()}  # still to be screened


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Run a gate on these cases, of which a pair takes two seconds. -> the run, and all that was done in its order"""
    done, source = [], Given(CASES, tmp_path)
    ticks = iter(range(0, 1000, 2))

    class Measuring:
        starting = 0.0

        def __init__(self, sides, blocks, limit, tolerances, folder, rng, known):
            done.append((sides, blocks, limit, tolerances, folder, rng.random(), known))

        def measure(self, records, names, place, phase, thorough):
            done.append((phase, place.one is None, tuple(names), thorough))
            if "dies" in names:
                raise PairError("base: ended with code 1")
            for name in names:
                slow = name in ("a", SLOWED, SLOWED_ON_ALL)
                getattr(records[name], phase).append([(1.0, 1.06 if slow else 1.0)])

    def run(records=None, **changed):
        gate = Gate(
            source, "base", "head", ("b", "h"), CASES, records or {case.id: Record(all_cores=case.all_cores) for case in
            CASES}, tmp_path, RULE, 4, 7.0, {"known"}, shard=(1, 2), log=lambda line: done.append(line),
        )  # fmt: skip
        return gate.run(), done

    source.machine = lambda root: {"of": root}
    source.notes = lambda records: (f"{len(records)} records",)
    monkeypatch.setattr(module, "Pairs", Measuring)
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(ticks)))
    run.source = source
    return run


def test_pairs_are_measured_as_the_run_was_asked_and_in_both_passes_before_suspects_are_confirmed(measured, tmp_path):
    _, done = measured()
    tolerances = {"a": 0.5, "b": 0.25, "c": TOLERANCE, **dict.fromkeys((SAME, SLOWED, SAME_ON_ALL, SLOWED_ON_ALL), 0.0)}
    how = tmp_path, random.Random(4).random(), {"known"}
    assert done[0] == (("b", "h"), 3, 7.0, tolerances, *how)
    steps = [step for step in done[1:] if isinstance(step, tuple)]
    assert steps[:2] == [
        ("screen", False, ("a", "c", SAME, SLOWED), False),
        ("screen", True, ("b", SAME_ON_ALL, SLOWED_ON_ALL), False),
    ]
    assert steps[2:] == [
        *[("confirm", False, ("a", SLOWED), True)] * 7,
        *[("confirm", True, (SLOWED_ON_ALL,), True)] * 7,
    ]


def test_what_is_to_come_is_said_before_each_pair(measured):
    _, done = measured()
    said = [line for line in done if isinstance(line, str)]
    threads = len(module.cores(True).all)
    assert said[0] == "gate: 3 cases"
    said = [line for line in said if "after this pair" not in line]
    assert said[1:4] == [
        "gate: screen 1 of 1, 4 cases on 1 threads",
        f"gate: screen 1 of 1, 3 cases on {threads} threads",
        "gate: confirm 1 of 7, 2 cases on 1 threads",
    ]
    assert said[4] == "gate: confirm 2 of 7, 2 cases on 1 threads, about 0.2 min left"  # six of two seconds
    assert said[9] == "gate: confirm 7 of 7, 2 cases on 1 threads, about 0.0 min left"


def test_all_that_was_measured_is_kept(measured, tmp_path):
    found, _ = measured()
    assert (found.base, found.head, found.seed, found.rule, found.shard) == ("base", "head", 4, RULE, (1, 2))
    assert (found.machine, found.told) == ({"of": tmp_path}, ["7 records"])
    assert found.seconds == 2 * (1 + 2 * (1 + 1 + 7 + 7))  # readings of the clock: two of each pair
    assert list(found.records) == ["a", "b", "c", SAME, SLOWED, SAME_ON_ALL, SLOWED_ON_ALL]
    assert [record.all_cores for record in found.records.values()] == [False, True, False, False, False, True, True]
    assert [len(record.confirm) for record in found.records.values()] == [7, 0, 0, 0, 7, 0, 7]


def test_only_what_is_to_be_timed_is(measured):
    records = {"a": Record(state="unchanged"), "b": Record(all_cores=True, state="new"), "c": Record()}
    _, done = measured(records)
    assert ("screen", False, ("c", SAME, SLOWED), False) in done
    assert not any(step[:2] == ("screen", True) for step in done)


def test_workers_that_do_not_start_end_the_run_with_a_line(measured):
    measured.source.given = [Case("dies")]
    gate = Gate(measured.source, "b", "h", (), [Case("dies")], {"dies": Record()}, Path(), RULE, 0, 1.0, log=str)
    with pytest.raises(GateError, match=r"^base: ended with code 1$"):
        gate.run()


@pytest.fixture
def layout(tmp_path):
    """Base and head of cases of which one is the same on both. -> the layout, and what its source was asked"""
    asked = []
    source = Given([*CASES, Case("d")], tmp_path)
    source.unchanged = lambda codes, sides, cases, limit: {case.id: "" for case in cases if case.id == "c"}
    source.listed = lambda code, side: asked.append(("listed", code, side)) or ["c", "gone", "a", "lost"]
    source.check = lambda sides, cases, limit: asked.append(("check", sides, [case.id for case in cases], limit))
    return SimpleNamespace(
        source=source,
        root="the root",
        folder=tmp_path,
        side=lambda commit, name: Side(name, tmp_path / "side", PYTHON, (str(commit),)),
        code=lambda commit: f"code of {commit}",
        asked=asked,
    )


@pytest.fixture
def gate(layout, monkeypatch):
    monkeypatch.setattr(module, "git_state", lambda root: f"state of {root}")
    return lambda shard=None: compared(layout, "commit", RULE, 4, 7.0, shard)


def test_what_base_lists_and_head_has_not_is_gone_and_what_is_the_same_is_unchanged(gate, layout):
    found = gate()
    base, head = layout.side("commit", "base"), layout.side(None, "head")
    assert {name: record.state for name, record in found.records.items()} == {
        "a": "timed", "b": "timed", "c": "unchanged", "d": "timed", "gone": "gone", "lost": "gone",
    }  # fmt: skip
    assert [name for name, record in found.records.items() if record.all_cores] == ["b"]
    assert layout.asked == [("listed", "code of commit", base), ("check", (base, head), ["a", "b", "d"], 7.0)]
    assert (found.base, found.head, found.sides) == ("commit", "state of the root", (base, head))
    assert (found.rule, found.seed, found.limit, found.shard, found.folder) == (RULE, 4, 7.0, None, layout.folder)
    assert found.known == {"a", "c", "gone", "lost"}
    assert list(found.names) == ["a", "b", "c", "d", "gone", "lost"]
    assert [case.id for case in found.cases] == ["a", "b", "c", "d"]


def test_a_shard_has_its_part_of_the_cases_and_of_those_that_are_gone(gate, layout):
    found = gate((2, 2))
    assert [case.id for case in found.cases] == ["b", "d"]
    assert found.records.keys() == {"b", "d", "lost"}
    assert (found.shard, list(found.names)) == ((2, 2), ["a", "b", "c", "d", "gone", "lost"])
    assert layout.asked[1][2] == ["b", "d"]
    assert gate((1, 2)).records.keys() == {"a", "c", "gone"}


def test_a_part_of_names_is_every_so_many_of_them_in_their_order():
    assert of_shard(["d", "a", "c", "e", "b"], (1, 2)) == {"a", "c", "e"}
    assert of_shard(["d", "a", "c", "e", "b"], (2, 2)) == {"b", "d"}
    assert of_shard(["d", "a"], (3, 3)) == set()
    assert of_shard(["b", "a"], None) == {"a", "b"}


def test_a_gate_is_opened_between_the_commit_of_a_name_and_the_working_tree(monkeypatch, tmp_path):
    open_now = []

    @contextmanager
    def laid_out(source, root):
        open_now.append((source, root))
        yield "layout"
        open_now.clear()

    monkeypatch.setattr(module, "laid_out", laid_out)
    monkeypatch.setattr(module.revisions, "resolve", lambda root, name: f"commit of {name} in {root}")
    monkeypatch.setattr(module, "compared", lambda *how: how)
    with opened("source", tmp_path, "main", RULE) as found:
        assert found == ("layout", f"commit of main in {tmp_path}", RULE, 0, 300.0, None)
        assert open_now == [("source", tmp_path)]
    assert open_now == []
    with opened("source", tmp_path, "main", RULE, 5, 6.0, (1, 2)) as found:
        assert found[3:] == (5, 6.0, (1, 2))


def test_a_phase_ends_as_soon_as_no_case_of_the_pass_is_waited_for():
    asked = []
    pairs = SimpleNamespace(measure=lambda records, names, *how: asked.append(names), starting=0.0)
    records = {"a": Record(), "b": Record(state="unchanged"), "c": Record(), **CANARIES}
    gate = Gate(None, "", "", (), (), records, Path(), Rule(screen=3), 0, 1.0, log=str)
    gate.phase(pairs, "screen", 2, ["b"], Cores((0,), 0))
    assert asked == []
    gate.phase(pairs, "screen", 2, ["c", "b"], Cores((0,), 0))
    assert asked == [["c"], ["c"]]


@pytest.mark.parametrize(("names", "pairs"), [("ab", [14, 7]), ("abcd", [14, 14])], ids=["whole", "shard"])
def test_a_confirmation_goes_on_to_its_second_look_for_those_that_the_first_leaves_open(names, pairs):
    values = {"a": [0.1] * 6 + [0.009] + [0.1] * 7, "b": [0.05, 0.2] * 7}  # p of the first seven: 2 / 2^7 and 1 / 2^7

    def measure(records, names, *how):
        for name in names:
            records[name].confirm.append([(1.0, math.exp(values[name][len(records[name].confirm)]))])

    said, records = [], {name: Record(screen=[[(1.0, 1.1)]]) for name in values} | CANARIES
    rule = Rule(screen=1, confirm=7, level=4 * 2**-7)  # just enough for the smaller of two, at two looks
    gate = Gate(None, "", "", (), (), records, Path(), rule, 0, 1.0, names=names, log=said.append)
    gate.phase(SimpleNamespace(measure=measure), "confirm", rule.most, list(values), Cores((0,), 0))
    assert [len(records[name].confirm) for name in values] == pairs
    steps = [line.partition(",")[0] for line in said]
    assert steps == [f"gate: confirm {k} of {7 if k < 8 else 14}" for k in range(1, 15)]


def test_the_time_that_is_left_is_that_of_the_last_pair_for_each_to_come(monkeypatch):
    said, clock = [], iter([0.0, 60.0, 60.0, 180.0, 180.0, 200.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    gate = Gate(None, "", "", (), (), {"a": Record(), **CANARIES}, Path(), Rule(screen=3), 0, 1.0, log=said.append)
    pairs = SimpleNamespace(measure=lambda *how: None, starting=30.0, costly=lambda name: False)
    gate.phase(pairs, "screen", 3, ["a"], Cores((0,), 0))
    # two more pairs of 60 s, 16 pairs of a canary, 60 s each, and a tenth of four more of 30 s
    expected = said.pop(1)
    assert expected == "gate: about 18 min expected after this pair"
    assert [line.partition(" threads")[2] for line in said] == ["", ", about 2.0 min left", ", about 2.0 min left"]
