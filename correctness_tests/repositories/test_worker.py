"""A worker's reasons for tests that cannot be timed, and the source's choice of benchmarks and cases."""

from __future__ import annotations

import io
import os
import random
import sys
from types import SimpleNamespace

import pytest

from rlgauge import revisions
from rlgauge.benchmarks.source import Benchmarks
from rlgauge.benchmarks.worker import WorkerPlugin, seed_all
from rlgauge.config import Config
from rlgauge.rule import GateError


@pytest.fixture
def plugin():
    settings = {"packages": ["toy"], "root": "/root", "folder": "/root/side", "tree": "/root/side/tree"}
    return WorkerPlugin(io.StringIO(), io.StringIO(), settings)


@pytest.mark.parametrize(
    ("error", "absent"),
    [
        (ModuleNotFoundError("no toy.more", name="toy.more"), "ModuleNotFoundError: no toy.more"),
        (ModuleNotFoundError("no toys", name="toys"), None),
        (KeyError("toy"), None),
        (AttributeError("no such", name="x", obj=type("A", (), {"__module__": "toy.a"})()), "AttributeError: no such"),
        (AttributeError("no such", name="x", obj=os), None),
    ],
)
def test_an_error_for_want_of_code_under_test_is_found_behind_other_errors(plugin, error, absent):
    wanted = {"absent": absent} if absent else {}
    other = ValueError("a fixture fails")
    other.__context__ = error
    assert plugin.absent_name(error) == plugin.absent_name(other) == wanted
    other.__context__, other.__cause__ = KeyError(), error
    error.__context__ = other  # circular
    assert plugin.absent_name(other) == wanted


@pytest.mark.parametrize(
    ("identity", "found"),
    [
        ("a/test_x.py::test_y", {"failed": "it cannot be collected: SyntaxError", "absent": "it"}),
        ("b/c/test_x.py::test_y", {"skipped": "not here"}),
        ("a/test_x.pyx::test_y", {"failed": "pytest does not collect it on this side"}),
    ],
)
def test_a_missing_test_has_the_reason_of_its_file_or_folder(plugin, identity, found):
    plugin.broken = {"a/test_x.py": {"failed": "SyntaxError", "absent": "it"}, "b": {"skipped": "not here"}}
    assert plugin.missing(identity) == found


def test_a_shared_fixture_that_cannot_be_torn_down_is_blamed_on_the_test_before(plugin):
    def teardown(item):
        if item is other:
            raise OSError("no server\nat all")

    hook = SimpleNamespace(pytest_runtest_protocol=lambda item, nextitem: None)
    one, other = (SimpleNamespace(parent=object(), config=SimpleNamespace(hook=hook)) for _ in range(2))
    plugin.items = {"a": one, "b": other}
    plugin.session = SimpleNamespace(_setupstate=SimpleNamespace(teardown_exact=teardown))
    plugin.prepare("a")
    why = "the teardown of fixtures shared with a failed: OSError: no server"
    assert plugin.prepare("b") == {"failed": why}


def test_modules_of_the_repository_outside_the_sides_own_folder_are_strays(plugin, monkeypatch):
    files = ["/root/toy/a.py", "/root/side/toy/a.py", "/rooted/c.py", None, "/root/env/lib/site-packages/e.py",
             "/root/own/lib/f.py"]  # fmt: skip
    with monkeypatch.context() as patched:
        patched.setattr(sys, "modules", {str(k): SimpleNamespace(__file__=file) for k, file in enumerate(files)})
        patched.setattr(sys, "prefix", "/root/own")  # an environment inside of the repository
        found = list(plugin.strays())
    assert found == ["/root/toy/a.py"]


def test_every_test_draws_from_the_same_seeds(monkeypatch):
    import numpy as np

    seeds = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(manual_seed=seeds.append))
    drawn = [(seed_all(), random.random(), np.random.random()) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert seeds == [0, 0]


@pytest.fixture
def source(tmp_path):
    """A small repository with settings and options. -> its benchmarks"""
    for name in ("pkg/__init__.py", "bench/test_a.py", "tests/test_b.py", "speed/test_c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    revisions.git(tmp_path, "init", "--quiet")

    def made(given=(), build=None, testpaths=(), args=(), names=("bench/test_a.py::test_x",), **settings):
        told = {"gate_benchmarks": list(given), "gate_build": build}
        ini = {"testpaths": list(testpaths), "pythonpath": [tmp_path / "lib"]}
        at = SimpleNamespace(dir=tmp_path / "bench")
        run = SimpleNamespace(getoption=told.get, getini=ini.get, args=args, invocation_params=at)
        found = Benchmarks(tmp_path, Config(**settings), run)
        found.names = list(names)
        return found

    return made


@pytest.mark.parametrize(
    ("how", "paths"),
    [
        ({}, ["bench"]),
        ({"names": ["speed/test_c.py::test_x", "bench/test_a.py::test_x[1]"]}, ["bench", "speed/test_c.py"]),
        ({"benchmarks": ["speed"]}, ["speed", "bench"]),
        ({"benchmarks": ["speed"], "given": ["../bench/"]}, ["bench"]),
        ({"testpaths": ["tests/", "pkg"]}, ["tests", "bench"]),
        ({"testpaths": ["tests"], "benchmarks": ["bench"]}, ["bench"]),
    ],
)
def test_benchmarks_are_named_by_option_settings_or_testpaths_and_collection(source, how, paths):
    assert source(**how).benchmark_paths() == paths


def test_the_last_matching_pattern_counts(source):
    found = source(
        cores={"bench/*": "all", "*test_x": "one"},
        tolerances={"*": 0.1, "bench/*y": 0.2},
        names=["bench/test_x", "bench/test_y"],
    )
    assert [(case.id, case.all_cores, case.tolerance) for case in found.cases()] == [
        ("bench/test_x", False, 0.1),
        ("bench/test_y", True, 0.2),
    ]


def test_arguments_of_pytest_are_made_relative_to_the_root(source):
    args = ["test_a.py::test_x[a::b]", "..", "../tests", "/elsewhere/test_z.py"]
    assert source(args=args).collected_paths() == ["bench/test_a.py::test_x[a::b]", ".", "tests"]
    assert source(args=args[3:]).collected_paths() == ["."]


def test_a_build_excludes_a_lock_file_and_depends(source):
    with pytest.raises(GateError, match="build and lock are both set: remove lock"):
        source(build="make", lock="requirements.txt")
    with pytest.raises(GateError, match="build and depends are both set: remove depends"):
        source(build="make", depends={"*": ["pkg"]})
