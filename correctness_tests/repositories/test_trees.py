"""Division of a repository's files into benchmarks and code under test."""

import pytest

from rlgauge.benchmarks import trees
from rlgauge.benchmarks.trees import benchmark_paths, code_files, conftests, helper_paths, overlay, packages

from .made import Repository, work
from .test_layouts import COLLECT, USES_LATE, files_timing, gated

HERE = ["src", "."], ["."]  # import roots, and those whose packages need __init__.py


def write(root, *files):
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (["tests/speed/test_a.py", "tests/test_b.py"], ["tests"]),
        (["tests/speed/bench/test_a.py"], ["tests"]),
        (["speed/test_a.py"], ["speed/test_a.py"]),
        (["perfplot/tests/test_a.py", "testers/x/test_b.py"], ["perfplot/tests", "testers/x/test_b.py"]),
        (["perf/x/test_a.py", "a/benches/test_b.py", "Perf-Tests/test_c.py"], ["Perf-Tests", "a/benches", "perf"]),
        ([], []),
    ],
)
def test_the_topmost_folder_named_like_tests_holds_the_benchmarks(files, wanted, tmp_path):
    assert benchmark_paths(files, tmp_path) == wanted


def test_a_project_in_a_folder_of_tests_is_no_benchmark(tmp_path):
    write(tmp_path, "pyproject.toml", "perf/pyproject.toml", "perf/bench/deep/test_a.py", "perf/test_b.py")
    files = ["perf/bench/deep/test_a.py", "perf/test_b.py", "tests/test_c.py"]
    assert benchmark_paths(files, tmp_path) == ["perf/bench", "perf/test_b.py", "tests"]


def test_a_folder_of_tests_that_something_is_imported_from_belongs_to_the_benchmarks_of_its_project(tmp_path):
    write(tmp_path, "apps/svc/setup.py")
    files = ["bench/test_a.py", "apps/svc/perf/deep/test_b.py"]
    imported = ["pkg/tests/data.py", "apps/svc/test/data.py", "tests/deep/data.py"]
    assert helper_paths(files, imported, tmp_path) == ["apps/svc/test", "tests"]
    assert helper_paths(files[:1], imported[:2], tmp_path) == []


def test_conftests_of_the_folders_above_belong_to_the_benchmarks(tmp_path):
    write(tmp_path, "conftest.py", "pkg/conftest.py", "pkg/tests/conftest.py", "other/conftest.py")
    assert conftests(["pkg/tests"], tmp_path) == ["conftest.py", "pkg/conftest.py"]
    assert conftests(["pkg/tests/test_a.py"], tmp_path) == ["conftest.py", "pkg/conftest.py", "pkg/tests/conftest.py"]


FLAT = "flat/__init__.py flat/deep/__init__.py single.py src/inner/__init__.py src/alone.py setup.py conftest.py "
FLAT += "scripts/run.py tests/__init__.py a-b/__init__.py data/x.txt"
SPACES = "space/inner/core.py venv/pyvenv.cfg venv/lib/a.py docs/conf.py bench/b.py src/deep/x/a.py lib/other/b.py "
SPACES += "lib/empty/x.txt"


@pytest.mark.parametrize(
    ("files", "benchmarks", "more", "wanted"),
    [
        (FLAT, "tests conftest.py", [], "alone flat inner single"),
        (FLAT, "tests flat src", [], "single"),
        (FLAT, ".", [], ""),
        ("__init__.py flat/__init__.py", "tests", [], ""),
        ("__init__.py flat/__init__.py setup.py", "tests", [], "flat"),  # a stray __init__.py in the root of a project
        (SPACES, "bench", [], "deep lib space"),
        (SPACES, "bench space", ["lib"], "deep other"),
    ],
)
def test_packages_are_those_at_the_top_in_src_and_on_the_path(tmp_path, files, benchmarks, more, wanted):
    write(tmp_path, *files.split())
    assert packages(tmp_path, benchmarks.split(), [*more, *HERE[0]], HERE[1]) == wanted.split()


def test_packages_are_found_in_a_project_below_the_top(tmp_path):
    write(tmp_path, "part/pkg/__init__.py", "part/space/a.py", "libs/core/src/core/__init__.py", "other/x.py")
    folders = ["libs/core/src", "part/src", "part"]
    assert packages(tmp_path, ["part/tests"], folders, ["part"]) == ["core", "pkg", "space"]
    assert trees.package_paths(tmp_path, ["part/tests"], folders, ["part"]) == ["libs/core/src/core", "part/pkg"]


def test_speed_depends_on_all_files_but_benchmarks_and_ignored_ones(tmp_path):
    write(tmp_path, "pkg/a.py", "pkg/table.csv", "bench/test_a.py", "README.md", "docs/x/y.py", "benchmarks.py")
    write(tmp_path, "docs/uv.lock", "bench/requirements-dev.txt", "docs/other.txt")
    write(tmp_path, "docs/dev-requirements.txt", "docs/requirements/py311.txt", "docs/requirements/py311.in")
    (tmp_path / "data").symlink_to("docs")
    found = {path.relative_to(tmp_path).as_posix() for path in code_files(tmp_path, ["bench"], ["*.md", "docs/*"])}
    locks = {"docs/uv.lock", "bench/requirements-dev.txt"}  # lock files always count
    locks |= {"docs/dev-requirements.txt", "docs/requirements/py311.txt"}
    assert found == {"pkg/a.py", "pkg/table.csv", "benchmarks.py", "data"} | locks
    assert set(code_files(tmp_path, ["bench"], ["docs/", "pkg", "*.md"])) == {
        tmp_path / name for name in {"benchmarks.py", "data"} | locks
    }


def test_a_pattern_matches_a_folder_and_all_that_is_in_it():
    paths = "libs/a/src", "libs/a/src/deep/x.py", "libs/a", "libs/a/b/src/x.py", "other/a/src/x.py"
    assert [path for path in paths if trees.is_inside(path, ["libs/*/src"])] == [*paths[:2]]


def test_a_side_has_one_revisions_code_and_the_others_benchmarks(tmp_path):
    code = write(tmp_path / "code", "pkg/a.py", "bench/test_old.py", "bench/data/old", "conftest.py")
    head = write(tmp_path / "head", "pkg/b.py", "bench/test_new.py", "bench/data/new", "more/test_c.py")
    overlay(tmp_path / "side", code, head, ["bench", "conftest.py", "more/test_c.py", "gone"])
    files = {
        path.relative_to(tmp_path / "side").as_posix() for path in (tmp_path / "side").rglob("*") if path.is_file()
    }
    assert files == {"pkg/a.py", "bench/test_new.py", "bench/data/new", "more/test_c.py"}
    assert (code / "bench/test_old.py").exists()
    assert (code / "pkg/a.py").samefile(tmp_path / "side/pkg/a.py")
    assert not (head / "bench/test_new.py").samefile(tmp_path / "side/bench/test_new.py")


def test_the_sources_of_a_build_are_copied_so_that_a_benchmark_may_write_to_them(tmp_path):
    code = write(tmp_path / "code", "pkg/table.csv")
    built = write(tmp_path / "built", "pkg/table.csv", "pkg/fast.so")
    overlay(tmp_path / "side", built, code, [], code)
    for name, shared in (("pkg/table.csv", False), ("pkg/fast.so", True)):
        assert (tmp_path / "side" / name).samefile(built / name) == shared


def test_code_is_copied_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    code, head = write(tmp_path / "code", "pkg/a.py"), write(tmp_path / "head", "bench/test_new.py")
    (code / "link.py").symlink_to("pkg/a.py")
    overlay(tmp_path / "side", code, head, ["bench"])
    assert (tmp_path / "side/pkg/a.py").read_text() == "pkg/a.py"
    assert (tmp_path / "side/link.py").is_symlink()


def test_links_stay_links_and_their_targets_stay(tmp_path):
    code = write(tmp_path / "code", "real/test_old.py", "pkg/a.py")
    (code / "bench").symlink_to("real")
    (code / "link.py").symlink_to("pkg/a.py")
    head = write(tmp_path / "head", "bench/test_new.py")
    (head / "bench/link.py").symlink_to("test_new.py")
    side = tmp_path / "side"
    overlay(side, code, head, ["bench"])
    assert [path.name for path in sorted((side / "bench").iterdir())] == ["link.py", "test_new.py"]
    assert (side / "bench/link.py").is_symlink()
    assert (side / "link.py").is_symlink()
    assert (side / "real/test_old.py").exists()
    assert not (side / "bench").is_symlink()


def test_a_fixture_may_put_the_folder_of_a_package_on_the_path(tmp_path):
    hidden = {"hidden/deep.py": "from deeper import slow\n", "hidden/more/deeper.py": work(slow=100)}
    made = Repository(tmp_path / "repository", {"pkg/__init__.py": "", **hidden})
    folders = "pytestconfig.rootpath / 'hidden', pathlib.Path(__file__).parents[1] / 'hidden/more'"
    adds = f"    sys.path[:0] = map(str, [{folders}])\n"
    fixture = f"@pytest.fixture(autouse=True)\ndef on_path(pytestconfig):\n{adds}"
    files = files_timing("deep", uses=USES_LATE) | {"pytest.ini": "[pytest]\n"}
    files["tests/conftest.py"] += f"\n\nimport pathlib\nimport sys\n\nimport pytest\n\n\n{fixture}"
    made.commit("tests", files)
    made.write({"hidden/more/deeper.py": work(slow=200)})
    assert "test_deep.py::test_slow: slower" in gated(made, tmp_path, against="tests", code=1)


@pytest.mark.parametrize(
    ("module", "files"),
    [
        ("tests.core", {"tests/__init__.py": "", "tests/core.py": work(slow=100)}),
        ("repository.core", {"__init__.py": "", "core.py": work(slow=100)}),  # the root, which is not installed
    ],
)
def test_a_package_that_cannot_be_told_from_benchmarks_is_refused(tmp_path, module, files):
    made = Repository(tmp_path / "repository", files | files_timing(module))
    made.write({[*files][-1]: work(slow=200)})
    text = gated(made, tmp_path, COLLECT, code=2, PYTHONPATH=f"{tmp_path}:{made.root}")
    assert "no package under test: all modules in tests count as benchmarks" in text
