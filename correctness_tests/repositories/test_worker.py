"""What a worker says of tests that cannot be timed, and what the gate takes of the settings and of a command line."""

from __future__ import annotations

import os
import random
from types import SimpleNamespace

import pytest

from rlgauge import revisions
from rlgauge.benchmarks.fixture import Misused
from rlgauge.benchmarks.source import Benchmarks
from rlgauge.benchmarks.worker import Tests as Worker
from rlgauge.benchmarks.worker import last_line, seed_all, words
from rlgauge.config import Config
from rlgauge.rule import GateError
from rlgauge.source import Case


@pytest.fixture
def tests():
    return Worker(None, None, {"packages": ["toy"], "root": "/root", "folder": "/root/side"})


@pytest.mark.parametrize(
    ("error", "absent"),
    [
        (ModuleNotFoundError("no toy.more", name="toy.more"), "ModuleNotFoundError: no toy.more"),
        (ModuleNotFoundError("no toys", name="toys"), None),
        (KeyError("toy"), None),
        (AttributeError("no such", name="x", obj=type("A", (), {"__module__": "toy.a"})), "AttributeError: no such"),
        (AttributeError("no such", name="x", obj=type("A", (), {"__module__": "toy.a"})()), "AttributeError: no such"),
        (AttributeError("no such", name="x", obj=os), None),
        (AttributeError("no such"), None),
    ],
)
def test_what_the_code_under_test_lacks_is_absent_also_where_another_error_hides_it(tests, error, absent):
    wanted = {"absent": absent} if absent else {}
    other = ValueError("a fixture fails")
    other.__context__ = error
    assert tests.explained(error) == tests.explained(other) == wanted
    other.__context__, other.__cause__ = KeyError(), error
    error.__context__ = other  # in a circle
    assert tests.explained(other) == wanted


@pytest.mark.parametrize(
    ("identity", "found"),
    [
        ("a/test_x.py::test_y", {"failed": "it cannot be collected: SyntaxError", "absent": "it"}),
        ("b/c/test_x.py::test_y", {"skipped": "not here"}),
        ("a/test_x.pyx::test_y", {"failed": "it is not collected here"}),
        ("bc/test_x.py::test_y", {"failed": "it is not collected here"}),
    ],
)
def test_a_test_that_is_missing_has_the_reason_of_its_file_or_folder(tests, identity, found):
    tests.broken = {"a/test_x.py": {"failed": "SyntaxError", "absent": "it"}, "b": {"skipped": "not here"}}
    assert tests.missing(identity) == found


@pytest.mark.parametrize(
    ("used", "closed", "told"),
    [(True, True, None), (True, False, "it goes on though"), (False, False, "it never calls benchmark")],
)
def test_a_test_that_passes_has_been_timed_or_says_why_not(tests, used, closed, told):
    tests.fixture, tests.closed = SimpleNamespace(used=used, counting=False, extra_info={}), closed
    found = tests.ended("a")
    assert found == {} if told is None else found["failed"].startswith(told)
    tests.reports = [
        SimpleNamespace(failed=False, skipped=False),
        SimpleNamespace(failed=True, skipped=False, when="setup"),
    ]
    tests.raised = OSError("no server\nat all")
    assert tests.ended("a") == {"failed": "its set-up fails: OSError: no server"}


def test_a_test_of_the_same_file_comes_next_so_that_what_they_share_stays(tests):
    one, two = object(), object()
    items = [SimpleNamespace(parent=parent) for parent in (one, two, one)]
    tests.items = dict(zip("abc", items))
    assert [tests.sibling(item) for item in items] == [items[2], items[0], items[0]]
    tests.items = {"a": items[0]}
    assert tests.sibling(items[0]) is None


def test_errors_in_a_line():
    assert [words(error) for error in (None, Misused("this\nthat"), KeyError(), OSError("a\nb"))] == [
        "no reason is known", "this", "KeyError", "OSError: a",
    ]  # fmt: skip
    assert [last_line(text) for text in ("", "a\nE  b \n\n")] == ["no reason is known", "b"]


def test_what_draws_by_itself_draws_the_same_for_every_test():
    import numpy as np

    drawn = [(seed_all(), random.random(), np.random.random()) for _ in range(2)]
    assert drawn[0] == drawn[1]


@pytest.fixture
def source(tmp_path):
    """Return the benchmarks of a small repository, with settings and a run of pytest. -> the source"""
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
def test_benchmarks_are_those_named_by_the_option_or_the_settings_or_pytest_and_those_collected(source, how, paths):
    assert source(**how).benchmark_paths() == paths


def test_the_last_pattern_that_names_a_test_counts(source):
    found = source(
        cores={"bench/*": "all", "*test_x": "one"},
        tolerances={"*": 0.1, "bench/*y": 0.2},
        names=["bench/test_x", "bench/test_y"],
    )
    assert [(case.id, case.all_cores, case.tolerance) for case in found.cases()] == [
        ("bench/test_x", False, 0.1),
        ("bench/test_y", True, 0.2),
    ]


def test_what_was_asked_of_pytest_is_asked_of_base_from_the_root(source, tmp_path):
    args = ["test_a.py::test_x[a::b]", "..", "../tests", "/elsewhere/test_z.py"]
    assert source(args=args).arguments() == ["bench/test_a.py::test_x[a::b]", ".", "tests"]
    assert source(args=args[3:]).arguments() == ["."]


def test_a_build_goes_with_no_lock_file_and_nothing_that_narrows(source):
    with pytest.raises(GateError, match="build and lock: got both, wanted one"):
        source(build="make", lock="requirements.txt")
    with pytest.raises(GateError, match="build and depends: got both, wanted one"):
        source(build="make", depends={"*": ["pkg"]})


def test_a_case_is_found_by_its_id_though_it_was_not_collected(source):
    found = source(names=[], tolerances={"tests/*": 0.5}, cores={"tests/*": "all"})
    assert found.case("tests/test_b.py::test_y") == Case("tests/test_b.py::test_y", True, 0.5)
    for name in ("tests/test_z.py::test_y", "tests::test_y", "tests/test_b.py"):
        with pytest.raises(GateError, match=rf"^unknown case '{name}': wanted the id of a test"):
            found.case(name)
