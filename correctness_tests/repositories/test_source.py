"""The paths, cores and tolerances of a repository's benchmarks, and the projects that are installed from it."""

import os
from types import SimpleNamespace

import pytest

from rlgauge import revisions
from rlgauge.benchmarks import builds
from rlgauge.benchmarks.checks import Checks
from rlgauge.benchmarks.installed import copied_projects
from rlgauge.benchmarks.source import Benchmarks
from rlgauge.config import Config
from rlgauge.rule import GateError

from .made import Repository, dist_info

LIBRARY = "fast.cpython-311-x86_64-linux-gnu.so"


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def source(tmp_path):
    """Return a function that returns the benchmarks of a small repository with these settings and options."""
    write(tmp_path, dict.fromkeys(("pkg/__init__.py", "bench/test_a.py", "tests/test_b.py", "speed/test_c.py"), ""))
    revisions.git(tmp_path, "init", "--quiet")

    def create(given=(), gate_build=None, testpaths=(), names=("bench/test_a.py::test_x",), imported=(), **settings):
        options = {"gate_benchmarks": list(given), "gate_build": gate_build, "verbose": 0}
        ini = {"testpaths": list(testpaths), "pythonpath": [tmp_path / "lib"]}
        at = SimpleNamespace(dir=tmp_path / "bench")
        run = SimpleNamespace(getoption=options.get, getini=ini.get, invocation_params=at, inipath=None)
        found = Benchmarks(tmp_path, Config(**settings), run)
        found.names, found.imported = list(names), list(imported)
        return found

    return create


@pytest.mark.parametrize(
    ("how", "paths"),
    [
        ({}, ["bench"]),
        ({"names": ["speed/test_c.py::test_x", "bench/test_a.py::test_x[1]"]}, ["bench", "speed/test_c.py"]),
        ({"benchmarks": ["speed"]}, ["speed", "bench"]),
        ({"benchmarks": ["{folder}/speed/test_*.py"]}, ["speed/test_c.py", "bench"]),
        ({"benchmarks": ["speed/*"]}, ["speed/deep", "speed/test_c.py", "bench"]),  # but no file that git ignores
        ({"benchmarks": ["speed"], "given": ["../bench/"]}, ["bench"]),
        ({"testpaths": ["tests/", "pkg"]}, ["tests", "bench"]),
        ({"testpaths": ["tests", "{folder.parent}/tests"]}, ["tests", "bench"]),
        ({"testpaths": ["tests"], "benchmarks": ["bench"]}, ["bench"]),
        ({"testpaths": ["bench", "bench/"]}, ["bench"]),
        ({"benchmarks": ["bench/test_a.py", "bench"]}, ["bench"]),
        ({"imported": ["tests/data.py"]}, ["bench", "tests"]),
        ({"imported": ["tests/data.py"], "benchmarks": ["tests/test_b.py"]}, ["tests/test_b.py", "bench"]),
    ],
)
def test_benchmarks_are_named_by_option_settings_or_testpaths_and_collection(source, tmp_path, how, paths):
    write(tmp_path, {"speed/deep/test_d.py": "", "speed/__pycache__/test_c.pyc": "", ".gitignore": "__pycache__/\n"})
    (tmp_path.parent / "tests").mkdir(exist_ok=True)
    how = {key: [value.format(folder=tmp_path) for value in values] for key, values in how.items()}
    assert source(**how).benchmark_paths() == paths


def test_a_folder_that_benchmarks_only_import_from_stays_on_the_path(source, tmp_path, monkeypatch):
    for name in ("tests", "bench"):
        monkeypatch.syspath_prepend(tmp_path / name)
    found = source(imported=["tests/data.py"])
    folders, _ = found.import_folders(found.benchmark_paths())
    assert ("tests" in folders, "bench" in folders) == (True, False)


def test_benchmarks_that_git_ignores_are_refused(source, tmp_path):
    found = source(benchmarks=["speed"])
    (tmp_path / ".gitignore").write_text("speed/\n")
    with pytest.raises(GateError, match=r"^benchmarks 'speed' in \[tool.rlgauge\]: git ignores it"):
        found.benchmark_paths()


def test_files_of_benchmarks_that_git_ignores_are_listed(source, tmp_path):
    write(tmp_path, {"bench/corpus/a.txt": "", "bench/__pycache__/a.pyc": "", ".gitignore": "corpus/\n__pycache__/\n"})
    write(tmp_path, {"bench/clone/a.txt": "", "pkg/data/corpus/a.txt": ""})
    revisions.git(tmp_path / "bench/clone", "init", "--quiet")
    found = source()
    found.paths = ["bench"]
    found.snapshot(tmp_path / "copy")
    line = "missing on both sides, because git leaves them out: bench/corpus/, bench/clone/"
    assert line in Checks(found).notes()


def test_links_out_of_the_repository_and_of_git_annex_lead_to_the_same_files_on_both_sides(source, tmp_path):
    found, beside = source(), tmp_path.with_name(f"{tmp_path.name}.txt")
    write(tmp_path, {str(beside): "beside", ".git/annex/objects/key": "annexed"})
    links = {"beside": f"../../{beside.name}", "annexed": "../.git/annex/objects/key", "absent": "../../absent"}
    for name, target in {**links, "__init__": "__init__.py"}.items():
        (tmp_path / "pkg" / name).symlink_to(target)
    found.paths = ["bench"]
    base, head = tmp_path / ".git/sides/base", tmp_path / ".git/sides/head"
    found.export(Repository(tmp_path, {}).git("rev-parse", "HEAD"), base)
    found.snapshot(head)
    for side in (base, head):
        assert [(side / "pkg" / name).read_text() for name in ("beside", "annexed")] == ["beside", "annexed"]
        assert [os.readlink(side / "pkg" / name) for name in ("absent", "__init__")] == ["../../absent", "__init__.py"]


def test_a_module_is_collected_from_its_file(source, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    found = source()
    found.run.args, found.run.getoption = ["speed", "bench.test_a::test_x", "absent.module"], {"pyargs": True}.get
    assert found.collected_paths() == ["speed", "bench/test_a.py::test_x", "bench/absent.module"]


def test_builds_without_an_extension_that_the_other_side_has_are_reported(source):
    found = Checks(source())
    found.compare_builds([{"pkg/fast"}, {"pkg/fast"}], ["a.log", "b.log"])
    assert found.warnings == []
    found.compare_builds([{"pkg/fast"}, set()], ["a.log", "b.log"])
    assert [words.partition(";")[0] for words in found.warnings] == ["missing from a build: pkg/fast"]


def test_a_base_with_commits_that_head_lacks_is_reported(source, tmp_path):
    found, made = source(), Repository(tmp_path, {})
    made.commit("newer", {"pkg/newer.py": ""})
    made.at("start")
    made.commit("change", {"pkg/change.py": ""})
    start, newer, change = (made.git("rev-parse", tag) for tag in ("start", "newer", "change"))
    checks = Checks(found)
    for base in (start, change):
        checks.compare_history(base)
    assert checks.warnings == []
    checks.compare_history(newer)
    (words,) = checks.warnings
    assert words.startswith("base has 1 commit that head lacks, ")
    assert words.endswith(f" --gate-against={start[:12]}")


def test_the_build_command_of_the_option_overrides_the_settings_and_runs_where_pytest_was_started(source, tmp_path):
    write(tmp_path, {"tree/bench/test_a.py": ""})
    found = source(gate_build="touch built", build="touch other")
    found.cache.mkdir()
    with found.builds() as python_for:
        python = python_for("head", tmp_path / "tree")
    assert (builds.tree_of(python) / "bench/built").exists()


def test_packages_come_from_this_checkout_although_another_one_is_installed(source, tmp_path, monkeypatch):
    other, site = tmp_path.with_name("other"), tmp_path.with_name("site")
    for folder in (other / "python", tmp_path / "python"):
        folder.mkdir(parents=True)
    record = {"url": other.as_uri(), "dir_info": {"editable": True}}
    write(tmp_path, {"pyproject.toml": '[project]\nname = "pkg"\n', **dist_info(site, "pkg", "pkg.pth", **record)})
    monkeypatch.syspath_prepend(site)
    monkeypatch.syspath_prepend(other / "python")
    assert "python" in source().import_folders(["bench"])[0]


def test_an_environment_of_conda_in_the_repository_is_no_code_under_test(source, tmp_path, monkeypatch):
    write(tmp_path, {".pixi/envs/default/conda-meta/history": "", ".pixi/envs/default/lib/tool.py": ""})
    monkeypatch.syspath_prepend(tmp_path / ".pixi/envs/default/lib")
    assert not [folder for folder in source().import_folders(["bench"])[0] if folder.startswith(".pixi")]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"benchmarks": ["nowhere"]}, r"benchmarks 'nowhere' in \[tool.rlgauge\]: this repository has no such file "),
        ({"given": ["nowhere"]}, "--gate-benchmarks nowhere: this repository has no such file or folder; give "),
        ({"given": [".."]}, r"no package under test: all modules in \. count as benchmarks; "),
        ({"names": ["../site/a.py::test_x"]}, "{folder.parent}/site/a.py is not in the repository {folder}: "),
        ({"build": "make", "given": [".."]}, r"no package under test: all modules in \. count as benchmarks;"),
        ({"build": "make", "lock": "requirements.txt"}, "build and lock are both set: remove lock"),
        ({"build": "make", "depends": {"*": ["pkg"]}}, "build and depends are both set: remove depends"),
        ({"lock": "absent.txt"}, "lock 'absent.txt': {folder} has no such file; "),
        ({"lock": "uv.lock"}, "lock 'uv.lock': pip cannot read it; export it, for example with uv export, to a "),
    ],
)
def test_a_mistake_is_one_line(source, tmp_path, how, message):
    with pytest.raises(GateError, match=f"^{message.format(folder=tmp_path)}"):
        source(**how).benchmark_paths()


def test_a_path_that_pythonpath_cannot_name_is_refused(tmp_path):
    made = Repository(tmp_path / "a:b", {"pkg/__init__.py": ""})
    made.git("worktree", "add", "--quiet", str(tmp_path / "work"))
    for root, named in ((made.root, made.root), (tmp_path / "work", made.root / ".git")):
        with pytest.raises(GateError, match=f"^{named}: PYTHONPATH cannot name a folder with a colon; rename it$"):
            Benchmarks(root, Config(), None)


def test_the_last_matching_pattern_counts_and_overrides_the_mark(source):
    found = source(
        cores={"bench/*": "all", "*test_x": "one"},
        tolerances={"*": 0.1, "bench/*y": 0.2},
        names=["bench/test_x", "bench/test_y"],
    )
    found.marks = {"bench/test_x": {"cores": "all", "tolerance": 0.3}}
    assert [(case.id, case.all_cores, case.tolerance) for case in found.cases()] == [
        ("bench/test_x", False, 0.1),
        ("bench/test_y", True, 0.2),
    ]


def test_only_what_is_included_is_on_the_sides_with_the_benchmarks_and_a_lock_file(source, tmp_path):
    (tmp_path / "requirements.txt").touch()
    found = source(include=["pkg"], lock="requirements.txt")
    found.paths = ["bench"]
    assert found.parts() == ["pkg", "requirements.txt", "bench"]


@pytest.mark.parametrize("changed", ["locked/all.txt", "locked/some.txt", "other-1.whl"])
def test_a_lock_file_counts_with_what_it_installs_although_depends_and_ignore_leave_it_out(source, tmp_path, changed):
    files = {"locked/all.txt": "-r some.txt\n./other-1.whl\n", "locked/some.txt": "a==1\n", "other-1.whl": "1"}
    write(tmp_path, files)
    found = source(lock="locked/all.txt", ignore=["locked"])
    for tree, more in (("base", {}), ("equal", {"pkg/b.py": ""}), ("head", {changed: f"{files[changed]}\n"})):
        write(tmp_path / tree, {"pkg/a.py": "", **files, **more})
    base, equal, head = (found.digest(tmp_path / tree, ("pkg/a.py",)) for tree in ("base", "equal", "head"))
    assert base == equal != head


def test_a_file_that_head_generates_is_a_change_where_base_tracks_it(source, tmp_path, tmp_path_factory):
    write(tmp_path, {"pkg/version.py": "VERSION = 1\n"})
    revisions.commit_all(tmp_path)
    commit = revisions.resolve(tmp_path, "HEAD")
    revisions.git(tmp_path, "rm", "--cached", "--quiet", "pkg/version.py")
    write(tmp_path, {"pkg/version.py": "VERSION = 2\n", ".git/info/exclude": "version.py\n"})
    found = source()
    found.paths = ["bench"]
    folder = tmp_path_factory.mktemp("sides")
    base, head = folder / "base", folder / "head"
    found.snapshot(head)
    found.export(commit, base)
    assert [(side / "pkg/version.py").read_text() for side in (base, head)] == ["VERSION = 1\n", "VERSION = 2\n"]
    assert found.digest(base) != found.digest(head)


@pytest.mark.parametrize(
    ("files", "library", "url"),  # of the project that has installed the library; None if it is in the repository
    [
        ({"fast.py": ""}, LIBRARY, None),
        ({"tests/fast.py": ""}, LIBRARY, None),
        ({"fast/__init__.py": ""}, f"fast/_{LIBRARY}", None),
        ({"fast/__init__.py": "", "setup.cfg": "[metadata]\nname = fast\n"}, f"fast/_{LIBRARY}", ""),
        ({"fast/__init__.py": "", "setup.py": ""}, f"fast/_{LIBRARY}", "file://{}"),
        ({"fast.c": "", "pyproject.toml": '[project]\nname = "fast"\n'}, LIBRARY, ""),
    ],
)
def test_a_compiled_file_of_a_package_or_of_an_installed_project_asks_for_a_build(
    source, tmp_path, tmp_path_factory, monkeypatch, files, library, url
):
    site = tmp_path_factory.mktemp("site")
    write(tmp_path, files)
    write(tmp_path if url is None else site, {library: ""})
    if url is not None:
        write(site, dist_info(site, "fast", library, url=url.format(tmp_path)))
    monkeypatch.syspath_prepend(site)
    found = source()
    found.paths = ["tests"]
    with pytest.raises(GateError, match=f"^{library} is compiled and not in git, .* with --gate-build"):
        found.snapshot(tmp_path_factory.mktemp("copy") / "copy")


def test_a_compiled_file_in_the_root_asks_for_a_build_although_there_is_no_package(source, tmp_path):
    (tmp_path / "pkg/__init__.py").unlink()
    write(tmp_path, {LIBRARY: ""})
    with pytest.raises(GateError, match=f"^{LIBRARY} is compiled and not in git, "):
        source(benchmarks=["speed"]).benchmark_paths()


def test_packages_are_imported_from_a_project_in_a_folder_named_like_tests(source, tmp_path):
    write(tmp_path, {"bench/pyproject.toml": ""})
    found = source(names=["bench/tests/test_a.py::test_x"])
    assert found.benchmark_paths() == ["bench/tests"]
    assert "bench" in found.import_folders(["bench/tests"])[0]


PYPROJECT = "pyproject.toml", '[project]\nname = "core"\n'


@pytest.mark.parametrize(
    ("url", "name", "text"),
    [
        (None, *PYPROJECT), ("dist/core-1-py3-none-any.whl", *PYPROJECT), ("my libs/core", *PYPROJECT),
        ("my libs/core", "setup.py", "import setuptools\n\nsetuptools.setup(**made())\n"),  # without its name
    ],
)  # fmt: skip
def test_a_project_that_is_installed_as_a_copy_is_found_wherever_it_was_installed_from(
    tmp_path, monkeypatch, url, name, text
):
    project, site = tmp_path / "my libs/core", tmp_path / "site"
    record = {"url": (tmp_path / url).as_uri()} if url else {}
    write(project, {name: text, **dist_info(site, "core", "core/__init__.py", **record)})
    monkeypatch.syspath_prepend(site)
    assert copied_projects(tmp_path, [project]) == ([project], {"core": project})
