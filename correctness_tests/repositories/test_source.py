"""The benchmarks of a repository as the gate's source: which there are, how a side is laid out, what is checked."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import contextmanager, nullcontext
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

import rlgauge
from rlgauge.benchmarks import source as module
from rlgauge.benchmarks.source import Benchmarks
from rlgauge.config import Config
from rlgauge.rule import GateError
from rlgauge.source import TOLERANCE, Case
from rlgauge.workers import PYTHON, Side, WorkerError

FILES = "pkg/__init__.py", "pkg/core.py", "bench/test_a.py", "tests/test_b.py", "speed/test_c.py"
FIRST = "bench/test_a.py::test_x"


def write(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


@pytest.fixture
def root(tmp_path):
    return write(tmp_path / "repository", *FILES)


@pytest.fixture
def made(root):
    """Return the benchmarks of a small repository, with options, settings and a run of pytest. -> the source"""

    def made(
        names=(FIRST,), *, given=(), build=None, args=(), on_path=(), testpaths=(), ini=None, cache=True,
        options=None, **settings,
    ):  # fmt: skip
        told = {"gate_benchmarks": list(given), "gate_build": build, **(options or {})}
        values = {"testpaths": list(testpaths), "pythonpath": [root / place for place in on_path]}
        run = SimpleNamespace(getoption=told.get, getini=values.get, args=args, inipath=ini)
        run.invocation_params = SimpleNamespace(dir=root, args=[])
        run.pluginmanager = SimpleNamespace(hasplugin=lambda name: cache and name == "cacheprovider")
        found = Benchmarks(root, Config(**settings), run)
        found.names = list(names)
        found.paths = ["bench"]
        return found

    return made


def test_what_is_kept_lies_in_a_folder_that_git_ignores(made, root):
    source = made()
    assert (source.cache, source.artifact) == (root / ".rlgauge", root / ".rlgauge/gate.json")
    assert (root / ".rlgauge/.gitignore").read_text() == "*\n"
    assert (source.together, source.collects, source.lenient) == (False, True, True)
    made()  # what is there may be there


@pytest.mark.parametrize(
    ("option", "setting", "build"), [(None, "make", "make"), ("cmake", "make", "cmake"), (None, "", ""), ("a", "", "a")]
)
def test_the_build_of_the_command_line_comes_before_that_of_the_settings(root, option, setting, build):
    told = SimpleNamespace(getoption={"gate_build": option}.get)
    assert Benchmarks(root, Config(build=setting), told).build == build
    assert Benchmarks(root, Config(build=setting), None).build == setting


def test_a_lock_file_alone_is_no_contradiction(made):
    assert made(lock="a.txt").config.lock == "a.txt"
    with pytest.raises(GateError, match="build and lock: got both, wanted one"):
        Benchmarks(made().root, Config(build="make", lock="a.txt"), None)


@pytest.mark.parametrize("path", ["nowhere", "..", "../elsewhere"])
def test_only_what_is_in_the_repository_can_be_named(made, root, path):
    write(root.parent, "elsewhere/a.py")
    with pytest.raises(
        GateError, match=rf"^--gate-benchmarks: got {path}, wanted a file or folder of this repository$"
    ):
        made(given=["bench", path]).benchmark_paths()


def test_what_the_folders_above_share_is_head_s_too_unless_it_is_in_one(made, root):
    write(
        root, "conftest.py", "bench/conftest.py", "deep/conftest.py", "deep/tests/conftest.py", "deep/tests/test_z.py"
    )
    assert made().benchmark_paths() == ["bench", "conftest.py"]
    assert made(["deep/tests/test_z.py::test_z"]).benchmark_paths() == ["deep/tests", "conftest.py", "deep/conftest.py"]


def test_without_a_package_there_is_nothing_to_time_unless_one_is_built(made):
    with pytest.raises(GateError, match=r"^no package under test: all modules are among the benchmarks, bench, pkg, "):
        made(given=["bench", "pkg", "speed", "tests"]).benchmark_paths()
    assert made(given=["bench", "pkg", "speed", "tests"], build="make").benchmark_paths() == [
        "bench",
        "pkg",
        "speed",
        "tests",
    ]


def test_folders_of_tests_are_those_that_are_there_and_called_so(made, root):
    write(root, "test")
    assert [made().holds_tests(path) for path in ("bench", "tests/", "pkg", "test", "testing")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_folders_on_the_path_are_those_of_the_repository(made, root):
    assert made(on_path=["lib", "src/a", "/elsewhere"]).on_path() == ["lib", "src/a"]
    assert Benchmarks(root, Config(), None).on_path() == []


@pytest.fixture
def project(root, monkeypatch):
    """Say what the repository's project has installed. -> a function of the files, relative to the site's packages"""

    def project(*files, name="the-project"):
        def installed(asked):
            if asked != "the-project":
                raise metadata.PackageNotFoundError(asked)
            return [metadata.PackagePath(file) for file in files]

        (root / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
        monkeypatch.setattr(module.metadata, "files", installed)

    return project


INSTALLED = (
    "pkg/__init__.py", "pkg/core.py", "one.py", "fast.cpython-311-x86_64-linux-gnu.so", "tests/test_b.py", "data.txt",
    "__editable__.the_project-1.pth", "__editable___the_project_finder.py", "the_project-1.dist-info/RECORD",
    "../../bin/it",
)  # fmt: skip


def test_modules_of_the_project_are_those_that_it_has_installed(root, project):
    assert module.modules_of(root) == []  # there is no pyproject.toml
    project(*INSTALLED)
    assert module.modules_of(root) == ["fast", "one", "pkg", "tests"]
    project(*INSTALLED, name="another")
    assert module.modules_of(root) == []
    for text in ("[tool]", "no toml", "project = 3"):
        (root / "pyproject.toml").write_text(text)
        assert module.modules_of(root) == []


def test_a_package_in_a_folder_of_another_name_is_one_of_those_under_test(made, root, project):
    shutil.move(root / "pkg", root / "lib" / "pkg")
    write(root, "lib/other.py", "build/pkg/__init__.py", "bench/pkg/__init__.py", "env/one.py", "env/pyvenv.cfg")
    assert made(on_path=["more"]).on_path() == ["more"]
    project(*INSTALLED)
    source = made(on_path=["more"])
    assert source.on_path() == ["more", "lib"]
    source.paths = ["bench"]
    assert set(source.packages(root, PYTHON)) >= {"pkg", "one", "fast", "other"}
    assert str(root / "lib") in source.search_path(root, PYTHON, root.parent).split(os.pathsep)
    assert "tests" not in source.packages(root, PYTHON)


@pytest.mark.parametrize("place", ["pkg", "src/pkg"])
def test_folders_that_are_called_as_a_package_elsewhere_do_not_come_before_it(made, root, project, place):
    (root / "src").mkdir()
    shutil.move(root / "pkg", root / place)
    write(root, "tests/pkg/__init__.py", "bench/pkg/__init__.py", "vendored/pkg/__init__.py", ".tox/pkg/__init__.py")
    project(*INSTALLED)
    assert made().on_path() == []


def test_without_settings_a_case_runs_on_one_core_and_has_the_usual_tolerance(made):
    assert made([FIRST, "b"]).cases() == [Case(FIRST, False, TOLERANCE), Case("b", False, TOLERANCE)]
    assert [case.all_cores for case in made([FIRST, "b"], cores={"b": "all"}).cases()] == [False, True]


def test_a_case_is_found_by_its_id_though_it_was_not_collected(made):
    source = made([], tolerances={"tests/*": 0.5}, cores={"tests/*": "all"})
    assert source.case("tests/test_b.py::test_y") == Case("tests/test_b.py::test_y", True, 0.5)
    assert (source.names, source.paths) == (["tests/test_b.py::test_y"], ["tests"])
    assert source.case(FIRST).id == FIRST
    for name in ("tests/test_z.py::test_y", "tests::test_y", "tests/test_b.py"):
        with pytest.raises(GateError, match=rf"^unknown case '{name}': wanted the id of a test"):
            source.case(name)


def test_without_a_run_of_pytest_all_is_collected(root):
    assert Benchmarks(root, Config(), None).arguments() == ["."]


SIDE = Side("base", Path("/sides/base/tree"), Path("/env/bin/python"), ("old",), {"PYTHONPATH": "old", "ITS": "own"})


def test_a_revision_is_asked_for_its_own_tests_in_its_own_tree(made, root, monkeypatch):
    asked = []
    source = made(args=["bench/test_a.py::test_x", "gone", "tests"])
    code = write(root.parent / "code", "bench/test_a.py", "tests/test_b.py", "src/other/__init__.py")
    monkeypatch.setattr(source, "collected_by", lambda side: asked.append(side) or ["a"])
    assert source.listed(code, SIDE) == ["a"]
    (side,) = asked
    assert (side.name, side.root, side.python, side.variables["ITS"]) == ("base", code, SIDE.python, "own")
    assert side.variables["PYTHONPATH"].split(os.pathsep) == [str(code / "src"), str(code), "/sides/base/tool"]
    told = json.loads(side.worker[-1])
    assert told["arguments"][-2:] == ["bench/test_a.py::test_x", "tests"]
    assert f"--rootdir={code}" in told["arguments"]
    assert "--basetemp=/sides/base/own/temporary" in told["arguments"]
    assert (told["packages"], told["folder"]) == ([], "/sides/base/own")


def test_where_tests_are_selected_by_earlier_runs_nothing_is_known_of_a_revision(made, root, monkeypatch):
    source = made(args=["tests"], options={"lf": True})
    code = write(root.parent / "code", "tests/test_b.py")
    monkeypatch.setattr(source, "collected_by", lambda side: pytest.fail("it was asked"))
    assert source.listed(code, SIDE) == []


def test_of_a_revision_that_lacks_the_files_or_cannot_import_them_nothing_is_known(made, root, monkeypatch):
    def dies(side):
        raise WorkerError("base: ended with code 1")

    source = made(args=["bench", "tests"])
    (root.parent / "code").mkdir()
    monkeypatch.setattr(source, "collected_by", lambda side: pytest.fail("it was asked"))
    assert source.listed(root.parent / "code", SIDE) == []
    write(root.parent / "code", "tests/test_b.py")
    monkeypatch.setattr(source, "collected_by", dies)
    assert source.listed(root.parent / "code", SIDE) == []


@pytest.fixture
def started(monkeypatch):
    """Start workers that answer what they are given. -> the sides that are started, how, and the answers"""
    seen, replies = [], []

    class Started:
        def __init__(self, side, *how):
            self.side = side
            seen.append((side, *how))

        def __enter__(self):
            return self

        def __exit__(self, *error):
            seen.append("ended")

        def ask(self, do):
            seen.append(do)

        def reply(self):
            found = replies.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

    monkeypatch.setattr(module, "Worker", Started)
    monkeypatch.setattr(os, "sched_getaffinity", lambda which: {4, 1})
    return seen, replies


def test_a_worker_lists_what_it_collects(made, started):
    seen, replies = started
    replies.append({"listing": ["a", "b"]})
    assert made().collected_by(SIDE) == ["a", "b"]
    assert seen == [(SIDE, (1, 4), 1, 120.0), "listing", "ended"]


def test_generated_files_of_packages_are_part_of_a_snapshot_unless_they_are_built(made, root, monkeypatch):
    asked = []
    monkeypatch.setattr(module.revisions, "snapshot", lambda root, folder: write(folder, "pkg/core.py"))
    monkeypatch.setattr(module.revisions, "ignored", lambda *how: asked.append(how) or ["pkg/core.py"])
    source = made(on_path=["speed"])
    source.snapshot(root, root.parent / "copy")
    assert asked == [(root, ["pkg", "speed/test_c.py"], "*.py")]
    assert source.generated == ["pkg/core.py"]
    write(root, "pkg/made.py")
    monkeypatch.setattr(module.revisions, "ignored", lambda *how: ["pkg/made.py"])
    source.snapshot(root, root.parent / "copy")
    assert (root.parent / "copy/pkg/made.py").read_text() == "pkg/made.py"
    built = made(build="make")
    built.snapshot(root, root.parent / "other")
    assert (built.generated, (root.parent / "other/pkg/made.py").exists()) == ([], False)


def test_a_revision_is_written_whole(made, root, monkeypatch):
    asked = []
    monkeypatch.setattr(module.revisions, "export", lambda *how: asked.append(how))
    made().export(root, "c" * 40, root / "folder")
    assert asked == [(root, "c" * 40, root / "folder")]


def test_a_fingerprint_is_of_the_code_alone_and_made_once(made, root):
    source = made(ignore=["*.md"])
    source.generated = ["pkg/made.py"]
    write(root, "README.md", "pkg/made.py", "pkg/table.csv")
    shutil.rmtree(root / ".rlgauge")
    names = sorted(file.relative_to(root).as_posix() for file in source.code_files(root))
    assert names == ["pkg/__init__.py", "pkg/core.py", "pkg/table.csv", "speed/test_c.py", "tests/test_b.py"]
    first = source.fingerprint(root, Case("a"))
    copy = root.parent / "copy"
    shutil.copytree(root, copy)
    write(copy, "bench/more.py", "more.md")
    assert source.fingerprint(copy, Case("b")) == first
    other = root.parent / "other"
    shutil.copytree(root, other)
    (other / "pkg/core.py").write_text("faster")
    assert source.fingerprint(other, Case("a")) != first
    (root / "pkg/core.py").write_text("changed meanwhile")
    assert source.fingerprint(root, Case("a")) == first


def test_an_interpreter_is_this_one_or_that_of_the_lock_file_or_of_the_build(made, root, monkeypatch):
    monkeypatch.setattr(module, "environments", lambda *how: ("environments", *how))
    monkeypatch.setattr(module, "builds", lambda *how: ("builds", *how))
    with made().environments() as python_for:
        assert python_for("base", root) == PYTHON
    assert made(lock="a.txt").environments() == ("environments", root / ".rlgauge", "a.txt")
    source = made(build="make", ignore=["speed/*", ".rlgauge/*"])
    kind, cache, command, files_of = source.environments()
    assert (kind, cache, command) == ("builds", root / ".rlgauge", "make")
    names = {file.relative_to(root).as_posix() for file in files_of(root)}
    assert names == {name for name in FILES if not name.startswith("speed")}  # it may depend on benchmarks too
    source.python_for = print
    with source.environments() as python_for:
        assert python_for is print


def test_what_is_built_can_be_imported_for_as_long_as_the_run_lasts(made, monkeypatch):
    with made().ready() as places:
        assert places == []
    source, before = made(build="make"), sys.path[:]
    monkeypatch.setattr(source, "builds", lambda: nullcontext("an interpreter for each side"))
    monkeypatch.setattr(source, "built_places", lambda: ["/built", "/tree"])

    def fail():
        with source.ready() as places:
            assert places == ["/built", "/tree"]
            assert sys.path == ["/built", "/tree", *before]
            assert source.python_for == "an interpreter for each side"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (sys.path, source.python_for) == (before, None)


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An environment in which a tree is built. -> its interpreter"""
    env, tree = tmp_path / "built/env", tmp_path / "built/tree"
    write(env / "packages", "fast.py", "fast_c.cpython.so", "more/__init__.py", "fast-1.dist-info/METADATA", "x.pth")
    (env / "packages/__pycache__").mkdir()
    write(tree, "src/fast/__init__.py", "made/by/the/build")
    monkeypatch.setattr(module, "packages_of", lambda python: env / "packages")
    return env / "bin/python"


def test_what_is_built_comes_before_its_tree_and_that_before_the_working_tree(made, root, environment, monkeypatch):
    source, asked = made(build="make"), []

    @contextmanager
    def workspace(cache):
        assert cache == root / ".rlgauge"
        yield root.parent / "run"

    monkeypatch.setattr(module.revisions, "workspace", workspace)
    monkeypatch.setattr(module.revisions, "snapshot", lambda *how: asked.append(how))
    source.python_for = lambda *how: asked.append(how) or environment
    packages, tree = environment.parents[1] / "packages", environment.parents[2] / "tree"
    assert source.built_places() == [str(path) for path in (packages, tree / "src", tree, root)]
    assert asked == [(root, root.parent / "run/head"), ("head", root.parent / "run/head")]


def laid_out(source, root, python=PYTHON):
    code = write(root.parent / "code", "pkg/__init__.py", "pkg/old.py", "bench/test_old.py", "pytest.ini")
    return source.lay_out("base", code, root, root.parent / "sides/base", python)


def test_a_side_has_its_code_the_benchmarks_and_what_is_generated_where_it_has_none(made, root):
    write(root, "pytest.ini", "pkg/made.py", "pkg/old.py")
    (root / "pkg/old.py").write_text("head's")
    (root / "pytest.ini").write_text("head's")
    source = made([FIRST, "tests/test_b.py::test_y", f"{FIRST}[1]"], ini=root / "pytest.ini")
    source.generated = ["pkg/made.py", "pkg/old.py"]
    side, folder = laid_out(source, root), root.parent / "sides/base"
    assert (side.name, side.root, side.python, side.memory) == ("base", folder / "tree", PYTHON, "kept")
    files = {path.relative_to(side.root).as_posix(): path.read_text() for path in side.root.rglob("*.*")}
    assert files == {
        **{name: name for name in ("pkg/__init__.py", "pkg/old.py", "pkg/made.py", "bench/test_a.py")},
        "pytest.ini": "head's",
    }
    assert (folder / "tool/rlgauge").resolve() == Path(rlgauge.__file__).parent.resolve()
    assert side.variables["PYTHONPATH"] == os.pathsep.join(map(str, [side.root, folder / "tool"]))
    told = json.loads(side.worker[-1])
    assert told["arguments"][-2:] == ["bench/test_a.py", "tests/test_b.py"]
    assert told["packages"] == ["pkg"]


def test_a_file_of_settings_elsewhere_is_no_part_of_a_side(made, root, tmp_path):
    side = laid_out(made(ini=write(tmp_path, "pytest.ini") / "pytest.ini"), root)
    assert (side.root / "pytest.ini").read_text() == "pytest.ini"  # its own


def test_a_side_that_is_built_is_the_tree_that_was_built_and_its_packages_come_first(made, root, environment):
    source = made(build="make")
    side = laid_out(source, root, environment)
    assert (side.root / "made/by/the/build").exists()
    assert not (side.root / "pkg").exists()
    packages = environment.parents[1] / "packages"
    assert side.variables["PYTHONPATH"].split(os.pathsep) == [
        str(path) for path in (packages, side.root / "src", side.root, side.root.parent / "tool")
    ]
    assert json.loads(side.worker[-1])["packages"] == ["fast", "fast_c", "more"]


@pytest.mark.parametrize("cache", [True, False])
def test_a_worker_is_told_where_it_may_write_and_what_is_its_own(made, root, cache):
    *command, told = made(cache=cache).command(root / "tree", root / "side", ["a.py"], ("pkg",))
    assert command == ["-P", "-m", "rlgauge.benchmarks.worker"]
    told = json.loads(told)
    folders = [f"--rootdir={root / 'tree'}", f"--basetemp={root / 'side/temporary'}"]
    folders += ["-o", f"cache_dir={root / 'side/cache'}"] if cache else []
    assert told["arguments"][-len(folders) - 1 :] == [*folders, "a.py"]
    assert told == {
        "arguments": told["arguments"],
        "packages": ["pkg"],
        "root": str(root.resolve()),
        "folder": str((root / "side").resolve()),
    }


def origins(base, head, imported=(), strays=((), ())):
    """Return what two workers say of where they import from."""
    return [
        {"origins": found, "imported": list(imported), "strays": list(strays[side]), "missing": {}}
        for side, found in enumerate((base, head))
    ]


@pytest.fixture
def checked(made, started, root):
    """Check two sides that say this. -> the source, its sides, and how the workers were started"""
    sides = [Side(name, root.parent / name, PYTHON, ()) for name in ("base", "head")]

    def check(replies, count=1, **how):
        seen, left = started
        seen.clear()
        left[:] = replies
        source = made(**how)
        source.check(sides, [Case("a")] * count, 7.0)
        return source.told, [call[0].name for call in seen if isinstance(call, tuple)], seen

    check.of = lambda side, name: str(sides[side].root / name)
    return check


def test_the_file_that_each_side_imports_is_told(checked):
    mine, its = checked.of(0, "pkg/__init__.py"), checked.of(1, "pkg/__init__.py")
    told, started, seen = checked(origins({"pkg": mine, "a": mine}, {"pkg": its, "a": its}))
    assert told == [f"a: base {mine}, head {its}", f"pkg: base {mine}, head {its}"]
    assert started == ["base", "head"]
    assert [call[1:] for call in seen[:2]] == [((1, 4), 1, 7.0)] * 2
    assert seen[2:4] == ["origins"] * 2


def test_of_packages_those_that_are_imported_count_and_one_side_may_have_more(checked):
    mine, its = checked.of(0, "pkg"), checked.of(1, "pkg")
    assert checked(origins({"pkg": mine, "no": "/else"}, {"pkg": its}, ["pkg"]))[0] == [f"pkg: base {mine}, head {its}"]
    assert checked(origins({}, {"pkg": its}))[0] == [f"pkg: head {its}"]


def test_without_a_case_nothing_is_checked(checked):
    assert checked([], count=0) == ([], [], [])


@pytest.mark.parametrize("side", [0, 1])
def test_a_package_that_is_not_of_its_own_tree_is_refused(checked, side):
    places = [checked.of(0, "pkg"), checked.of(1, "pkg")]
    places[side] = checked.of(1 - side, "pkg")
    name = ("base", "head")[side]
    with pytest.raises(GateError, match=rf"^{name} imports pkg from {places[side]}, which is not its own tree: both "):
        checked(origins(*({"pkg": place} for place in places)))


@pytest.mark.parametrize("side", [0, 1])
def test_modules_of_the_repository_itself_are_refused(checked, side):
    strays = [(), ()]
    strays[side] = "/root/a.py", "/root/b.py"
    name = ("base", "head")[side]
    with pytest.raises(GateError, match=rf"^{name} imports /root/a.py of the repository itself, not of its own tree"):
        checked(origins({}, {}, strays=strays))


@pytest.mark.parametrize("built", [True, False])
def test_what_is_built_comes_from_the_environment(checked, built):
    there = str(PYTHON.parents[1].resolve() / "lib/fast.so")
    found = origins({"fast": there}, {"fast": there})
    if built:
        assert checked(found, build="make")[0] == [f"fast: base {there}, head {there}"]
    else:
        with pytest.raises(GateError, match="a package that is compiled needs --gate-build"):
            checked(found)


def test_a_side_that_cannot_be_asked_is_a_line(checked):
    with pytest.raises(GateError, match=r"^base: ended with code 1$"):
        checked([WorkerError("base: ended with code 1")])


def test_figures_belong_to_a_machine_a_python_and_its_libraries(made, root, monkeypatch):
    monkeypatch.setattr(module.metadata, "version", {"numpy": "2.1", "pytest": "9.0"}.__getitem__)
    monkeypatch.setattr(module, "version", lambda package: f"{package}'s")
    found = made().machine(root)
    assert found["versions"] == {name: f"{name}'s" for name in ("numpy", "pytest", "pytest-benchmark")}
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"cpu_model", "cores"} < found.keys()


def test_what_is_not_installed_has_no_version():
    assert module.version("pytest") == pytest.__version__
    assert module.version("no-such-package-at-all") == "not installed"


def test_all_benchmarks_of_the_working_tree_are_selected(made, root, monkeypatch):
    source, asked = made([]), []

    def collected_by(side):
        asked.append(side)
        (root / ".rlgauge/listing").mkdir()
        return [FIRST, "tests/test_b.py::test_y"]

    monkeypatch.setattr(source, "ready", lambda: nullcontext(["/built"]))
    monkeypatch.setattr(source, "collected_by", collected_by)
    source.everything(root)
    assert (source.names, source.paths) == ([FIRST, "tests/test_b.py::test_y"], ["bench", "tests"])
    (side,) = asked
    assert (side.name, side.root, side.python) == ("head", root, PYTHON)
    assert side.variables["PYTHONPATH"].split(os.pathsep) == [
        "/built",
        str(root),
        str(Path(rlgauge.__file__).parents[1]),
    ]
    assert json.loads(side.worker[-1])["arguments"][-1] == "."
    assert not (root / ".rlgauge/listing").exists()


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], "no benchmark was collected: no test uses the fixture benchmark or has that mark"),
        (WorkerError("head: died"), "head: died"),
    ],
)
def test_where_nothing_can_be_selected_it_is_a_line(made, root, started, found, message):
    _, replies = started
    replies.append(found if isinstance(found, Exception) else {"listing": found})
    with pytest.raises(GateError, match=rf"^{message}$"):
        made([]).everything(root)


def test_notes_are_of_benchmarks_what_is_generated_and_where_it_comes_from(made):
    source = made()
    source.paths, source.told = ["bench", "conftest.py"], ["pkg: base a, head b"]
    shared = "benchmarks, head's on both sides: bench, conftest.py"
    assert source.notes({}) == [shared, "pkg: base a, head b"]
    source.generated = ["pkg/a.py", "pkg/b.py"]
    generated = "generated, the working tree's on both sides: pkg/a.py, pkg/b.py"
    assert source.notes({}) == [shared, generated, "pkg: base a, head b"]


def test_what_of_an_environment_can_be_imported(tmp_path):
    write(tmp_path, "a.py", "b.cpython-311.so", "c/x", "d.dist-info/x", "e.pth", "__pycache__/x", "f.txt", "g")
    found = {path.name for path in tmp_path.iterdir() if module.is_module(path)}
    assert found == {"a.py", "b.cpython-311.so", "c"}
