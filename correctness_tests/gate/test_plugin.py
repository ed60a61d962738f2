"""The gate as a pytest run on given measurements: its exit code, its messages and the files it writes."""

from __future__ import annotations

import errno
import json
import os
import xml.etree.ElementTree as ElementTree
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from correctness_tests.repositories.made import ROOT, Gated
from rlgauge import layout, plugin, revisions
from rlgauge import run as gate_run
from rlgauge.__main__ import main
from rlgauge.artifact import Artifact
from rlgauge.fields import parse
from rlgauge.rule import GateError, Record, Rule, is_canary

from .test_outcome import GOOD
from .test_rule import SLOW, timed

HERE = ROOT / "perf_tests" / "report"  # in which the gate collects nothing
ALONE = ("-c", os.devnull, "--rootdir", ROOT, "--confcutdir", HERE, "-o", "junit_family=xunit1")
WITHOUT = [part for name in ("cacheprovider", "faulthandler", "unraisableexception") for part in ("-p", f"no:{name}")]
SLOWER = timed(SLOW[:4], SLOW)
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "some/file")


class Given:
    """Stands in for :class:`rlgauge.benchmarks.source.Benchmarks`, which selects nothing."""

    def __init__(self, folder):
        self.artifact = folder / "gate.json"

    def ready(self):
        return nullcontext()

    def select_items(self, items):
        pass


@pytest.fixture
def ended(monkeypatch, capfd, tmp_path):
    """Run pytest with the gate in this process. -> how it ends"""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setattr("rlgauge.benchmarks.source.Benchmarks", lambda *_: Given(tmp_path / "cache"))

    def run(*options):
        code = pytest.main([str(option) for option in (HERE, *ALONE, *WITHOUT, *options)], plugins=[plugin])
        return Gated(int(code), "".join(capfd.readouterr()))

    return run


@pytest.fixture
def judged(ended, monkeypatch, tmp_path):
    """Run it on given records, those of an anchor too, in the place of measuring. -> how it ends, what it wrote"""

    def run(records, *options, meanwhile=lambda: None, anchor=None, json=True):
        records = GOOD | records
        against = {"b" * 40: records} | ({} if anchor is None else {"c" * 40: GOOD | anchor})
        cases = {name: record for name, record in records.items() if not is_canary(name)}

        def measured(base):
            meanwhile()
            about = {"base": base, "head": "h" * 12, "seed": 0, "seconds": 90.0, "machine": {"cpu_model": "abacus"}}
            return Artifact(**about, rule=Rule(), records=against[base])

        def open_gate(given, base, *numbers):
            assert (given, numbers) == ("the layout", (Rule(), 5, 7.0, (2, 3)))
            names = [*cases, "of another shard"]
            return SimpleNamespace(base=base, head="h" * 12, records=cases, names=names, run=lambda: measured(base))

        commits = dict(zip(("main", "v1"), against))
        monkeypatch.setattr(revisions, "resolve", lambda root, revision: commits[revision])
        monkeypatch.setattr(layout, "laid_out", lambda source, root: nullcontext("the layout"))
        monkeypatch.setattr(gate_run, "open_gate", open_gate)
        ran = ended(
            "--gate-against=main",
            "--gate-seed=5",
            "--gate-limit=7",
            "--gate-shard=2/3",
            *([] if anchor is None else ["--gate-anchor=v1"]),
            *(["--gate-json", tmp_path / "gate.json"] if json else []),
            *("--gate-markdown", tmp_path / "gate.md"),
            *("--junitxml", tmp_path / "junit.xml"),
            *options,
        )
        return Gated(ran.code, ran.text, tmp_path)

    return run


UNDECIDED, CHANGED = timed(SLOW[:4], SLOW[:9]), timed([0.0] * 4, answer_changed=True)
DEAD = {"dead": Record(state="error", words="Killed"), "slow": SLOWER, "old": Record(state="unchanged")}
VOID = DEAD | {name: DEAD["dead"] for name in ("old", "more")}


@pytest.mark.parametrize(
    ("records", "options", "code", "failed", "words"),
    [
        ({}, [], 0, [], "passed: 1 ok, "),
        ({"slow": SLOWER, "x": SLOWER}, ["-x"], 1, ["slow", "x"], "failed: 2 slower, 1 ok, "),  # -x has no effect
        ({"slow": SLOWER, "x": SLOWER}, ["--gate-allow=s*=why"], 1, ["x"], ", allowed: why"),
        ({"slow": SLOWER, "x": SLOWER}, ["--gate-allow=s*=why", "--gate-allow=x=why"], 0, [], "passed: 2 slower"),
        ({"short": UNDECIDED, "y": CHANGED}, [], 0, [], "passed: 1 inconclusive, 2 ok; 1 output changed, "),
        ({"short": UNDECIDED, "y": CHANGED}, ["--gate-strict"], 1, ["short", "y"], "failed: 1 inconclusive, 2 ok; "),
        (DEAD, ["--gate-allow=*=why", "--gate-allow=dead=why"], 0, [], "passed: 1 NOT MEASURED, 1 slower, "),
        (VOID, ["--gate-allow=*=why"], 2, ["case", *VOID], "invalid run, no verdict: 3 error, "),
    ],
)
def test_exit_code_failed_tests_and_replay_agree(judged, capfd, records, options, code, failed, words):
    ran = judged(records, *options)
    assert ran.code == code, ran.text
    assert words in ran.text
    assert all(f"\nFAILED {name} - " in ran.text for name in failed)
    assert sorted(name for name, (_, *failures) in ran.junit.items() if failures) == sorted(failed)
    assert ran.junit.keys() == {"case", *records}
    again = main(["replay", str(ran.folder / "gate.json")])
    assert (again, capfd.readouterr().out) == (code, ran.markdown)


MILD = timed([value / 2 for value in SLOW[:4]], [value / 2 for value in SLOW])


@pytest.mark.parametrize(
    ("older", "options", "code"),
    [(MILD, [], 1), (MILD, ["--gate-allow=cas*=why"], 0), (UNDECIDED, [], 0), (UNDECIDED, ["--gate-strict"], 1)],
)
def test_allow_and_strict_apply_to_the_anchor_too(judged, capfd, older, options, code):
    ran = judged({}, *options, anchor={"case": older})
    assert ran.code == code, ran.text
    assert (ran.artifact["base"], ran.artifact["anchor"]["base"]) == ("b" * 40, "c" * 40)
    assert [bool(failures) for _, *failures in ran.junit.values()] == [code == 1]
    assert "gate, against the anchor" in ran.text
    artifact = str(ran.folder / "gate.json")
    assert (main(["replay", artifact]), capfd.readouterr().out) == (code, ran.markdown)


def test_junit_has_the_numbers_of_each_verdict_and_its_skips(judged):
    ran = judged({"slow": SLOWER, "apart": Record(state="skipped", words="base: not here")}, "--gate-allow=slow=why")
    tests = {test.get("name"): test for test in ElementTree.parse(ran.folder / "junit.xml").iter("testcase")}
    properties = {item.get("name"): item.get("value") for item in tests["slow"].iter("property")}
    assert properties.keys() == {"verdict", "ratio", "low", "high", "pairs", "p", "allowed"}
    assert (properties["verdict"], properties["pairs"], properties["allowed"]) == ("slower", "16", "why")
    assert [skip.get("message") for skip in tests["apart"].iter("skipped")] == ["base: not here"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gate-against= \t"], "--gate-against ' \\t': give a revision, for example --gate-against=main"),
        (["--gate-anchor= "], "--gate-anchor ' ': give a revision, for example --gate-anchor=main"),
        (["--gate-allow=known"], "--gate-allow 'known': write ID-PATTERN=REASON"),
        (
            ["--gate-allow=case=why", "--gate-allow=cas=why"],
            "--gate-allow 'cas': it matches no benchmark; did you mean",
        ),
        (["--gate-json={folder}"], "--gate-json {folder}: cannot be written: not a regular file"),
        (["--junitxml={file}/b/a.xml"], "--junitxml {file}/b/a.xml: cannot be written: Not a directory"),
        (["--gate-rule=pairs"], "--gate-rule 'pairs': write NAME=VALUE[,NAME=VALUE], for example tolerated=0.02"),
        (["--gate-rule=tolerated=2%"], "rule: tolerated: '2%' is not a finite number; write 0.02"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_timed(judged, tmp_path, options, message):
    (tmp_path / "file").write_text("as it was")
    names = {"folder": tmp_path, "file": tmp_path / "file"}
    ran = judged({}, *(option.format(**names) for option in options), meanwhile=lambda: pytest.fail("it was timed"))
    assert ran.code == 2
    assert ran.only_says(message.format(**names)), ran.text
    assert (tmp_path / "file").read_text() == "as it was"
    assert not (tmp_path / "gate.json").exists()


def test_a_file_keeps_its_content_until_it_is_written_whole(judged, tmp_path):
    for name in ("gate.json", "gate.md"):
        (tmp_path / name).write_text("as it was")
        (tmp_path / f"a reader of {name}").hardlink_to(tmp_path / name)
    ran = judged({}, f"--junitxml={tmp_path}/a/b.xml", meanwhile=lambda: 1 // (tmp_path / "gate.json").stat().st_size)
    assert ran.code == 0, ran.text
    assert ran.artifact["base"] == "b" * 40
    assert [path.read_text() for path in tmp_path.glob("a reader of *")] == ["as it was"] * 2
    assert (tmp_path / "a/b.xml").is_file()


@pytest.mark.parametrize(
    ("option", "name"), [("--gate-json", "gate.json"), ("--gate-markdown", "gate.md"), ("--junitxml", "junit.xml")]
)
def test_a_file_that_cannot_be_written_in_the_end_is_a_line_and_code_2(judged, tmp_path, option, name):
    ran = judged({"slow": SLOWER}, meanwhile=(tmp_path / name).mkdir)
    assert ran.code == 2
    assert f"{option} {tmp_path / name}: cannot be written: Is a directory" in ran.text
    assert "passed" not in ran.text
    assert "Traceback" not in ran.text
    assert (name == "junit.xml") or "slow: slower, +7.0%" in ran.text  # nothing that was measured is lost
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert name == "gate.json" or ran.artifact["records"]["slow"]


def refuse(error):
    raise error


@pytest.mark.parametrize("error", [GateError("head: no reply within 5 s"), FULL])
def test_a_run_that_cannot_go_on_is_a_line_and_code_2(judged, tmp_path, error):
    ran = judged({"more": timed([0.0] * 4)}, meanwhile=lambda: refuse(error))
    assert ran.code == 2
    assert "Traceback" not in ran.text
    assert "passed" not in ran.text
    assert " no verdict !!" in ran.text
    assert [path.name for path in tmp_path.iterdir()] == ["junit.xml"]
    assert ran.junit == {"case": (None, str(error))}


def test_an_error_of_the_gate_itself_shows_where_it_happened(judged):
    ran = judged({}, meanwhile=lambda: refuse(ZeroDivisionError("a mistake")))
    assert ran.code == 2
    assert "ZeroDivisionError: a mistake" in ran.text
    assert "refuse(" in ran.text


def test_without_gate_json_the_artifact_is_kept_in_the_cache(judged, tmp_path):
    ran = judged({}, json=False)
    assert ran.code == 0, ran.text
    kept = tmp_path / "cache" / "gate.json"
    assert parse(Artifact, json.loads(kept.read_text())).base == "b" * 40
    assert f"passed: 1 ok, 1.5 min; all measurements: {kept}\n" in ran.text


@pytest.mark.parametrize("option", ["--gate-anchor=v1", "--gate-allow=a=b", "--gate-strict"])
def test_an_option_without_gate_against_is_refused(ended, option):
    ran = ended(option)
    assert ran.code == 2
    assert ran.only_says(f"{option.partition('=')[0]}: add --gate-against REV"), ran.text
