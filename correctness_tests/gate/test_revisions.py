"""Both sides on disk: what is taken from git and what from the working tree, and one line about each mistake."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import subprocess
import sys
import sysconfig
import zipfile
from contextlib import suppress

import pytest

from perf_tests.gate.source import digest, everything
from rlgauge import revisions
from rlgauge.rule import GateError, Record, Rule
from rlgauge.run import opened

from .sources import suite_of, variant
from .toy import CASES, FIRST, LOCK, SECOND, SOURCE, Toy, environment, source

WHEEL = "requirements/units-1.0-py3-none-any.whl"
BY_LIBRARY = """
try:
    from library_of_units import UNITS
except ImportError:
    UNITS = {"first": 110, "second": 100}
"""


def wheel():
    """Return a package with the units of work, in which all that is installed here is found too."""
    files = {
        "library_of_units.py": 'UNITS = {"first": 100, "second": 100}\n',
        "here.pth": sysconfig.get_paths()["purelib"] + "\n",
        "units-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: units\nVersion: 1.0\n",
        "units-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},"
        f"{len(text)}\n"
        for name, text in files.items()
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in {**files, "units-1.0.dist-info/RECORD": record + "units-1.0.dist-info/RECORD,,\n"}.items():
            archive.writestr(name, text)
    return packed.getvalue()


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Toy(tmp_path_factory.mktemp("toy"))
    toy.commit("bare", {"rl_impls": None}, after="start")
    toy.commit("broken", {"rl_impls/toy/__init__.py": "import nothing_like_this\n"}, after="start")
    locked = {LOCK: f"./{WHEEL}\n", WHEEL: wheel(), SOURCE: source(more=BY_LIBRARY)}
    toy.commit("locked", locked, after="start")
    toy.commit("upgraded", {LOCK: "# the library is gone\n", WHEEL: None})
    yield toy
    assert toy.leftovers() == []


@pytest.fixture
def at_start(toy):
    toy.at("start")
    return toy


@pytest.fixture
def records(monkeypatch, tmp_path):
    """Lay out the toy and a revision. -> what is known of its first case"""

    def run(toy, revision, cores="one"):
        source = suite_of(monkeypatch, tmp_path, variant(cores=cores), workloads=("pirl",), tier="gate")
        with opened(source, toy.root, revision, Rule()) as gate:
            return gate.records

    return run


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("nothing-like-this", "unknown revision 'nothing-like-this'"),
        ("--all", "unknown revision '--all'"),
        ("start:README.md", "unknown revision 'start:README.md'"),
        ("bare", r"base \w{12} has no rl_impls: there is nothing to compare"),
        ("broken", "base: its import fails: ModuleNotFoundError: No module named 'nothing_like_this'"),
    ],
)
def test_a_base_that_cannot_be_compared_says_why_and_leaves_nothing(at_start, records, tmp_path, revision, message):
    with pytest.raises(GateError, match=f"^{message}$"):
        records(at_start, revision)
    assert not list(tmp_path.glob("run-*"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def", r"SyntaxError: invalid syntax \(_numpy.py, line 1\)"),
        ("import nothing_like_this", "ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("import numpy\nnumpy.nothing_like_this", "AttributeError: .*"),
    ],
)
def test_a_mistake_in_a_source_file_of_head_is_known_before_anything_is_timed(at_start, records, text, message):
    at_start.write({SOURCE: text})
    with pytest.raises(GateError, match=f"^head: its import fails: rl_impls.toy._numpy: {message}$"):
        records(at_start, "start")


def test_only_what_is_to_be_timed_is_imported(at_start, records):
    at_start.commit("both-broken", {SOURCE: "def"})
    assert records(at_start, "both-broken") == {FIRST: Record(state="unchanged")}
    at_start.at("start", {SOURCE: source(more="# sorts"), "rl_impls/toy/_jax.py": "def"})
    assert records(at_start, "start", cores="all") == {FIRST: Record(all_cores=True)}


def test_a_shallow_clone_without_the_revision_says_so(at_start, tmp_path):
    command = ["git", "clone", "--quiet", "--depth=1", "--bare", f"file://{at_start.root}", tmp_path / ".git"]
    subprocess.run(command, check=True, env=environment(), capture_output=True)
    with pytest.raises(GateError, match=r"^unknown revision 'HEAD~1'; this clone is shallow: git fetch --unshallow$"):
        revisions.resolve(tmp_path, "HEAD~1")


def test_a_folder_that_is_no_repository_says_so(tmp_path):
    words = f"^{tmp_path} is not a git repository: there is no revision to compare with$"
    with pytest.raises(GateError, match=words):
        revisions.resolve(tmp_path, "HEAD~1")


@pytest.mark.slow
def test_a_base_with_other_dependencies_gets_its_own_environment_once(toy, tmp_path):
    toy.at("upgraded")
    ran = toy.gate("HEAD~1", tmp_path)
    assert ran.code == 1, ran.text
    assert ran.findings[FIRST] == ("slower",)  # by what is installed alone
    assert ran.findings[SECOND] == ("ok",)
    made = {path: path.stat().st_mtime_ns for path in toy.root.glob(".cache/gate/env-*/pyvenv.cfg")}
    assert len({path.parent for path in made}) == 1
    again = toy.run(*toy.gate_command("HEAD~1", tmp_path), "--collect-only")
    assert again.code == 0, again.text
    assert {path: path.stat().st_mtime_ns for path in toy.root.glob(".cache/gate/env-*/pyvenv.cfg")} == made


def test_names_of_commits_are_resolved(at_start):
    commit = at_start.git("rev-parse", "start")
    for revision in ("start", "HEAD", commit, commit[:8], "upgraded~2", "start^0"):
        assert revisions.resolve(at_start.root, revision) == commit
    for revision in ("", "start^{tree}", commit[:8] + "zz"):
        with pytest.raises(GateError, match="unknown revision"):
            revisions.resolve(at_start.root, revision)


def test_a_commit_is_exported_without_the_working_tree(at_start, tmp_path):
    at_start.write({SOURCE: "changed", "rl_impls/toy/new.py": "", "conftest.py": None})
    everything().export(at_start.root, at_start.git("rev-parse", "start"), tmp_path)
    assert (tmp_path / SOURCE).read_text() == source()
    assert not (tmp_path / "rl_impls/toy/new.py").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["perf_tests", "requirements", "rl_impls", "rlgauge"]


def test_a_commit_without_benchmarks_or_lock_is_exported(at_start, tmp_path):
    commit = at_start.commit("code-alone", {"perf_tests": None, "rlgauge": None, "requirements": None})
    everything().export(at_start.root, commit, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["rl_impls"]


def test_a_snapshot_is_the_working_tree(at_start, tmp_path):
    new = "rl_impls/toy/a new file.py"
    at_start.write({SOURCE: "changed", new: "new", CASES: None, "rl_impls/toy/__pycache__/x.py": "ignored"})
    everything().snapshot(at_start.root, tmp_path)
    assert (tmp_path / SOURCE).read_text() == "changed"
    assert (tmp_path / new).read_text() == "new"
    assert not (tmp_path / CASES).exists()
    assert not (tmp_path / "rl_impls/toy/__pycache__").exists()
    at_start.write({SOURCE: "changed again"})
    assert (tmp_path / SOURCE).read_text() == "changed"


@pytest.mark.parametrize(
    "changed",
    [
        SOURCE,
        CASES,
        LOCK,
        "rl_impls/backends.py",
        "rl_impls/common/batching.py",
        "rl_impls/toy/deep/er.py",
        "rl_impls/toy/table.csv",
        "rl_impls/common/kernel.cpp",
        "requirements/overrides.txt",
    ],
)
def test_a_digest_changes_with_all_that_speed_depends_on(at_start, changed):
    before, there = digest(at_start.root, "toy"), (at_start.root / changed).exists()
    at_start.write({changed: "changed"})
    assert digest(at_start.root, "toy") != before
    at_start.write({changed: None})
    assert (digest(at_start.root, "toy") != before) == there


@pytest.mark.parametrize(
    "changed", ["README.md", "rl_impls/other/_numpy.py", "perf_tests/suite/cases/other.py", "rlgauge/rule.py"]
)
def test_a_digest_is_that_of_one_workload(at_start, changed):
    before = digest(at_start.root, "toy")
    at_start.write({changed: "changed"})
    assert digest(at_start.root, "toy") == before


def test_a_workspace_is_gone_after_it_and_so_are_those_of_the_dead(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    alive, stale = tmp_path / f"run-{os.getppid()}-x", tmp_path / f"run-{dead.pid}-x"
    for folder in (alive, stale, tmp_path / "env-0"):
        (folder / "base").mkdir(parents=True)
    with suppress(KeyboardInterrupt), revisions.workspace(tmp_path) as folder:
        assert folder.is_dir()
        assert not stale.exists()
        (folder / "file").touch()
        raise KeyboardInterrupt
    assert sorted(tmp_path.iterdir()) == sorted([alive, tmp_path / "env-0", tmp_path / "turn.lock"])
