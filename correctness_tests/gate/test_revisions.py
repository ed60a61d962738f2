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

from correctness_tests.repositories.made import Repository
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


def test_a_typo_in_a_revision_is_called_one(at_start):
    at_start.git("branch", "release-candidate")
    with pytest.raises(GateError, match=r"^unknown revision 'relase-candidate'; did you mean 'release-candidate'\?$"):
        revisions.resolve(at_start.root, "relase-candidate")


def test_a_clone_of_one_branch_says_how_to_fetch_another(at_start, tmp_path):
    at_start.git("branch", "stable")
    folder = tmp_path / "clone"
    command = ["git", "clone", "--quiet", "--single-branch", f"file://{at_start.root}", folder]
    subprocess.run(command, check=True, env=environment())
    fetch = "git fetch origin stable:refs/remotes/origin/stable"
    wanted = f"^unknown revision 'stable'; this clone has only some branches: {fetch}, and compare with origin/stable$"
    with pytest.raises(GateError, match=wanted):
        revisions.resolve(folder, "stable")
    subprocess.run(fetch.split(), check=True, cwd=folder, capture_output=True, env=environment())
    assert revisions.resolve(folder, "origin/stable") == at_start.git("rev-parse", "stable")
    with pytest.raises(GateError, match=r"^unknown revision 'stable'; did you mean 'origin/stable'\?$"):
        revisions.resolve(folder, "stable")


def test_git_says_itself_why_it_refuses(at_start, monkeypatch):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # as of a container's user in a mounted folder
    with pytest.raises(GateError, match=r"dubious ownership .* git config --global --add safe.directory "):
        revisions.resolve(at_start.root, "HEAD")


def test_a_shallow_clone_without_the_revision_says_so(at_start, tmp_path):
    command = ["git", "clone", "--quiet", "--depth=1", "--bare", f"file://{at_start.root}", tmp_path / ".git"]
    subprocess.run(command, check=True, env=environment(), capture_output=True)
    with pytest.raises(GateError, match=r"^unknown revision 'HEAD~1'; this clone is shallow: git fetch --unshallow$"):
        revisions.resolve(tmp_path, "HEAD~1")


def test_a_folder_that_is_no_repository_says_so(tmp_path):
    words = f"^{tmp_path}: fatal: not a git repository "
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
    "changed",
    [
        "README.md",
        "rl_impls/other/_numpy.py",
        "perf_tests/suite/cases/other.py",
        "rlgauge/rule.py",
        "rl_impls/common/__pycache__/batching.cpython-311.pyc",
    ],
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


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A repository of a few files, a link and a program among them; nothing of it is changed."""
    toy = Repository(tmp_path_factory.mktemp("small") / "toy", {"a/one.py": "1\n", "b/two.py": "2\n", "c.txt": "3\n"})
    (toy.root / "a/link").symlink_to("../c.txt")
    (toy.root / "a/run").write_text("#!/bin/sh\n")
    (toy.root / "a/run").chmod(0o755)
    toy.commit("all", {".gitignore": "*.tmp\nmade_*.py\n"})
    toy.write({"a/new é.py": "4\n", "a/x.tmp": "5\n", "b/made_three.py": "6\n", "b/deep/made_four.py": "7\n"})
    toy.write({"b/made_five.txt": "8\n"})
    return toy


def under(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def test_git_is_asked_of_the_folder_that_is_named_also_where_a_hook_calls(small, monkeypatch, tmp_path):
    commit = small.git("rev-parse", "HEAD")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_PREFIX", "a/")
    monkeypatch.chdir(tmp_path)
    assert revisions.git(small.root, "rev-parse", "HEAD") == f"{commit}\n".encode()
    assert b"b/two.py" in revisions.git(small.root, "ls-files")
    with pytest.raises(subprocess.CalledProcessError):
        revisions.git(small.root, "rev-parse", "--verify", "--quiet", "nothing")


def test_a_root_above_the_repository_is_refused(small, tmp_path):
    root, folder = small.root, small.root / "a"
    for fine in ((root, root), (folder, folder), (root, folder), (folder, root), (tmp_path, root), (root, tmp_path)):
        revisions.check_root(*fine)
    for above in (root.parent, root.parent.parent):
        with pytest.raises(GateError) as error:
            revisions.check_root(above, folder)
        assert str(error.value) == (
            f"rootdir: got {above}, above the repository {root}: write --gate-json=FILE, with =, not a space"
        )


def test_parts_of_a_commit_are_written_or_all_of_it(small, tmp_path):
    commit = small.git("rev-parse", "all")
    revisions.export(small.root, commit, tmp_path / "all")
    assert under(tmp_path / "all") == [".gitignore", "a/link", "a/one.py", "a/run", "b/two.py", "c.txt"]
    assert os.readlink(tmp_path / "all/a/link") == "../c.txt"
    assert os.access(tmp_path / "all/a/run", os.X_OK)
    assert not os.access(tmp_path / "all/a/one.py", os.X_OK)
    revisions.export(small.root, commit, tmp_path / "parts", ["b", "c.txt"])
    assert under(tmp_path / "parts") == ["b/two.py", "c.txt"]


def test_what_cannot_be_written_of_a_commit_is_one_line(small, tmp_path, monkeypatch):
    commit = small.git("rev-parse", "all")
    with pytest.raises(GateError, match=r"^0{12} cannot be written: .+$"):
        revisions.export(small.root, "0" * 40, tmp_path / "none")
    assert not list(tmp_path.glob("*.index"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()  # where a folder is to be
    with pytest.raises(GateError, match=rf"^{commit[:12]} cannot be written: .+$"):
        revisions.export(small.root, commit, tmp_path / "full")


def test_what_an_archive_would_leave_out_is_written_too(small, tmp_path):
    clone, who = tmp_path / "clone", ("-c", "user.name=a", "-c", "user.email=a@b")
    revisions.git(tmp_path, "clone", "--quiet", str(small.root), "clone")
    revisions.git(clone, "checkout", "--quiet", small.git("rev-parse", "all"))
    (clone / ".gitattributes").write_text("b export-ignore\n*.txt export-subst\n")
    (clone / "c.txt").write_text("$Format:%H$")
    revisions.git(clone, *who, "commit", "--quiet", "--message", "attributes", "c.txt")
    revisions.git(clone, "add", "--all")
    revisions.git(clone, *who, "commit", "--quiet", "--message", "attributes")
    before = (clone / ".git" / "index").read_bytes()
    revisions.export(clone, revisions.resolve(clone, "HEAD"), tmp_path / "all")
    assert "b/two.py" in under(tmp_path / "all")
    assert (tmp_path / "all/c.txt").read_text() == "$Format:%H$"
    assert (clone / ".git" / "index").read_bytes() == before  # the repository's own is left alone
    assert {path.name for path in tmp_path.iterdir()} == {"all", "clone"}


def test_of_a_folder_within_a_repository_what_is_in_it_is_written(small, tmp_path):
    commit = small.git("rev-parse", "all")
    revisions.export(small.root / "a", commit, tmp_path / "all")
    assert under(tmp_path / "all") == ["link", "one.py", "run"]
    revisions.export(small.root / "a", commit, tmp_path / "part", ["one.py"])
    assert under(tmp_path / "part") == ["one.py"]


def test_a_snapshot_has_links_as_links_and_what_is_new_but_not_what_is_ignored(small, tmp_path):
    revisions.snapshot(small.root, tmp_path / "all")
    of_a = ["a/link", "a/new é.py", "a/one.py", "a/run"]
    assert under(tmp_path / "all") == [".gitignore", *of_a, "b/made_five.txt", "b/two.py", "c.txt"]
    assert os.readlink(tmp_path / "all/a/link") == "../c.txt"
    assert os.access(tmp_path / "all/a/run", os.X_OK)
    revisions.snapshot(small.root, tmp_path / "parts", ["a", "c.txt"])
    assert under(tmp_path / "parts") == [*of_a, "c.txt"]
    revisions.snapshot(small.root, tmp_path / "none", ["nowhere"])
    assert under(tmp_path / "none") == []
    assert (tmp_path / "none").is_dir()


def test_what_git_ignores_is_found_by_its_name_in_the_folders_that_are_named(small):
    made = ["b/deep/made_four.py", "b/made_three.py"]
    assert sorted(revisions.ignored(small.root, ["a", "b"], "*.py")) == made
    assert revisions.ignored(small.root, ["a", "b"], "*.tmp") == ["a/x.tmp"]
    assert revisions.ignored(small.root, ["b/deep"], "*.py") == made[:1]
    assert revisions.ignored(small.root, ["a"], "*.py") == revisions.ignored(small.root, [], "*.py") == []


def test_a_hash_of_files_is_of_their_names_and_what_they_hold_wherever_and_in_whatever_order_they_are(tmp_path):
    def hashed(name, files, **more):
        folder = tmp_path / name
        for path, text in {**files, **more}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return revisions.digest(folder, [folder, *(folder / path for path in (*more, *files)), folder / "absent"])

    files = {"a.py": "1\n", "b/c.py": "2\n"}
    wanted = hashlib.sha256(b"a.py 2\n1\nb/c.py 2\n2\n").hexdigest()
    assert hashed("one", files) == hashed("other", dict(reversed(files.items()))) == wanted
    others = [
        hashed("content", files | {"a.py": "3\n"}),
        hashed("renamed", {"a.py": "1\n", "b/d.py": "2\n"}),
        hashed("moved", {"a.py": "1\n", "c.py": "2\n"}),
        hashed("exchanged", {"a.py": "2\n", "b/c.py": "1\n"}),
        hashed("more", files, **{"d.py": ""}),
        hashed("joined", {"a.py": "1\nb/c.py 2\n2\n"}),
    ]
    assert len({wanted, *others}) == 1 + len(others)


def test_the_process_at_its_turn_is_told_by_its_number_alone(tmp_path):
    (tmp_path / "turn.lock").write_text("123456789012345")
    for _ in range(2):
        with revisions.turn(tmp_path):
            assert (tmp_path / "turn.lock").read_text() == str(os.getpid())


def test_a_workspace_is_in_the_cache_and_names_its_process(tmp_path):
    cache = tmp_path / "new" / "cache"
    with revisions.workspace(cache) as folder:
        assert folder.parent == cache
        assert folder.name.startswith(f"run-{os.getpid()}-")
    assert not folder.exists()


def test_what_is_in_no_repository_is_a_line(tmp_path):
    with pytest.raises(GateError, match=r": fatal: not a git repository "):
        revisions.snapshot(tmp_path, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
