"""The gate's workflow steps on a pull request: allowed cases, shards, the verdict and the comment."""

import subprocess

import pytest
import yaml

from correctness_tests.repositories.made import ROOT

DESCRIPTION = """A faster horse.\r
perf-ok: pirl.act[full-*]=one branch less, p = 1\r
perf-ok:snake.*=why not; `touch here` $(touch here)\r
not perf-ok: x=y\r
perf-ok: -x=y
"""
ALLOWED = ["pirl.act[full-*]=one branch less, p = 1", "snake.*=why not; `touch here` $(touch here)", "-x=y"]


def script(file, job, name):
    steps = yaml.safe_load((ROOT / ".github/workflows" / file).read_text())["jobs"][job]["steps"]
    (found,) = (step["run"] for step in steps if step.get("name") == name)
    return found


def ran(tmp_path, lines, **variables):
    """Run a workflow step in a directory; return its exit code and output."""
    environment = {"PATH": "/usr/bin:/bin", **variables}
    command = ["bash", "-e", "-o", "pipefail", "-c", lines]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    assert not (tmp_path / "here").exists()
    return done.returncode, done.stdout


def executable(path, lines):
    path.write_text(f"#!/bin/bash\n{lines}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("labelled", "description", "allowed", "words"),
    [
        ("true", DESCRIPTION, ALLOWED, ""),
        ("false", DESCRIPTION, [], ""),
        ("true", "A faster horse.", [], 'No slowdown is accepted: add lines "perf-ok: ID-PATTERN=REASON"'),
    ],
)
def test_with_the_label_every_line_of_the_description_allows_a_pattern(tmp_path, labelled, description, allowed, words):
    (tmp_path / "output").touch()
    variables = {"LABELLED": labelled, "DESCRIPTION": description, "GITHUB_OUTPUT": "output"}
    code, shown = ran(tmp_path, script("gate.yml", "allowed", "read"), **variables)
    assert (code, shown.partition(" to the ")[0]) == (0, words)
    assert (tmp_path / "output").read_text().splitlines()[1:-1] == allowed


@pytest.mark.parametrize(("ends", "written", "code"), [(0, "{}", 0), (1, "{}", 0), (2, "{}", 0), (2, "", 1)])
def test_a_shard_fails_only_if_it_measured_nothing(tmp_path, ends, written, code):
    lines = f"printf '%s\\n' \"$@\" > arguments; printf '{written}' > out/gate.json; exit {ends}"
    executable(tmp_path / "python", lines)
    given = {"OUT": "out", "AGAINST": "main", "ANCHOR": "v1", "SHARD": "2/4", "ARGUMENTS": "perf_tests\n-k\na b\n"}
    lines = script("gate-shards.yml", "shard", "gate")
    assert ran(tmp_path, lines, PYTHON="./python", ALLOW="\n".join(ALLOWED), **given) == (code, "")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[:4] == ["-m", "pytest", "--gate-against=main", "--gate-shard=2/4"]
    assert arguments[-7:] == [
        "perf_tests",
        "-k",
        "a b",
        *(f"--gate-allow={one}" for one in ALLOWED),
        "--gate-anchor=v1",
    ]


@pytest.mark.parametrize("folders", [["shards/gate-1", "shards/gate-2"], ["shards"]], ids=["two", "one"])
def test_all_shards_are_decided_together(tmp_path, folders):
    executable(tmp_path / "python", "printf '%s\\n' \"$@\" > arguments; exit 1")
    for folder in folders:  # as actions/download-artifact extracts them
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "gate.json").touch()
    assert ran(tmp_path, script("gate-shards.yml", "verdict", "verdict"), PYTHON="./python", TOP=".") == (1, "")
    files = [f"./{folder}/gate.json" for folder in folders]
    written = ["--json", "./gate/gate.json", "--markdown", "./gate/gate.md"]
    assert (tmp_path / "arguments").read_text().splitlines() == ["-m", "rlgauge", "merge", *files, *written]


GH = """echo "$*" >> calls
case "$*" in *--paginate*) cat found;; *) exit "$(cat code)";; esac
"""


def action_step(name):
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    (found,) = (step["run"] for step in steps if step["name"] == name)
    return found


@pytest.fixture(params=["action", "workflow"])
def commented(tmp_path, request):
    """Return a function that runs the comment step on a report, and returns its exit code and output."""
    of_action = request.param == "action"
    lines = action_step("comment") if of_action else script("gate-shards.yml", "comment", "comment")

    def run(report="### Speed\n", found="", code=0, pull_request="7", **more):
        executable(tmp_path / "gh", GH)
        for name, text in (("found", found), ("code", str(code)), ("gate.md", report), ("calls", "")):
            if text is not None:
                (tmp_path / name).write_text(text)
        variables = {**more, "PATH": f"{tmp_path}:/usr/bin:/bin", "GITHUB_REPOSITORY": "o/r", "REPORT": "gate.md"}
        return ran(tmp_path, lines, PULL_REQUEST=pull_request, **variables)

    return run


@pytest.mark.parametrize(
    ("found", "call"),
    [
        ("", "api --silent repos/o/r/issues/7/comments"),
        ("41\n42\n", "api --silent --method PATCH repos/o/r/issues/comments/41"),
    ],
)
def test_an_earlier_comment_is_updated(tmp_path, commented, found, call):
    assert commented(found=found) == (0, "")
    assert (tmp_path / "calls").read_text().splitlines()[1] == f"{call} -F body=@gate.md.comment"
    assert (tmp_path / "gate.md.comment").read_text() == "<!-- rlgauge -->\n### Speed\n"


def test_projects_of_one_repository_have_comments_of_their_own_that_show_failed_runs(tmp_path, commented):
    assert commented(None, PART="libs/core", RUN="https://localhost/1") == (0, "")
    mark, name, *lines = (tmp_path / "gate.md.comment").read_text().splitlines()
    assert (mark, name) == ("<!-- rlgauge libs/core -->", "**libs/core**")
    assert lines == ["**invalid run**, no verdict: see [the log](https://localhost/1)"]


def test_a_comment_that_is_not_permitted_is_a_warning(commented):
    code, words = commented(code=1)
    assert (code, words.count("\n")) == (0, 1)
    assert words.startswith("::warning::no comment: the permission pull-requests: write is missing")


def test_without_a_pull_request_there_is_no_comment(tmp_path, commented):
    assert commented(pull_request="") == (0, "")
    assert (tmp_path / "calls").read_text() == ""


def test_a_long_comment_is_cut_at_the_end_of_a_line(tmp_path, commented):
    rows = [f"| `test_{number}` | ok |\n" for number in range(5000)]
    assert commented("".join(rows)) == (0, "")
    _first, *lines = (tmp_path / "gate.md.comment").read_text().splitlines(keepends=True)
    assert 50_000 < sum(map(len, lines)) < 65_000
    assert lines == [*rows[: len(lines) - 2], "\n", "The summary of the run shows the other tests.\n"]


def test_jobs_that_run_code_of_the_pull_request_cannot_write():
    jobs = yaml.safe_load((ROOT / ".github/workflows/gate-shards.yml").read_text())["jobs"]
    assert [name for name, job in jobs.items() if job.get("permissions") != {"contents": "read"}] == ["comment"]
    actions = [step["uses"].partition("@")[0] for step in jobs["comment"]["steps"] if "uses" in step]
    assert actions == ["actions/download-artifact"]


def test_the_action_does_not_show_the_report_of_an_earlier_use(tmp_path):
    executable(tmp_path / "python", "exit 2")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/gate.md").write_text("### Speed\n")
    variables = {"PYTHON": "./python", "OUT": "out", "AGAINST": "main", "ARGUMENTS": ""}
    assert ran(tmp_path, action_step("gate"), **variables) == (2, "")
    assert not (tmp_path / "out/gate.md").exists()


@pytest.fixture
def checked_out(tmp_path):
    """A repository whose branches main and change each have a commit of their own. -> a function that runs git in it"""
    executable(tmp_path / "python", "printf '%s\\n' \"$3\"")

    def git(*words):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet", "--initial-branch=main")
    for name in ("start", "newer"):
        git("commit", "--quiet", "--allow-empty", f"--message={name}")
        git("tag", name)
    git("checkout", "--quiet", "-b", "change", "start")
    git("commit", "--quiet", "--allow-empty", "--message=change")
    return git


def against(tmp_path, **variables):
    """Run the action without a revision. -> its exit code, and the option with the revision it chooses"""
    given = {"PYTHON": "./python", "OUT": "out", "ARGUMENTS": "", "AGAINST": "", "MERGED": ""}
    return ran(tmp_path, action_step("gate"), **given | variables)


def test_the_action_compares_with_the_base_that_is_merged(tmp_path, checked_out):
    merged = checked_out("rev-parse", "HEAD")
    assert against(tmp_path, BASE="abc", MERGED=merged) == (0, "--gate-against=HEAD^1\n")


def test_the_action_finds_the_base_of_a_merge_by_the_branch_that_is_merged(tmp_path, checked_out):
    branch = checked_out("rev-parse", "HEAD")
    checked_out("checkout", "--quiet", "--detach", "newer")
    checked_out("merge", "--quiet", "--no-ff", "--message=merge", branch)
    event = {"GITHUB_EVENT_NAME": "pull_request_target", "GITHUB_SHA": checked_out("rev-parse", "newer")}
    assert against(tmp_path, BASE="start", BRANCH=branch, **event) == (0, "--gate-against=HEAD^1\n")


@pytest.mark.parametrize(("base", "revision"), [("newer", "start"), ("start", "start"), ("abc", None)])
def test_the_action_compares_a_branch_with_the_commit_it_starts_from(tmp_path, checked_out, base, revision):
    commit = checked_out("rev-parse", revision) if revision else base
    assert against(tmp_path, BASE=base, MERGED="another") == (0, f"--gate-against={commit}\n")


def test_the_action_does_not_compare_the_base_branch_with_itself(tmp_path, checked_out):
    checked_out("checkout", "--quiet", "main")
    event = {"GITHUB_EVENT_NAME": "pull_request_target", "GITHUB_SHA": checked_out("rev-parse", "HEAD")}
    code, words = against(tmp_path, BASE="start", **event)
    assert (code, words.count("\n")) == (2, 1)
    assert words.startswith("::error::the base branch is checked out instead of the pull request")
