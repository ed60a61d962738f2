"""Every workload has the same rooms: who knows one knows all; and no two files need each other."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from rl_impls.backends import workloads

ROOT = Path(__file__).parents[1]
TABLE = (ROOT / "docs" / "workloads.md").read_text()
ROOMS = re.findall(r"^\| `(\w+)` \|", TABLE, re.MULTILINE)
SOURCES = {"_numpy", "_torch", "_jax"}


def files(workload):
    """The modules of a workload, by name."""
    return {path.stem: path for path in (ROOT / "rl_impls" / workload).glob("*.py")}


@pytest.mark.parametrize("workload", workloads())
def test_a_workload_has_the_rooms_of_the_table_and_says_why_where_it_has_another(workload):
    found = files(workload)
    assert {"__init__", "knobs"} <= found.keys()
    assert SOURCES & found.keys()
    for name in found.keys() - set(ROOMS):
        first = ast.get_docstring(ast.parse(found[name].read_text())).splitlines()[0]
        assert first.startswith(f"{workload.capitalize()}'s alone: "), f"{name}: {first}"


@pytest.mark.parametrize("workload", workloads())
def test_what_can_be_trained_can_be_trained_from_the_command_line(workload):
    found = files(workload)
    assert ("agent" in found) == ("__main__" in found)


def test_each_room_of_the_table_is_there_once_and_some_workload_has_it():
    assert len(set(ROOMS)) == len(ROOMS)
    assert set(ROOMS) <= {name for workload in workloads() for name in files(workload)}


def imported(path, package):
    """The modules of this repository that a file imports, at its top or in a function, by name."""
    tree, found = ast.parse(path.read_text()), set()
    unused = {id(node) for guard in ast.walk(tree) if types_alone(guard) for node in ast.walk(guard)}
    for node in ast.walk(tree):
        if id(node) in unused:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return found


def types_alone(node):
    """Whether it is an ``if TYPE_CHECKING``."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def graph(package):
    """What each module of a package imports of it, packages themselves left out."""
    paths = [path for path in (ROOT / package).rglob("*.py") if path.stem != "__init__"]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
    return {name: imported(path, name.rpartition(".")[0]) & names.keys() for name, path in names.items()}


@pytest.mark.parametrize("package", ["rl_impls", "perf_tests", "rlgauge"])
def test_no_two_files_need_each_other(package):
    found = graph(package)
    assert sum(map(len, found.values())) > len(found)
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("workload", workloads())
def test_a_workload_imports_no_other_workload_and_nothing_but_implementations(workload):
    others = {f"rl_impls.{name}" for name in workloads()} - {f"rl_impls.{workload}"}
    for path in files(workload).values():
        for module in imported(path, f"rl_impls.{workload}"):
            assert not module.startswith(("perf_tests", "correctness_tests")), path
            assert not any(f"{module}.".startswith(f"{other}.") for other in others), path
