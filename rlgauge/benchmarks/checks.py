"""Checks of the two sides of a comparison before it is measured, and the warnings in its report."""

from __future__ import annotations

import configparser
import os
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlgauge import revisions
from rlgauge.case import Case
from rlgauge.config import FILE, tomllib
from rlgauge.progress import number_of
from rlgauge.workers import Side

from . import installed, origins, trees
from .builds import compiled_modules, log_of
from .sides import ProjectSides

SHOWN = 5  # ignored files in the report
OLDER, SCRIPT = "setup.cfg", "setup.py"  # declare dependencies of projects that do so without pyproject.toml


class Checks:
    """Checks of the sides of one comparison, and their results.

    Args:
        source: the project that has laid out the sides.
        warnings: initial lines for the report.

    Attributes:
        warnings: lines for the report, including those of the checks.
        origins: where each side imports a package from.
        outside: packages that a side imports from its build instead of its tree.
    """

    def __init__(self, source: ProjectSides, warnings: Iterable[str] = ()) -> None:
        self.source, self.warnings = source, list(warnings)
        self.origins: dict[str, list[str]] = {}
        self.outside: set[str] = set()

    def compare_locks(self, codes: Sequence[Path]) -> None:
        """Warn if two trees differ in lock files or dependencies, but both run with the packages installed here."""
        files = [{path.relative_to(code) for path in trees.code_files(code, ["."], [])} for code in codes]
        base, head = codes
        differing = [
            file.as_posix()
            for file in sorted(files[0] | files[1])
            if revisions.digest(base, [base / file]) != revisions.digest(head, [head / file])
        ]
        project = self.source.relative(self.source.root)
        of_base, of_head = (dependencies(code / project) for code in codes)
        for file in (file for file in of_base if of_base[file] != of_head[file]):
            what = "" if file == SCRIPT else "the dependencies in "
            differing.append(what + os.path.normpath(f"{project}/{file}"))
        if differing and not self.source.config.lock and not self.source.build:
            names = ", ".join(differing)
            self.warnings.append(
                f"base and head differ in {names}, but both run with the packages that are installed here; to give "
                "each side its own packages, set lock in [tool.rlgauge] to a lock file"
            )

    def compare_history(self, base: str) -> None:
        """Warn if base (full hash) and the current commit have diverged: changes on base's branch count as head's."""
        top = self.source.top
        try:
            head = os.fsdecode(revisions.git(top, "rev-parse", "HEAD")).strip()
            start = os.fsdecode(revisions.git(top, "merge-base", base, head)).strip()
            count = int(revisions.git(top, "rev-list", "--count", f"{start}..{base}"))
        except subprocess.CalledProcessError:  # unrelated histories, or a shallow clone
            return
        if start not in (base, head):
            self.warnings.append(
                f"base has {number_of(count, 'commit')} that head lacks, so speedups on base show as slowdowns; merge "
                f"base into the branch, or compare with the commit where the branch starts: --gate-against={start[:12]}"
            )

    def check(self, sides: Sequence[Side], cases: Sequence[Case], limit: float) -> None:
        """Check where each side imports its packages from, see :func:`.origins.check`, and compare the builds."""
        self.origins, self.outside, libraries = origins.check(self.source, sides, cases, limit)
        shared = [path for path in map(Path, sorted(libraries)) if not path.is_relative_to(self.source.cache)]
        if shared:
            names = ", ".join(map(self.source.relative, shared))
            self.warnings.append(
                f"both sides load {names} from the working tree, so the gate does not see changes in its sources; give "
                "the command that builds it (as build in [tool.rlgauge] or with --gate-build), and let the code find "
                "it relative to __file__"
            )
        if self.source.build:
            logs = [str(log_of(side.python)) for side in sides]
            self.compare_builds([compiled_modules(side.python) for side in sides], logs)

    def compare_builds(self, compiled: Sequence[set[str]], logs: Sequence[str]) -> None:
        """Warn if a build lacks compiled modules that the other build or the installed package has.

        A build may continue without an extension that fails to compile.
        """
        base, head = compiled
        files = installed.compiled_files(self.source.root, self.source.top)
        here = {name.partition(".")[0] for name in files}
        if lacking := sorted((base ^ head) | (here - base)):
            self.warnings.append(
                f"missing from a build: {', '.join(lacking)}; an optional extension may have failed to compile, "
                f"see {' and '.join(logs)}"
            )

    def notes(self) -> list[str]:
        """Return report lines: the benchmark paths, generated files, and where each side imports its packages from.

        A package that both sides import from their trees is only listed with pytest's ``-v``.
        """
        source = self.source
        verbose = bool(source.run and source.run.getoption("verbose", 0) > 0)
        whose = "each side runs its own" if source.own_benchmarks else "both sides run the working tree's"
        lines = [f"{whose} benchmarks: {', '.join(source.paths)}"]
        if source.generated:
            files = ", ".join(source.generated)
            lines.append(f"generated files, copied from the working tree to both sides: {files}")
        known = [*source.ignore, *source.generated]
        if left_out := [name for name in source.left_out if not trees.is_ignored(name.rstrip("/"), known)]:
            more = f" and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
            lines.append(f"missing on both sides, because git leaves them out: {', '.join(left_out[:SHOWN])}{more}")
        lines += dict.fromkeys(self.warnings)
        shown = [name for name in self.origins if verbose or name in self.outside]
        return lines + [f"{name}: {', '.join(self.origins[name])}" for name in shown]


def dependencies(project: Path) -> dict[str, Any]:
    """Return the dependencies in each file that may declare them; the whole of ``setup.py``, which is a program.

    In ``pyproject.toml``, they are in the standard table ``project`` or in Poetry's.
    """
    setup = configparser.RawConfigParser()
    found: dict[str, Any] = {FILE: [None, None], OLDER: None, SCRIPT: b""}
    with suppress(OSError, ValueError, AttributeError):
        table = tomllib.loads((project / FILE).read_text("utf-8"))
        tables = table.get("project", {}), table.get("tool", {}).get("poetry", {})
        found[FILE] = [each.get("dependencies") for each in tables]
    with suppress(OSError, ValueError, configparser.Error):
        setup.read_string((project / OLDER).read_text("utf-8"))
        found[OLDER] = setup.get("options", "install_requires", fallback=None)
    with suppress(OSError):
        found[SCRIPT] = (project / SCRIPT).read_bytes()
    return found
