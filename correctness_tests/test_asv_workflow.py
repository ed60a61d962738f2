"""The workflow that runs ASV on main: the commits that it times and the branches that it pushes."""

import subprocess

import pytest
import yaml

from .commands import ROOT

WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/asv.yml").read_text())
WHO = ("-c", "user.name=A User", "-c", "user.email=user@localhost", "-c", "commit.gpgsign=false")


def script(job, name):
    """Return the commands of a step."""
    (found,) = (step["run"] for step in WORKFLOW["jobs"][job]["steps"] if step.get("name") == name)
    return found


def shell(script, folder, **variables):
    """Run commands as the workflow does; return the output."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **variables}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def git(folder, *arguments):
    """Run git; return its output."""
    command = ["git", *WHO, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_only_the_publishing_job_may_write():
    assert WORKFLOW["permissions"] == {}
    given = {name: job["permissions"] for name, job in WORKFLOW["jobs"].items()}
    assert given == {"measure": {"contents": "read"}, "publish": {"contents": "write", "actions": "read"}}
    assert not any("uses" in step for step in WORKFLOW["jobs"]["publish"]["steps"])


@pytest.fixture
def clone(tmp_path):
    """Create a repository with a Python that records its arguments; return its path and its four commits."""
    git(tmp_path, "init", "--quiet")
    for name in "abcd":
        git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", name)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >> arguments\n')
    python.chmod(0o755)
    return tmp_path, git(tmp_path, "log", "--reverse", "--format=%H").split()


@pytest.mark.parametrize(("known", "start"), [((), None), ((0, 1), 1), ((3,), None)])
def test_commits_after_the_last_one_with_results_are_timed(clone, known, start):
    folder, commits = clone
    results = folder / ".asv/results/github"
    results.mkdir(parents=True)
    for number in known:
        (results / f"{commits[number][:8]}-env.json").touch()
    shell(script("measure", "time and publish"), folder, AFTER=commits[-1])
    before = f"{commits[-1]}~1" if start is None else commits[start]
    run = ["-m", "asv", "run", "--show-stderr", f"{before}..{commits[-1]}"]
    assert (folder / "arguments").read_text().splitlines() == [*run, "-m", "asv", "publish"]


def test_results_and_pages_are_pushed_to_branches_of_their_own(tmp_path):
    git(tmp_path, "init", "--quiet", "--bare", "a/b.git")
    seen = {}
    for push in ("first", "second", "second"):
        folder = tmp_path / f"{push}-{len(list(tmp_path.iterdir()))}"
        for name in ("results/github", "site/asv"):
            (folder / "asv" / name).mkdir(parents=True)
        (folder / "asv/results/github/one.json").write_text(push)
        (folder / "asv/site" / f"{push}.html").write_text(push)
        variables = {"SERVER": str(tmp_path), "REPOSITORY": "a/b", "COMMIT": push, "GH_TOKEN": "secret"}
        shell(script("publish", "push"), folder, **variables)
        assert "secret" not in "".join(path.read_text() for path in folder.rglob("config"))
        seen[push] = {
            branch: git(tmp_path / "a/b.git", "ls-tree", "-r", "--name-only", branch).split()
            for branch in ("asv-results", "gh-pages")
        }
    assert seen["first"] == {"asv-results": ["results/github/one.json"], "gh-pages": [".nojekyll", "first.html"]}
    assert seen["second"]["gh-pages"] == [".nojekyll", "second.html"]
    for branch in ("asv-results", "gh-pages"):
        assert git(tmp_path / "a/b.git", "log", "--format=%s", branch).split() == ["second", "first"]
    assert git(tmp_path / "a/b.git", "show", "asv-results:results/github/one.json") == "second"


def test_next_run_fetches_the_earlier_results(tmp_path):
    git(tmp_path, "init", "--quiet", "kept")
    (tmp_path / "kept/results/github").mkdir(parents=True)
    (tmp_path / "kept/results/github/one.json").write_text("kept")
    git(tmp_path / "kept", "add", "--all")
    git(tmp_path / "kept", "commit", "--quiet", "--message", "kept")
    git(tmp_path / "kept", "branch", "asv-results")
    git(tmp_path, "clone", "--quiet", "kept", "clone")
    shell(script("measure", "results so far"), tmp_path / "clone")
    assert (tmp_path / "clone/.asv/results/github/one.json").read_text() == "kept"
    git(tmp_path / "clone", "branch", "--remotes", "--delete", "origin/asv-results")
    shell(script("measure", "results so far"), tmp_path / "clone")
