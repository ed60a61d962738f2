"""What ``[tool.rlgauge]`` in ``pyproject.toml`` says, checked; options of the command line come before it."""

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
    """The settings of a repository.

    Attributes:
        benchmarks: files and folders of benchmarks, or patterns of them, which are head's on both sides; pytest's
            ``testpaths`` unless given, or else the files with benchmarks and their ``conftest.py``.
        build: command that is run in each side's tree, in an environment of its own.
        ignore: patterns of files that no benchmark's speed depends on.
        include: files and folders that both sides get, beside the benchmarks; the whole repository unless given.
        depends: files and folders that a benchmark's speed depends on, by patterns of test ids: it is `unchanged` where
            these are the same on both sides, and an error where it loads anything else of the repository.
        rule: the numbers to decide by that are not the default.
        cores: ``one``, or ``all`` for benchmarks that start threads or processes; by patterns of test ids.
        tolerances: largest difference of answers that are the same, as a part of an array's largest value; by patterns.
        lock: lock file; where it differs, base gets an environment of its own.
    """

    benchmarks: list[str] = field(default_factory=list)
    build: str = ""
    ignore: list[str] = field(default_factory=lambda: ["*.md", "*.rst", "docs/*", "LICENSE*", ".github/*"])
    include: list[str] = field(default_factory=list)
    depends: dict[str, list[str]] = field(default_factory=dict)
    rule: dict[str, float] = field(default_factory=dict)
    cores: dict[str, Literal["one", "all"]] = field(default_factory=dict)
    tolerances: dict[str, float] = field(default_factory=dict)
    lock: str = ""

    def __post_init__(self) -> None:
        """Refuse tolerances that are no fraction."""
        for name, number in self.tolerances.items():
            if not 0 <= number < 1:
                raise FieldError(["tolerances", name], f"got {number}; give a fraction below 1")

    def rules(self, changes: dict[str, str] | None = None) -> Rule:
        """Return the rule.

        Args:
            changes: numbers that the command line changes, by name.
        """
        return rule_with({**self.rule, **(changes or {})})


def settings_folder(root: Path) -> Path:
    """Return the nearest folder, from pytest's root up to git's top level, whose settings have a table for the gate.

    Args:
        root: where to begin, which is returned if there is none.

    Raises:
        GateError: it is in no repository.
    """
    top = top_of(root)
    for folder in (root.resolve(), *root.resolve().parents):
        try:
            if "rlgauge" in tomllib.loads((folder / FILE).read_text()).get("tool", {}):
                return folder
        except FileNotFoundError:
            pass
        except (OSError, ValueError):
            return folder  # to be named when it is read
        if folder == top:
            break
    return root


def read(root: Path) -> Config:
    """Return the settings of a folder; the default ones where it has none.

    Args:
        root: the folder.

    Raises:
        GateError: the file cannot be read, or a setting is unknown or wrong, with its line.
    """
    file = root / FILE
    if not file.is_file():
        return Config()
    try:
        text = file.read_text()
        told = tomllib.loads(text).get("tool", {}).get("rlgauge", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GateError(f"{FILE}: {error}") from error
    try:
        found: Config = parse(Config, told)
    except FieldError as error:
        raise GateError(f"{place(text, error.path)}: {error.problem}") from error
    try:
        found.rules()
    except GateError as error:
        raise GateError(f"{place(text, ['rule'])}: {error}") from error
    return found


def place(text: str, path: Sequence[str]) -> str:
    """Return where a setting stands, as in ``pyproject.toml, line 12, tool.rlgauge.cores``.

    Args:
        text: of the file.
        path: names of the setting inside of the table, and of what is in it.
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
