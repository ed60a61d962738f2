"""The gate's workflow steps on a pull request: allowed cases, shards, the verdict and the comment."""

import pytest
import yaml

from correctness_tests.repositories.made import ROOT, Repository

from ..test_workflows import SHARDS, executable, script, shell, step

DESCRIPTION = """A faster horse.\r
perf-ok: pirl.act[full-*]=one branch less, p = 1\r
perf-ok:snake.*=why not; `touch here` $(touch here)\r
not perf-ok: x=y\r
perf-ok: -x=y
"""
ALLOWED = ["pirl.act[full-*]=one branch less, p = 1", "snake.*=why not; `touch here` $(touch here)", "-x=y"]


def ran(tmp_path, lines, **variables):
    done = shell(lines, tmp_path, **variables)
    assert done.stderr == ""
    assert not (tmp_path / "here").exists()
    return done.returncode, done.stdout


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
    code, shown = ran(tmp_path, script("gate", "allowed", "read"), **variables)
    assert (code, shown.partition(" to the ")[0]) == (0, words)
    assert (tmp_path / "output").read_text().splitlines()[1:-1] == allowed


def test_a_merge_group_allows_what_its_pull_request_does(tmp_path):
    executable(tmp_path / "gh", 'echo "$2" >> calls; case "$4" in any*) echo true;; *) cat description;; esac')
    (tmp_path / "description").write_bytes(DESCRIPTION.encode())
    queued = "refs/heads/gh-readonly-queue/main/pr-12-ab34"
    variables = {"QUEUED": queued, "GITHUB_REPOSITORY": "o/r", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    lines = script("gate", "allowed", "read")
    assert ran(tmp_path, lines, LABELLED="false", DESCRIPTION="", GITHUB_OUTPUT="output", **variables) == (0, "")
    assert (tmp_path / "output").read_text().splitlines()[1:-1] == ALLOWED
    assert {*(tmp_path / "calls").read_text().splitlines()} == {"repos/o/r/pulls/12"}


@pytest.mark.parametrize(("ends", "written", "code"), [(0, "{}", 0), (1, "{}", 0), (2, "{}", 0), (2, "", 1)])
def test_a_shard_fails_only_if_it_measured_nothing(tmp_path, ends, written, code):
    lines = f"printf '%s\\n' \"$@\" > arguments; printf '{written}' > out/gate.json; exit {ends}"
    executable(tmp_path / "python", lines)
    given = {"OUT": "out", "AGAINST": "main", "ANCHOR": "v1", "SHARD": "2/4", "ARGUMENTS": "perf_tests\n-k\na b\n"}
    lines = script("gate-shards", "shard", "gate")
    assert ran(tmp_path, lines, PYTHON="./python", ALLOW="\n".join(ALLOWED), **given) == (code, "")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[:4] == ["-m", "pytest", "--gate-against=main", "--gate-shard=2/4"]
    allowed = [f"--gate-allow={one}" for one in ALLOWED]
    assert arguments[-7:] == ["perf_tests", "-k", "a b", *allowed, "--gate-anchor=v1"]


@pytest.mark.parametrize("folders", [["shards/gate-1", "shards/gate-2"], ["shards"]], ids=["two", "one"])
def test_all_shards_are_decided_together(tmp_path, folders):
    executable(tmp_path / "python", "printf '%s\\n' \"$@\" > arguments; exit 1")
    for folder in folders:  # as actions/download-artifact extracts them
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "gate.json").touch()
    assert ran(tmp_path, script("gate-shards", "verdict", "verdict"), PYTHON="./python", TOP=".") == (1, "")
    files = [f"./{folder}/gate.json" for folder in folders]
    written = ["--json", "./gate/gate.json", "--markdown", "./gate/gate.md"]
    assert (tmp_path / "arguments").read_text().splitlines() == ["-m", "rlgauge", "merge", *files, *written]


GH = """echo "$*" >> calls
case "$*" in *--paginate*) cat found;; *) exit "$(cat code)";; esac
"""


def action_step(name):
    return step(yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"], name)["run"]


@pytest.fixture(params=["action", "workflow"])
def commented(tmp_path, request):
    """Return a function that runs the comment step on a report, and returns its exit code and output."""
    of_action = request.param == "action"
    lines = action_step("comment") if of_action else script("gate-shards", "comment", "comment")

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
    assert words.startswith("::warning::no comment: see the error of gh above; if the permission pull-requests: write")


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
    jobs = yaml.safe_load((ROOT / SHARDS).read_text())["jobs"]
    assert [name for name, job in jobs.items() if job.get("permissions") != {"contents": "read"}] == ["comment"]
    actions = [each["uses"].partition("@")[0] for each in jobs["comment"]["steps"] if "uses" in each]
    assert actions == ["actions/download-artifact"]


def test_the_action_does_not_show_the_report_of_an_earlier_use(tmp_path):
    executable(tmp_path / "python", "exit 2")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/gate.md").write_text("### Speed\n")
    variables = {"PYTHON": "./python", "OUT": "out", "AGAINST": "main", "ARGUMENTS": ""}
    assert ran(tmp_path, action_step("gate"), **variables) == (2, "")
    assert not (tmp_path / "out/gate.md").exists()


def against(tmp_path, **variables):
    """Run the action without a revision; return its exit code, and the option with the revision that it chooses."""
    executable(tmp_path / "python", "printf '%s\\n' \"$3\"")
    given = {"PYTHON": "./python", "OUT": "out", "ARGUMENTS": "", "AGAINST": "", "MERGED": ""}
    return ran(tmp_path, action_step("gate"), **given | variables)


@pytest.fixture
def git(tmp_path):
    """Return a function that runs git in a repository whose branches main and change each have their own commit."""
    made = Repository(tmp_path, {})
    made.commit("newer", {})
    made.git("checkout", "--quiet", "-b", "change", "start")
    made.commit("change", {})
    return made.git


def test_the_action_compares_with_the_base_that_is_merged(tmp_path, git):
    branch = git("rev-parse", "HEAD")
    assert against(tmp_path, BASE="abc", MERGED=branch) == (0, "--gate-against=HEAD^1\n")
    git("checkout", "--quiet", "--detach", "newer")
    git("merge", "--quiet", "--no-ff", "--message=merge", branch)
    event = {"GITHUB_EVENT_NAME": "pull_request_target", "GITHUB_SHA": git("rev-parse", "newer")}
    assert against(tmp_path, BASE="start", BRANCH=branch, **event) == (0, "--gate-against=HEAD^1\n")


@pytest.mark.parametrize(("base", "revision"), [("newer", "start"), ("start", "start"), ("abc", None)])
def test_the_action_compares_a_branch_with_the_commit_it_starts_from(tmp_path, git, base, revision):
    commit = git("rev-parse", revision) if revision else base
    assert against(tmp_path, BASE=base, MERGED="another") == (0, f"--gate-against={commit}\n")


def test_the_action_does_not_compare_the_base_branch_with_itself(tmp_path, git):
    git("checkout", "--quiet", "main")
    event = {"GITHUB_EVENT_NAME": "pull_request_target", "GITHUB_SHA": git("rev-parse", "HEAD")}
    code, words = against(tmp_path, BASE="start", **event)
    assert (code, words.count("\n")) == (2, 1)
    assert words.startswith("::error::the base branch is checked out instead of the pull request")
