"""Read a configuration from YAML; every error names the line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

KINDS = {
    int: "an integer",
    float: "a number",
    str: "a word",
    float | str: "hours, or as 30m or 90s",
    tuple[int, ...]: "a list of integers",
}


class Chosen(NamedTuple):
    """Values read from a file.

    Attributes:
        path: the file, or None.
        values: values by name.
        lines: line of each value, counted from 1.
    """

    path: Path | None
    values: dict[str, Any]
    lines: dict[str, int]

    def located(self, error: ValueError) -> ValueError:
        """Add file and line to an error whose message begins with the name of a value."""
        name = str(error).partition(":")[0]
        return ValueError(f"{self.path}, line {self.lines[name]}: {error}") if name in self.lines else error


NOTHING = Chosen(None, {}, {})


def read(path: Path, types: Mapping[str, Any]) -> Chosen:
    """Read a YAML mapping whose names and value types are given by `types`; raise ValueError for anything else."""
    import yaml

    try:
        root = yaml.compose(path.read_text(), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ValueError(f"{path}{line}: got no YAML ({getattr(error, 'problem', error)})") from None
    if not isinstance(root, yaml.MappingNode):
        raise ValueError(f"{path}, line 1: got no names with values, wanted lines like 'game: coinrun'")
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key, node in root.value:
        name, line = key.value, key.start_mark.line + 1
        if not isinstance(name, str) or name not in types:
            raise ValueError(f"{path}, line {line}: got the unknown name {name!r}; known: {', '.join(types)}")
        if name in lines:
            raise ValueError(f"{path}, line {line}: got {name} again, it stands on line {lines[name]} already")
        constructor = yaml.SafeLoader("")
        try:
            values[name] = typed(name, constructor.construct_object(node, deep=True), types[name])
        except (ValueError, yaml.YAMLError) as error:
            raise ValueError(f"{path}, line {line}: {getattr(error, 'problem', error)}") from None
        lines[name] = line
    return Chosen(path, values, lines)


def typed(name: str, value: Any, kind: Any) -> Any:
    """Convert a YAML value to its type, or raise ValueError: YAML reads 1e-3 as a string and 1 as an integer."""
    if kind is float and isinstance(value, str) and re.fullmatch(r"[+-]?[\d.]+[eE][+-]?\d+", value):
        return float(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind == tuple[int, ...] and isinstance(value, list) and all(type(number) is int for number in value):
        return tuple(value)
    if kind == float | str and type(value) in (int, float, str):
        return value
    if type(value) is not kind:
        raise ValueError(f"{name}: got {value!r}, wanted {KINDS[kind]}")
    return value
