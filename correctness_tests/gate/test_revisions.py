"""Copies of base and head on disk, from git and from the working tree, and one-line errors."""

import os
import shutil
import subprocess
from contextlib import suppress

import pytest

from correctness_tests.repositories.made import Repository
from rlgauge import revisions
from rlgauge.rule import GateError


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Repository(tmp_path_factory.mktemp("toy") / "toy", {"a.txt": "start"})
    for number in (1, 2):
        toy.commit(f"change-{number}", {"a.txt": str(number)})
    toy.at("start")
    return toy


def test_a_typo_in_a_revision_gets_a_suggestion(toy):
    toy.git("branch", "release-candidate")
    with pytest.raises(GateError, match=r"^unknown revision 'relase-candidate'; did you mean 'release-candidate'\?$"):
        revisions.resolve(toy.root, "relase-candidate")


def test_a_clone_of_one_branch_says_how_to_fetch_another(toy, tmp_path):
    toy.git("branch", "stable")
    folder = tmp_path / "clone"
    toy.git("clone", "--quiet", "--single-branch", f"file://{toy.root}", str(folder))
    fetch = "git fetch origin stable:refs/remotes/origin/stable"
    wanted = f"^unknown revision 'stable'; this clone has only some branches; run {fetch}, and use origin/stable$"
    with pytest.raises(GateError, match=wanted):
        revisions.resolve(folder, "stable")
    toy.git("-C", str(folder), *fetch.split()[1:])
    assert revisions.resolve(folder, "origin/stable") == toy.git("rev-parse", "stable")
    with pytest.raises(GateError, match=r"^unknown revision 'stable'; did you mean 'origin/stable'\?$"):
        revisions.resolve(folder, "stable")


def test_the_reason_of_git_is_shown(toy, monkeypatch):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # as in a container with a mounted folder
    with pytest.raises(GateError, match=r"dubious ownership .* git config --global --add safe.directory "):
        revisions.resolve(toy.root, "HEAD")


def test_a_shallow_clone_without_the_revision_says_so(toy, tmp_path):
    toy.git("clone", "--quiet", "--depth=1", "--bare", f"file://{toy.root}", str(tmp_path / ".git"))
    with pytest.raises(GateError, match=r"^unknown revision 'HEAD~1'; this clone is shallow; run git fetch "):
        revisions.resolve(tmp_path, "HEAD~1")


def test_a_folder_that_is_no_repository_says_so(tmp_path):
    words = f"^{tmp_path}: fatal: not a git repository "
    with pytest.raises(GateError, match=words):
        revisions.resolve(tmp_path, "HEAD~1")


def test_a_revision_resolves_to_its_commit(toy):
    commit = toy.git("rev-parse", "change-1")
    toy.git("tag", "--annotate", "--message=a release", "v1", "change-1")
    assert {revisions.resolve(toy.root, name) for name in ("v1", "change-1", commit[:12])} == {commit}
    with pytest.raises(GateError, match=r"^unknown revision 'v1\^\{tree\}'"):
        revisions.resolve(toy.root, "v1^{tree}")


def test_a_name_of_a_branch_and_a_tag_with_different_commits_is_refused(toy):
    toy.git("branch", "shared", "change-1")
    toy.git("tag", "--annotate", "--message=a release", "shared", "change-2")
    names = "refs/heads/shared or refs/tags/shared"
    for name in ("shared", "shared~1"):
        with pytest.raises(GateError, match=rf"^revision '{name}' is ambiguous: give the full name, {names}$"):
            revisions.resolve(toy.root, name)
    assert revisions.resolve(toy.root, "refs/heads/shared~1") == toy.git("rev-parse", "start")
    toy.git("branch", "--force", "shared", "change-2")
    assert revisions.resolve(toy.root, "shared") == toy.git("rev-parse", "change-2")


def test_a_workspace_is_removed_and_so_are_those_of_killed_runs(tmp_path):
    stale = tmp_path / f"run-{os.getpid()}-x"  # in a container, a later run often has the same process id
    for folder in (stale, tmp_path / "env-0"):
        (folder / "base").mkdir(parents=True)
    with suppress(KeyboardInterrupt), revisions.workspace(tmp_path) as folder:
        assert folder.is_dir()
        assert not stale.exists()
        (folder / "file").touch()
        raise KeyboardInterrupt
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "env-0", tmp_path / "turn.lock"])


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A repository with new and ignored files, a symlink and an executable; the tests do not change it."""
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


@pytest.mark.parametrize("pathspecs", ["GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS"])  # Magit sets the first
def test_git_variables_of_a_hook_have_no_effect(small, monkeypatch, tmp_path, pathspecs):
    commit = small.git("rev-parse", "HEAD")
    for name in ("GIT_COMMON_DIR", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_PREFIX", "a/")
    monkeypatch.setenv(pathspecs, "1")
    monkeypatch.chdir(tmp_path)
    assert revisions.git(small.root, "rev-parse", "HEAD") == f"{commit}\n".encode()
    assert b"b/two.py" in revisions.git(small.root, "ls-files")
    assert revisions.tracked(small.root, ["two.py"]) == ["b/two.py"]
    assert revisions.ignored(small.root, ["b"], "*.py") == ["b/deep/made_four.py", "b/made_three.py"]
    with pytest.raises(subprocess.CalledProcessError):
        revisions.git(small.root, "rev-parse", "--verify", "--quiet", "nothing")


def test_export_writes_a_commit_or_parts_of_it(small, tmp_path):
    commit = small.git("rev-parse", "all")
    revisions.export(small.root, commit, tmp_path / "all")
    assert under(tmp_path / "all") == [".gitignore", "a/link", "a/one.py", "a/run", "b/two.py", "c.txt"]
    assert os.readlink(tmp_path / "all/a/link") == "../c.txt"
    assert os.access(tmp_path / "all/a/run", os.X_OK)
    assert not os.access(tmp_path / "all/a/one.py", os.X_OK)
    revisions.export(small.root, commit, tmp_path / "parts", ["b", "c.txt"])
    assert under(tmp_path / "parts") == ["b/two.py", "c.txt"]


def test_export_ignores_export_attributes(small, tmp_path):
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
    assert (clone / ".git" / "index").read_bytes() == before  # the repository's own index is unchanged
    assert {path.name for path in tmp_path.iterdir()} == {"all", "clone"}


def test_both_sides_lack_what_a_sparse_checkout_leaves_out(small, tmp_path):
    clone, commit = tmp_path / "clone", small.git("rev-parse", "all")
    revisions.git(tmp_path, "clone", "--quiet", str(small.root), "clone")
    revisions.git(clone, "checkout", "--quiet", commit)
    revisions.git(clone, "sparse-checkout", "set", "--cone", "a")
    revisions.snapshot(clone, tmp_path / "head")
    revisions.export(clone, commit, tmp_path / "base")
    kept = [".gitignore", "a/link", "a/one.py", "a/run", "c.txt"]
    assert (under(tmp_path / "base"), under(tmp_path / "head")) == (kept, kept)


def test_each_side_has_its_own_commit_of_a_submodule(toy, tmp_path):
    outer = Repository(tmp_path / "outer", {"b.txt": ""})
    outer.git("-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(toy.root), "vendor")
    outer.git("-C", "vendor", "checkout", "--quiet", "change-1")
    outer.commit("vendored", {})
    outer.git("-C", "vendor", "checkout", "--quiet", "change-2")
    commit = outer.git("rev-parse", "vendored")
    for state in ("moved", "committed"):
        revisions.export(outer.root, commit, tmp_path / state / "base")
        revisions.snapshot(outer.root, tmp_path / state / "head")
        assert [(tmp_path / state / side / "vendor/a.txt").read_text() for side in ("base", "head")] == ["1", "2"]
        outer.commit("committed", {})
    outer.git("submodule", "deinit", "--quiet", "--force", "vendor")
    with pytest.raises(GateError, match=r"^submodule vendor is not checked out: run git submodule update "):
        revisions.export(outer.root, commit, tmp_path / "absent")


@pytest.mark.parametrize("pattern", ["*deep", "vendor/deep"])
def test_a_submodule_in_a_submodule_may_be_absent_if_a_pattern_ignores_it(tmp_path, pattern):
    inner = Repository(tmp_path / "inner", {"a.txt": "inner"})
    inner.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},deep")  # never checked out
    inner.git("commit", "--quiet", "--message", "deep")
    outer = Repository(tmp_path / "outer", {"b.txt": ""})
    outer.git("-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(inner.root), "vendor")
    outer.commit("vendored", {})
    commit = outer.git("rev-parse", "vendored")
    revisions.export(outer.root, commit, tmp_path / "base", ignore=[pattern])
    revisions.snapshot(outer.root, tmp_path / "head", ignore=[pattern])
    assert [(tmp_path / side / "vendor/a.txt").read_text() for side in ("base", "head")] == ["inner", "inner"]
    with pytest.raises(GateError, match=r"^submodule deep is not checked out: "):
        revisions.snapshot(outer.root, tmp_path / "absent", ignore=["deep"])


@pytest.mark.parametrize("storage", ["lfs", "../outside"])  # relative to the git folder
def test_missing_lfs_objects_are_named_and_present_ones_used(tmp_path, storage):
    name = "a" * 64
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{name}\nsize 4\n"
    made = Repository(tmp_path / "made", {"table.bin": pointer})
    made.commit("tracked", {".gitattributes": "*.bin filter=lfs -text\n"})
    commit = made.git("rev-parse", "tracked")
    with pytest.raises(GateError, match=r"^LFS objects are not in this clone: table.bin; run git lfs fetch origin "):
        revisions.export(made.root, commit, tmp_path / "absent")
    if storage != "lfs":  # the default
        made.git("config", "lfs.storage", storage)
    made.write({f".git/{storage}/objects/{name[:2]}/{name[2:4]}/{name}": "here"})
    revisions.export(made.root, commit, tmp_path / "base")
    revisions.snapshot(made.root, tmp_path / "head")
    assert [(tmp_path / side / "table.bin").read_text() for side in ("base", "head")] == ["here", "here"]


def test_git_finds_the_repository_of_a_tree(small, monkeypatch):
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")  # of new repositories, as by default in git 3
    small.git("tag", "--force", "v1", "all")
    commit, tree = small.git("rev-parse", "all"), small.root / ".git" / "tree"
    tree.mkdir()
    revisions.make_repository(tree, small.root, commit)
    assert revisions.top_of(tree) == tree.resolve()
    assert revisions.git(tree, "rev-parse", "HEAD").decode().strip() == commit
    assert revisions.git(tree, "describe", "--tags", "--match", "v*").decode().strip() == "v1"
    shutil.rmtree(tree)


def test_a_snapshot_has_links_and_new_files_but_no_ignored_ones(small, tmp_path):
    revisions.snapshot(small.root, tmp_path / "all")
    of_a = ["a/link", "a/new é.py", "a/one.py", "a/run"]
    assert under(tmp_path / "all") == [".gitignore", *of_a, "b/made_five.txt", "b/two.py", "c.txt"]
    assert os.readlink(tmp_path / "all/a/link") == "../c.txt"
    assert os.access(tmp_path / "all/a/run", os.X_OK)
    revisions.snapshot(small.root, tmp_path / "parts", ["a", "c.txt"])
    assert under(tmp_path / "parts") == [*of_a, "c.txt"]
    with pytest.raises(GateError, match=r": fatal: not a git repository "):
        revisions.snapshot(tmp_path, tmp_path / "copy")


def test_ignored_files_are_found_by_pattern_and_folder(small):
    made = ["b/deep/made_four.py", "b/made_three.py"]
    assert sorted(revisions.ignored(small.root, ["a", "b"], "*.py")) == made
    assert revisions.ignored(small.root, ["a", "b"], "*.tmp") == ["a/x.tmp"]
    assert revisions.ignored(small.root, ["a"], "*.py") == []


def test_a_digest_depends_on_names_and_contents_but_not_on_order_or_place(tmp_path):
    def hashed(name, files):
        folder = tmp_path / name
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return revisions.digest(folder, [folder, *(folder / path for path in files), folder / "absent"])

    files = {"a.py": "1\n", "b/c.py": "2\n"}
    wanted = hashed("one", files)
    assert hashed("other", dict(reversed(files.items()))) == wanted
    others = [
        hashed("content", files | {"a.py": "3\n"}),
        hashed("moved", {"a.py": "1\n", "c.py": "2\n"}),
        hashed("exchanged", {"a.py": "2\n", "b/c.py": "1\n"}),
        hashed("more", files | {"d.py": ""}),
    ]
    assert len({wanted, *others}) == 1 + len(others)
    links = []
    for target in ("b", "."):  # a link to a directory counts by its target
        (tmp_path / "one/link").unlink(missing_ok=True)
        (tmp_path / "one/link").symlink_to(target)
        links.append(revisions.digest(tmp_path / "one", [tmp_path / "one/link"]))
    assert links[0] != links[1]


def test_a_link_counts_by_its_content_inside_the_folder_and_by_its_path_outside(tmp_path):
    folder, linked = tmp_path / "folder", {"inside": tmp_path / "folder/data", "outside": tmp_path / "data"}
    folder.mkdir()
    for name, data in linked.items():
        data.write_text("1")
        (folder / name).symlink_to(data)
    before = {name: revisions.digest(folder, [folder / name]) for name in linked}
    for data in linked.values():
        data.write_text("2")
    changed = [name for name in linked if revisions.digest(folder, [folder / name]) != before[name]]
    assert changed == ["inside"]
