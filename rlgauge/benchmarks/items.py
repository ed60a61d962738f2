"""Which tests are benchmarks, by the fixture or the mark that they use, and why tests fail or are skipped."""

from __future__ import annotations

import dis
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

FIXTURES = {"benchmark": "pytest-benchmark", "codspeed_benchmark": "pytest-codspeed"}  # fixture -> its plugin
MARKS = tuple(FIXTURES)
PLUGINS = "pytest_benchmark", "pytest_codspeed"  # modules of the fixtures that the gate replaces
BETWEEN = "EXTENDED_ARG", "PUSH_NULL", "STORE_FAST"  # instructions between a method and its argument, also in assert


def has_fixture(item: pytest.Item) -> bool:
    """Return whether a plugin's benchmark fixture is among a test's fixtures, or the test requests it itself."""
    names = fixture_names(item)
    if any(is_plugins(item, name) if name in FIXTURES else is_alias(item, name) for name in names):
        return True
    if "request" not in names:
        return False
    test = getattr(getattr(item.parent, "obj", None), getattr(item, "originalname", None) or item.name, None)
    return requests_fixture(item, test)


def uses_fixture(item: pytest.Item) -> bool:
    """Return whether a test uses a plugin's benchmark fixture, or names a fixture that may request it.

    A fixture may request it for only some of its tests. Autouse fixtures, which all tests have, therefore do not count.
    """
    if has_fixture(item):
        return True
    if "request" not in fixture_names(item):
        return False
    known = definitions(item)
    return any(requests_fixture(item, each.func) for name in named_fixtures(item) for each in known.get(name, ()))


def requests_fixture(item: pytest.Item, function: object) -> bool:
    """Return whether the function of a test or a fixture passes a benchmark fixture's name to ``getfixturevalue``."""
    code, names = getattr(function, "__code__", None), FIXTURES.keys() - parameters(item)
    if code is None or "getfixturevalue" not in code.co_names:
        return False
    steps = [step for step in dis.get_instructions(code) if step.opname not in BETWEEN]
    return any(step.argval == "getfixturevalue" and after.argval in names for step, after in pairwise(steps))


def parameters(item: pytest.Item) -> set[str]:
    """Return the names of a test's parameters."""
    return {*getattr(getattr(item, "callspec", None), "params", ())}


def fixture_names(item: pytest.Item) -> set[str]:
    """Return the names of a test's fixtures, except parameters."""
    return {*getattr(item, "fixturenames", ())} - parameters(item)


def asks_for_fixture(item: pytest.Item) -> bool:
    """Return whether a test asks for a benchmark fixture, itself, by its marks, or through fixtures that it names."""
    marked = any(item.get_closest_marker(name) for name in MARKS)
    return marked or any(name in FIXTURES or is_alias(item, name) for name in named_fixtures(item))


def named_fixtures(item: pytest.Item) -> set[str]:
    """Return the fixtures that a test names, itself or by marks, and those that these request in turn."""
    names = [*getattr(getattr(item, "_fixtureinfo", None), "argnames", ())]
    names += [name for mark in item.iter_markers("usefixtures") for name in mark.args]
    return requested(item, names)


def requested(item: pytest.Item, names: Sequence[str]) -> set[str]:
    """Return these fixtures of a test, and those that they request in turn, except through pytest's own."""
    found, known, left = set[str](), definitions(item), [*names]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            own = [each for each in known.get(name, ()) if each.func.__module__.partition(".")[0] != "_pytest"]
            left += [argument for definition in own for argument in definition.argnames]
    return found


def is_alias(item: pytest.Item, name: str) -> bool:
    """Return whether a fixture is a plugin's fixture under another name."""
    found = definitions(item).get(name)
    return found is not None and name != "benchmark_weave" and found[-1].func.__module__.partition(".")[0] in PLUGINS


def is_plugins(item: pytest.Item, name: str) -> bool:
    """Return whether a fixture is a plugin's or may wrap it, rather than a project's own of the same name."""
    for definition in reversed(definitions(item).get(name, ())):
        if definition.func.__module__.partition(".")[0] in PLUGINS:
            return True
        if name not in definition.argnames:  # it overrides the previous one, but may request it under another name
            others = requested(item, definition.argnames) - {name}
            wraps = "request" in others or any(other in FIXTURES or is_alias(item, other) for other in others)
            return definition.params is None and wraps
    return True


def replacing_module(item: pytest.Item) -> str | None:
    """Return the module whose own fixture a test uses instead of a plugin's benchmark fixture, else None."""
    known, used = definitions(item), FIXTURES.keys() & fixture_names(item)
    modules = [known[name][-1].func.__module__ for name in used if known.get(name) and not is_plugins(item, name)]
    return str(modules[0]) if modules else None


def definitions(item: pytest.Item) -> Mapping[str, Sequence[Any]]:
    """Return the definitions of a test's fixtures by name; the last definition of a name overrides the others."""
    return getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})


def is_benchmark(item: pytest.Item) -> bool:
    """Return whether a test is a benchmark, by its fixture or by a mark."""
    return uses_fixture(item) or any(map(item.get_closest_marker, MARKS))


def missing_plugin(item: pytest.Item) -> str | None:
    """Return an error message if the plugin that provides a test's benchmark fixture is missing, else None."""
    manager = item.session._fixturemanager  # a hook may add a fixture that the test's own definitions lack
    defined = getattr(manager, "_arg2fixturedefs", None) or manager._arg2node2fixturedefs  # the latter in pytest 9.2
    names = getattr(item, "fixturenames", ()) if has_fixture(item) else ()
    for fixture, plugin in FIXTURES.items():
        if fixture in names and fixture not in defined:
            uses = f"{item.nodeid} uses the fixture {fixture} of {plugin}, which is not"
            if find_spec(plugin.replace("-", "_")):
                return f"{uses} loaded: remove -p no:{fixture.partition('_')[0]} or PYTEST_DISABLE_PLUGIN_AUTOLOAD"
            return f"{uses} installed: run {sys.executable} -m pip install {plugin}"
    return None


def skip_reason(report: Any) -> str:
    """Return why a test or a file was skipped, or why a test was expected to fail."""
    if hasattr(report, "wasxfail"):
        return f"xfail: {report.wasxfail.removeprefix('reason: ')}"
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    return str(reason).removeprefix("Skipped: ")


def last_line(text: str) -> str:
    """Return the last non-empty line of an error report."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("E ").strip() if lines else "unknown reason"
