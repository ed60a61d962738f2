"""The fields of a configuration, those of dataclasses within it like the others, with the sentence about each."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from typing import Any, cast, get_type_hints


def single_fields(config: Any) -> Iterator[tuple[Field[Any], Any, str]]:
    """Yield each field of a configuration that is no dataclass itself: the field, its type, the sentence about it.

    Args:
        config: a dataclass.
    """
    types, sentences = get_type_hints(config), attributes(config)
    for field in fields(config):
        if is_dataclass(types[field.name]):
            yield from single_fields(types[field.name])
        else:
            yield field, types[field.name], sentences[field.name]


def attributes(config: type) -> dict[str, str]:
    """Return the sentence about each attribute in the docstring of a class, in one line.

    Args:
        config: a class whose docstring has a section ``Attributes``.
    """
    section = re.search(r"^( *)Attributes:\n((?:\1 +.*\n|\n)*)", f"{config.__doc__}\n", re.M)
    if section is None:
        raise TypeError(f"{config.__name__}: its docstring has no Attributes")
    lines = re.findall(rf"^{section[1]}    (\w+): (.*(?:\n{section[1]}     +.*)*)", section[2], re.M)
    return {name: " ".join(text.split()).replace("``", "") for name, text in lines}


def given(config: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Return those fields of a configuration that were given on the command line, as its class takes them.

    Args:
        config: a dataclass.
        options: the parsed command line.
    """
    found: dict[str, Any] = {}
    for name, kind in get_type_hints(config).items():
        if is_dataclass(kind):
            inner = given(kind, options)
            found |= {name: cast(Any, kind)(**inner)} if inner else {}
        elif getattr(options, name, None) is not None:
            found[name] = getattr(options, name)
    return found
