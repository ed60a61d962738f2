"""What base lists: none of it is new, what HEAD lacks of it is gone; and a run of another tier than the gate's."""

from __future__ import annotations

import json
import random
import re
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from perf_tests.gate import source as suite
from perf_tests.gate.worker import failure
from perf_tests.suite.case import TIERS
from rlgauge import run
from rlgauge.pairs import Pairs
from rlgauge.rule import Record, Rule

from .sources import suite_of, variant
from .toy import CASES, CLOCK, FIRST, QUICK, SECOND, SOURCE, Toy, cases, source

THIRD, FOURTH = "toy.third[full-numpy]", "toy.fourth[full-numpy]"
OPS = "first", "second", "third", "fourth"
SIZED = """

def sized(rng):
    from rl_impls.toy.{module} import SIZE

    return Inputs({{}}, (rng.random(SIZE),))

"""
COPYING = """
def third(spec, example, *, knobs, target):
    call = work(100, 1)

    def copied(x):
        rows = [np.repeat(x, 1000) for _ in range(8)]
        return call(rows[0][::1000])

    return copied


def fourth(spec, example, *, knobs, target):
    return work(100, 1.001)
"""


def files(module, more):
    """Return a toy of four ops, all but the first of tier bench, the second made by a module, the last with threads."""
    made = cases(*OPS, clock=CLOCK + SIZED.format(module=module)).replace(
        "gate=[{}]",
        'gate=[{}] if op == "first" else [], bench=[{}], cores="own" if op == "fourth" else "one", tolerance=0.01',
    )
    made = made.replace('"toy", op, inputs,', '"toy", op, sized if op == "second" else inputs,')
    return {SOURCE: source(more=more), CASES: made, f"rl_impls/toy/{module}.py": "SIZE = 100\n"}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Toy(tmp_path_factory.mktemp("toy"))
    toy.commit("tiers", files("sizes", "third = fourth = first"))
    toy.write({"rl_impls/toy/sizes.py": None, **files("lengths", COPYING)})
    yield toy
    assert toy.leftovers() == []


@pytest.fixture(scope="module")
def ran(toy, tmp_path_factory):
    return toy.gate("HEAD", tmp_path_factory.mktemp("ran"), "--tier", "bench", "--op", ",".join(OPS[1:]), rule=QUICK)


def test_a_case_of_base_that_cannot_be_built_on_it_any_more_is_an_error(ran):
    assert ran.code == 1, ran.text
    assert ran.findings[SECOND] == ("error", "base: no rl_impls.toy.lengths, though base lists this case")
    assert ran.findings[THIRD][0] == ran.findings[FOURTH][0] == "ok"


def test_what_is_named_is_gated_whatever_its_tier(ran):
    assert FIRST not in ran.findings
    assert {SECOND, THIRD, FOURTH} <= ran.findings.keys()
    assert ran.artifact["records"][FOURTH]["screen"]


def test_the_time_that_a_run_takes_is_said_first(ran):
    told = [line for line in ran.text.splitlines() if line.startswith("gate: ") and "working tree" not in line]
    assert re.fullmatch(r"gate: 3 cases, about \d+ (s|min) expected", told[0])


def test_fresh_memory_that_a_call_takes_more_is_named(ran):
    allocated, faults = ran.findings[THIRD][1:]
    assert allocated.startswith("allocated_bytes ")
    before, after = map(int, faults.removeprefix("page_faults ").split(" -> "))
    assert before < 50
    assert after - before > 8 * 100_000 * 8 / 4096 / 2
    assert ran.artifact["records"][FOURTH]["memory"] == [{}, {}]  # of its threads' memory nothing is known


def test_an_answer_within_the_tolerance_of_the_reference_has_changed(ran):
    assert ran.findings[FOURTH] == ("ok", "answer changed")


def test_without_a_tier_the_gate_s_is_compared(toy, tmp_path):
    collected = toy.run(*toy.gate_command("HEAD", tmp_path), "--collect-only", "-q")
    assert collected.code == 0, collected.text
    assert FIRST in collected.text
    assert not any(name in collected.text for name in (SECOND, THIRD, FOURTH))


class Answering:
    """A worker that has one answer."""

    def __init__(self, answer):
        self.answer = answer

    def ask(self, do, **arguments):
        """Take any question."""

    def reply(self):
        """Answer it."""
        return self.answer


ABSENT = failure(ModuleNotFoundError("No module named 'rl_impls.toy.moved'", name="rl_impls.toy.moved"))


@pytest.mark.parametrize(
    ("known", "base", "head", "state", "words"),
    [
        ((), ABSENT, {"counters": {}}, "new", "base: no rl_impls.toy.moved"),
        ({FIRST}, ABSENT, {"counters": {}}, "error", "base: no rl_impls.toy.moved, though base lists this case"),
        ({SECOND}, ABSENT, {"counters": {}}, "new", "base: no rl_impls.toy.moved"),
        ((), {"counters": {}}, ABSENT, "error", "head: no rl_impls.toy.moved"),
    ],
)
def test_only_what_base_does_not_list_can_be_new(tmp_path, known, base, head, state, words):
    sides, record = [SimpleNamespace(name="base"), SimpleNamespace(name="head")], Record()
    pairs = Pairs(sides, 1, 1.0, {}, tmp_path, random.Random(0), known)
    assert not pairs.prepare([Answering(base), Answering(head)], FIRST, record)
    assert (record.state, record.words) == (state, words)


@contextmanager
def named_environments(cache, lock):
    """Return an interpreter of the name of each side and of its folder."""
    yield lambda name, folder: Path("/", name, folder.name)


@pytest.mark.parametrize(("tier", "gone"), [("gate", "g"), ("bench", "gb"), ("full", "gbf")])
def test_what_base_lists_of_the_tier_and_head_lacks_is_gone(toy, tmp_path, monkeypatch, tier, gone):
    rows = [(name, of, "toy", "first", "full", "numpy", {}) for name, of in [*zip("gbf", TIERS), ("here", "full")]]
    monkeypatch.setattr(suite, "told", lambda side, folder, code: json.dumps(rows))
    monkeypatch.setattr(suite, "environments", named_environments)
    monkeypatch.setattr(suite.backends, "get", lambda name: SimpleNamespace(missing=lambda: "it is not here"))
    selected, rule = suite_of(monkeypatch, tmp_path, variant("here"), tier=tier), Rule(blocks=2)
    with run.opened(selected, toy.root, "HEAD", rule, 3, 7.0) as gate:
        assert (gate.rule, gate.seed, gate.limit) == (rule, 3, 7.0)
        assert {name: record.state for name, record in gate.records.items()} == dict.fromkeys(gone, "gone")
        assert (gate.cases, selected.unable()) == ([], {"here": "numpy: it is not here"})
        assert set(gate.known) == {*gone, "here"}  # of another tier at base
        commit = toy.git("rev-parse", "HEAD")
        pythons = [Path("/", commit[:12], commit), Path("/head/working-tree")]
        assert [side.python for side in gate.sides] == pythons


def test_the_files_of_the_cases_are_imported_on_head_before_anything_is_timed(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(suite, "told", lambda *of: asked.append(of))
    made = suite_of(monkeypatch, tmp_path, *(variant(f"toy.{name}", name) for name in ("torch", "numpy", "jax")))
    base, head = (SimpleNamespace(root=tmp_path / name) for name in ("base", "head"))
    made.check((base, head), [], 1.0)
    made.check((base, head), [case for case in made.cases() if case.id != "toy.jax"], 1.0)
    assert asked == [(head, head.root, suite.IMPORTS, "rl_impls.toy._numpy", "rl_impls.toy._torch")]


def test_a_run_takes_longer_with_each_case_and_longest_on_all_cores(monkeypatch, tmp_path):
    made, rule = suite_of(monkeypatch, tmp_path, variant()), Rule(screen=4, confirm=16)
    none, one, spread, both = (made.expected(*counts, rule) for counts in ((0, 0), (1, 0), (0, 1), (1, 1)))
    start, (alone, together) = suite.START, (suite.EACH[many] for many in (False, True))
    assert none == 16 * start
    assert one - none == pytest.approx(4 * (start + alone) + 16 * suite.SUSPECTS * alone + suite.FORKED)
    assert spread - one == pytest.approx((4 + 16 * suite.SUSPECTS) * (together - alone))
    assert both - none == pytest.approx(one - none + spread - none)
