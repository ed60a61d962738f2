"""``rlgauge history``: commits compared with the release before them."""

import json
import math
import signal
from dataclasses import asdict, replace

import pytest

from rlgauge.__main__ import main
from rlgauge.history import in_order, read, version_of
from rlgauge.measurements import append
from rlgauge.revisions import measurement_lock

from .entries import entry, pairs
from .made import INI, SLOW_TO_START, Repository, eventually, flat

SLOW, KEPT = "benchmarks/test_sorting.py::test_slow", "benchmarks/test_sorting.py::test_kept[50]"
SELECTED = "benchmarks", "-k", "slow or 50"
COMMITS = {  # files that each commit changes
    "words": {"README.md": "A toy.\n"},
    "comment": {"toy/other.py": "# more\n"},
    "words again": {"README.md": "A small toy.\n"},
    "words once more": {"README.md": "A very small toy.\n"},
    "slower": flat(slow=120),
    "after": {"toy/other.py": "# still more\n"},
}
BROKEN = {"toy/sorting.py": flat()["toy/sorting.py"] + "\n\ndef slow(numbers):\n    raise OSError('no order')\n"}
RELEASES = {"start": "v1", "slower": "v2"}
SIMPLE = "from time import perf_counter\n\n\ndef test_first(benchmark):\n    from toy.sorting import slow\n\n"
OPTION = """import sys
import sysconfig


def pytest_addoption(parser):
    parser.addoption("--length")


def pytest_configure():
    library, packages = (sys.path.index(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    assert library < packages
"""
NUMBERS = "    benchmark(slow, [0.0] * 50)\n"


def built(folder, commits, files=None):
    """Return a repository with these commits and no tags, and the commit hashes by name."""
    settings = {**INI, "pyproject.toml": "[tool.rlgauge]\nrule = { blocks = 2 }\n"}
    made = Repository(folder, {**(files or flat()), **settings})
    for name, changed in commits.items():
        made.write(changed)
        made.git("add", "--all")
        made.git("commit", "--quiet", "--message", name)
    made.git("tag", "--delete", "start")
    names = ["start", *commits]
    return made, dict(zip(names, made.git("rev-list", "--reverse", "HEAD").split(), strict=True))


def entries(made):
    return read(made.root / ".rlgauge" / "history.jsonl")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Measure a history; return the repository, its commit hashes by name, and the output."""
    made, names = built(tmp_path_factory.mktemp("history") / "repository", COMMITS | {"broken": BROKEN})
    for name, tag in RELEASES.items():
        made.git("tag", tag, names[name])
    text = made.output(1, "rlgauge", "history", "--since", "v1", "--pairs", "2", *SELECTED)  # a commit is broken
    yield made, names, text
    assert made.leftovers() == []


def test_every_commit_is_compared_with_the_release_before_it(measured):
    made, names, _ = measured
    found = {(e.commit, e.case): e for e in entries(made)}
    wanted = {(names[name], case) for name in COMMITS for case in (SLOW, KEPT)}
    assert found.keys() == wanted | {(names["broken"], KEPT)}
    anchors = {name: found[names[name], SLOW].anchor for name in COMMITS}
    assert anchors == {name: names["slower" if name == "after" else "start"] for name in COMMITS}
    for name, ratio in (("comment", 1.0), ("slower", 1.2), ("after", 1.0)):
        assert len(found[names[name], SLOW].log_ratios) == 2
        assert math.exp(found[names[name], SLOW].middle) == pytest.approx(ratio, abs=0.02)
        assert math.exp(found[names[name], KEPT].middle) == pytest.approx(1.0, abs=0.02)


def test_a_commit_with_the_same_files_is_not_timed(measured):
    made, names, text = measured
    found = {e.commit: e for e in entries(made) if e.case == SLOW}
    like_anchor = found[names["words"]]
    assert (like_anchor.state, like_anchor.same_as, like_anchor.log_ratios) == ("unchanged", names["start"], [])
    for like_earlier in (found[names["words again"]], found[names["words once more"]]):
        assert (like_earlier.state, like_earlier.same_as) == ("unchanged", names["comment"])
        assert like_earlier.log_ratios == found[names["comment"]].log_ratios
    assert text.count("0 measured before, 2 unchanged, 0 to measure") == 3


def test_show_names_the_commit_that_slowed_a_test_across_releases(measured, monkeypatch, capsys):
    made, names, _ = measured
    monkeypatch.chdir(made.root)
    assert main(["history", "show", "--json"]) == 0
    found = {test["case"]: test for test in json.loads(capsys.readouterr().out)}
    assert found[SLOW]["root"] == names["start"]
    assert [step["commit"] for step in found[SLOW]["steps"]] == [names["slower"]]
    assert found[SLOW]["points"][-1]["ratio"] == pytest.approx(1.2, abs=0.03)  # 1.0 against the second release
    assert (found[SLOW]["verdict"], found[KEPT]["verdict"], found[KEPT]["steps"]) == ("slower", "ok", [])
    assert main(["history", "show"]) == 0
    assert f"| slower | 6 | `{names['slower'][:12]}` +" in capsys.readouterr().out.splitlines()[2]


def test_a_new_release_is_compared_with_the_last_anchor_before_it(measured, tmp_path):
    earlier = next(e for e in entries(measured[0]) if (e.case, e.state) == (SLOW, "timed"))
    made, names = built(tmp_path / "repository", {name: COMMITS[name] for name in ("comment", "slower", "after")})
    made.git("tag", "v1", names["start"])
    made.git("tag", "v2", names["slower"])
    (made.root / ".rlgauge").mkdir()
    before_v2 = replace(earlier, commit=names["comment"], anchor=names["start"])
    older_test = replace(before_v2, version="older", commit=names["after"], anchor=names["slower"])  # does not count
    append(made.root / ".rlgauge" / "history.jsonl", [asdict(before_v2), asdict(older_test)])
    made.output(0, "rlgauge", "history", "--since", "v2", "--pairs", "1", "benchmarks", "-k", "slow")
    wanted = [("comment", "start"), ("slower", "start"), ("after", "slower")]
    found = [(e.commit, e.anchor) for e in entries(made) if e.version == earlier.version]
    assert found == [(names[one], names[other]) for one, other in wanted]


def test_a_failure_at_a_commit_is_named_and_the_rest_goes_on(measured):
    made, names, text = measured
    assert f"history: {SLOW} at {names['broken'][:12]}: head: its test failed: OSError: no order" in text
    assert [e.case for e in entries(made) if e.commit == names["broken"]] == [KEPT]


def test_a_release_that_cannot_be_written_fails_at_every_commit(tmp_path):
    made, _ = built(tmp_path / "repository", {})
    made.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor")  # a submodule, later removed
    made.git("commit", "--quiet", "--message", "vendored")
    made.git("tag", "v1")
    for name in ("comment", "slower"):
        made.write(COMMITS[name])
        made.git("add", "--all")
        made.git("commit", "--quiet", "--message", name)
    text = made.output(2, "rlgauge", "history", "--since", "v1", "--pairs", "1", *SELECTED)
    assert text.count("submodule vendor is not checked out: run git submodule update --init vendor") == 2
    assert text.splitlines()[-1] == "history: no commit could be measured; the reason is above"
    assert not (made.root / ".rlgauge" / "history.jsonl").exists()


def test_a_test_that_the_release_lacks_is_missing_a_commit_gets_six_pairs_and_a_second_call_measures_nothing(tmp_path):
    lacking = {**flat(), "toy/sorting.py": flat()["toy/sorting.py"].replace("def slow", "def quick")}
    made, names = built(tmp_path / "repository", {"with": flat()}, lacking)
    command = "rlgauge", "history", "--since", names["start"], "--minutes", "0.001", "--pairs", "9", *SELECTED
    text = made.output(0, *command)
    assert {e.case: (e.state, len(e.log_ratios)) for e in entries(made)} == {SLOW: ("missing", 0), KEPT: ("timed", 6)}
    before = entries(made)
    code, text = made.run(*command)
    assert (code, "to measure" in text, entries(made)) == (0, False, before), text


def test_older_commits_run_with_todays_settings_of_pytest(tmp_path):
    addopts = " ".join(["--strict-markers", "--strict-config", *SLOW_TO_START])
    settings = f"[pytest]\naddopts = {addopts}\npythonpath = src\nmarkers = fast\n"
    tests = SIMPLE.replace("def test_first", "import pytest\n\n\n@pytest.mark.fast\ndef test_first") + NUMBERS
    source = {f"src/{name}": text for name, text in flat().items() if name.startswith("toy/")}
    made = Repository(tmp_path / "repository", source)
    made.commit("later", {"benchmarks/test_first.py": tests, "pytest.ini": settings, "conftest.py": OPTION})
    made.commit("last", {"src/toy/other.py": ""})
    command = "rlgauge", "history", "--since", "start", "--pairs", "1", "benchmarks", "--length=3"
    made.output(0, *command, PYTEST_ADDOPTS="-p no:cacheprovider")
    assert {(entry.case, entry.state) for entry in entries(made)} == {("benchmarks/test_first.py::test_first", "timed")}


def test_a_test_that_is_edited_while_the_command_waits_has_its_new_version(tmp_path):
    made, names = built(tmp_path / "repository", {"comment": COMMITS["comment"]})
    file = made.root / SLOW.partition("::")[0]
    with measurement_lock(made.root / ".git/rlgauge"):
        process = made.start("rlgauge", "history", "--since", names["start"], "--pairs", "1", *SELECTED)
        while "waiting for another measurement" not in (line := process.stdout.readline()):
            assert line, "it ends without waiting"
        file.write_text(file.read_text().replace("sorting.slow, NUMBERS", "sorting.slow, NUMBERS[:]"))
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 0, text
    assert {entry.case: entry.version for entry in entries(made)} == {n: version_of(file, n) for n in (SLOW, KEPT)}


def test_ctrl_c_keeps_whole_entries_and_leaves_no_process(measured, tmp_path):
    made, *_ = measured
    file = tmp_path / "history.jsonl"
    command = "rlgauge", "history", "--since", "v1", "--pairs", "500", "--file", file, *SELECTED
    text = made.interrupted("expected for the remaining pairs", signal.SIGINT, *command)
    line = f"interrupted: repeat the command to continue; finished commits are in {file}"
    assert text.splitlines()[-1] == line
    assert {e.state for e in read(file)} == {"unchanged"}
    assert eventually(lambda: not made.leftovers())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--since", "HEAD"], "HEAD..HEAD: no commits; the first revision must be an ancestor of the second"),
        (["--since", "v1", "--file", "README.md"], "README.md, line 1: not a line that rlgauge history writes: "),
        (["--since", "v1", "--file", "other.jsonl"], "other.jsonl: its ratios were measured on a-machine, not on "),
        (["show", "--file", "other.jsonl"], "other.jsonl: no ratios of this branch's commits; "),
    ],
)
def test_a_mistake_is_one_line_and_code_2(measured, monkeypatch, capsys, arguments, words):
    made, *_ = measured
    append(made.root / "other.jsonl", [asdict(entry(1, 0, pairs(0.1)))])
    before = entries(made)
    monkeypatch.chdir(made.root)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    code, text = main(["history", *arguments]), capsys.readouterr().err
    (made.root / "other.jsonl").unlink()
    assert code == 2, text
    assert words in text.splitlines()[-1], text
    assert "Traceback" not in text
    assert entries(made) == before


def test_commits_are_those_along_first_parents_oldest_first(tmp_path):
    made, names = built(tmp_path / "repository", {"after": {"README.md": "After.\n"}})
    made.git("checkout", "--quiet", "-b", "side", names["start"])
    made.commit("beside", {"beside.md": "Beside.\n"})
    made.git("checkout", "--quiet", "main")
    made.git("merge", "--quiet", "--no-edit", "side")
    assert in_order(made.root) == [names["start"], names["after"], made.git("rev-parse", "HEAD")]


@pytest.mark.parametrize(
    ("change", "anew"),
    [
        (lambda text: f"# a comment\n{text}\n\ndef test_other():\n    pass\n", False),
        (lambda text: text.replace("50", "60"), True),
        (lambda text: f"{text}(", True),  # it is being edited
    ],
)
def test_a_test_has_a_new_version_when_its_code_changes(tmp_path, change, anew):
    text, file = SIMPLE + NUMBERS, tmp_path / "test_toy.py"
    versions = []
    for content in (text, change(text)):
        file.write_text(content)
        versions.append(version_of(file, "test_toy.py::test_first[50]"))
    assert (versions[0] != versions[1]) is anew
