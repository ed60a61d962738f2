"""Shards of one comparison decide exactly as one run of the same pairs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlgauge.artifact import Artifact
from rlgauge.merge import merge_artifacts
from rlgauge.rule import SAME, SLOWED, GateError, Record, Rule, is_canary
from rlgauge.run import of_shard

RULE = Rule(screen=2, confirm=7, blocks=1, level=0.05)
CANARIES = {
    SAME: Record(screen=[[(1.0, 1.0)]] * 2),
    SLOWED: Record(screen=[[(1.0, 1.06)]] * 2, confirm=[[(1.0, 1.05 + 0.001 * n)] for n in range(7)]),
}
ratios = st.lists(st.floats(0.95, 1.12), min_size=2, max_size=2)


def artifact(records, **changed):
    about = {"base": "b" * 40, "head": "h", "seed": 0, "seconds": 9.0, "machine": {"cpu_model": "abacus"}, "rule": RULE}
    return Artifact(**about | changed, records=records)


def shards(records, count, **changed):
    """Return the artifacts of `count` shards of a run by file name, each with its own canaries."""
    cases = [name for name in records if not is_canary(name)]
    return {
        f"{number}.json": artifact(
            {name: records[name] for name in of_shard(cases, (number, count))} | CANARIES,
            shard=(number, count),
            **changed,
        )
        for number in range(1, count + 1)
    }


@st.composite
def measured(draw):
    screen = draw(ratios)
    confirm = draw(st.lists(st.floats(0.97, 1.12), min_size=7, max_size=7))
    return Record(screen=[[(1.0, r)] for r in screen], confirm=[[(1.0, r)] for r in confirm])


@given(
    st.dictionaries(st.text("abcdefgh", min_size=1, max_size=3), measured(), min_size=1, max_size=12), st.integers(1, 4)
)
def test_shards_decide_exactly_as_one_run_does(records, count):
    whole = artifact(records | CANARIES).decide()
    joined = merge_artifacts(shards(records, count, cases=len(records))).decide()
    assert {name: found for name, found in joined.findings.items() if not is_canary(name)} == {
        name: found for name, found in whole.findings.items() if not is_canary(name)
    }
    assert sorted(joined.failed) == sorted(whole.failed)
    assert (joined.code, len(joined.wrong)) == (whole.code, len(whole.wrong))


CASES = {name: Record(screen=[[(1.0, 1.0)]] * 2) for name in "abcd"}


def test_notes_of_all_shards_are_kept_once_and_machines_may_differ():
    python = {"python": "3.11.7", "versions": {"numpy": "2.0"}}
    machines = [{"cpu_model": name, **python} for name in ("abacus", "slide rule")]
    parts = shards(CASES, 2, cases=len(CASES), machine=machines[0])
    parts["1.json"].notes, parts["2.json"].notes = ["benchmarks: a", "warning 1"], ["benchmarks: a", "warning 2"]
    parts["2.json"].machine = machines[1]
    found = merge_artifacts(parts)
    assert found.notes == ["benchmarks: a", "warning 1", "warning 2"]
    joined = {"cpu_model": "abacus, slide rule", "cores": None, **python}
    assert found.machine == {**joined, "shards": {"1": machines[0], "2": machines[1]}}


def test_the_canaries_of_each_shard_count():
    parts = shards(CASES, 2)
    parts["2.json"].records[SAME] = CANARIES[SLOWED]
    outcome = merge_artifacts(parts).decide()
    assert outcome.code == 2
    assert outcome.wrong == [f"{SAME}@2 is slower, but should be ok or inconclusive; repeat the run on an idle machine"]


def changed(**what):
    parts = shards(CASES, 2)
    parts["2.json"] = replace(parts["2.json"], **what)
    return parts


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (shards(CASES, 2) | {"3.json": shards(CASES, 2)["1.json"]}, "shard 1 of 2: 2 artifacts given; give one"),
        ({"a.json": artifact(CASES | CANARIES)}, "a.json: this is a whole run, not a shard; leave it out"),
        (changed(head="another head"), "2.json: head is another head, but 1.json has "),
        (changed(base="c" * 40), f"2.json: base is {'c' * 40}, but 1.json has {'b' * 40}"),
        (changed(rule=Rule()), "2.json: rule is Rule(screen=4, "),
        (changed(machine={"cpu_model": "a", "versions": {}}), "2.json: versions is {}, but 1.json has None; install "),
        (changed(shard=(2, 3)), "2.json: it is one of 3 shards, but 1.json is one of 2"),
        (changed(records=CASES), "2.json: canary["),
        (changed(records=CASES | CANARIES), "2.json: a is also in 1.json; give each shard once"),
        (changed(cases=4), "2.json: cases is 4, but 1.json has None"),
        (shards(CASES, 2, cases=5), "the shards have 4 of 5 tests; run all shards with the same tests and options"),
        (changed(anchor=artifact(CANARIES)), "1.json: it has no comparison with an anchor, but 2.json "),
    ],
)
def test_artifacts_of_different_comparisons_are_refused(parts, message):
    with pytest.raises(GateError) as caught:
        merge_artifacts(parts)
    assert str(caught.value).startswith(message)


def test_anchors_of_shards_are_merged_too():
    slow = {"a": CANARIES[SLOWED]}
    parts = shards(CASES, 2)
    for name, part in shards(CASES | slow, 2, base="o" * 40).items():
        parts[name].anchor = part
    outcome = merge_artifacts(parts).decide()
    assert (outcome.code, outcome.failed, outcome.anchor.failed) == (1, [], ["a"])
