"""Both sides on disk: what is taken from git and what from the working tree, and one line about each mistake."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from contextlib import suppress

import pytest

from correctness_tests.repositories.made import Repository, environment
from rlgauge import revisions
from rlgauge.rule import GateError


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Repository(tmp_path_factory.mktemp("toy") / "toy", {"a.txt": "start"})
    for number in (1, 2):
        toy.commit(f"change-{number}", {"a.txt": str(number)})
    toy.at("start")
    return toy


def test_a_typo_in_a_revision_is_called_one(toy):
    toy.git("branch", "release-candidate")
    with pytest.raises(GateError, match=r"^unknown revision 'relase-candidate'; did you mean 'release-candidate'\?$"):
        revisions.resolve(toy.root, "relase-candidate")


def test_a_clone_of_one_branch_says_how_to_fetch_another(toy, tmp_path):
    toy.git("branch", "stable")
    folder = tmp_path / "clone"
    command = ["git", "clone", "--quiet", "--single-branch", f"file://{toy.root}", folder]
    subprocess.run(command, check=True, env=environment())
    fetch = "git fetch origin stable:refs/remotes/origin/stable"
    wanted = f"^unknown revision 'stable'; this clone has only some branches: {fetch}, and compare with origin/stable$"
    with pytest.raises(GateError, match=wanted):
        revisions.resolve(folder, "stable")
    subprocess.run(fetch.split(), check=True, cwd=folder, capture_output=True, env=environment())
    assert revisions.resolve(folder, "origin/stable") == toy.git("rev-parse", "stable")
    with pytest.raises(GateError, match=r"^unknown revision 'stable'; did you mean 'origin/stable'\?$"):
        revisions.resolve(folder, "stable")


def test_git_says_itself_why_it_refuses(toy, monkeypatch):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # as of a container's user in a mounted folder
    with pytest.raises(GateError, match=r"dubious ownership .* git config --global --add safe.directory "):
        revisions.resolve(toy.root, "HEAD")


def test_a_shallow_clone_without_the_revision_says_so(toy, tmp_path):
    command = ["git", "clone", "--quiet", "--depth=1", "--bare", f"file://{toy.root}", tmp_path / ".git"]
    subprocess.run(command, check=True, env=environment(), capture_output=True)
    with pytest.raises(GateError, match=r"^unknown revision 'HEAD~1'; this clone is shallow: git fetch --unshallow$"):
        revisions.resolve(tmp_path, "HEAD~1")


def test_a_folder_that_is_no_repository_says_so(tmp_path):
    words = f"^{tmp_path}: fatal: not a git repository "
    with pytest.raises(GateError, match=words):
        revisions.resolve(tmp_path, "HEAD~1")


def test_names_of_commits_are_resolved(toy):
    commit = toy.git("rev-parse", "start")
    for revision in ("start", "HEAD", commit, commit[:8], "change-2~2", "start^0"):
        assert revisions.resolve(toy.root, revision) == commit
    for revision in ("", "start^{tree}", commit[:8] + "zz"):
        with pytest.raises(GateError, match="unknown revision"):
            revisions.resolve(toy.root, revision)


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
