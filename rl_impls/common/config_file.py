"""A configuration as YAML: every mistake in it is told with its line."""

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
    """What a file says.

    Attributes:
        path: of the file, None for no file.
        values: by name.
        lines: on which each of them stands, counted from 1.
    """

    path: Path | None
    values: dict[str, Any]
    lines: dict[str, int]

    def located(self, error: ValueError) -> ValueError:
        """Return an error about a value, which begins with its name, with the line that the value stands on.

        Args:
            error: as ``width: got 0, wanted 1 or more``.
        """
        name = str(error).partition(":")[0]
        return ValueError(f"{self.path}, line {self.lines[name]}: {error}") if name in self.lines else error


NOTHING = Chosen(None, {}, {})


def read(path: Path, types: Mapping[str, Any]) -> Chosen:
    """Return what a file says, each value of the type that it has to be of.

    Args:
        path: of the file, a mapping of names to values.
        types: int, float, str, either of the last two or a tuple of integers, of every name that may stand there.

    Raises:
        ValueError: it is no YAML, no mapping, or has an unknown name, a name twice, or a value of another type.
    """
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
            raise ValueError(f"{path}, line {line}: {error}") from None
        lines[name] = line
    return Chosen(path, values, lines)


def typed(name: str, value: Any, kind: Any) -> Any:
    """Return a value as its type has it: YAML takes 1e-3 for a word, and 1 for an integer.

    Args:
        name: of the value.
        value: as YAML has it.
        kind: as in the ``types`` of :func:`read`.

    Raises:
        ValueError: it is of another type.
    """
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
