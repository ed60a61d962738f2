"""``--gate-resume``: an interrupted run keeps its pairs, and an identical run continues from them."""

import json
import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from rlgauge.__main__ import main
from rlgauge.memory import not_measured
from rlgauge.resume import conditions, fingerprints, hash_of_installed, resume
from rlgauge.rule import Record, Rule
from rlgauge.run import Gate
from rlgauge.session import Run, resume_pairs
from rlgauge.workers import Side

from .made import SAME, SLOWED, Gated, flat, tidy
from .test_merge import CASES, artifact

SLOW, KEPT = "benchmarks/test_sorting.py::test_slow", "benchmarks/test_sorting.py::test_kept[10]"
RULE = "screen=2,confirm=1,looks=1,blocks=3,level=0.5"
toy = tidy(flat())


@pytest.fixture(scope="module")
def interrupted(toy, tmp_path_factory):
    toy.at("start", flat(slow=120))
    folder = tmp_path_factory.mktemp("runs")
    ran = Gated(2, toy.interrupted("screen 2 of", signal.SIGTERM, *toy.command("start", folder, rule=RULE)), folder)
    (folder / "kept.json").write_text(json.dumps(ran.artifact))
    return ran


def test_an_interrupted_run_keeps_its_whole_pairs_and_is_incomplete(interrupted, capsys):
    assert " interrupted: no verdict; to resume, repeat the command with --gate-resume !" in interrupted.text
    assert "KeyboardInterrupt" not in interrupted.text
    assert "interrupts.py" not in interrupted.text
    found = interrupted.artifact
    assert not found["complete"]
    assert {len(record["screen"]) for record in found["records"].values()} == {1}
    for command in ("replay", "merge"):
        assert main([command, str(interrupted.folder / "kept.json")]) == 2
        output = "".join(capsys.readouterr())
        assert "the run was interrupted; repeat its command with --gate-resume" in output


def test_a_changed_run_starts_over_and_says_what_differs(toy, interrupted, tmp_path):
    toy.at("start", flat(slow=120) | {"toy/table.csv": "1, 2\n"})
    (tmp_path / "gate.json").write_text((interrupted.folder / "kept.json").read_text())
    command = toy.command("start", tmp_path, "--gate-resume", rule=RULE)
    output = toy.interrupted("screen 1 of", signal.SIGINT, *command)  # before anything is measured
    assert (" interrupted: no verdict !" in output, "passed" in output) == (True, False), output
    assert "interrupts.py" not in output
    assert "gate: starting over, because these changed since the interrupted run: head's files\n" in output
    assert json.loads((tmp_path / "gate.json").read_text()) == interrupted.artifact, "nothing new was measured"
    assert {path.name for path in tmp_path.iterdir()} <= {"gate.json", "junit.xml"}  # pytest writes it; no test passed
    assert toy.leftovers() == []


def test_a_resumed_run_keeps_the_pairs_and_measures_canaries_anew(toy, interrupted, tmp_path):
    toy.at("start", flat(slow=120))
    before = interrupted.artifact | {"seconds": 3600.0}
    (tmp_path / "gate.json").write_text(json.dumps(before))
    ran = toy.gate("start", tmp_path, "--gate-resume", rule=RULE, code=1)
    resumed = f"gate: resuming with 3 pairs of 3 benchmarks from {tmp_path / 'gate.json'}; canaries are measured again"
    assert resumed in ran.text
    found = ran.artifact
    assert found["complete"]
    assert found["seconds"] > 3600
    for name in (SLOW, KEPT):
        assert found["records"][name]["screen"][:1] == before["records"][name]["screen"]
    assert {len(record["screen"]) for record in found["records"].values() if record["state"] == "timed"} == {2}
    assert found["records"][SAME]["screen"][0] not in before["records"][SAME]["screen"]
    assert (ran.findings[SLOW], ran.findings[KEPT], ran.findings[SLOWED]) == (("slower",), ("ok",), ("slower",))


def test_the_pairs_of_an_anchor_are_kept_although_base_is_unchanged(toy, tmp_path):
    toy.at("start")
    toy.commit("slower", flat(slow=120))
    command = toy.command("slower", tmp_path, "--gate-anchor", "start", rule=RULE)
    text = toy.interrupted("screen 2 of", signal.SIGTERM, *command)
    assert "to resume, repeat the command with --gate-resume" in text
    found = json.loads((tmp_path / "gate.json").read_text())
    assert {record["state"] for record in found["records"].values()} == {"unchanged"}
    assert {len(record["screen"]) for record in found["anchor"]["records"].values()} == {1}


@pytest.mark.parametrize(
    "words", ["", "its first call takes 50 times as long as later calls; only the later calls are timed"]
)
def test_the_note_on_a_test_is_kept_but_not_one_about_memory_which_is_counted_again(tmp_path, words):
    gate = Gate("b" * 40, "h", (), (), {SLOW: Record()}, tmp_path, Rule(), 0, 1.0)
    before, record = gate.artifact(complete=False), Record(screen=[[(1.0, 1.0)]], words=words)
    before.records = {SLOW: record}
    not_measured(record, "the test allows only one call")
    memory = "memory was not measured: the test allows only one call"
    assert record.words == (f"{words}; {memory}" if words else memory)
    assert resume(gate, before) == []
    assert gate.records[SLOW] == Record(screen=[[(1.0, 1.0)]], words=words)


def test_a_run_that_was_interrupted_while_it_measured_the_anchor_is_resumed(tmp_path):
    pairs, file = [[(1.0, 1.0)]], tmp_path / "gate.json"
    gates = [Gate(base * 40, "h", (), (), {SLOW: Record()}, tmp_path, Rule(), 0, 1.0) for base in "ba"]
    before, anchor = (replace(gate.artifact(), records={SLOW: Record(screen=pairs)}) for gate in gates)
    before.anchor = replace(anchor, complete=False)
    file.write_text(before.to_json())
    resume_pairs(Run(None, ExitStack(), Rule(), None, file, gates), file, print)
    assert [gate.records[SLOW].screen for gate in gates] == [pairs, pairs]


def test_files_that_the_run_writes_are_no_change(tmp_path):
    side, hashes = Side("head", tmp_path, Path(sys.executable), ()), []
    for names in (["a.py"], ["gate.json", "out/.gate.md.x1"], ["b.py"]):
        for name in names:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()
        hashes.append(fingerprints([side], tmp_path, ["gate.json", "out/.gate.md.*"])["head's files"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_pairs_of_another_machine_seed_or_selection_are_not_reused():
    machine = {"cpu_model": "abacus", "vectors": "avx2", "cores": 2, "python": "3.11.7", "versions": {"numpy": "2.0"}}
    others = {"vectors": "avx512f"}, {"cores": 4}, {"python": "3.12.0"}, {"versions": {"numpy": "2.1"}}
    changed = [("machine", artifact({}, machine=machine | other)) for other in others]
    changed += [("seed", artifact({}, machine=machine, seed=1)), ("selected tests", artifact(CASES, machine=machine))]
    before = conditions(artifact({}, machine=machine))
    for wanted, now in ((name, conditions(other)) for name, other in changed):
        assert [name for name in now if now[name] != before[name]] == [wanted]


def test_another_version_of_a_package_changes_the_hash_of_those_installed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    metadata, hashes = tmp_path / "made_up.dist-info" / "METADATA", []
    metadata.parent.mkdir()
    for version in ("1", "2", "1"):
        metadata.write_text(f"Metadata-Version: 2.1\nName: made-up\nVersion: {version}\n")
        hashes.append(hash_of_installed())
    assert hashes[0] == hashes[2] != hashes[1]
