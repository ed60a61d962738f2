"""The gate as a pytest run, of measurements that are given: what it exits with, says and writes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from argparse import ArgumentParser, ArgumentTypeError
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from correctness_tests.repositories.made import ROOT, Gated, Repository
from rlgauge import layout, plugin, report, revisions
from rlgauge import run as gate_run
from rlgauge.__main__ import main
from rlgauge.artifact import Artifact
from rlgauge.fields import parse
from rlgauge.files import Unwritable
from rlgauge.revisions import git
from rlgauge.rule import GateError, Record, Rule, is_canary
from rlgauge.source import Case
from rlgauge.workers import Side

from .sources import Given
from .test_outcome import GOOD
from .test_rule import SLOW, timed
from .test_words import decided

HERE = ROOT / "perf_tests" / "report"  # in which the gate collects nothing
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
        monkeypatch.setattr("rlgauge.benchmarks.source.Benchmarks", lambda root, settings, run: source)
        arguments = [str(option) for option in (HERE, *ALONE, *WITHOUT, *options)]
        code = pytest.main(arguments, plugins=[plugin])
        return Gated(int(code), "".join(capfd.readouterr()))

    return run


@pytest.fixture
def judged(ended, monkeypatch, tmp_path):
    """Run it on records, those of an anchor too, after something was done meanwhile. -> how it ends, what it wrote"""

    def run(records, *options, meanwhile=lambda: None, anchor=None, json=True):
        records = GOOD | records
        against = {"b" * 40: records} | ({} if anchor is None else {"c" * 40: GOOD | anchor})
        cases = {name: record for name, record in records.items() if not is_canary(name)}
        source = Given([Case(name) for name in cases], tmp_path / "cache")

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
        ({"slow": SLOWER, "x": SLOWER}, [], 1, ["slow", "x"], "failed: 2 slower, 1 ok, "),
        ({"slow": SLOWER, "x": SLOWER}, ["--gate-allow=s*=why"], 1, ["x"], ", allowed: why"),
        ({"slow": SLOWER, "x": SLOWER}, ["--gate-allow=s*=why", "--gate-allow=x=why"], 0, [], "passed: 2 slower"),
        ({"slow": SLOWER}, ["--gate-allow=of another*=why"], 1, ["slow"], "failed: 1 slower, 1 ok, "),
        ({"short": UNDECIDED, "y": CHANGED}, [], 0, [], "passed: 1 inconclusive, 2 ok; 1 answer changed, "),
        ({"short": UNDECIDED, "y": CHANGED}, ["--gate-strict"], 1, ["short", "y"], "failed: 1 inconclusive, 2 ok; "),
        (DEAD, ["--gate-allow=*=why"], 1, ["dead"], "failed: 1 error, 1 slower, "),
        (DEAD, ["--gate-allow=*=why", "--gate-allow=dead=why"], 0, [], "passed: 1 NOT MEASURED, 1 slower, "),
        (VOID, ["--gate-allow=*=why"], 2, ["case", *VOID], "invalid run, no verdict: 3 error, "),
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
    assert (ran.artifact["base"], ran.artifact["anchor"]["base"]) == ("b" * 40, "c" * 40)
    assert [bool(failures) for _, *failures in ran.junit.values()] == [code == 1]
    artifact = str(ran.folder / "gate.json")
    assert (main(["replay", artifact]), capfd.readouterr().out) == (code, ran.markdown)


def test_a_replay_decides_on_the_anchor_by_the_rule_that_it_is_given(judged, capfd):
    artifact = str(judged({}, anchor={"case": MILD}).folder / "gate.json")
    assert [main(["replay", artifact, "--rule", f"tolerated={part}"]) for part in (0.01, 0.035)] == [1, 0]


def test_the_tests_of_a_void_run_say_so(judged):
    assert all(
        words.endswith("; invalid run: 3 of 5 tests could not be measured: dead: Killed")
        for _, words in judged(VOID).junit.values()
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gate-against="], "--gate-against: got '', wanted a revision"),
        (["--gate-against= \t"], "--gate-against: got ' \\t', wanted a revision"),
        (["--gate-allow=known"], "--gate-allow: got 'known', wanted ID-PATTERN=REASON"),
        (["--gate-allow=case=why", "--gate-allow=case="], "--gate-allow: got 'case=', wanted ID-PATTERN=REASON"),
        (["--gate-json={folder}"], "--gate-json {folder}: cannot be written: it is no file"),
        (["--gate-json="], "--gate-json .: cannot be written: it is no file"),
        (["--gate-markdown={file}/a.md"], "--gate-markdown {file}/a.md: cannot be written: File exists"),
        (["--junitxml={file}/b/a.xml"], "--junitxml {file}/b/a.xml: cannot be written: Not a directory"),
        (["--gate-rule=pairs=3"], "rule, pairs: "),
        (["--gate-rule=pairs"], "--gate-rule: got 'pairs', wanted name=value[,name=value]"),
        (["--gate-shard=3/2"], "--gate-shard: got '3/2', wanted as in 2/4, the second of four parts"),
        (["--gate-anchor= "], "--gate-anchor: got ' ', wanted a revision"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_timed(judged, tmp_path, options, message):
    (tmp_path / "file").write_text("as it was")
    names = {"folder": tmp_path, "file": tmp_path / "file"}
    ran = judged({}, *(option.format(**names) for option in options), meanwhile=lambda: pytest.fail("it was timed"))
    assert ran.code == 2
    assert ran.only_says(message.format(**names)), ran.text
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "as it was")]


def test_what_is_allowed_must_be_a_case(judged):
    ran = judged({}, "--gate-allow=case=why", "--gate-allow=ca=why", meanwhile=lambda: pytest.fail("it was timed"))
    assert ran.code == 2
    assert ran.only_says("--gate-allow: 'ca' matches none of the 2 cases"), ran.text


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
    root = Repository(tmp_path / "repository", {"toy.py": "1\n"}).root

    def run(cache):
        files = "--gate-json", tmp_path / "gate.json"
        source = Given([Case("a case")], cache)
        source.export = lambda root, commit, folder: revisions.export(root, commit, folder)
        source.snapshot = lambda root, folder: revisions.snapshot(root, folder)
        source.listed = lambda code, side: []
        source.lay_out = lambda name, code, benchmarks, folder, python: Side(name, code, python, ())
        return ended(source, "--rootdir", root, "--gate-against=HEAD", *files, "--collect-only")

    return run


def full_for_git(root, command, *arguments, **how):
    """Run git, on a disk on which nothing can be written."""
    if "checkout-index" in arguments:
        raise subprocess.CalledProcessError(
            1, ["git"], stderr=b"error: some/file: No space left on device\nfatal: it\n"
        )
    return git(root, command, *arguments, **how)


@pytest.mark.parametrize(
    ("module", "name", "full", "words"),
    [
        (shutil, "copyfile", lambda *args, **kwargs: refuse(FULL), "[Errno 28] No space left on device: 'some/file'"),
        (revisions, "git", full_for_git, " cannot be written: error: some/file: No space left on device"),
    ],
)
def test_sides_that_do_not_fit_on_the_disk_leave_one_line_alone(
    laid_out, tmp_path, monkeypatch, module, name, full, words
):
    with monkeypatch.context() as patched:
        patched.setattr(module, name, full)
        ran = laid_out(tmp_path / "cache")
    assert ran.code == 2
    assert ran.only_says(words), ran.text
    assert not list((tmp_path / "cache").glob("run-*"))
    assert laid_out(tmp_path / "cache").code == 0  # the next run gets its turn


def test_a_cache_that_cannot_be_written_is_one_line(laid_out, tmp_path):
    (tmp_path / "cache").touch()
    ran = laid_out(tmp_path / "cache")
    assert ran.code == 2
    assert ran.only_says(f"{tmp_path / 'cache'}"), ran.text


@pytest.mark.parametrize(
    ("command", "function"),
    [
        (["bisect", "perf_tests/test_pirl.py::test_pde_loss[full-torch-2]", "a", "b"], "rlgauge.bisect.bisect"),
        (["power", "--minutes=1"], "rlgauge.__main__.measured_rates"),
    ],
)
def test_a_full_disk_is_one_line_elsewhere_too(monkeypatch, capsys, command, function):
    monkeypatch.setattr(function, lambda *args, **kwargs: refuse(FULL))
    assert main(command) == 2
    assert capsys.readouterr().err == f"{FULL}\n"


def test_a_megabyte_is_taken_for_each_file_before_anything_is_timed(judged, tmp_path):
    room = []
    ran = judged({}, meanwhile=lambda: room.extend(path.stat().st_size for path in tmp_path.glob(".*")))
    assert ran.code == 0, ran.text
    assert room == [1 << 20] * 3


@pytest.mark.parametrize("error", [GateError("why"), Unwritable("why"), OSError("why"), ZeroDivisionError("why")])
def test_only_what_the_gate_says_or_the_system_refuses_ends_the_run_in_a_line(error):
    known = not isinstance(error, ZeroDivisionError)
    raised = pytest.exit.Exception if known else ZeroDivisionError
    with pytest.raises(raised, match=r"^why$") as caught, plugin.in_one_line():
        raise error
    assert not known or caught.value.returncode == 2
    with pytest.raises(ZeroDivisionError), plugin.naming_option("--an-option"):
        raise ZeroDivisionError
    with pytest.raises(GateError, match=r"^--an-option: why$"), plugin.naming_option("--an-option"):
        raise ArgumentTypeError("why")


@pytest.mark.parametrize("strict", [False, True])
def test_a_conclusion_is_of_both_comparisons_by_what_is_allowed_and_is_written(monkeypatch, strict):
    class Measuring:
        def __init__(self, artifact):
            self.artifact = artifact

        def run(self):
            self.log(f"measuring {self.artifact.base[0]}")
            return self.artifact

    base, anchor = decided({"changed": timed([0.0] * 4, answer_changed=True)})[0], decided({"slow": SLOWER})[0]
    anchor.base = "c" * 40
    run, said, written = run_of(Measuring(base), Measuring(anchor)), [], {}
    run.allowed = [("slow", "why")]
    run.write = {
        name: lambda data, name=name: written.update({name: data}) for name in ("--gate-json", "--gate-markdown")
    }
    monkeypatch.setattr(plugin, "logger", lambda config: said.append)
    artifact, outcome = plugin.conclude(config_of(run, gate_strict=strict), run)
    assert said == ["measuring b", "measuring c"]
    assert (artifact, artifact.anchor) == (base, anchor)
    assert (artifact.allowed, anchor.allowed, artifact.strict, anchor.strict) == ([("slow", "why")],) * 2 + (
        strict,
    ) * 2
    assert (outcome.failed, outcome.anchor.failed) == (["changed"] if strict else [], [])
    assert parse(Artifact, json.loads(written["--gate-json"])) == artifact
    assert written["--gate-markdown"].decode() == report.markdown(artifact, outcome)
    run.gates, run.write = run.gates[:1], {"--gate-json": lambda data: written.update(alone=data)}
    assert plugin.conclude(config_of(run, gate_strict=strict), run)[0].anchor is None
    assert list(written) == ["--gate-json", "--gate-markdown", "alone"]


def test_a_rule_is_parsed():
    assert plugin.rule_of("screen=4,level=0.01") == {"screen": "4", "level": "0.01"}
    assert plugin.rule_of("a=b=c") == {"a": "b=c"}


@pytest.mark.parametrize("text", ["", "screen", "=4", "screen=", "screen=4,", "screen=4,,level=1", "screen,level=1"])
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(ArgumentTypeError) as error:
        plugin.rule_of(text)
    assert str(error.value) == f"got {text!r}, wanted name=value[,name=value]"


def test_a_shard_is_parsed():
    assert [plugin.shard_of(text) for text in ("1/1", "2/4", "4/4", "10/12")] == [(1, 1), (2, 4), (4, 4), (10, 12)]


@pytest.mark.parametrize("text", ["", "2", "2/", "/4", "0/4", "5/4", "-1/4", "2/-4", "2/4/6", "a/4", "1.0/2", "2-4"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(ArgumentTypeError) as error:
        plugin.shard_of(text)
    assert str(error.value) == f"got {text!r}, wanted as in 2/4, the second of four parts"


def parsed(*arguments):
    """Return what the options of the gate are after a command line."""
    parser = ArgumentParser()
    group = SimpleNamespace(addoption=parser.add_argument)
    plugin.pytest_addoption(SimpleNamespace(getgroup=lambda name: group))
    return vars(parser.parse_args(arguments))


NOTHING_GIVEN = {
    **dict.fromkeys(("gate_against", "gate_anchor", "gate_build", "gate_shard", "gate_json", "gate_markdown")),
    **{"gate_benchmarks": [], "gate_allow": [], "gate_strict": False, "gate_resume": False, "gate_rule": None},
    **{"gate_memory": False, "gate_limit": 300.0, "gate_seed": 0},
}


def test_options_that_are_not_given_have_their_defaults():
    assert parsed() == NOTHING_GIVEN


def test_options_are_taken_as_they_are_given_and_some_of_them_more_than_once():
    given = {
        **{"gate_against": "main", "gate_anchor": "v1", "gate_build": "make fast", "gate_shard": "2/4"},
        **{"gate_json": Path("a.json"), "gate_markdown": Path("a.md"), "gate_rule": "screen=3"},
        **{"gate_limit": 7.5, "gate_seed": 3},
    }
    options = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    more = ["--gate-benchmarks=a", "--gate-benchmarks=b", "--gate-allow=c=d", "--gate-allow=e=f", "--gate-strict"]
    more += ["--gate-resume", "--gate-memory"]
    several = {"gate_benchmarks": ["a", "b"], "gate_allow": ["c=d", "e=f"]}
    several |= dict.fromkeys(("gate_strict", "gate_resume", "gate_memory"), True)
    assert parsed(*options, *more) == given | several
    assert parsed() == NOTHING_GIVEN


@pytest.mark.parametrize(
    "option",
    [
        *("--gate-anchor=v1", "--gate-benchmarks=perf_tests", "--gate-build=make"),
        *("--gate-shard=1/2", "--gate-allow=a=b", "--gate-strict", "--gate-resume", "--gate-memory"),
    ],
)
def test_an_option_that_says_nothing_without_a_revision_is_refused(ended, option):
    ran = ended(None, option)
    assert ran.code == 2
    assert ran.only_says(f"{option.partition('=')[0]}: it needs --gate-against"), ran.text


def test_on_another_system_than_linux_it_says_so(monkeypatch):
    def config(revision):
        return SimpleNamespace(getoption={"gate_against": revision}.get, addinivalue_line=lambda *of: None)

    monkeypatch.setattr(plugin, "sys", SimpleNamespace(platform="darwin"))
    with pytest.raises(pytest.exit.Exception, match=r"^--gate-against: it runs on Linux, this is darwin$") as error:
        plugin.pytest_configure(config("main"))
    assert error.value.returncode == 2
    plugin.pytest_configure(config(None))


@pytest.mark.parametrize(("revision", "changed"), [(None, False), ("main", True), ("", True)])
def test_only_in_a_run_of_the_gate_nothing_is_skipped_timed_out_or_ended_by_a_failure(revision, changed):
    before = {"benchmark_only": True, "benchmark_skip": True, "timeout": 9, "maxfail": 1, "verbose": 2}
    wanted = {"benchmark_only": False, "benchmark_skip": False, "timeout": 0, "maxfail": 0, "verbose": 2}
    for names in (before.keys(), {"maxfail", "verbose"}):  # without pytest-benchmark and pytest-timeout too
        option = SimpleNamespace(**{name: before[name] for name in names})
        plugin.pytest_cmdline_main(SimpleNamespace(getoption={"gate_against": revision}.get, option=option))
        assert vars(option) == {name: (wanted if changed else before)[name] for name in names}


def run_of(*gates, outcome=None, artifact=None):
    """Return a run with these gates, that is done where there is an outcome."""
    source = SimpleNamespace()
    run = plugin.Run(source, ExitStack(), Rule(), None, Path("kept.json"), gates=list(gates))
    run.done = outcome and (artifact, outcome)
    return run


def config_of(run, **options):
    """Return what of pytest's configuration the gate asks for, with this run."""
    return SimpleNamespace(
        stash={plugin.RUN: run} if run else {},
        getoption=lambda name, default=None: options.get(name, default),
        option=SimpleNamespace(collectonly=options.get("collectonly", False)),
    )


def test_files_are_named_by_options_in_which_variables_and_the_home_folder_are_put(monkeypatch):
    monkeypatch.setenv("PLACE", "/there")
    monkeypatch.setenv("HOME", "/home/me")
    options = {"gate_json": Path("other.json"), "gate_markdown": Path("~/a.md"), "xmlpath": "$PLACE/b.xml"}
    json = {"--gate-json": Path("kept.json")}
    others = {"--gate-markdown": Path("/home/me/a.md"), "--junitxml": Path("/there/b.xml")}
    assert plugin.outputs_of(config_of(run_of(), **options)) == json | others
    assert plugin.outputs_of(config_of(run_of())) == json


def test_without_an_option_all_that_was_measured_is_kept_where_the_source_says(judged, tmp_path):
    ran = judged({}, json=False)
    assert ran.code == 0, ran.text
    kept = tmp_path / "cache" / "gate.json"
    assert parse(Artifact, json.loads(kept.read_text())).base == "b" * 40
    assert f"passed: 1 ok, 1.5 min; all that was measured: {kept}\n" in ran.text


def test_each_case_of_both_comparisons_has_one_test():
    base, anchor = (SimpleNamespace(records=dict.fromkeys(names)) for names in ("ab", "bc"))
    assert plugin.names_of(run_of(base, anchor)) == ["a", "b", "c"]


@pytest.fixture
def collected(monkeypatch):
    """Have three tests collected, one of which another plugin deselects. -> the tests of the run, what was done"""

    def run(run, names=("a case",), failed=0, collect=None):
        done, items = [], ["one", "two", "deselected"]
        monkeypatch.setattr(plugin, "open_gates", lambda config: done.append("opened"))
        monkeypatch.setattr(plugin, "names_of", lambda run: names)
        monkeypatch.setattr(plugin, "conclude", lambda config, run: done.append("concluded") or "conclusion")
        monkeypatch.setattr(plugin, "verdicts", lambda session, run: ["a verdict"])
        if run:
            run.source.collected = collect or (lambda items: done.append(tuple(items)))
        session = SimpleNamespace(testsfailed=failed)
        hook = plugin.pytest_collection_modifyitems(session, config_of(run), items)
        next(hook)
        before = list(items)
        items[:] = [item for item in items if item != "deselected"]
        with pytest.raises(StopIteration):
            next(hook)
        return before, items, done

    return run


def test_verdicts_take_the_place_of_what_is_collected_and_of_tests_once_they_are_selected(collected):
    every, left = ["one", "two", "deselected"], ["one", "two"]
    assert collected(None) == (every, left, [])
    tests = run_of()
    assert collected(tests) == (every, ["a verdict"], [("one", "two"), "opened"])
    assert tests.done is None
    assert collected(run_of(), failed=1) == (every, left, [])


def test_a_shard_without_a_case_is_concluded_without_a_test(collected):
    run = run_of()
    assert collected(run, names=())[2] == [("one", "two"), "opened", "concluded"]
    assert run.done == "conclusion"


def test_tests_that_cannot_be_compared_end_the_run_with_a_line_and_code_2(collected):
    with pytest.raises(pytest.exit.Exception, match=r"^no benchmark was collected$") as error:
        collected(run_of(), collect=lambda items: refuse(GateError("no benchmark was collected")))
    assert error.value.returncode == 2


def ask(name, outcome=None, **known):
    """Run the test of a case. -> its properties, and what it raises"""
    config, properties = config_of(run_of(outcome=outcome, **known)), []
    item = SimpleNamespace(name=name, config=config, session=None, user_properties=properties)
    try:
        plugin.Verdict.runtest(item)
    except (plugin.NotPassed, pytest.skip.Exception) as error:
        return properties, (type(error), str(error))
    return properties, None


def test_the_test_of_a_case_has_its_verdict_as_properties_and_fails_with_its_line():
    slow = {"slow": SLOWER, "known": SLOWER, "apart": Record(state="skipped", words="base: not here")}
    older = decided({"lost": Record(state="gone"), "case": SLOWER})[0]
    _, outcome = decided(slow, allowed=[("known", "a new net")], anchor=older)
    found = outcome.findings["slow"]
    numbers = {"ratio": found.ratio, "low": found.low, "high": found.high, "pairs": 16, "p": found.p}
    told = [("verdict", "slower"), *numbers.items()]
    assert ask("slow", outcome) == (told, (plugin.NotPassed, report.failure("slow", outcome)))
    assert ask("known", outcome) == ([*told, ("allowed", "a new net")], None)
    assert ask("apart", outcome)[1] == (pytest.skip.Exception, "base: not here")
    properties, failed = ask("case", outcome)  # it is in both: its properties are those of the comparison with base
    assert properties[0] == ("verdict", "ok")
    assert failed[1].startswith("against the anchor: case: slower, ")
    assert ask("lost", outcome) == ([("verdict", "gone")], (plugin.NotPassed, "against the anchor: lost: gone"))


def test_a_failure_is_a_line_and_a_mistake_of_the_gate_a_traceback(request):
    item = plugin.Verdict.from_parent(request.session, name="a case", nodeid="a case")
    assert item.reportinfo() == (request.session.path, None, "a case")
    with pytest.raises(plugin.NotPassed) as failed:
        raise plugin.NotPassed("slower, +7.0 %")
    assert item.repr_failure(failed) == "slower, +7.0 %"
    with pytest.raises(ZeroDivisionError) as mistaken:
        refuse(ZeroDivisionError("a mistake"))
    assert "ZeroDivisionError: a mistake" in str(item.repr_failure(mistaken))
    assert "refuse(" in str(item.repr_failure(mistaken))


@pytest.fixture
def asked(monkeypatch):
    """Ask twice for a conclusion that is given or an error. -> what is answered, the session, how often it was made"""

    def run(conclusion):
        made, session, run, answers = [], SimpleNamespace(config="config", shouldstop=False), run_of(), []

        def conclude(config, run):
            made.append(config)
            return refuse(conclusion) if isinstance(conclusion, Exception) else conclusion

        monkeypatch.setattr(plugin, "conclude", conclude)
        for _ in range(2):
            try:
                answers.append(plugin.measured(session, run))
            except Exception as error:
                answers.append((type(error), str(error)))
        assert made == ["config"]
        return answers, session.shouldstop

    return run


def test_all_is_measured_once(asked):
    assert asked(("artifact", "outcome")) == (["outcome"] * 2, False)


@pytest.mark.parametrize(
    ("error", "first", "words"),
    [
        (GateError("no worker"), plugin.NotPassed, "no worker"),
        (Unwritable("no room"), plugin.NotPassed, "no room"),
        (FULL, plugin.NotPassed, str(FULL)),
        (ZeroDivisionError("a mistake"), ZeroDivisionError, "a mistake"),
    ],
)
def test_what_ended_measuring_is_said_of_every_case_and_nothing_is_measured_again(asked, error, first, words):
    assert asked(error) == ([(first, words), (plugin.NotPassed, words)], words)


def test_an_error_without_words_is_called_by_its_name(asked):
    assert asked(ValueError()) == ([(ValueError, ""), (plugin.NotPassed, "ValueError")], "ValueError")


def test_lines_are_printed_by_the_reporter_while_nothing_is_captured():
    lines, plugins = [], {}
    config = SimpleNamespace(pluginmanager=SimpleNamespace(getplugin=plugins.get))
    assert plugin.logger(config) is print

    @contextmanager
    def disabled():
        lines.append("shown")
        yield
        lines.append("captured")

    plugins["terminalreporter"] = SimpleNamespace(
        ensure_newline=lambda: lines.append("a new line"), write_line=lines.append, flush=lambda: None
    )
    plugin.logger(config)("first")
    plugins["capturemanager"] = SimpleNamespace(global_and_fixture_disabled=disabled)
    plugin.logger(config)("second")
    assert lines == ["a new line", "first", "shown", "a new line", "second", "captured"]


def test_each_comparison_is_announced_with_the_cases_of_each_state():
    def gate(base, *states):
        records = {str(number): Record(state=state) for number, state in enumerate(states)}
        return SimpleNamespace(head="a head", base=base * 40, records=records)

    run = run_of(gate("b", "timed", "gone", "timed"), gate("c", "unchanged", "timed"))
    assert plugin.pytest_report_collectionfinish(config_of(run)) == [
        "gate: a head (the working tree) against bbbbbbbbbbbb: 2 timed, 1 gone",
        "gate: a head (the working tree) against cccccccccccc: 1 unchanged, 1 timed",
    ]
    assert plugin.pytest_report_collectionfinish(config_of(None)) == []


def finished(run, status, listed=False):
    """End a session of this status. -> the status it has then"""
    session = SimpleNamespace(config=config_of(run, collectonly=listed), exitstatus=status)
    hook = plugin.pytest_sessionfinish(session)
    next(hook)
    with pytest.raises(StopIteration) as end:
        hook.send("what others return")
    assert end.value.value == "what others return"
    return session.exitstatus


@pytest.mark.parametrize(
    ("concluded", "status", "code"),
    [(0, 0, 0), (1, 1, 1), (2, 1, 2), (0, 1, 0), (1, 0, 1), (0, 5, 0), (0, 2, 2), (0, 3, 2), (1, 4, 2)],
)
def test_a_run_ends_with_the_code_of_the_gate_unless_it_did_not_come_to_its_end(concluded, status, code):
    assert finished(run_of(outcome=SimpleNamespace(code=concluded)), status) == code


@pytest.mark.parametrize("status", [0, 1, 2, 5])
def test_a_run_that_concludes_nothing_is_void_but_where_cases_are_only_listed(status):
    assert finished(run_of(), status) == 2
    assert finished(run_of(), status, listed=True) == status
    assert finished(None, status) == status


def summary(run):
    """Return what is printed at the end of a run, and which lines of it are red."""
    lines, red = [], []

    def write_line(line, **how):
        lines.append(line)
        red.extend([line] if how.get("red") else [])

    reporter = SimpleNamespace(section=lambda title: lines.append(f"== {title}"), write_line=write_line)
    plugin.pytest_terminal_summary(reporter, config_of(run))
    return lines, red


def test_the_end_tells_of_each_comparison_what_is_not_ok_and_the_outcome():
    dead = Record(state="error", words="Killed")
    older = decided({"dead": dead, "more": dead}, told=["toy: older"])[0]
    older.seconds = 30.0
    artifact, outcome = decided({"slow": SLOWER}, told=["toy: base"], anchor=older)
    lines, red = summary(run_of(outcome=outcome, artifact=artifact))
    kept = "all that was measured: kept.json"
    assert lines == [
        "== gate",
        "toy: base",
        *report.summary(outcome),
        f"failed: 1 slower, 1 ok, 1.5 min; {kept}",
        "== gate, against the anchor",
        "toy: older",
        *report.summary(outcome.anchor),
        "2 of 3 tests could not be measured: dead: Killed",
        f"invalid run, no verdict: 2 error, 1 ok, 0.5 min; {kept}",
    ]
    assert red == ["2 of 3 tests could not be measured: dead: Killed"]


def test_without_an_anchor_or_a_conclusion_no_more_is_told():
    artifact, outcome = decided({})
    lines, red = summary(run_of(outcome=outcome, artifact=artifact))
    assert [line for line in lines if line.startswith("== ")] == ["== gate"]
    assert red == []
    assert summary(run_of()) == summary(None) == ([], [])
