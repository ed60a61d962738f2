"""Revisions laid out on disk: each is written once, and each side has its own code and head's benchmarks."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

from rlgauge import layout
from rlgauge.rule import GateError

BASE, OLDER = "b" * 40, "c" * 40


class Noting:
    """A source that takes note of what it is asked."""

    def __init__(self, folder):
        self.cache, self.asked = folder / "cache", []

    def snapshot(self, root, folder):
        self.asked.append(("snapshot", root, folder))
        folder.mkdir(parents=True)

    def export(self, root, commit, folder):
        self.asked.append(("export", root, commit, folder))
        if commit == "d" * 40:
            raise GateError("it lacks what is compared")
        folder.mkdir(parents=True)

    def lay_out(self, *how):
        self.asked.append(("lay out", *how))
        return f"the side {how[0]} of {how[1].name[:2]}"

    def fingerprint(self, code, case):
        self.asked.append(("fingerprint", code, case.id))
        return f"{code.name[:2]} {case.id}"

    @contextmanager
    def environments(self):
        self.asked.append("environments")
        yield lambda name, folder: Path("/python", name, folder.name)
        self.asked.append("no environments")


@pytest.fixture
def source(tmp_path):
    return Noting(tmp_path)


@pytest.fixture
def made(source, tmp_path):
    """A layout in a folder, whose interpreters are named after what they are asked for; its source has done nothing."""
    found = layout.Layout(source, Path("/root"), tmp_path / "run", lambda name, code: Path("/python", name, code.name))
    assert source.asked == [("snapshot", Path("/root"), tmp_path / "run" / "working-tree")]
    source.asked.clear()
    return found


def test_a_revision_is_written_when_it_is_first_asked_for_and_the_working_tree_at_the_beginning(made, source, tmp_path):
    run = tmp_path / "run"
    assert [made.code(commit) for commit in (BASE, None, OLDER, BASE)] == [
        run / BASE, run / "working-tree", run / OLDER, run / BASE,
    ]  # fmt: skip
    assert source.asked == [("export", Path("/root"), commit, run / commit) for commit in (BASE, OLDER)]
    with pytest.raises(GateError, match=r"^it lacks what is compared$"):
        made.code("d" * 40)


def test_a_side_has_its_revision_s_code_and_interpreter_and_the_working_tree_s_benchmarks(made, source, tmp_path):
    run = tmp_path / "run"
    assert made.side(BASE, "base") == "the side base of bb"
    assert made.side(None, "head") == "the side head of wo"
    assert made.side(None, "base") == "the side base of wo"
    assert made.side(OLDER, "base") == made.side(OLDER, "base") == "the side base of cc"

    def wanted(name, code, called):
        folder = run / "sides" / name / code
        return "lay out", name, run / code, run / "working-tree", folder, Path("/python", called, code)

    assert [asked for asked in source.asked if asked[0] == "lay out"] == [
        wanted("base", BASE, "b" * 12),
        wanted("head", "working-tree", "head"),
        wanted("base", "working-tree", "base"),
        wanted("base", OLDER, "c" * 12),
    ]


def test_a_layout_is_in_a_folder_of_its_run_and_gone_after_it(source, tmp_path):
    def failing():
        with layout.laid_out(source, Path("/root")) as found:
            assert found.folder.parent == source.cache
            assert found.folder.is_dir()
            assert (found.root, found.source) == (Path("/root"), source)
            assert found.python_for("head", tmp_path) == Path("/python/head", tmp_path.name)
            assert source.asked == ["environments", ("snapshot", Path("/root"), found.folder / "working-tree")]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert [path.name for path in source.cache.iterdir()] == ["turn.lock"]
