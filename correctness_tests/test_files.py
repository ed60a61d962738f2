"""Files of results: room is taken first, and what they held stays until they are written whole."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from rl_impls.common.files import write_whole
from rlgauge.files import Unwritable, check_folder, remove_halves, reserved


def fails(*args, **how):
    """Stand for a call of the system when a disk is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def kept(tmp_path):
    """A file that holds something; nothing else may be left beside it."""
    path = tmp_path / "found.json"
    path.write_text("kept")
    yield path
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_is_replaced_when_it_is_written_and_not_before(kept):
    with reserved(kept, 10_000) as write:
        (beside,) = (path for path in kept.parent.iterdir() if path != kept)
        assert (beside.stat().st_blocks * 512, kept.read_text()) == (pytest.approx(10_000, abs=4096), "kept")
        write(b"new")
        assert kept.read_text() == "new"
    assert kept.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("room", [1, 10_000])
def test_more_than_there_is_room_for_is_written_too(kept, room):
    with reserved(kept, room) as write:
        write(b"x" * 5_000)
    assert kept.read_bytes() == b"x" * 5_000


def test_what_is_never_written_leaves_the_file_as_it_was(kept):
    with pytest.raises(KeyboardInterrupt), reserved(kept, 100):
        raise KeyboardInterrupt
    assert kept.read_text() == "kept"


def test_a_full_disk_is_said_before_there_is_anything_to_write(kept, monkeypatch):
    monkeypatch.setattr(os, "posix_fallocate", fails)
    with pytest.raises(Unwritable, match=rf"^{kept}: cannot be written: No space left on device$"), reserved(kept, 100):
        pytest.fail("it was not said")
    assert kept.read_text() == "kept"


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_file_that_cannot_be_written_in_the_end_stays_as_it_was(kept, monkeypatch, name):
    def fill_and_write():
        with reserved(kept, 100) as write:
            monkeypatch.setattr(os, name, fails)
            write(b"new")

    with pytest.raises(Unwritable, match=rf"^{kept}: cannot be written: No space left on device$"):
        fill_and_write()
    assert kept.read_text() == "kept"


def test_a_file_in_a_folder_that_is_missing_gets_it(tmp_path):
    with reserved(tmp_path / "a" / "b" / "found.json", 1) as write:
        write(b"new")
    assert (tmp_path / "a" / "b" / "found.json").read_bytes() == b"new"


def test_a_link_stays_one(kept, tmp_path_factory):
    link = tmp_path_factory.mktemp("elsewhere") / "link"
    link.symlink_to(kept)
    with reserved(link, 1) as write:
        write(b"new")
    assert (link.is_symlink(), kept.read_bytes()) == (True, b"new")


@pytest.mark.parametrize(
    ("name", "words"),
    [("found.json/file", "Not a directory|File exists"), (".", "it is no file"), ("/dev/full", "it is no file")],
)
def test_what_is_no_place_for_a_file_is_said(kept, name, words):
    with pytest.raises(Unwritable, match=rf"cannot be written: ({words})"), reserved(kept.parent / name, 1):
        pytest.fail("it was not said")


def test_no_name_is_no_file(kept):
    with reserved(None, 100) as write:
        write(b"new")
    assert kept.read_text() == "kept"


def test_a_folder_is_made_and_one_that_cannot_be_written_is_said(kept, monkeypatch):
    check_folder(kept.parent)
    with pytest.raises(Unwritable, match=rf"^{kept}: cannot be written: File exists$"):
        check_folder(kept)
    monkeypatch.setattr("tempfile.TemporaryFile", fails)
    with pytest.raises(Unwritable, match=rf"^{kept.parent}: cannot be written: No space left on device$"):
        check_folder(kept.parent)


def test_libraries_that_a_compiler_was_killed_over_are_removed_and_no_others(tmp_path):
    (real,) = Path(np.__file__).parent.glob("_core/_multiarray_umath*.so")
    head = b"\x7fELF\x02" + bytes(35) + struct.pack("=Q", 100) + bytes(10) + struct.pack("=HH", 64, 2) + bytes(2)
    library = head + bytes(36 + 2 * 64)  # two sections are described from byte 100 on
    parts = {"": 0, "head": 63, "sections": 64, "table": len(library) - 1, "whole": len(library)}
    for name, length in parts.items():
        (tmp_path / f"{name}.so").write_bytes(library[:length])
        (tmp_path / f"{name}.cpp").touch()
    (tmp_path / "zeros.so").write_bytes(bytes(64) + library[64:])
    (tmp_path / "real.so").write_bytes(real.read_bytes())
    assert remove_halves(tmp_path) == "", "a compiler may be at them"
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    assert remove_halves(tmp_path) == f"{tmp_path}: 5 half-written libraries removed"
    assert sorted(path.name for path in tmp_path.rglob("*.so")) == ["real.so", "whole.so"]
    assert len(list(tmp_path.rglob("*.cpp"))) == len(parts)
    assert remove_halves(tmp_path) == ""


@pytest.mark.parametrize("call", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_checkpoint_that_is_not_written_to_its_end_leaves_what_was_there_alone(kept, monkeypatch, call, error):
    def ended(*args):
        raise error

    monkeypatch.setattr(os, call, ended)
    with pytest.raises(error):
        write_whole(kept, b"new")
    assert kept.read_text() == "kept"


def test_a_checkpoint_takes_the_place_of_the_one_before_for_all_to_read(kept):
    write_whole(kept, b"new")
    assert kept.read_text() == "new"
    assert kept.stat().st_mode & 0o777 == 0o644
