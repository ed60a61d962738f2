"""Imports: no workload imports another one, and nothing is circular."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from rl_impls.backends import workloads

ROOT = Path(__file__).parents[1]


def files(workload):
    return {path.stem: path for path in (ROOT / "rl_impls" / workload).glob("*.py")}


def imported(path, package):
    tree, found = ast.parse(path.read_text()), set()
    unused = {id(node) for guard in ast.walk(tree) if is_type_checking(guard) for node in ast.walk(guard)}
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


def is_type_checking(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def graph(package):
    paths = [path for path in (ROOT / package).rglob("*.py") if path.stem != "__init__"]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
    return {name: imported(path, name.rpartition(".")[0]) & names.keys() for name, path in names.items()}


@pytest.mark.parametrize("package", ["rl_impls", "perf_tests", "rlgauge"])
def test_no_import_is_circular(package):
    found = graph(package)
    assert sum(map(len, found.values())) > len(found)
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("workload", workloads())
def test_workload_imports_neither_another_workload_nor_tests(workload):
    others = {f"rl_impls.{name}" for name in workloads()} - {f"rl_impls.{workload}"}
    for path in files(workload).values():
        for module in imported(path, f"rl_impls.{workload}"):
            assert not module.startswith(("perf_tests", "correctness_tests")), path
            assert not any(f"{module}.".startswith(f"{other}.") for other in others), path
