"""What of a repository is a benchmark, and what is the code that it times."""

from __future__ import annotations

import pytest

from rlgauge.benchmarks import trees
from rlgauge.benchmarks.trees import benchmark_paths, code_files, conftests, overlaid, packages

HERE = ["src", "."], ["."]  # folders from which packages are imported, and the bases among them


def made(root, *files):
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (["benchmarks/test_a.py"], ["benchmarks"]),
        (["tests/speed/test_a.py", "tests/test_b.py"], ["tests"]),
        (["speed/test_a.py"], ["speed/test_a.py"]),
        (["pkg/tests/test_a.py"], ["pkg/tests"]),
        (["test_a.py"], ["test_a.py"]),
        (["perfplot/tests/test_a.py", "testers/x/test_b.py"], ["perfplot/tests", "testers/x/test_b.py"]),
        (["perf/x/test_a.py", "other/bench/test_b.py"], ["other/bench", "perf"]),
    ],
)
def test_the_topmost_folder_that_is_called_so_holds_the_benchmarks(files, wanted, tmp_path):
    assert benchmark_paths(files, tmp_path) == wanted


def test_a_project_in_such_a_folder_is_no_benchmark(tmp_path):
    made(tmp_path, "pyproject.toml", "perf/pyproject.toml", "perf/bench/deep/test_a.py", "perf/test_b.py")
    files = ["perf/bench/deep/test_a.py", "perf/test_b.py", "tests/test_c.py"]
    assert benchmark_paths(files, tmp_path) == ["perf/bench", "perf/test_b.py", "tests"]


def test_projects_are_the_folders_that_say_how_they_are_built():
    files = ["pyproject.toml", "libs/a/pyproject.toml", "libs/b/setup.py", "libs/b/setup.cfg", "libs/c/x.py"]
    assert trees.projects(files) == ["libs/a", "libs/b"]


def test_what_the_folders_above_share_belongs_to_them(tmp_path):
    made(tmp_path, "conftest.py", "pkg/conftest.py", "pkg/tests/conftest.py", "other/conftest.py")
    assert conftests(["pkg/tests"], tmp_path) == ["conftest.py", "pkg/conftest.py"]
    assert conftests(["pkg/tests/test_a.py"], tmp_path) == ["conftest.py", "pkg/conftest.py", "pkg/tests/conftest.py"]


def test_packages_are_those_at_the_top_and_in_src(tmp_path):
    made(
        tmp_path,
        "flat/__init__.py",
        "flat/deep/__init__.py",
        "single.py",
        "setup.py",
        "conftest.py",
        "scripts/run.py",
        "src/inner/__init__.py",
        "src/alone.py",
        "tests/__init__.py",
        "a-b/__init__.py",
    )
    assert packages(tmp_path, ["tests", "conftest.py"], *HERE) == ["alone", "flat", "inner", "single"]
    assert packages(tmp_path, ["tests", "flat", "src"], *HERE) == ["single"]
    assert packages(tmp_path, ["."], *HERE) == []


def test_a_folder_at_the_top_may_be_a_package_without_a_file_of_its_own(tmp_path):
    made(
        tmp_path, "space/inner/core.py", "venv/pyvenv.cfg", "venv/lib/a.py", "docs/conf.py", "bench/b.py", "data/x.txt"
    )
    assert packages(tmp_path, ["bench"], *HERE) == ["space"]
    assert packages(tmp_path, ["bench", "space"], *HERE) == []


def test_folders_on_the_path_hold_packages_without_a_file_of_their_own(tmp_path):
    made(tmp_path, "src/space/deep/a.py", "lib/other/b.py", "docs/c.py", "lib/empty/x.txt")
    assert packages(tmp_path, ["tests"], *HERE) == ["lib", "space"]
    assert packages(tmp_path, ["tests"], ["lib", *HERE[0]], ["."]) == ["other", "space"]


def test_packages_are_found_in_a_project_below_the_top(tmp_path):
    made(tmp_path, "part/pkg/__init__.py", "part/space/a.py", "libs/core/src/core/__init__.py", "other/x.py")
    folders = ["libs/core/src", "part/src", "part"]
    assert packages(tmp_path, ["part/tests"], folders, ["part"]) == ["core", "pkg", "space"]
    assert trees.places(tmp_path, ["part/tests"], folders, ["part"]) == ["libs/core/src/core", "part/pkg"]


def test_speed_depends_on_all_files_but_benchmarks_and_what_is_ignored(tmp_path):
    made(tmp_path, "pkg/a.py", "pkg/table.csv", "bench/test_a.py", "README.md", "docs/x/y.py", "benchmarks.py")
    found = {path.relative_to(tmp_path).as_posix() for path in code_files(tmp_path, ["bench"], ["*.md", "docs/*"])}
    assert found == {"pkg/a.py", "pkg/table.csv", "benchmarks.py"}
    made(tmp_path, "docs/uv.lock", "bench/requirements-dev.txt", "docs/other.txt")
    found = {path.name for path in code_files(tmp_path, ["bench"], ["*.md", "docs/*"])}
    assert {"uv.lock", "requirements-dev.txt"} < found
    assert "other.txt" not in found


def test_a_side_has_one_revision_s_code_and_the_other_s_benchmarks(tmp_path):
    code = made(tmp_path / "code", "pkg/a.py", "bench/test_old.py", "bench/data/old", "conftest.py")
    head = made(tmp_path / "head", "pkg/b.py", "bench/test_new.py", "bench/data/new", "more/test_c.py")
    overlaid(tmp_path / "side", code, head, ["bench", "conftest.py", "more/test_c.py", "gone"])
    files = {
        path.relative_to(tmp_path / "side").as_posix() for path in (tmp_path / "side").rglob("*") if path.is_file()
    }
    assert files == {"pkg/a.py", "bench/test_new.py", "bench/data/new", "more/test_c.py"}
    assert (code / "bench/test_old.py").exists()
    assert (code / "pkg/a.py").samefile(tmp_path / "side/pkg/a.py")
    assert not (head / "bench/test_new.py").samefile(tmp_path / "side/bench/test_new.py")


@pytest.mark.parametrize(
    ("name", "named"),
    [("test", True), ("tests", True), ("testing", True), ("bench", True), ("benchmark", True),
     ("benchmarks", True), ("Benchmarks", True), ("perf", True), ("performance", True), ("perf_tests", True),
     ("perf-test", True), ("performance_tests", True), ("perftests", True), ("mytests", False), ("tests2", False),
     ("testings", False), ("perfs", False), ("test_a", False), ("tester", False), ("", False)],
)  # fmt: skip
def test_folders_of_tests_are_called_so(name, named):
    assert bool(trees.NAMED.fullmatch(name)) is named


def test_each_folder_of_benchmarks_is_named_once_in_order(tmp_path):
    files = ["tests/b/test_a.py", "z.py", "tests/test_b.py", "a/tests/x/tests/test_c.py", "z.py"]
    assert benchmark_paths(files, tmp_path) == ["a/tests", "tests", "z.py"]
    assert benchmark_paths([], tmp_path) == []


@pytest.mark.parametrize(
    ("path", "paths", "found"),
    [("a/b.py", ["a"], True), ("a/b.py", ["a/"], True), ("a", ["a"], True), ("ab/c.py", ["a"], False),
     ("a", ["a/b"], False), ("a/b.py", ["x", "a/b.py"], True), ("a/b.py", ["."], True), ("a", [], False),
     ("x/a/b.py", ["a"], False)],
)  # fmt: skip
def test_a_path_is_in_a_folder_or_is_it(path, paths, found):
    assert trees.inside(path, paths) is found


def test_files_above_are_those_that_are_files(tmp_path):
    made(tmp_path, "a/conftest.py/no", "a/b/conftest.py", "conftest.py")
    assert conftests(["a/b/tests", "a/b/other", "."], tmp_path) == ["a/b/conftest.py", "conftest.py"]


def test_packages_come_from_folders_that_are_there_and_are_no_packages(tmp_path):
    made(tmp_path, "lib/a.py", "src/b.py", "kept/__init__.py", "kept/c.py", "file")
    assert trees.roots(tmp_path, ["lib", "kept", "nowhere", "file", "src", "."]) == [
        tmp_path / "lib", tmp_path / "src", tmp_path,
    ]  # fmt: skip


def test_tools_of_a_root_and_what_cannot_be_imported_are_no_code(tmp_path):
    tools = "setup", "conftest", "noxfile", "tasks", "fabfile", "dodo", "versioneer"
    made(tmp_path, *(f"{name}.py" for name in tools), "my-script.py", "data.txt", "code.pyi", "code.py", "lone/x.py")
    made(tmp_path, "src/deep/x/y.py", "src/none/x.txt", "src/setup.py", "pkg/__init__.py", "speed.py")
    assert trees.places(tmp_path, ["speed.py"], *HERE) == ["code.py", "pkg", "src/deep"]
    assert trees.places(tmp_path, ["src"], ["lone", "."], ["."]) == ["code.py", "lone/x.py", "pkg", "speed.py"]


def test_folders_that_are_never_packages_without_a_file_of_their_own(tmp_path):
    never = "src", "build", "dist", "docs", "doc", "examples", "scripts", "tools", "node_modules", "tests", "a-b"
    made(tmp_path, *(f"{name}/a.py" for name in never), "known/a.py", "lib/sub/a.py", "space/a.py", "own/__init__.py")
    found = [
        folder.name for folder in sorted(tmp_path.iterdir()) if trees.is_namespace(folder, tmp_path, ["known", "lib"])
    ]
    assert found == ["space"]
    made(tmp_path, "file")
    assert not trees.is_namespace(tmp_path / "file", tmp_path, [])
    assert packages(tmp_path, ["known"], ["lib", *HERE[0]], ["."]) == ["a", "own", "space", "sub"]


def test_patterns_are_of_whole_paths_and_folders_are_no_files(tmp_path):
    made(tmp_path, "a.md", "pkg/b.md", "pkg/LICENSE", "LICENSE.txt", "Docs/x.py", "docs/x.py")
    found = {path.relative_to(tmp_path).as_posix() for path in code_files(tmp_path, [], ["*.md", "LICENSE*", "docs/*"])}
    assert found == {"pkg/LICENSE", "Docs/x.py"}
    assert set(code_files(tmp_path, ["."], [])) == set()


def test_files_are_copied_with_their_folders(tmp_path):
    source = made(tmp_path / "source", "pkg/deep/a.py", "b.py", "c.py")
    target = made(tmp_path / "target", "b.py")
    (source / "b.py").write_text("new")
    (source / "b.py").chmod(0o755)
    trees.copied(["pkg/deep/a.py", "b.py"], source, target)
    assert (target / "pkg/deep/a.py").read_text() == "pkg/deep/a.py"
    assert (target / "b.py").read_text() == "new"
    assert (target / "b.py").stat().st_mode & 0o111
    assert not (target / "c.py").exists()


def test_links_stay_links_and_what_they_point_to_is_not_removed(tmp_path):
    code = made(tmp_path / "code", "real/test_old.py", "pkg/a.py")
    (code / "bench").symlink_to("real")
    (code / "link.py").symlink_to("pkg/a.py")
    head = made(tmp_path / "head", "bench/test_new.py", "one.py", "deep/two.py")
    (head / "bench/link.py").symlink_to("test_new.py")
    overlaid(tmp_path / "side", code, head, ["bench", "one.py", "deep/two.py"])
    side = tmp_path / "side"
    assert [path.name for path in sorted((side / "bench").iterdir())] == ["link.py", "test_new.py"]
    assert (side / "bench/link.py").is_symlink()
    assert (side / "link.py").is_symlink()
    assert (side / "real/test_old.py").exists()
    assert not (side / "bench").is_symlink()
    assert ((side / "one.py").read_text(), (side / "deep/two.py").read_text()) == ("one.py", "deep/two.py")
