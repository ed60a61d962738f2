"""``rlgauge demo``: a scratch repository, a planted slowdown, and the gate that finds it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .artifact import read
from .report import WORDS as WORDS_OF_CODE
from .report import change, duration
from .revisions import commit_all
from .rule import INVALID, Finding, GateError, is_canary
from .statistics import FEWEST

WORDS = '''"""Functions on words."""


def initials(text):
    return [word[0] for word in text.split()]


def longest(text):
    return max(text.split(), key=len)
'''
SUMS = '''"""Sums."""


def squares(count):
    return sum(number * number for number in range(count))
'''
TESTS = '''"""Benchmarks, as pytest-benchmark runs them."""

from sums import squares
from words import initials, longest

TEXT = "the quick brown fox jumps over the lazy dog " * 2_000


def test_initials(benchmark):
    assert len(benchmark(initials, TEXT)) == 18_000


def test_longest(benchmark):
    assert benchmark(longest, TEXT) == "quick"


def test_squares(benchmark):
    assert benchmark(squares, 10_000) == 333_283_335_000
'''
BASE = {
    "words.py": WORDS,
    "sums.py": SUMS,
    "test_speed.py": TESTS,
    "pytest.ini": "[pytest]\n",  # otherwise pytest's root may be a folder above
    ".gitignore": ".rlgauge/\n__pycache__/\n",
}
FAST, SLOW = "max(text.split(), key=len)", "max(text.split(), key=lambda word: len(word))"
GATE = ("pytest", "--gate-against", "HEAD")
PLANTED = "test_speed.py::test_longest"
LINES = (
    "3 to time: if any code changes, all benchmarks are timed. With the setting depends, benchmarks whose files\n"
    "have not changed would be `unchanged`, and not timed.\n"
    "screen i of n: each benchmark is timed in pairs of new processes, one of the last commit and one of the\n"
    "working tree.\n"
    "confirm i of n: a benchmark that looks slower or faster gets new pairs, at most n before the next decision.\n"
    "both sides run the working tree's benchmarks: the two processes differ only in the code under test.\n"
    "stopped for futility: more pairs were unlikely to confirm the change, so there is no p."
)
CANARIES = (
    "canary[same] and canary[slowed] are built-in benchmarks. One does the same work on both sides. The other does\n"
    "5% more work in the working tree. If either gets a wrong verdict, the run is invalid."
)
MEANINGS = {
    "slower": "The working tree is significantly slower, by more than 1%, so the gate fails.",
    "faster": "The working tree is significantly faster, by more than 1%.",
    "ok": "There is no significant slowdown above 1%.",
    "inconclusive": "The machine is too noisy to decide.",
    "error": "The test could not be measured.",
}


@contextmanager
def scratch(folder: Path | None) -> Iterator[Path]:
    """Yield a new folder, which is kept if the user named it, and else deleted at the end."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="rlgauge-demo-") as name:
            yield Path(name)
    else:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise GateError(f"rlgauge demo: {folder} exists; name a folder that does not exist yet") from None
        yield folder


def run_gate(repository: Path) -> int:
    """Run the gate in a repository, without the user's variables for pytest; return its exit code."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", *GATE, "--quiet"]
    # in a session of its own, where Ctrl-C does not reach it: a second signal would interrupt its cleanup
    with subprocess.Popen(command, cwd=repository, env=variables, start_new_session=True) as gate:
        try:
            return gate.wait()
        except BaseException:
            gate.terminate()  # SIGTERM lets the gate end its workers and remove its files
            gate.wait()  # after Ctrl-C, Popen does not wait
            raise


def meaning(finding: Finding) -> str:
    """Explain a verdict and its numbers, one line each."""
    lines = [MEANINGS.get(finding.verdict, "")]
    if finding.ratio is not None:
        base, head = duration(finding.base_seconds), duration(finding.head_seconds)
        lines += [f"A call takes {base} at the last commit and {head} in the working tree."]
        spread = "95% interval" if finding.pairs >= FEWEST else "smallest and largest value"
        lines += [f"{change(finding)} is the change with its {spread}, over {finding.pairs} pairs of processes."]
    if finding.p is not None:
        other = "faster" if finding.verdict == "faster" else "slower"
        meant = f"if the code were at most 1% {other}, pairs this clear would have a probability of at most p"
        lines += [f"p = {finding.p:.2g}: {meant}."]
    return "".join(f"\n    {line}" for line in lines)


def demo(folder: Path | None) -> int:
    """Run the gate on a scratch repository with a planted slowdown; return 0 if the gate finds it."""
    with scratch(folder) as repository:
        for name, text in BASE.items():
            (repository / name).write_text(text, "utf-8")
        commit_all(repository)
        words = repository / "words.py"
        words.write_text(WORDS.replace(FAST, SLOW), "utf-8")
        print(f"A repository with three benchmarks is in {repository}. This change is not committed:\n")
        print(f"    words.py\n    -    return {FAST}\n    +    return {SLOW}\n")
        print(f"Is it slower than the last commit? This takes about a minute:\n\n    {' '.join(GATE)}\n", flush=True)
        code = run_gate(repository)
        artifact = repository / ".rlgauge" / "gate.json"
        if not artifact.exists():
            return code
        outcome = read(artifact).decide()
        print(f"\nWhat this means:\n\n{LINES}\n")
        for name, finding in outcome.findings.items():
            if not is_canary(name):
                print(f"{name}: {finding.verdict}{meaning(finding)}\n")
        print(CANARIES)
        print(f"The gate's exit code is {code}: {WORDS_OF_CODE[code]}.")
        if folder is not None:
            print(f"\nTo experiment, change {words} and repeat the command in {folder}.")
    return code if code == INVALID else int(outcome.findings[PLANTED].verdict != "slower")
