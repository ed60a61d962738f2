"""The gate as a pytest run, of measurements that are given: what it exits with, says and writes."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tarfile
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from perf_tests.gate.selfcheck import planted
from rlgauge import layout, plugin, revisions, sources
from rlgauge import run as gate_run
from rlgauge.__main__ import main
from rlgauge.artifact import Artifact
from rlgauge.config import Config
from rlgauge.rule import GateError, Record, Rule, is_canary
from rlgauge.source import Case

from .sources import Given, suite_of
from .test_outcome import GOOD
from .test_rule import SLOW, timed
from .toy import ROOT, Gated, Ran, environment

HERE = ROOT / "perf_tests"  # in which the gate collects nothing
ALONE = ("-c", os.devnull, "--rootdir", ROOT, "--confcutdir", HERE, "-o", "junit_family=xunit1")
WITHOUT = [part for name in ("cacheprovider", "faulthandler", "unraisableexception") for part in ("-p", f"no:{name}")]
SLOWER = timed(SLOW[:4], SLOW)
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "some/file")


@pytest.fixture
def ended(monkeypatch, capfd):
    """Run pytest with the gate, in this process. -> how it ends"""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(source, *options):
        monkeypatch.setattr(sources, "source_of", lambda settings, root, run: source)
        arguments = [str(option) for option in (HERE, *ALONE, *WITHOUT, *options)]
        code = pytest.main(arguments, plugins=[plugin])
        return Ran(int(code), "".join(capfd.readouterr()))

    return run


@pytest.fixture
def judged(ended, monkeypatch, tmp_path):
    """Run it on records, those of an anchor too, after something was done meanwhile. -> how it ends, what it wrote"""

    def run(records, *options, meanwhile=lambda: None, lacking=None, anchor=None):
        records = GOOD | records
        against = {"b" * 40: records} | ({} if anchor is None else {"c" * 40: GOOD | anchor})
        cases = {name: record for name, record in records.items() if not is_canary(name)}
        source = Given([Case(name) for name in cases], tmp_path / "cache", lacking)

        def measured(base):
            meanwhile()
            told = {"cpu_model": "abacus"}
            about = {"base": base, "head": "h" * 12, "seed": 0, "seconds": 90.0, "machine": told, "rule": Rule()}
            return Artifact(**about, records=against[base])

        @contextmanager
        def laid_out(given, root):
            assert (given, root) == (source, ROOT)
            yield "the layout"

        def compared(given, base, *numbers):
            assert (given, numbers) == ("the layout", (Rule(), 5, 7.0, (2, 3)))
            every = [*cases, "of another shard"]
            return SimpleNamespace(base=base, head="h" * 12, records=cases, names=every, run=lambda: measured(base))

        commits = dict(zip(("main", "v1"), against))
        monkeypatch.setattr(revisions, "resolve", lambda root, revision: commits[revision])
        monkeypatch.setattr(layout, "laid_out", laid_out)
        monkeypatch.setattr(gate_run, "compared", compared)
        ran = ended(
            source,
            "--gate-against=main",
            "--gate-seed=5",
            "--gate-limit=7",
            "--gate-shard=2/3",
            *([] if anchor is None else ["--gate-anchor=v1"]),
            *("--gate-json", tmp_path / "gate.json", "--gate-markdown", tmp_path / "gate.md"),
            *("--junitxml", tmp_path / "junit.xml"),
            *options,
        )
        return Gated(ran.code, ran.text, tmp_path)

    return run


UNDECIDED, CHANGED = timed(SLOW[:4], SLOW[:9]), timed([0.0] * 4, answer_changed=True)
VOID = {"dead": Record(state="error", words="Killed"), "slow": SLOWER, "old": Record(state="unchanged")}


@pytest.mark.parametrize(
    ("records", "options", "code", "failed", "words"),
    [
        ({}, [], 0, [], "passed: 1 ok, "),
        ({"slow": SLOWER, "x": SLOWER}, [], 1, ["slow", "x"], "failed: 2 slower, 1 ok, "),
        ({"slow": SLOWER, "x": SLOWER}, ["--gate-allow=s*=why"], 1, ["x"], ", allowed: why"),
        ({"slow": SLOWER, "x": SLOWER}, ["--gate-allow=s*=why", "--gate-allow=x=why"], 0, [], "passed: 2 slower"),
        ({"slow": SLOWER}, ["--gate-allow=of another*=why"], 1, ["slow"], "failed: 1 slower, 1 ok, "),
        ({"short": UNDECIDED, "y": CHANGED}, [], 0, [], "passed: 1 inconclusive, 2 ok; 1 answer changed, "),
        ({"short": UNDECIDED, "y": CHANGED}, ["--gate-strict"], 1, ["short", "y"], "failed: 1 inconclusive, 2 ok; "),
        (VOID, ["--gate-allow=*=why"], 2, ["case", *VOID], "void: nothing of it can be believed: 1 error, "),
    ],
)
def test_the_code_the_tests_the_files_and_a_replay_agree(judged, capfd, records, options, code, failed, words):
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
    [
        (MILD, [], 1),
        (MILD, ["--gate-allow=cas*=why"], 0),
        (UNDECIDED, [], 0),
        (UNDECIDED, ["--gate-strict"], 1),
        (CHANGED, ["--gate-strict"], 1),
    ],
)
def test_what_is_allowed_and_strict_counts_against_the_anchor_too(judged, capfd, older, options, code):
    ran = judged({}, *options, anchor={"case": older})
    assert ran.code == code, ran.text
    assert ran.junit.keys() == {"case"}
    assert [bool(failures) for _, *failures in ran.junit.values()] == [code == 1]
    artifact = str(ran.folder / "gate.json")
    assert (main(["replay", artifact]), capfd.readouterr().out) == (code, ran.markdown)


def test_a_replay_decides_on_the_anchor_by_the_rule_that_it_is_given(judged, capfd):
    artifact = str(judged({}, anchor={"case": MILD}).folder / "gate.json")
    assert [main(["replay", artifact, "--rule", f"tolerated={part}"]) for part in (0.01, 0.04)] == [1, 0]


def test_a_case_that_cannot_run_here_is_skipped_and_says_why(judged):
    ran = judged({}, "-rs", lacking={"alien": "it is not from here"})
    assert ran.code == 0, ran.text
    assert "1 passed, 1 skipped" in ran.text
    assert ": it is not from here\n" in ran.text
    assert ran.junit == {"case": ("ok",), "alien": (None,)}


def test_the_tests_of_a_void_run_say_so(judged):
    assert all(words.endswith("; void: dead: Killed") for _, words in judged(VOID).junit.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gate-against="], "--gate-against: got '', wanted a revision"),
        (["--gate-against= \t"], "--gate-against: got ' \\t', wanted a revision"),
        (["--gate-allow=known"], "--gate-allow: got 'known', wanted ID-PATTERN=REASON"),
        (["--gate-allow=case=why", "--gate-allow=case="], "--gate-allow: got 'case=', wanted ID-PATTERN=REASON"),
        (["--gate-allow=case=why", "--gate-allow=ca=why"], "--gate-allow: 'ca' matches none of the 2 cases"),
        (["--gate-json={folder}"], "--gate-json {folder}: cannot be written: it is no file"),
        (["--gate-json="], "--gate-json .: cannot be written: it is no file"),
        (["--gate-markdown={file}/a.md"], "--gate-markdown {file}/a.md: cannot be written: File exists"),
        (["--junitxml={file}/b/a.xml"], "--junitxml {file}/b/a.xml: cannot be written: Not a directory"),
        (["--gate-rule=pairs=3"], "rule, pairs: "),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_timed(judged, tmp_path, options, message):
    (tmp_path / "file").write_text("as it was")
    names = {"folder": tmp_path, "file": tmp_path / "file"}
    ran = judged({}, *(option.format(**names) for option in options), meanwhile=lambda: pytest.fail("it was timed"))
    assert ran.code == 2
    assert ran.only_says(message.format(**names)), ran.text
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "as it was")]


def test_a_file_keeps_what_it_holds_until_it_is_written_whole(judged, tmp_path):
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
    assert (name == "junit.xml") or "slow: slower, +7.0 %" in ran.text  # nothing that was measured is lost
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert name == "gate.json" or ran.artifact["records"]["slow"]


def refuse(error):
    raise error


@pytest.mark.parametrize("error", [GateError("head: no answer in 5 s"), FULL])
def test_a_run_that_cannot_go_on_is_a_line_and_code_2(judged, tmp_path, error):
    ran = judged({"more": timed([0.0] * 4)}, meanwhile=lambda: refuse(error))
    assert ran.code == 2
    assert "Traceback" not in ran.text
    assert "passed" not in ran.text
    assert [path.name for path in tmp_path.iterdir()] == ["junit.xml"]
    assert ran.junit == {"case": (None, str(error))}


@pytest.fixture
def laid_out(ended, monkeypatch, tmp_path):
    """Compare a small repository with its commit, sides and all in a cache. -> how it ends"""
    root = tmp_path / "repository"
    (root / "rl_impls").mkdir(parents=True)
    (root / "rl_impls/__init__.py").touch()
    author = ("-c", "user.name=A", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
    for command in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message=all"]):
        subprocess.run(["git", *command], cwd=root, env=environment(), check=True)

    def run(cache):
        files = "--gate-json", tmp_path / "gate.json"
        source = suite_of(monkeypatch, cache)
        return ended(source, "--rootdir", root, "--gate-against=HEAD", *files, "--collect-only")

    return run


@pytest.mark.parametrize(("module", "name"), [(shutil, "copyfile"), (tarfile.TarFile, "extractall")])
def test_sides_that_do_not_fit_on_the_disk_leave_one_line_alone(laid_out, tmp_path, monkeypatch, module, name):
    with monkeypatch.context() as patched:
        patched.setattr(module, name, lambda *args, **kwargs: refuse(FULL))
        ran = laid_out(tmp_path / "cache")
    assert ran.code == 2
    assert ran.only_says("[Errno 28] No space left on device: 'some/file'"), ran.text
    assert not list((tmp_path / "cache").glob("run-*"))
    assert laid_out(tmp_path / "cache").code in (0, 5)  # the next run gets its turn; no case is selected


def test_a_cache_that_cannot_be_written_is_one_line(laid_out, tmp_path):
    (tmp_path / "cache").touch()
    ran = laid_out(tmp_path / "cache")
    assert ran.code == 2
    assert ran.only_says(f"{tmp_path / 'cache'}"), ran.text


@pytest.mark.parametrize(
    ("command", "function"),
    [
        (["bisect", planted.CASES[0], "a", "b"], "rlgauge.bisect.bisect"),
        (["power", "--minutes=1"], "perf_tests.gate.selfcheck.power.measure"),
    ],
)
def test_a_full_disk_is_one_line_elsewhere_too(monkeypatch, capsys, command, function):
    monkeypatch.setattr(function, lambda *args, **kwargs: refuse(FULL))
    assert main(command) == 2
    assert capsys.readouterr().err == f"{FULL}\n"


def test_a_source_is_found_in_the_repository_whatever_the_command_can_import(monkeypatch, tmp_path):
    (tmp_path / "source_of_cases.py").write_text("def source(run):\n    return run, 'found'\n")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    settings = Config(source="source_of_cases:source")
    assert sources.source_of(settings, tmp_path, "a run") == ("a run", "found")
