"""Configurations: frozen dataclasses that pydantic validates, read from keyword arguments, options or YAML.

The descriptions of the fields are the help texts of the command line.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar, dataclass_transform, get_args, get_origin

import numpy as np
from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

Class = TypeVar("Class", bound=type)

RENAMED = {  # names of older checkpoints and YAML files
    "agents": "num_agents", "batch": "batch_size", "buffer": "capacity", "envs": "num_envs", "epsilon": "eps",
    "every": "train_frequency", "gradient_norm": "max_grad_norm", "lam": "gae_lambda",
    "settings": "num_agents, height, width, radius, spawn, turns, observation", "sync_every": "target_frequency",
    "target_every": "target_frequency", "unroll": "num_steps", "worlds": "num_worlds",
}  # fmt: skip


class OneOf:
    """Annotation of a string that is one of some names: ``Annotated[str, OneOf(FORMS)]``."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.literal_schema(list(self.names))


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def config(cls: Class) -> Class:
    """Make a frozen dataclass whose fields are validated; an invalid one raises a ValueError of one line.

    Lists become tuples, and NumPy numbers Python's. A ``__post_init__`` may check fields against each other.
    """
    validated: Any = dataclass(cls, frozen=True, config=ConfigDict(extra="forbid", strict=True, allow_inf_nan=False))
    validate = validated.__init__

    @functools.wraps(validate)
    def init(self: Any, *args: Any, **values: Any) -> None:
        try:
            validate(self, *map(plain, args), **{name: plain(value) for name, value in values.items()})
        except ValidationError as error:
            raise ValueError(in_one_line(error, fields_of(validated))) from None

    validated.__init__ = init
    result: Class = validated
    return result


def plain(value: Any) -> Any:
    """Convert NumPy numbers to Python's, and lists to tuples."""
    if isinstance(value, np.generic):
        return value.item()
    return tuple(map(plain, value)) if type(value) in (list, tuple) else value


def in_one_line(error: ValidationError, known: Collection[str]) -> str:
    """Describe the first error, beginning with the name of the field: ``batch_size=0 should be greater than ...``."""
    first = error.errors()[0]
    if first["type"] == "value_error":  # raised by a __post_init__
        return str(first["ctx"]["error"])
    name, *inner = first["loc"]
    name = [*known][name] if isinstance(name, int) else name  # a positional argument
    if first["type"] == "unexpected_keyword_argument":
        return unknown(name, known)
    if first["type"] == "missing":
        return f"{name} is missing"
    place = "".join(f"[{index}]" for index in inner)
    return f"{name}{place}={first['input']!r} {first['msg'].removeprefix('Input ')}"


def unknown(name: str, known: Collection[str]) -> str:
    """Return the error message for an unknown field."""
    new = RENAMED.get(name, "")
    if {*new.split(", ")} <= {*known}:
        return f"{name} was replaced by {new}"
    return f"{name} is unknown (choose from {', '.join(known)})"


def fields_of(config: Any) -> Mapping[str, FieldInfo]:
    """Return pydantic's description of each field: type, default, limits and help text."""
    fields: Mapping[str, FieldInfo] = config.__pydantic_fields__
    return fields


def choices_of(field: FieldInfo) -> tuple[Any, ...] | None:
    """Return the values that a field may have; None if any value of its type will do."""
    if get_origin(field.annotation) is Literal:
        return get_args(field.annotation)
    return next((each.names for each in field.metadata if isinstance(each, OneOf)), None)


class YamlFile(NamedTuple):
    """Values from a YAML file by name, and the line of each."""

    path: Path | None = None
    values: Mapping[str, Any] = MappingProxyType({})
    lines: Mapping[str, int] = MappingProxyType({})

    def located(self, error: ValueError, overridden: Collection[str] = ()) -> ValueError:
        """Add file and line to an error whose message begins with the name of a value that is not overridden."""
        name = re.split(r"\W", str(error), maxsplit=1)[0]
        if name in overridden or name not in self.lines:
            return error
        return ValueError(f"{self.path}, line {self.lines[name]}: {error}")


def read_yaml(path: Path) -> YamlFile:
    """Read names and values from a YAML file; raise a ValueError with the line for anything else."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """YAML 1.1 reads ``1e-3`` as a string; this loader reads a number."""

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )
    try:
        loader = Loader(path.read_text())
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise ValueError(f"{path}, line 1: not a setting; write one per line, for example 'game: coinrun'")
        lines: dict[str, int] = {}
        for key, _ in root.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ValueError(f"{path}, line {key.start_mark.line + 1}: the name of a setting should be a word")
            if key.value in lines:
                raise ValueError(
                    f"{path}, line {key.start_mark.line + 1}: {key.value} is already set on line {lines[key.value]}; "
                    "remove one of them"
                )
            lines[key.value] = key.start_mark.line + 1
        values = loader.construct_document(root)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = str(getattr(error, "problem", error)).partition("\n")[0]  # for a control character it has two lines
        raise ValueError(f"{path}{line}: invalid YAML ({problem})") from None
    return YamlFile(path, values, lines)
