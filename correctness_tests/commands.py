"""Commands as a user types them: in a process of their own, within a time limit, and knowing nothing of this pytest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HIDING = """
import importlib.util, sys

class Hiding:
    def find_spec(self, name, *others):
        if name in {names!r}:
            raise ModuleNotFoundError(name)

find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *others: None if name in {names!r} else find(name, *others)
sys.meta_path.insert(0, Hiding())
"""
SEVERAL = """
import json, os, sys
import pytest
for name, arguments in json.loads(sys.argv[1]).items():
    while arguments[0][0] != "-":
        variable, _, value = arguments.pop(0).partition("=")
        os.environ[variable] = value
    print(f"<{name}>", flush=True)
    try:
        code = pytest.main(["-p", "no:cacheprovider", *arguments])
    except Exception as error:  # as pytest-benchmark ends a run that is slower
        print(error)
        code = 1
    print(f"<code {int(code)}>", flush=True)
"""


def environment(**changed):
    """Return this process's variables without those of pytest and without what is required of it, with some changed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "RL_PERF_"))}
    return {**kept, **changed}


def copy_with(folder, files):
    """Copy the code of this repository and its tests to a folder, with further files, text by name."""
    for name in ("rl_impls", "perf_tests", "rlgauge", "correctness_tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def python(*arguments, cwd=ROOT, limit=120, **changed):
    """Run this Python with such arguments and variables; return what :func:`subprocess.run` does."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment(**changed),
        capture_output=True,
        text=True,
        timeout=limit,
    )


def pytest_runs(runs, **how):
    """Run pytest several times in one process, which takes a second to start; return what each ends with, and errors.

    Args:
        runs: what it is called with, by name: variables as in ``NAME=value``, then arguments.
        how: as :func:`python` takes it.
    """
    done = python("-c", SEVERAL, json.dumps(runs), **how)
    assert done.returncode == 0, done.stderr
    found = {}
    for name in runs:
        text, _, rest = done.stdout.partition(f"<{name}>\n")[2].partition("<code ")
        found[name] = int(rest.partition(">")[0]), text
    return found, done.stderr


def hiding(folder, *names, root=ROOT):
    """Return a PYTHONPATH that begins in this folder, with which packages of these names are not found."""
    (folder / "sitecustomize.py").write_text(HIDING.format(names=names))
    return f"{folder}:{root}"
