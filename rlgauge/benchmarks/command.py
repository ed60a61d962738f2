"""Command line of a worker: how it starts, and which of the user's pytest arguments it gets."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlgauge.workers import interpreter_options

if TYPE_CHECKING:
    import pytest

COMMON = ("--no-header", "--maxfail=0", "--continue-on-collection-errors", "--color=no", "-p", "no:randomly")
WITH_VALUE = (  # options to drop with their value
    "--junitxml", "--junit-xml", "-n", "--numprocesses", "--maxprocesses", "--maxschedchunk", "--tx", "--dist", "--px",
    "--basetemp", "--rootdir", "-c", "--config-file", "--durations", "--report-log", "--pdbcls", "--lfnf",
    "--last-failed-no-failures", "--log-file",
)  # fmt: skip
ALONE = (  # options to drop that take no value
    "--collect-only", "--co", "--gate-strict", "--lf", "--last-failed", "--ff", "--failed-first", "--nf", "--new-first",
    "--sw", "--stepwise", "--sw-skip", "--stepwise-skip", "--sw-reset", "--stepwise-reset", "--pdb", "--trace", "-d",
    "-f", "--looponfail", "--gate-own-benchmarks", "--gate-memory", "--gate-resume", "--benchmark-autosave",
    "--benchmark-disable", "--benchmark-enable", "--benchmark-only", "--benchmark-quiet",
    "--benchmark-save-data", "--benchmark-skip", "--benchmark-verbose",
)  # fmt: skip
SEVERAL = "--benchmark-compare-fail"  # takes several values
BENCHMARK = re.compile(  # options of pytest-benchmark except its timer; a project may define others
    "--benchmark-(autosave|calibration-precision|columns|compare(-fail)?|confidence|cprofile(-(dump|loops|top))?|"
    "disable|enable|group-by|histogram|json|max-time|min-(rounds|time)|name|netrc|only|precision|quiet|save(-data)?|"
    "skip|sort|storage|time-unit|verbose|warmup(-iterations)?)"
)
WITH_TERMINAL = {"no:terminal": "terminal", "-pno:terminal": "-pterminal"}  # a worker prints the reason of its failure
SELECTING = "-k", "-m"  # options whose value may be equal to a file or directory
CACHED_SELECTIONS = ("lf", "stepwise")  # options that select tests by the results of earlier runs
# As python -m, but without the working directory on the path; Python 3.10 has no -P.
# The standard library comes first, because the root of a project may hold a profile.py or types.py.
START = """\
import os, sys
library = os.path.dirname(os.__file__)
first = library, os.path.join(library, "lib-dynload")
sys.path[:] = [*first, *(path for path in sys.path if path and path not in first)]
import runpy
runpy.run_module("rlgauge.benchmarks.worker", run_name="__main__", alter_sys=True)
"""


def forwarded(run: pytest.Config | None) -> list[str]:
    """Return those of the run's arguments that workers need too: no files, for example, and no options of the gate."""
    # pytest reads it first; workers do not inherit it
    in_variable = expanded(shlex.split(os.environ.get("PYTEST_ADDOPTS", "")))
    if run is None:
        return for_workers(in_variable, ())
    files = list(map(str, run.args)) if run.args_source.name == "ARGS" else []  # others come from the settings
    return for_workers([*in_variable, *expanded(list(map(str, run.invocation_params.args)))], files)


def expanded(arguments: Sequence[str]) -> list[str]:
    """Replace arguments such as ``@words.txt`` with the lines of that file, as pytest 8.2 and later do.

    A worker may run in a tree that lacks the file.
    """
    found = list[str]()
    for word in arguments:
        file = Path(word[1:])
        found += expanded(file.read_text("utf-8").splitlines()) if word.startswith("@") and file.is_file() else [word]
    return found


def for_workers(arguments: Sequence[str], files: Sequence[str]) -> list[str]:
    """Return the arguments that workers need too, without `files` (paths and test ids).

    A word is an option's value if it follows ``-k`` or ``-m``, or occurs more often in `arguments` than in `files`.
    """
    kept, values = list[str](), 0.0  # `values`: how many of the next words belong to a dropped option
    arguments = [WITH_TERMINAL.get(word, word) for word in arguments]
    words = list(zip(["", *arguments], arguments))
    surplus = Counter(word for before, word in words if before not in SELECTING) - Counter(files)
    for before, word in words:
        if word.startswith("-"):
            name, equals, _ = word.partition("=")
            joined = name.startswith("-c") and name != "-c" and not name.startswith("--")  # for example -cpytest.ini
            own = name.startswith("--gate-") or BENCHMARK.fullmatch(name)
            dropped, values = bool(joined or own or name in WITH_VALUE or name in ALONE), 0.0
            if dropped and not (joined or equals or name in ALONE):
                values = math.inf if name == SEVERAL else 1.0
        else:
            dropped, values = values > 0, values - 1
        is_value = word not in files or before in SELECTING
        if not is_value and before.startswith("--") and "=" not in before and before not in ALONE:
            is_value = surplus[word] > 0
            surplus[word] -= is_value
        if is_value and not dropped:
            kept.append(word)
    return kept


def selects_by_cache(run: pytest.Config | None) -> bool:
    """Return whether tests are selected by results of earlier runs, which do not exist for another revision."""
    return run is not None and any(run.getoption(name, False) for name in CACHED_SELECTIONS)


def selection(run: pytest.Config) -> str:
    """Return the values of the options that select tests after the collection, which may come from ``addopts``."""
    return json.dumps([run.getoption(name, None) for name in ("keyword", "markexpr", "deselect")])


def has_plugin(name: str, run: pytest.Config | None, arguments: Sequence[str]) -> bool:
    """Return whether a worker's pytest will load one of pytest's built-in plugins, given its further arguments."""
    if run:
        return run.pluginmanager.hasplugin(name)
    return not {f"no:{name}", f"-pno:{name}"}.intersection([*forwarded(None), *arguments])


def start(settings: Mapping[str, Any], arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the interpreter arguments that start a worker, given its settings and its pytest arguments.

    The interpreter does not add the working directory to its path, so that a built package is found before its source
    tree. Linux limits the length of a single argument, so a worker gets the many files of benchmarks as separate ones.
    """
    return *interpreter_options(), "-c", START, json.dumps(settings), *arguments
