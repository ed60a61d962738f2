"""Run commands as a user does: in separate processes, with a time limit and without this pytest's variables."""

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
COLLECT = """
import pytest, sys
end = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", sys.argv[1]])
print("heavy:", sorted({"torch", "jax", "gym", "procgen"} & sys.modules.keys()))
sys.exit(end)
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
    except Exception as error:  # pytest-benchmark raises it if a run is slower
        print(error)
        code = 1
    print(f"<code {int(code)}>", flush=True)
"""


def environment(**changed):
    """Return this process's environment variables without ``PYTEST_*`` and ``RL_PERF_*``, and with some changed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "RL_PERF_"))}
    return {**kept, **changed}


def copy_with(folder, files):
    """Copy the code and the tests of this repository to a directory, and add files, given as text by path."""
    for name in ("rl_impls", "perf_tests", "rlgauge", "correctness_tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def python(*arguments, cwd=ROOT, limit=120, **changed):
    """Run this Python with these arguments and environment variables; return the completed process."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment(**changed),
        capture_output=True,
        text=True,
        timeout=limit,
    )


def collected(folder):
    """Collect the tests of a directory; return pytest's output, and a last line with the heavy imports."""
    done = python("-c", COLLECT, folder, PYTHONDONTWRITEBYTECODE="")  # rewriting all assertions takes longest
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout


def pytest_runs(runs, **how):
    """Run pytest several times in one process, which takes a second to start.

    Return exit code and output by name of the run, and the standard error of the process.

    Args:
        runs: for each name, environment variables as ``NAME=value``, then pytest's arguments.
        how: keyword arguments of :func:`python`.
    """
    done = python("-c", SEVERAL, json.dumps(runs), **how)
    assert done.returncode == 0, done.stderr
    found = {}
    for name in runs:
        text, _, rest = done.stdout.partition(f"<{name}>\n")[2].partition("<code ")
        found[name] = int(rest.partition(">")[0]), text
    return found, done.stderr


def hiding(folder, *names, root=ROOT):
    """Return a PYTHONPATH, beginning with this directory, that hides packages of these names."""
    (folder / "sitecustomize.py").write_text(HIDING.format(names=names))
    return f"{folder}:{root}"
