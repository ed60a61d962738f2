"""Results and checkpoints are written whole or not at all; a full disk is found before measuring."""

import errno
import os

import pytest

from rl_impls.common.files import copy_whole, write_whole
from rlgauge.files import Unwritable, reserved, write_all


def raise_disk_full(*args, **how):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def kept(tmp_path):
    """An existing file; the test must leave no other file beside it."""
    path = tmp_path / "found.json"
    path.write_text("kept")
    yield path
    assert os.listdir(tmp_path) == [path.name]


def test_file_is_replaced_only_when_it_is_written(kept):
    with reserved(kept, 10_000) as write:
        (beside,) = (path for path in kept.parent.iterdir() if path != kept)
        assert (beside.stat().st_blocks * 512, kept.read_text()) == (pytest.approx(10_000, abs=4096), "kept")
        write(b"new")
        assert kept.read_text() == "new"
    assert kept.stat().st_mode & 0o777 == 0o644


def test_temporary_files_of_killed_processes_alone_are_removed(kept):
    others = [kept.with_name(f".{kept.name}.{end}") for end in ("rlgauge-abcdefgh", "original")]
    with reserved(kept, 100) as write:
        (used,) = (path for path in kept.parent.iterdir() if path != kept)
        for path in others:
            path.touch()
        for path in (used, *others):
            os.utime(path, (0, 0))
        with reserved(kept, 100):
            assert [path.exists() for path in (used, *others)] == [True, False, True]
        write(b"new")
    others[1].unlink()
    assert kept.read_text() == "new"


def test_full_disk_is_an_error_before_anything_is_written(kept, monkeypatch):
    monkeypatch.setattr(os, "posix_fallocate", raise_disk_full)
    message = rf"^--json {kept}: cannot be written: No space left on device; "
    with pytest.raises(Unwritable, match=message), reserved(kept, 100, "--json"):
        pytest.fail("no error")
    assert kept.read_text() == "kept"


def test_file_is_written_where_space_cannot_be_reserved(kept, monkeypatch):
    def refuse(*args):  # as musl does on some file systems
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with reserved(kept, 100) as write:
        write(b"new")
    assert kept.read_text() == "new"


def test_copy_that_is_made_again_leaves_no_other_file(kept):
    copy = kept.with_name("copy")
    for _ in range(2):  # the second time, both names are those of one file
        copy_whole(kept, copy)
        assert sorted(os.listdir(kept.parent)) == ["copy", kept.name]
    copy.unlink()


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_failed_write_leaves_the_file_as_it_was(kept, monkeypatch, name):
    def fill_and_write():
        with reserved(kept, 100) as write:
            monkeypatch.setattr(os, name, raise_disk_full)
            write(b"new")

    with pytest.raises(Unwritable, match=rf"^{kept}: cannot be written: No space left on device; "):
        fill_and_write()
    assert kept.read_text() == "kept"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("found.json/file", "Not a directory|File exists"),
        (".", "not a regular file"),
        ("/dev/full", "not a regular file"),
    ],
)
def test_path_that_cannot_be_a_file_is_an_error(kept, name, words):
    with pytest.raises(Unwritable, match=rf"cannot be written: ({words})"), reserved(kept.parent / name, 1):
        pytest.fail("no error")


def test_several_files_are_written_all_or_none(kept, tmp_path_factory):
    there = tmp_path_factory.mktemp("there")
    write_all({there / "a": b"of a", there / "new" / "b": b"b"})
    assert ((there / "a").read_bytes(), (there / "new" / "b").read_bytes()) == (b"of a", b"b")
    with pytest.raises(Unwritable, match=rf"^{kept}/c: cannot be written: "):
        write_all({there / "a": b"later", kept / "c": b"c"})
    assert sorted(path.name for path in there.iterdir()) == ["a", "new"]
    assert (there / "a").read_bytes() == b"of a"


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_interrupted_checkpoint_leaves_the_old_one_alone(kept, monkeypatch, call, error):
    def interrupt(*args):
        raise error

    monkeypatch.setattr(os, call, interrupt)
    with pytest.raises(error):
        write_whole(kept, b"new")
    assert kept.read_text() == "kept"
    monkeypatch.undo()
    write_whole(kept, b"new")
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("new", 0o644)


def test_symbolic_link_is_kept(kept, tmp_path_factory):
    link = tmp_path_factory.mktemp("elsewhere") / "link"
    link.symlink_to(kept)
    with reserved(link, 1) as write:
        write(b"new")
    assert (link.is_symlink(), kept.read_bytes()) == (True, b"new")
