"""What of a repository is a benchmark, and what is the code that it times."""

from __future__ import annotations

import pytest

from rlgauge.benchmarks.trees import benchmark_paths, code_files, conftests, overlaid, packages


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
def test_the_topmost_folder_that_is_called_so_holds_the_benchmarks(files, wanted):
    assert benchmark_paths(files) == wanted


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
    assert packages(tmp_path, ["tests", "conftest.py"]) == ["alone", "flat", "inner", "single"]
    assert packages(tmp_path, ["tests", "flat", "src"]) == ["single"]
    assert packages(tmp_path, ["."]) == []


def test_a_folder_at_the_top_may_be_a_package_without_a_file_of_its_own(tmp_path):
    made(
        tmp_path, "space/inner/core.py", "venv/pyvenv.cfg", "venv/lib/a.py", "docs/conf.py", "bench/b.py", "data/x.txt"
    )
    assert packages(tmp_path, ["bench"]) == ["space"]
    assert packages(tmp_path, ["bench", "space"]) == []


def test_folders_on_the_path_hold_packages_without_a_file_of_their_own(tmp_path):
    made(tmp_path, "src/space/deep/a.py", "lib/other/b.py", "docs/c.py", "lib/empty/x.txt")
    assert packages(tmp_path, ["tests"]) == ["lib", "space"]
    assert packages(tmp_path, ["tests"], ["lib", "."]) == ["other", "space"]


def test_speed_depends_on_all_files_but_benchmarks_and_what_is_ignored(tmp_path):
    made(tmp_path, "pkg/a.py", "pkg/table.csv", "bench/test_a.py", "README.md", "docs/x/y.py", "benchmarks.py")
    found = {path.relative_to(tmp_path).as_posix() for path in code_files(tmp_path, ["bench"], ["*.md", "docs/*"])}
    assert found == {"pkg/a.py", "pkg/table.csv", "benchmarks.py"}


def test_a_side_has_one_revision_s_code_and_the_other_s_benchmarks(tmp_path):
    code = made(tmp_path / "code", "pkg/a.py", "bench/test_old.py", "bench/data/old", "conftest.py")
    head = made(tmp_path / "head", "pkg/b.py", "bench/test_new.py", "bench/data/new", "more/test_c.py")
    overlaid(tmp_path / "side", code, head, ["bench", "conftest.py", "more/test_c.py", "gone"])
    files = {
        path.relative_to(tmp_path / "side").as_posix() for path in (tmp_path / "side").rglob("*") if path.is_file()
    }
    assert files == {"pkg/a.py", "bench/test_new.py", "bench/data/new", "more/test_c.py"}
    assert (code / "bench/test_old.py").exists()
