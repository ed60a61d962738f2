"""What ``[tool.rlgauge]`` in ``pyproject.toml`` says, checked; options of the command line come before it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .rule import GateError, Rule, rule_with

FILE, TABLE = "pyproject.toml", "tool.rlgauge"


class Config(BaseModel):
    """The settings of a repository.

    Attributes:
        benchmarks: files and folders of benchmarks, which are head's on both sides; pytest's ``testpaths`` unless
            given, or else the files with benchmarks and their ``conftest.py``.
        build: command that is run in each side's tree, in an environment of its own.
        ignore: patterns of files that no benchmark's speed depends on.
        rule: the numbers to decide by that are not the default.
        cores: ``one``, or ``all`` for benchmarks that start threads or processes; by patterns of test ids.
        tolerances: largest difference of answers that are the same, as a part of an array's largest value; by patterns.
        lock: lock file; where it differs, base gets an environment of its own.
        source: ``module:function`` that returns a :class:`.source.Source`; tests with pytest-benchmark unless given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    benchmarks: list[str] = []
    build: str = ""
    ignore: list[str] = ["*.md", "*.rst", "docs/*", "LICENSE*", ".github/*"]
    rule: dict[str, int | float] = {}
    cores: dict[str, str] = {}
    tolerances: dict[str, float] = Field(default={})
    lock: str = ""
    source: str = ""

    def rules(self, changes: dict[str, str] | None = None) -> Rule:
        """Return the rule.

        Args:
            changes: numbers that the command line changes, by name.
        """
        return rule_with({**self.rule, **(changes or {})})


def read(root: Path) -> Config:
    """Return the settings of a repository; the default ones where it has none.

    Args:
        root: of the repository.

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
        found = Config.model_validate(told)
        for name, value in found.cores.items():
            if value not in ("one", "all"):
                raise GateError(f"{place(text, ['cores', name])}: got {value!r}, wanted 'one' or 'all'")
        for name, number in found.tolerances.items():
            if not 0 <= number < 1:
                raise GateError(f"{place(text, ['tolerances', name])}: got {number}, wanted a part such as 1e-4")
    except ValidationError as error:
        first = error.errors()[0]
        path = [str(part) for part in first["loc"]]
        if first["type"] == "extra_forbidden":
            known = list(Config.model_fields)
            near = get_close_matches(path[0], known, 1)
            raise GateError(
                f"{place(text, path)}: unknown key; "
                + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")
            ) from error
        raise GateError(f"{place(text, path)}: {first['msg']}, got {first['input']!r}") from error
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
