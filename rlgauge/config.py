"""The ``[tool.rlgauge]`` table of ``pyproject.toml``, validated. Command-line options override it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .fields import FieldError, parse
from .revisions import top_of
from .rule import GateError, Rule, rule_with

if sys.version_info >= (3, 11):
    import tomllib as tomllib
else:
    import tomli as tomllib

FILE, TABLE = "pyproject.toml", "tool.rlgauge"


@dataclass(frozen=True)
class Config:
    """Settings of a repository.

    Attributes:
        against: revision that ``rlgauge gate`` compares with if it is given none.
        benchmarks: files, directories or glob patterns of the benchmarks; both sides run head's version of these. By
            default, they are the test directories in pytest's ``testpaths``. Test directories that hold selected
            benchmarks always count, as does every ``conftest.py`` above them.
        build: command to run in each side's tree, in a separate environment.
        ignore: patterns of files that do not affect the speed of any benchmark.
        include: files and directories that both sides get besides the benchmarks; the whole repository by default.
        depends: files and directories that a benchmark's speed depends on, by pattern of test ids. If these are
            identical on both sides, the benchmark is `unchanged`, or an error if it loads any other file of the
            repository.
        rule: values of the decision rule that differ from the defaults.
        cores: ``one``, or ``all`` for benchmarks that start threads or processes, by pattern of test ids.
        outputs: how outputs are compared, ``close``, ``same`` or ``ignore``, by pattern of test ids.
        tolerances: largest difference between equal outputs, as a fraction of an array's largest absolute value, by
            pattern of test ids.
        lock: lock file; if that of a side differs from the installed packages, each side gets its own environment.
    """

    against: str = ""
    benchmarks: list[str] = field(default_factory=list)
    build: str = ""
    ignore: list[str] = field(default_factory=lambda: ["*.md", "*.rst", "docs/*", "LICENSE*", ".github/*"])
    include: list[str] = field(default_factory=list)
    depends: dict[str, list[str]] = field(default_factory=dict)
    rule: dict[str, float] = field(default_factory=dict)
    cores: dict[str, Literal["one", "all"]] = field(default_factory=dict)
    outputs: dict[str, Literal["close", "same", "ignore"]] = field(default_factory=dict)
    tolerances: dict[str, float] = field(default_factory=dict)
    lock: str = ""

    def __post_init__(self) -> None:
        """Validate the tolerances."""
        for name, number in self.tolerances.items():
            if not 0 <= number < 1:
                raise FieldError(["tolerances", name], f"{number} is out of range; choose 0 or more, but below 1")

    def rules(self, changes: dict[str, str] | None = None, source: str = "rule") -> Rule:
        """Return the decision rule, with command-line `changes` applied to the settings; `source` is their option."""
        return rule_with({**self.rule, **(changes or {})}, source=source)


def settings_folder(root: Path, start: Path | None = None) -> Path:
    """Return the nearest directory up to git's top level that has a ``[tool.rlgauge]`` table; `root` if none has.

    The search begins in `start`, where pytest was started, if that is inside pytest's root, else in `root`.
    """
    top, first = top_of(root), root.resolve()
    if start and start.resolve().is_relative_to(first):
        first = start.resolve()
    for folder in (first, *first.parents):
        try:
            if "rlgauge" in tomllib.loads((folder / FILE).read_text("utf-8")).get("tool", {}):
                return folder
        except FileNotFoundError:
            pass
        except (OSError, ValueError):
            return folder  # read() reports the error
        if folder == top:
            break
    return root


def read(root: Path) -> Config:
    """Return the settings in a directory's ``pyproject.toml``, or the defaults if it has none.

    Raises GateError with the line of an unknown or invalid setting.
    """
    file = root / FILE
    if not file.is_file():
        return Config()
    try:
        text = file.read_text("utf-8")
        table = tomllib.loads(text).get("tool", {}).get("rlgauge", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GateError(f"{FILE}: {error}") from error
    try:
        config: Config = parse(Config, table)
    except FieldError as error:
        raise GateError(f"{location(text, error.path)}: {error.problem}") from error
    try:
        config.rules()
    except GateError as error:
        raise GateError(f"{location(text, ['rule'])}: {error}") from error
    return config


def location(text: str, path: Sequence[str]) -> str:
    """Return the location of a setting, for example ``pyproject.toml, line 12, tool.rlgauge.cores``.

    `path` holds the setting's key in the table, followed by keys within its value.
    """
    lines, inside, found, path = text.splitlines(), False, 0, path or [""]
    for number, line in enumerate(lines, start=1):
        if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line):
            name = header[1].replace('"', "").replace(" ", "")
            inside = name == TABLE or name.startswith(f"{TABLE}.")
            if (inside and not found) or name == f"{TABLE}.{path[0]}":
                found = number
            rest = path[1:] if name == f"{TABLE}.{path[0]}" else path
        elif inside and rest and re.match(rf"""\s*["']?{re.escape(rest[0])}["']?\s*[.=]""", line):
            found = number
            break
    return f"{FILE}, line {found or 1}, {TABLE}.{'.'.join(path)}".rstrip(".")
