"""Every argument of what is public is explained where it is defined, so that nobody has to read code to call it."""

from __future__ import annotations

import ast
import re

import pytest

from .commands import ROOT

PACKAGES = ["perf_tests", "rl_impls", "rlgauge"]
GIVEN = ("pytest_", "test_")  # pytest says what these are called with
BUILDERS = [["spec", "example", "knobs", "target"], ["spec", "example", "knobs", "backend"]]  # explained by the module
SECTION = re.compile(r"^(\w[\w ]*):$\n((?:^(?:[ ]+.*)?$\n?)*)", re.M)
FILES = [str(path.relative_to(ROOT)) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def explained(docstring, *sections):
    """Return the names that some sections of a docstring explain, each at the start of a line, alone or with others."""
    found = [text for name, text in SECTION.findall(docstring or "") if name in sections]
    lines = [re.match(r" {4}([*\w]+(?:, [*\w]+)*):", line) for text in found for line in text.splitlines()]
    return {name.strip("* ") for line in lines if line for name in line[1].split(",")}


def arguments(function):
    """Return the names of the arguments of a function, but for the first of a method."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *filter(None, [given.vararg]), *given.kwonlyargs]
    return [one.arg for one in [*every, *filter(None, [given.kwarg])] if one.arg not in ("self", "cls", "_")]


def is_dataclass(node):
    """Tell whether a class is decorated as one."""
    return any("dataclass" in ast.unparse(one) for one in node.decorator_list)


def unexplained(body, where=""):
    """Yield each argument of what is public in a body that its docstring does not explain, and each that is none."""
    once = ast.get_docstring(ast.Module(body, [])) or ""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            names = explained(ast.get_docstring(node), "Args", "Attributes")
            wanted = []
            if is_dataclass(node):
                wanted = [one.target.id for one in node.body if isinstance(one, ast.AnnAssign)]
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    wanted = arguments(method)
            if wanted in BUILDERS:
                names |= {name for name in wanted if f"``{name}``" in once}
            yield from (f"{where}{node.name}: {name}" for name in wanted if name not in names)
            yield from unexplained(node.body, f"{where}{node.name}.")
        if isinstance(node, ast.FunctionDef) and not node.name.startswith(("_", *GIVEN)):
            names, wanted = explained(ast.get_docstring(node), "Args"), arguments(node)
            if wanted in BUILDERS:
                names |= {name for name in wanted if f"``{name}``" in once}
            yield from (f"{where}{node.name}: {name}" for name in wanted if name not in names)
            yield from (f"{where}{node.name}: no argument {name}" for name in sorted(names - {*arguments(node)}))


@pytest.mark.parametrize("path", FILES)
def test_every_argument_of_what_is_public_is_explained(path):
    assert list(unexplained(ast.parse((ROOT / path).read_text()).body)) == []


def test_an_argument_that_is_not_explained_is_found():
    code = '''"""Builders take ``spec``, ``example`` and ``knobs``."""
def built(spec, example, *, knobs, target): ...

def told(one, *two, three):
    """Return something.

    Args:
        one, two: what comes
            first: and next.
        four: nothing.

    Raises:
        three: never.
    """

@dataclass
class Data:
    """Holds.

    Attributes:
        first: the first.
    """
    first: int
    second: int

    def method(self, third): ...

class Made:
    """Holds."""
    def __init__(self, fourth): ...
    def _hidden(self, fifth): ...
'''
    wanted = [
        "built: target",
        "told: three",
        "told: no argument four",
        "Data: second",
        "Data.method: third",
        "Made: fourth",
    ]
    assert list(unexplained(ast.parse(code).body)) == wanted
