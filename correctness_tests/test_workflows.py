"""Workflows: restarts of the gate, environments, results, publishing, and the runs of ASV, on a GPU and on Neuron."""

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rl_impls import backends

from .commands import ROOT, hiding, pytest_runs, python
from .repositories.made import Repository

NAMED = ("Makefile", "requirements/py311.txt", "pyproject.toml", "workloads/pyproject.toml", "VERSION")
SHARDS = ".github/workflows/gate-shards.yml"
PUSH = ".github/actions/push"
RUNNER = {"torch"}  # what a runner installs for its device


def job(workflow, name):
    return yaml.safe_load((ROOT / f".github/workflows/{workflow}.yml").read_text())["jobs"][name]


def step(steps, name):
    """Return the step whose name or action starts with this text."""
    (found,) = (each for each in steps if (each.get("name") or each.get("uses", "")).startswith(name))
    return found


def script(workflow, name, start):
    return step(job(workflow, name)["steps"], start)["run"]


def shell(lines, folder, **variables):
    """Run commands as a workflow does; return the completed process."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", lines]
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **variables}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=60)


def executable(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{lines}\n")
    path.chmod(0o755)


class Context(dict):
    """The context of an expression, in which missing names are empty."""

    def __getattr__(self, name):
        return self.get(name, Context())


def evaluated(text, **event):
    """Return a text with its expressions evaluated for a pull request event."""

    def value(found):
        python = found[1].replace("&&", " and ").replace("||", " or ").replace("!github", "not github")
        return str(eval(python, {"github": Context(ref="refs/pull/1/merge", event=Context(event))}))

    return re.sub(r"\$\{\{ (.*?) \}\}", value, text)


def test_only_its_own_label_restarts_the_gate():
    pushed, own, other = {}, {"label": Context(name="perf-ok")}, {"label": Context(name="docs")}
    assert job("gate", "gate")["needs"] == "allowed"
    condition = job("gate", "allowed")["if"]
    assert [evaluated(condition, **event) for event in (pushed, own, other)] == ["True", "True", "False"]
    group = yaml.safe_load((ROOT / ".github/workflows/gate.yml").read_text())["concurrency"]["group"]
    first, second, third = (evaluated(group, **event) for event in (pushed, own, other))
    assert first == second != third  # a run for another label would otherwise cancel the gate's


def test_a_merge_group_is_compared_with_the_commit_that_it_is_added_to():
    workflow, action = (yaml.safe_load((ROOT / file).read_text()) for file in (SHARDS, "action.yml"))
    default = workflow[True]["workflow_call"]["inputs"]["against"]["default"]  # YAML reads the key "on" as true
    base = step(action["runs"]["steps"], "gate")["env"]["BASE"]
    group = Context(base_sha="abc")
    assert [evaluated(text, merge_group=group) for text in (default, base)] == ["abc", "abc"]


def test_an_environment_is_reused_as_long_as_the_files_that_name_it_are_the_same(tmp_path):
    for name in NAMED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def make(*arguments):
        return subprocess.run(["make", *arguments, "setup"], cwd=tmp_path, capture_output=True, text=True)

    stamp = tmp_path / re.search(r"^touch (\S+)$", make("--dry-run").stdout, re.M)[1]
    stamp.parent.mkdir()
    stamp.touch()
    os.utime(stamp, (0, 0))  # older than a fresh checkout, as in a cache
    assert make("--question").returncode == 0
    for name in NAMED[1:]:
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(f"{text}\n")
        assert make("--question").returncode == 1, name
        (tmp_path / name).write_text(text)
    assert make("--question").returncode == 0


def test_the_lock_files_pin_the_same_versions_and_packages_can_be_left_out():
    files = {number: ROOT / f"requirements/py3{number}.txt" for number in (11, 12, 13)}
    pins = {number: set(re.findall(r"^[\w-]+==.+", file.read_text(), re.M)) for number, file in files.items()}
    assert pins[12] == pins[11] > pins[13]  # Procgen and what only it needs have no wheel for Python 3.13
    words = "make", "--dry-run", "--always-make", "setup", "WITHOUT=torch,procgen-mirror"
    (filtered,) = re.findall(
        r"^grep .*==", subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout, re.M
    )
    assert filtered == "grep -vE '^(torch|procgen-mirror)=="


def test_shards_and_the_other_jobs_share_the_cache_of_the_environment():
    setup = yaml.safe_load((ROOT / ".github/actions/setup/action.yml").read_text())["runs"]["steps"]
    files = re.findall(r"'(.+?)'", step(setup, "actions/cache")["with"]["key"])
    given = job("gate", "gate")["with"]
    assert given["cache-files"].split() == files == list(NAMED[1:])
    for name in ("shard", "verdict"):
        kept = step(job("gate-shards", name)["steps"], "actions/cache")["with"]
        key = kept["key"].replace("inputs.cache-files", ", ".join(map(repr, files)))
        assert key.replace("${{ inputs.cache }}", given["cache"]) == step(setup, "actions/cache")["with"]["key"]


@pytest.mark.parametrize(
    ("workflow", "name", "target"), [("tests", "tests", "bench-quick"), ("nightly", "bench", "bench")]
)
def test_the_results_of_benchmarks_are_kept(workflow, name, target):
    kept = step(job(workflow, name)["steps"], "actions/upload-artifact")["with"]
    printed = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True).stdout
    assert f" --json {kept['path']} " in printed
    assert kept["include-hidden-files"]  # .cache is hidden


@pytest.mark.parametrize("code", [0, 1])
def test_the_gpu_workflow_fails_if_a_part_does(tmp_path, code):
    executable(tmp_path / ".venv/bin/python", f'case "$*" in *"--backend torch "*) exit {code};; esac')
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/on_gpu.sh", tmp_path / "tools")
    variables = {"PATH": os.environ["PATH"], "OUT": str(tmp_path / "out"), "PARTS": "torch:60 jax:60"}
    done = shell(script("cuda", "cuda", "Test"), tmp_path, **variables)
    assert done.returncode == code, done.stdout + done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"torch.txt", "jax.txt"}


def test_each_part_for_a_gpu_selects_benchmarks(tmp_path):
    given = yaml.safe_load((ROOT / ".github/workflows/cuda.yml").read_text())[True]["workflow_dispatch"]["inputs"]
    parts = [*re.findall(r"\S+-cuda", given["parts"]["default"]), "forms"]
    executable(tmp_path / "python", 'printf "%s\\n" "$@" >> "$0.calls"')
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/on_gpu.sh", tmp_path / "tools")
    shell(f"tools/on_gpu.sh out {' '.join(parts)}", tmp_path, PYTHON=str(tmp_path / "python"))
    _, *calls = (tmp_path / "python.calls").read_text().split("--benchmark-only\n")
    options = [call.partition("\n--benchmark-json")[0].splitlines() for call in calls]
    runs = {part: ["--collect-only", "-q", "perf_tests", *each] for part, each in zip(parts, options, strict=True)}
    found, errors = pytest_runs(runs)
    for part, (code, text) in found.items():
        assert code == 0, text + errors
        assert f"-{part}" in text or part == "forms"
    _, forms = found["forms"]
    assert all(name in forms for name in ("[tf32-", "[float16-", "[reduce_overhead-"))
    assert "bfloat16" not in forms
    assert forms.count("::test_collect_and_learn[") == 2  # torch-cuda and torch-compile-cuda


def with_dependencies(requirements):
    """Return these distributions and everything they require, by their installed metadata."""
    names, left = set(), list(requirements)
    while left:
        requirement = Requirement(left.pop())
        name = canonicalize_name(requirement.name)
        needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if needed and name not in names:
            names.add(name)
            left += metadata.requires(name) or ()
    return names


def installed_by(workflow):
    """Return the names of the distributions that a workflow installs as dependencies of this repository's projects."""
    required = []
    for folder, extras in re.findall(r"-e '?(\.[\w/]*)(?:\[(.+)\])?", script(workflow, workflow, "Install")):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        required += project["dependencies"]
        for extra in filter(None, extras.split(",")):
            required += project["optional-dependencies"][extra]
    return with_dependencies(required)


@pytest.mark.parametrize(("workflow", "own"), [("cuda", {*RUNNER, "jax", "jaxlib"}), ("neuron", RUNNER)])
def test_a_workflow_on_a_device_leaves_what_is_built_for_it_to_the_runner(workflow, own):
    installed = installed_by(workflow)
    assert "numpy" in installed
    assert not own & installed


def test_neuron_benchmarks_are_collected_with_what_the_workflow_installs(tmp_path):
    kept = with_dependencies(RUNNER) | installed_by("neuron") | {"rlgauge", "rlgauge-workloads", "pip", "setuptools"}
    modules = metadata.packages_distributions().items()
    others = [module for module, owners in modules if not kept & {canonicalize_name(owner) for owner in owners}]
    assert "jax" in others
    words = shlex.split(script("neuron", "neuron", "Benchmark").partition("-m pytest ")[2])
    words = [str(tmp_path / word) if word.endswith(".json") else word for word in words]
    collect = "-m", "pytest", "-p", "no:cacheprovider", "--collect-only"
    done = python(*collect, *words, PYTHONPATH=hiding(tmp_path, *others))
    assert done.returncode == 0, done.stdout


def test_make_quick_installs_its_backends_with_all_dependencies():
    printed = subprocess.run(["make", "--dry-run", "quick"], cwd=ROOT, capture_output=True, text=True).stdout
    names = re.search(r"--backend (\S+)", printed)[1].split(",")
    needed = with_dependencies([module for name in names for module in backends.get(name).modules])
    assert "onnxruntime" in needed
    assert needed <= set((ROOT / "requirements/quick.txt").read_text().split())


def asv(job, name, folder, **variables):
    """Run a step of the workflow that runs ASV on main."""
    done = shell(script("asv", job, name), folder, **variables)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("known", "start"), [((), None), ((0, 1), 1), ((3,), None)])
def test_asv_times_the_commits_after_the_last_one_with_results(tmp_path, known, start):
    made = Repository(tmp_path, {})
    for name in "bcd":
        made.commit(name, {})
    executable(tmp_path / ".venv/bin/python", 'printf "%s\\n" "$@" >> arguments')
    commits = made.git("log", "--reverse", "--format=%H").split()
    made.write({f".asv/results/github/{commits[number][:8]}-env.json": "" for number in known})
    asv("measure", "time and publish", tmp_path, AFTER=commits[-1])
    before = f"{commits[-1]}~1" if start is None else commits[start]
    run = ["-m", "asv", "run", "--show-stderr", f"{before}..{commits[-1]}"]
    assert (tmp_path / "arguments").read_text().splitlines() == [*run, "-m", "asv", "publish"]


def publish(workflow, folder, **variables):
    """Push as a workflow's job does."""
    (lines,) = (each["run"] for each in yaml.safe_load((ROOT / PUSH / "action.yml").read_text())["runs"]["steps"])
    for each in job(workflow, "publish")["steps"]:
        if each.get("uses") == f"./{PUSH}":
            given = {name.upper(): value for name, value in {"keep": "", **each["with"]}.items()}
            done = shell(lines, folder, GH_TOKEN="secret", REPOSITORY="a/b", TMPDIR=str(folder), **given, **variables)
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def pushed(tmp_path):
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "a/b.git"], check=True)

    def git(*arguments):
        words = ["git", *arguments]
        return subprocess.run(words, cwd=tmp_path / "a/b.git", check=True, capture_output=True, text=True).stdout

    return git


def test_docs_and_asv_publish_without_losing_the_pages_of_the_other(tmp_path, pushed):
    # the first push fails, as if the other workflow had pushed meanwhile
    executable(tmp_path / "a/b.git/hooks/update", "[ -e refused ] || { touch refused; exit 1; }")
    for number, name in enumerate(("old", "new", "new")):
        folder = tmp_path / f"{number}"
        for file in ("asv/results/github/one.json", f"asv/html/{name}.html", "site/.nojekyll", f"site/{name}.html"):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(name)
        for workflow in ("docs", "asv"):
            publish(workflow, folder, SERVER=str(tmp_path), COMMIT=f"{workflow}-{name}")
        assert "secret" not in "".join(path.read_text() for path in folder.rglob("config"))
        pages = pushed("ls-tree", "-r", "--name-only", "gh-pages").split()
        assert pages == [".nojekyll", f"asv/{name}.html", f"{name}.html"]
        assert pushed("ls-tree", "-r", "--name-only", "asv-results").split() == ["results/github/one.json"]
    assert pushed("log", "--format=%s", "gh-pages").split() == ["asv-new", "docs-new", "asv-old", "docs-old"]
    assert pushed("log", "--format=%s", "asv-results").split() == ["asv-new", "asv-old"]
    assert pushed("show", "asv-results:results/github/one.json") == "new"


def test_the_next_run_of_asv_fetches_the_earlier_results(tmp_path):
    kept, clone = Repository(tmp_path / "kept", {"results/github/one.json": "kept"}), tmp_path / "clone"
    kept.git("branch", "asv-results")
    kept.git("clone", "--quiet", ".", str(clone))
    asv("measure", "results so far", clone)
    assert (clone / ".asv/results/github/one.json").read_text() == "kept"
    kept.git("-C", str(clone), "branch", "--remotes", "--delete", "origin/asv-results")
    asv("measure", "results so far", clone)


@pytest.mark.parametrize(("workflow", "other"), [("asv", "measure"), ("docs", "build")])
def test_only_the_job_that_publishes_may_write(workflow, other):
    text = yaml.safe_load((ROOT / f".github/workflows/{workflow}.yml").read_text())
    assert text["permissions"] == {}
    given = {name: each["permissions"] for name, each in text["jobs"].items()}
    assert given == {other: {"contents": "read"}, "publish": {"contents": "write"}}


def test_the_documentation_is_published_only_from_main():
    condition = job("docs", "publish")["if"]
    assert [eval(condition, {"github": Context(event_name=name)}) for name in ("push", "pull_request")] == [True, False]
    assert yaml.safe_load((ROOT / ".github/workflows/docs.yml").read_text())[True]["push"] == {"branches": ["main"]}
