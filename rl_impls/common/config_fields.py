"""The fields of a configuration, including those of nested dataclasses, with their help texts."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from typing import Any, cast, get_type_hints


def single_fields(config: Any) -> Iterator[tuple[Field[Any], Any, str]]:
    """Yield each field that is not itself a dataclass, with its type and help text."""
    types, sentences = get_type_hints(config), attributes(config)
    for field in fields(config):
        if is_dataclass(types[field.name]):
            yield from single_fields(types[field.name])
        else:
            yield field, types[field.name], sentences[field.name]


def attributes(config: type) -> dict[str, str]:
    """Parse the ``Attributes:`` section of a class's docstring into one line of text per name."""
    section = re.search(r"^( *)Attributes:\n((?:\1 +.*\n|\n)*)", f"{config.__doc__}\n", re.M)
    if section is None:
        raise TypeError(f"{config.__name__}: its docstring has no Attributes")
    lines = re.findall(rf"^{section[1]}    (\w+): (.*(?:\n{section[1]}     +.*)*)", section[2], re.M)
    return {name: " ".join(text.split()).replace("``", "") for name, text in lines}


def given(config: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration fields that were set on the command line, ready to pass to `config`."""
    found: dict[str, Any] = {}
    for name, kind in get_type_hints(config).items():
        if is_dataclass(kind):
            inner = given(kind, options)
            found |= {name: cast(Any, kind)(**inner)} if inner else {}
        elif getattr(options, name, None) is not None:
            found[name] = getattr(options, name)
    return found
