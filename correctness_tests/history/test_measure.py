"""Commits of a small repository compared with its releases: what is measured, what is not, and what is said of it."""

from __future__ import annotations

import datetime
import json
import math
import os
import signal
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from correctness_tests.gate.toy import CASES, FIRST, SECOND, SOURCE, Toy, cases, ended, eventually, source
from perf_tests.history import __main__ as command
from perf_tests.history import measure
from perf_tests.history.entries import append, label, read
from perf_tests.history.releases import anchor_before, anchor_of, in_order
from rlgauge.pairs import cores
from rlgauge.rule import GateError, Record

from .made import CASE, MACHINE, commit, entry, order

COMMITS = {  # by name, in order: what each changes
    "comment": {SOURCE: source(more="# sorts")},
    "words": {"README.md": "A toy.\n"},
    "slower": {SOURCE: source(first=120)},
    "after": {SOURCE: source(first=120, more="# sorts still")},
}
RELEASES = {"start": "v1", "slower": "v2"}


def built(folder):
    """Return a repository of these commits, of which only two are tagged; its commits by name."""
    toy = Toy(folder)
    names = {"start": toy.git("rev-parse", "HEAD")}
    names |= {name: toy.commit(name, files) for name, files in COMMITS.items()}
    toy.git("tag", "--delete", *names)
    for name, tag in RELEASES.items():
        toy.git("tag", tag, names[name])
    return toy, names


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The repository after its history was measured; its commits, what was said, and the file."""
    toy, names = built(tmp_path_factory.mktemp("toy"))
    ran = toy.run("perf_tests.history", "--since", "v1", "--pairs", "3")
    assert ran.code == 0, ran.text
    yield toy, names, ran, toy.root / "results" / "history" / f"{label()}.jsonl"
    assert toy.leftovers() == []


def test_every_commit_is_compared_with_the_release_before_it(measured):
    _, names, _, file = measured
    found = {(e.commit, e.case): e for e in read(file)}
    assert len(found) == len(read(file)) == 2 * len(COMMITS)
    for name, anchor in (("comment", "start"), ("words", "start"), ("slower", "start"), ("after", "slower")):
        for case in (FIRST, SECOND):
            assert found[names[name], case].anchor == names[anchor]
    assert {e.n for e in found.values() if e.state == "timed"} == {3}


def test_ratios_are_those_of_the_work(measured):
    _, names, _, file = measured
    ratios = {(e.commit, e.case): e.ratio for e in read(file)}
    assert ratios[names["slower"], FIRST] == pytest.approx(1.2, abs=0.03)
    assert ratios[names["slower"], SECOND] == pytest.approx(1.0, abs=0.03)
    assert ratios[names["after"], FIRST] == pytest.approx(1.0, abs=0.03)


def test_a_commit_that_changes_nothing_is_not_timed(measured):
    _, names, ran, file = measured
    carried = [e for e in read(file) if e.commit == names["words"]]
    timed = {e.case: e for e in read(file) if e.commit == names["comment"]}
    assert [e.state for e in carried] == ["unchanged"] * 2
    for e in carried:
        assert e.same_as == names["comment"]
        assert (e.ratio, e.low, e.high, e.n) == (timed[e.case].ratio, timed[e.case].low, timed[e.case].high, 3)
    assert "2 of 4" in ran.text
    assert "0 known, 2 unchanged, 0 to measure" in ran.text


def test_what_is_to_take_long_is_said_first(measured):
    first, *rest = measured[2].text.splitlines()
    assert first == "history: 4 commits, at most 12 min each, about 48 min in all"
    assert any("2 cases, 3 pairs, about" in line for line in rest)


def test_what_is_known_is_not_measured_anew(measured):
    toy, _, _, file = measured
    before = file.read_bytes()
    ran = toy.run("perf_tests.history", "--since", "v1", "--pairs", "3")
    assert ran.code == 0
    assert ran.text.count("2 known, 0 unchanged, 0 to measure") == len(COMMITS)
    assert "pairs" not in ran.text
    assert file.read_bytes() == before


def test_the_step_is_shown_across_releases(measured):
    toy, names, _, _ = measured
    ran = toy.run("perf_tests.history", "show", "--json")
    assert ran.code == 0, ran.text
    found = {case["case"]: case for case in json.loads(ran.text)}
    first = found[FIRST]
    assert first["root"] == names["start"]
    assert first["verdict"] == "slower"
    assert [step["commit"] for step in first["steps"]] == [names["slower"]]
    assert first["points"][-1]["ratio"] == pytest.approx(1.2, abs=0.04)  # 1.0 against the second release
    assert found[SECOND]["steps"] == []
    assert found[SECOND]["verdict"] == "ok"
    table = toy.run("perf_tests.history", "show").text
    assert f"`{names['slower'][:12]}`" in table.splitlines()[2]


def test_an_entry_of_another_format_ends_it_before_anything_is_measured(measured, tmp_path):
    toy, _, _, file = measured
    other = tmp_path / file.name
    other.write_bytes(file.read_bytes() + b'{"format": 2}\n')
    ran = toy.run("perf_tests.history", "--since", "v1", "--file", other)
    assert ran.code == 2
    assert ran.only_says(f"{file.name}, line 9: wanted an entry of a history, format 1")
    assert other.read_bytes().endswith(b'{"format": 2}\n')


def test_ctrl_c_leaves_nothing_but_what_was_kept(measured, tmp_path):
    toy, _, _, file = measured
    other = tmp_path / file.name
    process = toy.start("perf_tests.history", "--since", "v1", "--pairs", "500", "--file", other)
    assert eventually(lambda: toy.processes("perf_tests.gate.worker"))
    process.send_signal(signal.SIGINT)
    assert ended(process).code == 130
    assert eventually(lambda: not toy.leftovers())
    assert not other.exists()
    assert os.listdir(tmp_path) == []


def test_a_case_that_fails_at_a_commit_is_said_and_the_others_go_on(tmp_path_factory):
    toy = Toy(tmp_path_factory.mktemp("failing"))
    toy.commit("broken", {SOURCE: source(more="def first(*args, **kwargs):\n    raise OSError('no such net')\n")})
    ran = toy.run("perf_tests.history", "--since", "start", "--pairs", "1")
    assert ran.code == 1, ran.text
    assert f"{FIRST} at {toy.git('rev-parse', 'HEAD')[:12]}: head: OSError: no such net" in ran.text
    (kept,) = read(toy.root / "results" / "history" / f"{label()}.jsonl")
    assert kept.case == SECOND


def test_a_case_that_the_release_lacks_is_kept_as_lacking(tmp_path_factory):
    toy = Toy(tmp_path_factory.mktemp("lacking"))
    lacking = source().replace("def second", "def zeroth")
    toy.commit("without", {SOURCE: lacking, CASES: cases("first")})
    toy.git("tag", "--delete", "start")
    toy.commit("with", {SOURCE: source(), CASES: cases("first", "second")})
    toy.git("tag", "--delete", "with")
    ran = toy.run("perf_tests.history", "--since", "without", "--pairs", "1")
    assert ran.code == 0, ran.text
    entries = read(toy.root / "results" / "history" / f"{label()}.jsonl")
    assert {e.case: e.state for e in entries} == {FIRST: "timed", SECOND: "lacking"}
    again = toy.run("perf_tests.history", "--since", "without", "--pairs", "1")
    assert "2 known, 0 unchanged, 0 to measure" in again.text


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    return built(tmp_path_factory.mktemp("tagged"))


def test_a_release_is_compared_with_the_one_before(tagged):
    toy, names = tagged
    found = {name: anchor_of(toy.root, names[name], None) for name in COMMITS}
    assert found == {
        "comment": names["start"],
        "words": names["start"],
        "slower": names["start"],
        "after": names["slower"],
    }
    assert anchor_of(toy.root, names["after"], "v1") == names["start"]


def test_without_a_release_an_anchor_has_to_be_named(tagged):
    toy, names = tagged
    message = f"^no tag before {names['start'][:12]}: no release to compare with; name a revision by --anchor$"
    with pytest.raises(GateError, match=message):
        anchor_of(toy.root, names["start"], None)
    with pytest.raises(GateError, match=r"^unknown revision 'elsewhere'$"):
        anchor_of(toy.root, names["after"], "elsewhere")


def test_a_new_release_goes_on_from_the_last_anchor_before_it(tagged):
    toy, names = tagged
    known = [entry(1, 0, [0.1]).model_copy(update={"commit": names["comment"], "anchor": names["start"]})]
    case, version = known[0].case, 1
    assert anchor_before(toy.root, known, case, version, names["slower"]) == names["start"]
    assert anchor_before(toy.root, known, case, 2, names["slower"]) is None
    assert anchor_before(toy.root, known, case, version, names["start"]) is None
    later = [entry(1, 0, [0.1]).model_copy(update={"commit": names["after"], "anchor": names["slower"]})]
    assert anchor_before(toy.root, later, case, version, names["start"]) is None
    assert anchor_before(toy.root, [*known, *later], case, version, names["after"]) == names["slower"]


def test_commits_are_those_along_first_parents_oldest_first(tmp_path):
    toy = Toy(tmp_path / "toy")
    start = toy.git("rev-parse", "HEAD")
    main = toy.git("rev-parse", "--abbrev-ref", "HEAD")
    toy.git("checkout", "--quiet", "-b", "side")
    toy.commit("beside", {"beside.md": "Beside.\n"})
    toy.git("checkout", "--quiet", main)
    after = toy.commit("after", {"README.md": "After.\n"})
    toy.git("merge", "--quiet", "--no-edit", "side")
    assert in_order(toy.root)[-3:] == [start, after, toy.git("rev-parse", "HEAD")]


@pytest.fixture
def history(tmp_path, monkeypatch):
    """A history of two cases that is measured by nobody. -> it, the commits and anchors asked for, and what it says"""
    case = SimpleNamespace(workload="toy", version=1, cores="one")
    variants = [SimpleNamespace(id=name, case=case, precision="float32") for name in (FIRST, SECOND)]
    said, asked, made, turns = [], [], [], []
    found = measure.History(tmp_path, tmp_path / f"{MACHINE}.jsonl", variants, log=said.append)

    class Pairs:
        def __init__(self, sides, *rest):
            self.sides = sides
            made.append(rest)

        def measure(self, records, names, place, phase):
            asked.append(self.sides)
            turns.append((names, place, phase))
            for name in names:
                records[name].confirm.append([(1.0, 1.1)])

    monkeypatch.setattr(measure, "Pairs", Pairs)
    digests = {}
    there = SimpleNamespace(
        side=lambda commit, name: (name, commit),
        folder=tmp_path,
        fingerprint=lambda commit, case: digests.get(commit, commit),
    )
    return SimpleNamespace(found=found, there=there, said=said, asked=asked, digests=digests, made=made, turns=turns)


def test_as_many_pairs_are_measured_as_fit_into_the_minutes(history):
    history.found.minutes = 20 / 60
    history.found.compare(history.there, commit(2), commit(0), commit(1), [FIRST, SECOND], "1 of 1")
    assert len(history.asked) == 2
    assert "2 cases, 2 pairs of 16, as more would take over 0.333333 min, about 18 s expected" in history.said[-1]
    assert {e.n for e in read(history.found.file)} == {2}


def test_minutes_that_are_too_few_for_a_pair_are_refused(history):
    history.found.minutes = 0.1
    with pytest.raises(GateError, match=r"^--minutes: got 0\.1, wanted 0\.15 or more: what a pair of 2 cases takes$"):
        history.found.compare(history.there, commit(2), commit(0), commit(1), [FIRST, SECOND], "1 of 1")


def test_no_pair_begins_that_would_end_too_late(history, monkeypatch):
    now = iter(range(0, 10**6, 100))  # each look at the clock is 100 s later
    monkeypatch.setattr(measure.time, "monotonic", lambda: next(now))
    history.found.compare(history.there, commit(2), commit(0), commit(1), [FIRST], "1 of 1")
    assert 1 <= len(history.asked) < 12
    assert f"{len(history.asked)} pairs, as one more would take over 12 min" in history.said[-1]


def test_a_commit_like_its_anchor_has_a_ratio_of_one(history):
    history.digests |= {commit(0): "same", commit(2): "same"}
    history.found.compare(history.there, commit(2), commit(0), commit(1), [FIRST], "1 of 1")
    (kept,) = read(history.found.file)
    assert (kept.state, kept.same_as, kept.ratio, kept.n) == ("unchanged", commit(0), 1.0, 0)
    assert history.asked == []


def test_of_commits_that_are_alike_each_names_the_one_that_was_timed(history):
    history.digests |= {commit(number): "same" for number in (2, 3, 4)}
    for number in (2, 3, 4):
        history.found.compare(history.there, commit(number), commit(0), commit(number - 1), [FIRST], "1 of 1")
    timed, *carried = read(history.found.file)
    assert [(e.commit, e.state, e.same_as) for e in carried] == [
        (commit(number), "unchanged", commit(2)) for number in (3, 4)
    ]
    assert {(e.anchor, e.ratio, e.n) for e in carried} == {(timed.anchor, timed.ratio, timed.n)}


def test_what_was_lacking_is_not_carried(history):
    history.digests |= {commit(2): "same", commit(3): "same"}
    append(history.found.file, [entry(2, 0, state="lacking", n=0, case=FIRST)])
    history.found.compare(history.there, commit(3), commit(0), commit(2), [FIRST], "1 of 1")
    assert [e.state for e in read(history.found.file)] == ["lacking", "timed"]


def test_a_pair_is_the_anchor_then_the_commit_on_one_core_and_on_all(history):
    found = history.found
    found.variants[1].case = SimpleNamespace(workload="toy", version=1, cores="own")
    found.pairs, found.blocks, found.limit = 2, 5, 7.0
    found.compare(history.there, commit(2), commit(0), commit(1), [FIRST, SECOND], "1 of 1")
    assert set(history.asked) == {(("base", commit(0)), ("head", commit(2)))}
    assert history.turns == [([FIRST], cores(False), "confirm"), ([SECOND], cores(True), "confirm")] * 2
    ((blocks, limit, tolerances, folder, _),) = history.made
    assert (blocks, limit, folder) == (5, 7.0, history.there.folder)
    assert tolerances == {variant.id: measure.tolerance(variant) for variant in found.variants}


def test_the_order_of_cases_is_drawn_for_each_commit_from_the_seed(history):
    for seed, number in ((0, 2), (0, 3), (1, 4), (0, 5)):
        history.found.seed = seed
        history.found.compare(history.there, commit(number), commit(0), commit(1), [FIRST], "1 of 1")
    history.found.file.unlink()
    history.found.compare(history.there, commit(2), commit(0), commit(1), [FIRST], "1 of 1")
    *first, again = [made[-1].random() for made in history.made]
    assert len(set(first)) == 4
    assert again == first[0]


def test_another_anchor_is_measured_anew(history):
    for anchor in (0, 1):
        history.found.compare(history.there, commit(2), commit(anchor), None, [FIRST], "1 of 1")
    assert [e.anchor for e in read(history.found.file)] == [commit(0), commit(1)]


def test_another_version_of_a_case_is_measured_anew(history):
    for version in (1, 2):
        history.found.variants[0].case.version = version
        history.found.compare(history.there, commit(2), commit(0), None, [FIRST], "1 of 1")
    assert [e.version for e in read(history.found.file)] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--since: wanted a revision, the last before those to be measured"),
        (["--since", "HEAD~1", "--pairs", "0"], "--pairs: got 0, wanted 1 or more"),
        (["--since", "HEAD~1", "--minutes", "nan"], "--minutes: got nan, wanted a finite number above 0"),
        (["--since", "elsewhere"], "unknown revision 'elsewhere'"),
        (["--since", "HEAD"], "HEAD does not come before HEAD"),
        (["--since", "HEAD~1", "--anchor", "elsewhere"], "unknown revision 'elsewhere'"),
        (["--since", "HEAD~1", "--workload", "chess"], "unknown workload 'chess'"),
        (["show", "--machine", "elsewhere"], "elsewhere.jsonl: nothing of this branch's commits"),
        (["show", "--file", "nowhere.jsonl"], "--file nowhere.jsonl: there is none"),
        (["--since", "HEAD~1", "--anchor", "HEAD"], "--anchor HEAD: it is the commit that is to be compared with it"),
        (["power", "--pairs", "0"], "--pairs: got 0, wanted 1 or more"),
        (["power", "--commits", "7"], "--commits: got 7, wanted 8 or more"),
        (["power", "--file", "nowhere.json"], "0 pairs were recorded, wanted 20 or more of a case"),
    ],
)
def test_a_mistake_is_one_line(arguments, message, capsys):
    assert command.main(arguments) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(("failed", "code"), [([], 0), (["toy"], 1)])
def test_what_is_asked_for_is_measured(tmp_path, monkeypatch, failed, code):
    file, given = tmp_path / f"{MACHINE}.jsonl", []

    def history(root, file, variants, *rest):
        given.append((file, {(v.case.workload, v.tier) for v in variants}, *rest))
        return SimpleNamespace(measure=given.append, failed=failed)

    monkeypatch.setattr(command, "History", history)
    asked = ["--since", "REV", "--anchor", "v1", "--pairs", "3", "--minutes", "2.5", "--workload", "pirl"]
    assert command.main([*asked, "--file", str(file)]) == code
    assert given == [(file, {("pirl", "gate")}, "v1", 3, 2.5), "REV"]


def test_what_is_shown_is_of_the_machine_and_the_workloads_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    monkeypatch.setattr(command, "in_order", lambda root: order(1))
    append(tmp_path / f"{MACHINE}.jsonl", [entry(1, 0, [0.1]), entry(1, 0, [0.1], case="other.op[full-numpy]")])
    for asked, wanted in (((), {CASE, "other.op[full-numpy]"}), (("--workload", "toy"), {CASE})):
        assert command.main(["show", "--json", "--machine", MACHINE, *asked]) == 0
        assert {case["case"] for case in json.loads(capsys.readouterr().out)} == wanted
    assert command.main(["show", "--machine", MACHINE, "--workload", "toy,chess"]) == 2
    said = f"--workload: {MACHINE}.jsonl has nothing of 'chess', but of other, toy\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    "words", [["--file", "a", "show"], ["--workload", "toy", "power"], ["--since", "a", "planted", "step"]]
)
def test_options_of_a_command_come_after_it(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(words)
    (name,) = {"show", "power", "planted"} & {*words}
    assert capsys.readouterr().err.endswith(f"error: got {words[0]} before {name}, wanted its options after it\n")


def test_rates_are_counted_as_they_are_asked_for_and_kept_where_asked_to(tmp_path, monkeypatch, capsys):
    given, file = [], tmp_path / "pairs.json"
    monkeypatch.setattr(command.power, "record", lambda root, file, minutes: given.append((file, minutes)))
    monkeypatch.setattr(command.power, "read", lambda file: file)
    monkeypatch.setattr(command.power, "table", lambda *asked: given.append(asked) or "a table")
    monkeypatch.setattr(command.power, "put", lambda page, text: given.append((page.name, text)))
    asked = ["power", "--file", str(file), "--histories", "5", "--commits", "9", "--pairs", "7"]
    assert command.main(asked) == 0
    assert command.main([*asked, "--minutes", "2", "--docs"]) == 0
    assert given == [(file, 5, 9, 7), (file, 2.0), (file, 5, 9, 7), ("history.md", "a table")]
    assert capsys.readouterr().out == "a table\n" * 2


def test_a_record_without_pairs_is_a_failure(history, monkeypatch):
    monkeypatch.setattr(measure, "Record", lambda: Record(state="error", words="head: killed by SIGKILL"))
    history.found.compare(history.there, commit(2), commit(0), None, [FIRST], "1 of 1")
    assert history.found.failed == [f"{FIRST} at {commit(2)[:12]}: head: killed by SIGKILL"]
    assert read(history.found.file) == []


@pytest.fixture
def steered(history, monkeypatch):
    """The same, of commits 0 to 4 whose anchors are as told; the call measures and returns what was compared."""
    found, compared, anchors = history.found, [], {}
    monkeypatch.setattr(measure.revisions, "resolve", lambda root, revision: commit(int(revision)))
    monkeypatch.setattr(measure, "between", lambda root, since, last: order(4)[1 + int(since) :] if last else None)
    monkeypatch.setattr(measure, "anchor_of", lambda root, of, named: commit(anchors.get(of, 0)))
    monkeypatch.setattr(measure, "laid_out", lambda suite, root: nullcontext(history.there))
    monkeypatch.setattr(found, "compare", lambda there, *rest: compared.append(rest))

    def run(since, broken=None, **told):
        anchors.update({commit(int(number[1:])): anchor for number, anchor in told.items()})
        monkeypatch.setattr(found, "broken", lambda anchor: (broken or {}).get(anchor, {}))
        found.measure(since)
        return compared

    return SimpleNamespace(run=run, said=history.said, found=found)


def test_each_commit_is_compared_with_its_anchor_and_knows_the_one_before_it(steered):
    both = [FIRST, SECOND]
    broken = {commit(2): {commit(0): [SECOND]}}
    assert steered.run("1", broken, c2=0, c3=2, c4=4) == [
        (commit(2), commit(0), commit(1), both, "1 of 3"),
        (commit(2), commit(0), None, [SECOND], "release"),
        (commit(3), commit(2), commit(2), both, "2 of 3"),
    ]
    assert steered.said == ["history: 3 commits, at most 12 min each, about 36 min in all"]


def test_of_one_commit_only_its_own_minutes_are_said(steered):
    steered.found.minutes = 2.5
    assert steered.run("3") == [(commit(4), commit(0), commit(3), [FIRST, SECOND], "1 of 1")]
    assert steered.said == ["history: 1 commits, at most 2.5 min each"]


def test_a_release_is_joined_to_the_anchor_before_it_for_those_cases_that_are_not(history, monkeypatch):
    asked = []

    def before(root, entries, case, version, anchor):
        asked.append((len(entries), case, version, anchor))
        return {FIRST: commit(0), SECOND: commit(1)}.get(case)

    found = history.found
    found.variants.append(SimpleNamespace(id="toy.new[full-numpy]", case=found.variants[0].case))
    monkeypatch.setattr(measure, "anchor_before", before)
    assert found.broken(commit(2)) == {commit(0): [FIRST], commit(1): [SECOND]}
    assert asked[0] == (0, FIRST, 1, commit(2))
    append(found.file, [entry(2, 0, [0.1], case=FIRST), entry(2, 0, [0.1], case=SECOND)])
    assert found.broken(commit(2)) == {commit(1): [SECOND]}
    append(found.file, [entry(2, 1, [0.1], case=SECOND, version=2), entry(3, 1, [0.1], case=SECOND)])
    assert found.broken(commit(2)) == {commit(1): [SECOND]}


def carried(history, earlier, known, **changed):
    """Return what is carried to commit 3 from what is known, where commits 2 and 3 are alike."""
    history.digests |= {commit(2): "same", commit(3): "same"}
    (variant,) = history.found.variants[:1]
    return history.found.carried(history.there, commit(3), commit(0), earlier, variant, known)


def test_only_entries_of_the_commit_before_the_case_and_its_version_are_carried(history):
    known = [entry(2, 0, [0.1], case=FIRST), entry(2, 1, [0.3], case=FIRST)]
    for entries, last in ((known, known[0]), (known[::-1], known[0]), (known[1:], known[1])):  # of the anchor, if any
        assert carried(history, commit(2), entries) == {
            "state": "unchanged", "same_as": commit(2), "anchor": last.anchor, "ratio": last.ratio, "low": last.low,
            "high": last.high, "n": 1,
        }  # fmt: skip
    others = [
        entry(2, 0, [0.1], case=SECOND),
        entry(2, 0, [0.1], case=FIRST, version=2),
        entry(1, 0, [0.1], case=FIRST),
    ]
    assert carried(history, commit(2), others) is None
    assert carried(history, None, known) is None
    assert carried(history, commit(1), [entry(1, 0, [0.1], case=FIRST)]) is None


def test_what_was_carried_with_another_anchor_is_known(history):
    history.digests |= {commit(2): "same", commit(3): "same"}
    append(history.found.file, [entry(2, 1, [0.3], case=FIRST)])
    for added in ("0 known, 1 unchanged, 0 to measure", "1 known, 0 unchanged, 0 to measure"):
        history.found.compare(history.there, commit(3), commit(0), commit(2), [FIRST], "3 of 4")
        assert history.said[-1] == f"history: 3 of 4, {commit(3)[:12]} against {commit(0)[:12]}: {added}"
    assert [(e.commit, e.anchor) for e in read(history.found.file)] == [(commit(2), commit(1)), (commit(3), commit(1))]


def test_an_entry_is_of_the_machine_the_day_the_case_and_the_anchor(history):
    days = {datetime.date.today().isoformat()}
    history.found.variants[0].case.version = 6
    history.found.compare(history.there, commit(2), commit(1), None, [FIRST], "1 of 1")
    days.add(datetime.date.today().isoformat())
    (kept,) = read(history.found.file)
    assert (kept.machine, kept.commit, kept.anchor, kept.case, kept.version) == (
        MACHINE, commit(2), commit(1), FIRST, 6,
    )  # fmt: skip
    assert kept.date in days
    assert kept.log_ratios == (pytest.approx(math.log(1.1), abs=1e-6),) * 16


def test_a_case_that_the_anchor_lacks_has_no_ratio_and_one_that_fails_no_entry(history, monkeypatch):
    made = iter([Record(state="new"), Record(state="error", words="head: no such net")])
    monkeypatch.setattr(measure, "Record", lambda: next(made))
    history.found.compare(history.there, commit(2), commit(0), None, [FIRST, SECOND], "1 of 1")
    (kept,) = read(history.found.file)
    assert (kept.case, kept.state, kept.anchor, kept.ratio, kept.n) == (FIRST, "lacking", commit(0), None, 0)
    assert history.found.failed == [f"{SECOND} at {commit(2)[:12]}: head: no such net"]
    assert history.said[-1] == f"history: {history.found.failed[0]}"


def test_a_pair_takes_a_start_for_each_kind_of_core_and_its_cases(history):
    history.found.pairs = 3
    passes = {False: ["a", "b"], True: ["c"]}
    assert list(history.found.within_minutes(passes)) == [0, 1, 2]
    assert history.said == ["history: 3 cases, 3 pairs, about 60 s expected"]
    assert list(history.found.within_minutes({False: ["a"], True: []})) == [0, 1, 2]
    assert history.said.pop() == "history: 1 cases, 3 pairs, about 22 s expected"
    history.found.minutes = 40 / 60
    assert list(history.found.within_minutes(passes)) == [0, 1]
    assert history.said[1].startswith("history: 3 cases, 2 pairs of 3, as more would take over 0.666667 min")


def test_a_pair_begins_where_one_as_long_as_the_longest_would_end_in_time(history, monkeypatch):
    now = [50.0]
    monkeypatch.setattr(measure.time, "monotonic", lambda: now[0])
    took = {0: 100.0, 1: 300.0, 2: 20.0, 3: 1.0}  # the fourth ends, if it is as long as the second, at 720 s
    for pair in history.found.within_minutes({False: [FIRST], True: []}):
        now[0] += took.pop(pair)
    assert took == {}
    assert history.said[-1] == "history: 4 pairs, as one more would take over 12 min"


def test_an_anchor_before_is_of_the_same_case(tagged):
    toy, names = tagged
    known = [entry(1, 0, [0.1]).model_copy(update={"commit": names["comment"], "anchor": names["start"]})]
    assert anchor_before(toy.root, known, "toy.other[full-numpy]", 1, names["slower"]) is None
    assert anchor_before(toy.root, known, CASE, 1, names["slower"]) == names["start"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--since", "HEAD~1", "--minutes", "0"], "--minutes: got 0.0, wanted a finite number above 0"),
        (["--since", "HEAD~1", "--minutes", "inf"], "--minutes: got inf, wanted a finite number above 0"),
        (["power", "--histories", "0"], "--histories: got 0, wanted 1 or more"),
    ],
)
def test_a_number_out_of_its_range_is_one_line(arguments, message, capsys):
    assert command.main(arguments) == 2
    assert capsys.readouterr().err == f"{message}\n"


def test_unless_told_otherwise_what_can_run_here_is_measured_into_this_machines_file(tmp_path, monkeypatch, capsys):
    given = []

    def history(root, file, variants, *rest):
        given.append((root, file, {v.backend for v in variants}, *rest))
        return SimpleNamespace(measure=given.append, failed=[])

    def backend(name):
        return SimpleNamespace(missing=lambda: None if name in ("numpy", "torch") else "not here")

    monkeypatch.setattr(command, "History", history)
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    monkeypatch.setattr(command, "label", lambda: MACHINE)
    monkeypatch.setattr(command.backends, "get", backend)
    append(tmp_path / f"{MACHINE}.jsonl", [entry(1, 0, [0.1])])
    assert command.main(["--since", "REV"]) == 0
    assert given == [(command.ROOT, tmp_path / f"{MACHINE}.jsonl", {"numpy", "torch"}, None, 16, 12.0), "REV"]
    said = f"history: 1 entries in {MACHINE}.jsonl; python -m perf_tests.history show\n"
    assert capsys.readouterr().out == said


def test_what_is_shown_is_a_table_of_this_machines_file_or_of_one_that_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    monkeypatch.setattr(command, "label", lambda: MACHINE)
    monkeypatch.setattr(command, "in_order", lambda root: order(1))
    append(tmp_path / f"{MACHINE}.jsonl", [entry(1, 0, [0.1])])
    named = tmp_path / "elsewhere" / f"{MACHINE}.jsonl"
    append(named, [entry(1, 0, [0.1], case="other.op[full-numpy]")])
    for asked, case in (((), CASE), (("--file", str(named)), "other.op[full-numpy]")):
        assert command.main(["show", *asked]) == 0
        assert capsys.readouterr().out.splitlines()[2].startswith(f"| `{case}` | +10.5 % ")


def test_rates_are_of_what_is_kept_beside_the_code_a_thousand_times_twelve_commits(monkeypatch, capsys):
    given = []
    monkeypatch.setattr(command.power, "record", lambda *asked: pytest.fail("nothing is to be recorded"))
    monkeypatch.setattr(command.power, "read", lambda file: file)
    monkeypatch.setattr(command.power, "table", lambda *asked: given.append(asked) or "a table")
    monkeypatch.setattr(command.power, "put", lambda *asked: pytest.fail("nothing is to be written"))
    assert command.main(["power"]) == 0
    assert given == [(command.power.RECORDED, 1000, 12, 16)]
    assert command.main(["power", "--commits", "8", "--histories", "1", "--pairs", "1"]) == 0
    assert given[1:] == [(command.power.RECORDED, 1, 8, 1)]
