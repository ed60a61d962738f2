"""Small repositories for gate runs: a flat one, and one with ``src`` and a server."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from rlgauge.artifact import Artifact
from rlgauge.fields import parse
from rlgauge.statistics import log_ratio

ROOT = Path(__file__).parents[2]
FIND = "screen=1,confirm=2,looks=1,blocks=2,level=0.5"  # confirms one or two suspects in each direction
QUICK = "screen=1,confirm=1,looks=1,blocks=1,level=0.5"
SAME, SLOWED = "canary[same]", "canary[slowed]"
# Installed plugins that would take half of a process's start-up time.
SLOW_TO_START = ["-p", "no:hypothesispytest", "-p", "no:platformdirs"]
UNUSED = [*SLOW_TO_START, "-p", "no:xdist", "-p", "no:xdist.looponfail", "-p", "no:cacheprovider"]
GIT_CONFIG = "[user]\n\tname = A User\n\temail = user@localhost\n[commit]\n\tgpgsign = false\n"
INI = {"pytest.ini": f"[pytest]\naddopts = {' '.join(SLOW_TO_START)}\n"}

# A fake clock, which is not affected by load: sorting and hashing advance it, at a slightly different pace per process.
HASHING = '''"""A fake clock for all tests of this repository."""

import hashlib
import os
import random
import time


class Clock:
    def __init__(self):
        self.now, self.pace = 0.0, random.SystemRandom().uniform(0.997, 1.003)

    def counted(self, work, seconds):
        def worked(*arguments):
            self.now += len(arguments[-1]) * seconds * self.pace  # by any thread
            return work(*arguments)

        return worked

    def read(self):
        self.now += 5e-7 * self.pace
        return self.now


clock = Clock()


def read():
    return clock.read()


def hashed(data, sha256=hashlib.sha256):
    return sha256(data if len(data) < 10_000 else data[:64])  # the canaries' data would take long


if "RLGAUGE_GATE_SIDE" in os.environ:
    hashlib.sha256, time.perf_counter = clock.counted(hashed, 2e-8), read
'''
SORT = "heapq.nsmallest(len(numbers), numbers)"
CLOCK = f"""{HASHING}

import heapq

if "RLGAUGE_GATE_SIDE" in os.environ:
    heapq.nsmallest = clock.counted(heapq.nsmallest, 1e-6)
"""


def work(**units):
    """Return the source of a module whose functions sort this many times."""
    made = "".join(f"\n\ndef {name}(numbers):\n    return work(numbers, {count})\n" for name, count in units.items())
    return f'''"""Sorts numbers."""

import heapq


def work(numbers, units):
    for _ in range(units):
        out = {SORT}
    return out
{made}'''


def flat(**units):
    """Return the files of a repository whose package is in its root."""
    return {
        "toy/__init__.py": '"""A package."""\n',
        "toy/sorting.py": work(**{"slow": 100, "kept": 100, **units}),
        "benchmarks/conftest.py": CLOCK,
        "benchmarks/test_sorting.py": FLAT_TESTS,
        ".gitignore": "__pycache__/\n",
    }


def with_numpy(files):
    """Return the files of a flat repository, in which NumPy sorts and advances the fake clock."""
    names = {SORT: "np.sort(numbers)", "heapq.nsmallest": "np.sort", "import heapq": "import numpy as np"}
    for old, new in names.items():
        files = {name: text.replace(old, new) for name, text in files.items()}
    return files


FLAT_TESTS = """import random

import pytest

from toy import sorting

NUMBERS = random.Random(0).sample(range(1000), 50)


def test_slow(benchmark):
    assert benchmark(sorting.slow, NUMBERS)[0] == min(NUMBERS)


@pytest.mark.parametrize("count", [10, 50])
def test_kept(benchmark, count):
    out = benchmark.pedantic(sorting.kept, (NUMBERS[:count],), iterations=2, rounds=3)
    assert len(out) == count


def test_no_benchmark():
    assert sorting.kept(NUMBERS) is not None
"""


def sourced(**units):
    """Return the files of a repository with ``src``, whose tests are in a class and share a server."""
    return {
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\naddopts = "--strict-markers"\n',
        "src/served/__init__.py": '"""A package."""\n',
        "src/served/core.py": work(**{"slow": 100, "kept": 100, **units}),
        "tests/conftest.py": CLOCK + SERVER,
        "tests/helpers.py": "COUNT = 50\n",
        "tests/test_served.py": SERVED_TESTS,
        ".gitignore": "__pycache__/\n",
    }


SERVER = '''

import pathlib

import pytest


@pytest.fixture(scope="session")
def server():
    """Record the start and the end in files."""
    seen = pathlib.Path(os.environ["SEEN"])
    seen.joinpath(f"started-{os.getpid()}-{time.monotonic_ns()}").touch()
    yield "here"
    seen.joinpath(f"ended-{os.getpid()}-{time.monotonic_ns()}").touch()
'''
SERVED_TESTS = """import random

import pytest

from helpers import COUNT
from served import core


@pytest.fixture(scope="class")
def numbers():
    return random.Random(0).sample(range(1000), COUNT)


@pytest.mark.benchmark(group="sorting")
@pytest.mark.parametrize("order", ["up", "down"])
class TestSorting:
    def test_slow(self, benchmark, server, tmp_path, numbers, order):
        def asked():
            (tmp_path / "there").touch()
            assert server == "here"
            return core.slow(numbers)

        benchmark.extra_info["order"] = order
        assert len(benchmark(asked)) == COUNT
        assert (tmp_path / "there").exists()
        assert benchmark.stats.stats.mean > 0
        assert benchmark.stats["rounds"] >= 1

    def test_kept(self, benchmark, numbers, order):
        def ready():
            return (numbers.copy(),), {}

        assert len(benchmark.pedantic(core.kept, setup=ready, teardown=lambda made: made.sort(), rounds=5)) == COUNT
"""


def environment(**more):
    """Return this process's environment variables without those that affect git, pytest or the import path."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and not k.startswith(("GIT_", "PYTEST_"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **more}


def rows(text):
    """Parse a table of verdicts into cells by test: verdict, base, head, change, pairs, p, notes."""
    lines = [line.removeprefix("| ").removesuffix(" |") for line in text.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in (line.split(" | ") for line in lines)}


@dataclass
class Gated:
    """A finished gate run: its exit code, its output and the directory of its files."""

    code: int
    text: str
    folder: Path | None = None

    @cached_property
    def artifact(self):
        return json.loads((self.folder / "gate.json").read_text())

    @cached_property
    def markdown(self):
        return (self.folder / "gate.md").read_text()

    @cached_property
    def rows(self):
        return rows(self.markdown)

    @cached_property
    def findings(self):
        """Verdict and notes of each case, recomputed from the artifact."""
        found = parse(Artifact, self.artifact).decide().findings
        return {name: (finding.verdict, *finding.notes) for name, finding in found.items()}

    def seconds(self, name):
        """Seconds of a call on base and head, as in the report."""
        found = parse(Artifact, self.artifact).decide().findings[name]
        return [found.base_seconds, found.head_seconds]

    @cached_property
    def ratios(self):
        """Ratio of head's time to base's in the first pair, by case; the fake clock is accurate to 0.6%."""
        records = parse(Artifact, self.artifact).records
        return {name: math.exp(log_ratio(record.screen[0])) for name, record in records.items() if record.screen}

    @cached_property
    def junit(self):
        """Verdict and failure messages of each test in the JUnit file, by test name."""
        found = {}
        for case in ElementTree.parse(self.folder / "junit.xml").iter("testcase"):
            properties = {item.get("name"): item.get("value") for item in case.iter("property")}
            failures = [failure.get("message") for kind in ("failure", "error") for failure in case.iter(kind)]
            found[case.get("name")] = properties.get("verdict"), *failures
        return found

    @cached_property
    def failed(self):
        """Names of the tests that fail in the JUnit file."""
        return {name for name, (_, *failures) in self.junit.items() if failures}

    def only_says(self, message):
        """Return whether exactly one line has this message and there is no traceback."""
        return sum(message in line for line in self.text.splitlines()) == 1 and "Traceback" not in self.text


class Repository:
    """A git repository, with methods to change it and to run commands in it."""

    def __init__(self, root, files):
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")
        with (root / ".git" / "config").open("a") as config:
            config.write(GIT_CONFIG)
        self.commit("start", files)

    def git(self, *arguments):
        how = {"env": environment(), "check": True, "capture_output": True, "text": True}
        return subprocess.run(["git", *arguments], cwd=self.root, **how).stdout.strip()

    def write(self, files):
        """Write files; delete those whose content is None."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, tag, files):
        """Write files, commit all changes and tag the commit."""
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", tag)
        self.git("tag", "--force", tag)

    def at(self, revision, files=()):
        """Check out a revision without other changes, then write files to the working tree."""
        self.git("checkout", "--quiet", "--force", "--detach", revision)
        self.git("clean", "--quiet", "--force", "-d")
        self.write(dict(files))

    def start(self, *arguments, **variables):
        """Start ``python -m`` with these arguments in the repository."""
        command = [sys.executable, "-m", *map(str, arguments)]
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=self.root, env=environment(**variables), **pipe)

    def run(self, *arguments, limit=180, **variables):
        """Run ``python -m`` with these arguments in the repository; return its exit code and output."""
        process = self.start(*arguments, **variables)
        try:
            text, _ = process.communicate(timeout=limit)
        finally:
            process.kill()
        return process.returncode, text

    def output(self, code, *arguments, **how):
        """Run a command that ends with this exit code; return its output."""
        found, text = self.run(*arguments, **how)
        assert found == code, text
        return text

    def interrupted(self, marker, number, *arguments, **variables):
        """Start a command, send it a signal once it has printed a text, and return its output."""
        process, text = self.start(*arguments, **variables), ""
        while marker not in text:
            line = process.stdout.readline()
            assert line, text
            text += line
        process.send_signal(number)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == (-number if number == signal.SIGKILL else 2), text + rest
        return text + rest

    def command(self, against, folder, *options, rule=FIND):
        """Return the arguments of a gate run that writes its files to a directory."""
        files = [f"--gate-json={folder / 'gate.json'}", f"--gate-markdown={folder / 'gate.md'}"]
        files += [f"--junitxml={folder / 'junit.xml'}"]
        unused = [] if "-n" in options else UNUSED
        return ["pytest", "--gate-against", against, "--gate-rule", rule, *files, *unused, *options]

    def gate(self, against, folder, *options, rule=FIND, limit=180, code=None, **variables):
        """Run the gate; if a code is given, the run must end with it."""
        words = self.command(against, folder, *options, rule=rule)
        ran = Gated(*self.run(*words, limit=limit, **variables), folder)
        assert code in (None, ran.code), ran.text
        return ran

    def processes(self):
        """Return the ids of the processes whose working directory is below this repository."""
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):  # it has just ended, or belongs to another user
                if path.name.isdigit() and self.root in path.joinpath("cwd").readlink().parents:
                    found.append(int(path.name))
        return found

    def leftovers(self):
        """Return the processes and directories that a run has left."""
        return [*self.processes(), *self.root.glob(".git/rlgauge/run-*")]


def tidy(files):
    """Return a module-scoped fixture: a repository in which no run may leave a process or a folder of a run."""

    @pytest.fixture(scope="module")
    def made(tmp_path_factory):
        made = Repository(tmp_path_factory.mktemp("made") / "repository", files)
        yield made
        assert made.leftovers() == []

    return made


def dist_info(site, name, *files, **url):
    """Return the files of a distribution installed in `site`, by path: its own, empty, and its metadata."""
    info = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"}
    info["RECORD"] = "".join(f"{file},,\n" for file in files)
    if url:
        info["direct_url.json"] = json.dumps(url)
    described = {str(site / f"{name}-1.dist-info" / file): text for file, text in info.items()}
    return {str(site / file): "" for file in files} | described


def eventually(function, limit=30):
    """Call a function until its result is true or the time limit is over; return the last result."""
    deadline = time.monotonic() + limit
    while not (result := function()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return result
