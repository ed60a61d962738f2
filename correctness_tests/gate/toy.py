"""A repository in a folder of its own, small enough to run the whole gate on: one workload, two ops of known work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlgauge.artifact import Artifact
from rlgauge.fields import parse

ROOT = Path(__file__).parents[2]
FIRST, SECOND = "toy.first[full-numpy]", "toy.second[full-numpy]"
SAME, SLOWED = "canary[same]", "canary[slowed]"
QUICK = "screen=1,confirm=1,looks=1,blocks=1,level=0.5"  # where only the canary has to be found
FIND = "screen=1,confirm=3,looks=1,blocks=2,level=0.3"
SOURCE, CASES, LOCK = "rl_impls/toy/_numpy.py", "perf_tests/suite/cases/toy.py", "requirements/py311.txt"


def source(first=100, second=100, factor=1, more=""):
    """Return the ops, each of so many units of work; ``factor`` is what the second's answer is multiplied by."""
    return f'''"""Sorts the same numbers a number of times."""

import numpy as np

UNITS = {{"first": {first}, "second": {second}}}
FACTOR = {factor}


def work(units, factor):
    def call(x):
        for _ in range(units):
            out = np.sort(x)
        return factor * out

    return call


def first(spec, example, *, knobs, target):
    return work(UNITS["first"], 1)


def second(spec, example, *, knobs, target):
    return work(UNITS["second"], FACTOR)


{more}
'''


# Workers that read it see what they sorted and hashed, each at a pace of its own, and nothing else of this machine.
CLOCK = """
class Clock:
    sort, sha256 = staticmethod(np.sort), staticmethod(hashlib.sha256)

    def __init__(self):
        self.now, self.pace = 0.0, random.SystemRandom().uniform(0.997, 1.003)

    def sorted(self, numbers):
        took = len(numbers) * 1e-7 * self.pace
        self.now += took  # by any thread
        return self.sort(numbers)

    def hashed(self, data=b"", **how):
        took = len(data) * 2e-10 * self.pace
        self.now += took
        return self.sha256(data, **how)

    def read(self):
        self.now += 5e-5 * self.pace
        return self.now


if "RLGAUGE_GATE_SIDE" in os.environ:
    clock = Clock()
    np.sort, hashlib.sha256, time.perf_counter = clock.sorted, clock.hashed, clock.read
"""


def cases(*ops, backend="numpy", clock=CLOCK):
    """Return a file with a case of the gate tier for each op, of 3 ms a sample by that clock."""
    made = "".join(f'case("{op}", "{backend}"), ' for op in ops)
    return f'''"""What is timed of the toy."""

import hashlib
import os
import random
import time

import numpy as np

from ..case import Case, Inputs

{clock}

def inputs(rng):
    return Inputs({{}}, (rng.random(100),))


def case(op, backend):
    return Case("toy", op, inputs, (backend,), "numbers", lambda: 100, forms=("full",), gate=[{{}}], most_calls=3)


CASES = ({made})
'''


FILES = {
    "rl_impls/toy/__init__.py": '"""A toy."""\n',
    "rl_impls/toy/knobs.py": (
        "from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass Knobs:\n    pass\n\n\n"
        'FORMS = {"full": Knobs()}\n'
    ),
    SOURCE: source(),
    CASES: cases("first", "second"),
    LOCK: "# nothing\n",
    ".gitignore": ".cache/\n__pycache__/\n",
}


def environment():
    """Return this process's variables, without what would lead away from the toy; two versions can be of one second."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and not k.startswith(("GIT_", "PYTEST_"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1"}


def rows(text):
    """Return the cells of a table by case: verdict, time, pairs, p, notes."""
    lines = [line.removeprefix("| ").removesuffix(" |") for line in text.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in (line.split(" | ") for line in lines)}


@dataclass
class Ran:
    """What a command said, and its exit code."""

    code: int
    text: str

    def only_says(self, message):
        """Tell whether this message is all that is said; pytest repeats it on a line of its own."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        return 1 <= len(lines) <= 2 and all(message in line for line in lines)


@dataclass
class Gated(Ran):
    """A run of the gate, with what it wrote into a folder."""

    folder: Path

    @property
    def artifact(self):
        """The JSON artifact."""
        return json.loads((self.folder / "gate.json").read_text())

    @property
    def markdown(self):
        """The table."""
        return (self.folder / "gate.md").read_text()

    @property
    def junit(self):
        """The verdict on each case, and what is said of its failure, as JUnit has them."""
        found = {}
        for case in ElementTree.parse(self.folder / "junit.xml").iter("testcase"):
            properties = {item.get("name"): item.get("value") for item in case.iter("property")}
            failures = [failure.get("message") for kind in ("failure", "error") for failure in case.iter(kind)]
            found[case.get("name")] = properties.get("verdict"), *failures
        return found

    @property
    def rows(self):
        """The table's cells by case."""
        return rows(self.markdown)

    @property
    def findings(self):
        """The verdict on each case, and its notes, decided again from the artifact."""
        found = parse(Artifact, self.artifact).decide().findings
        return {name: (finding.verdict, *finding.notes) for name, finding in found.items()}


class Toy:
    """The repository, made in an empty folder unless it is there, and what a user does with it."""

    def __init__(self, root, new=True):
        self.root = root
        if new:
            self.make()

    def make(self):
        """Copy the benchmarks without their cases, and commit."""
        root = self.root
        skipped = [path.name for path in (ROOT / "perf_tests/suite/cases").glob("*.py") if path.name != "__init__.py"]
        ignored = shutil.ignore_patterns("__pycache__", "*.json", "*.jsonl", "*.ids", *skipped)
        shutil.copytree(ROOT / "perf_tests", root / "perf_tests", ignore=ignored)
        shutil.copytree(ROOT / "rlgauge", root / "rlgauge", ignore=ignored)
        worker = root / "perf_tests/gate/worker.py"
        brought = "variants()  # brings the clock of the cases, where only canaries are prepared too"
        worker.write_text(worker.read_text().replace("\nSEED = 0\n", f"\nSEED = 0\n{brought}\n"))
        shutil.copytree(ROOT / "rl_impls" / "common", root / "rl_impls" / "common", ignore=ignored)
        copied = ("__init__", "backends", "lowering", "params")
        for name in ("conftest.py", "pyproject.toml", *(f"rl_impls/{name}.py" for name in copied)):
            shutil.copy(ROOT / name, root / name)
        self.git("init", "--quiet", "--initial-branch=main")
        for name, value in (("user.name", "A User"), ("user.email", "user@localhost"), ("commit.gpgsign", "false")):
            self.git("config", "--local", name, value)
        self.commit("start", FILES)

    def git(self, *arguments):
        """Return what a git command prints."""
        command = ["git", *arguments]
        done = subprocess.run(command, cwd=self.root, env=environment(), check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, files):
        """Write files, or delete those that are None, folders too."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is not None:
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
            elif path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def commit(self, tag, files, after=None):
        """Commit changed files on top of a revision, or of what is checked out, and tag it; return the commit."""
        if after:
            self.at(after)
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", tag)
        self.git("tag", "--force", tag)
        return self.git("rev-parse", "HEAD")

    def at(self, revision, files=()):
        """Check out a revision as it was committed, then change files of the working tree."""
        self.git("checkout", "--quiet", "--force", "--detach", revision)
        self.git("clean", "--quiet", "--force", "-d")
        self.write(dict(files))

    def start(self, *arguments):
        """Start a command of Python in the repository."""
        command = [sys.executable, "-m", *map(str, arguments)]
        return subprocess.Popen(
            command, cwd=self.root, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, *arguments):
        """Run a command of Python in the repository to its end."""
        return ended(self.start(*arguments))

    def gate_command(self, against, folder, *options, rule=FIND):
        """Return the command of a run of the gate that writes into a folder."""
        files = ["--gate-json", folder / "gate.json", "--gate-markdown", folder / "gate.md"]
        files += ["-p", "no:cacheprovider"]
        return ["pytest", "perf_tests", "--gate-against", against, "--gate-rule", rule, *files, *options]

    def gate(self, against, folder, *options, rule=FIND):
        """Run the gate to its end; what it writes goes into a folder."""
        ran = self.run(*self.gate_command(against, folder, *options, rule=rule))
        return Gated(ran.code, ran.text, folder)

    def processes(self, command=""):
        """Return the processes that run in this repository's folders, with this in their command line."""
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):  # it just ended, or belongs to somebody else
                if path.name.isdigit() and self.root in path.joinpath("cwd").readlink().parents:
                    found += [int(path.name)] if command.encode() in path.joinpath("cmdline").read_bytes() else []
        return found

    def leftovers(self):
        """Return what a run has left: processes, folders, worktrees."""
        worktrees = self.git("worktree", "list").splitlines()[1:]
        return [*self.processes(), *self.root.glob(".cache/gate/run-*"), *worktrees]


def ended(process, limit=120):
    """Return what a started command says, and how it ends."""
    try:
        text, _ = process.communicate(timeout=limit)
    finally:
        process.kill()
    return Ran(process.returncode, text)


def eventually(question, limit=30):
    """Ask until the answer is true, or the time is over; return the last answer."""
    deadline = time.monotonic() + limit
    while not (answer := question()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer
