"""A package with a part in C: each side is built from its own tree, once."""

from __future__ import annotations

import os

import pytest

from rlgauge.benchmarks import builds
from rlgauge.rule import GateError

from .made import FIND, QUICK, WHOLE, Repository, compiled, flat, work

SLOW, KEPT = (f"benchmarks/test_sum.py::test_{name}" for name in ("slow", "kept"))
BUILD = "python -m pip install --no-deps --no-build-isolation --quiet --disable-pip-version-check ."
IN_PLACE = "python setup.py --quiet build_ext --inplace"


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Repository(tmp_path_factory.mktemp("compiled") / "toy", compiled())
    yield toy
    assert toy.leftovers() == []


def test_a_build_is_kept_for_its_command_and_the_files_of_its_tree(tmp_path, monkeypatch):
    made = []

    def build(folder, code, words, name, place):
        folder.mkdir(parents=True)
        made.append((name, *words))

    monkeypatch.setattr(builds, "build", build)
    trees = [tmp_path / "cache", tmp_path / "base", tmp_path / "head"]
    for tree in trees:
        tree.mkdir()
        (tree / "fast.c").write_text("int fast;")

    def interpreters(command):
        with builds.builds(trees[0], command, lambda code: [code / "fast.c"]) as python_for:
            return [python_for(tree.name, tree) for tree in trees[1:]]

    same = interpreters("make fast")
    assert same[0] == same[1]
    assert interpreters("make fast") == same
    assert made == [("base", "make", "fast")]
    (trees[2] / "fast.c").write_text("int fast, slow;")
    assert interpreters("make fast")[0] == same[0] != interpreters("make fast")[1]
    assert set(interpreters("make -j fast")).isdisjoint(interpreters("make fast"))
    assert made[1:] == [("head", "make", "fast"), ("base", "make", "-j", "fast"), ("head", "make", "-j", "fast")]


def test_a_build_is_run_in_its_own_tree_by_the_interpreter_of_its_own_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "fast.c").write_text("int fast;")
    code = "import os, sys; print(sys.prefix, os.environ['VIRTUAL_ENV'], os.listdir(), file=open('seen', 'w'))"
    made = tmp_path / "made"
    builds.build(made, tmp_path / "tree", ["python", "-c", code], "base")
    assert (made / "tree" / "seen").read_text() == f"{made / 'env'} {made / 'env'} ['fast.c']\n"
    assert [path.name for path in (tmp_path / "tree").iterdir()] == ["fast.c"]
    with pytest.raises(GateError, match=r"^head: its build fails: no compiler$"):
        builds.build(made, tmp_path / "tree", ["python", "-c", "print(1); raise SystemExit('no compiler')"], "head")


def test_a_program_that_is_not_there_is_a_line_and_leaves_nothing(tmp_path):
    (tmp_path / "tree").mkdir()
    with pytest.raises(GateError, match=r"^head: its build fails: .*no-such-program"):
        builds.build(tmp_path / "made", tmp_path / "tree", ["no-such-program"], "head")
    with pytest.raises(GateError, match=r"^head: its build fails: it ended with code 3$"):
        builds.build(tmp_path / "made", tmp_path / "tree", ["sh", "-c", "exit 3"], "head")
    assert not (tmp_path / "made").exists()


def test_a_build_that_is_used_again_is_kept_as_one_used_last(tmp_path, monkeypatch):
    monkeypatch.setattr(builds, "KEPT", 1)
    monkeypatch.setattr(builds, "build", lambda folder, *_: folder.mkdir())
    trees = [tmp_path / name for name in ("one", "two")]
    for tree in trees:
        tree.mkdir()
        (tree / "name").write_text(tree.name)

    def made(*trees):
        with builds.builds(tmp_path, "make", lambda code: [code / "name"]) as python_for:
            found = [python_for("a side", tree).parents[2] for tree in trees]
            assert all(folder.is_dir() for folder in found)  # of a run that uses both
        return found

    one = made(*trees)[0]
    os.utime(one / ".ready", (0, 0))
    assert made(trees[0]) == [one]
    builds.remove_old(tmp_path, "build-*", 1)
    assert [path for path in tmp_path.glob("build-*") if path.is_dir()] == [one]


@pytest.mark.parametrize(
    ("beside", "paths"),
    [({}, []), ({"benchmarks/__init__.py": ""}, []), ({}, ["benchmarks/test_sorting.py"])],
    ids=["files", "package", "conftest loaded first"],
)
def test_what_is_built_is_imported_before_the_tree(tmp_path, beside, paths):
    install = (
        "import pathlib, sysconfig; made = pathlib.Path(sysconfig.get_path('purelib'), 'toy'); made.mkdir(); "
        "(made / '__init__.py').touch(); (made / 'sorting.py').write_text(pathlib.Path('sorting.in').read_text())"
    )
    files = {
        **flat(),
        "toy/sorting.py": "raise ImportError('it is not built')\n",
        "sorting.in": work(slow=100, kept=100),
        **beside,
    }
    made = Repository(tmp_path / "toy", files)
    made.write({"sorting.in": work(slow=101, kept=100)})
    ran = made.gate("HEAD", tmp_path, "--gate-build", f'python -c "{install}"', *paths, rule=QUICK, limit=400)
    assert ran.artifact["records"], ran.text
    assert not [name for name, found in ran.findings.items() if found[0] == "error"], ran.text


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("command", [BUILD, IN_PLACE])
def test_each_side_runs_what_was_built_of_its_own_tree(toy, tmp_path, command):
    toy.at("start", compiled(turns=115))
    ran = toy.gate("HEAD", tmp_path, "--gate-build", command, rule=WHOLE, limit=400)
    assert ran.code == 1, ran.text
    assert ran.findings[SLOW] == ("slower",)
    assert ran.findings[KEPT][0] != "slower"
    assert ran.text.count("gate: building ") == 2
    again = toy.run(*toy.command("HEAD", tmp_path, "--gate-build", command, "--collect-only"))
    assert "gate: building " not in again[1], again[1]
    assert toy.git("status", "--porcelain", "--", "fastsum/_sum.c").endswith("fastsum/_sum.c")


@pytest.mark.slow
def test_without_a_build_it_is_said_what_is_lacking(toy, tmp_path):
    toy.at("start", compiled(turns=115))
    ran = toy.gate("HEAD", tmp_path, rule=FIND)
    assert ran.code == 2
    assert "No module named 'fastsum._sum'" in ran.text
