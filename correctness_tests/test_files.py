"""Files of results: room is taken first, and what they held stays until they are written whole."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rl_impls.common.files import write_whole
from rlgauge import files
from rlgauge.files import Unwritable, check_folder, naming, remove_halves, reserved, whole, write_all


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


@pytest.mark.parametrize(("since", "left"), [(59.0, True), (60.0, True), (61.0, False)])
def test_a_library_is_removed_a_minute_after_it_was_last_written_wherever_it_is(tmp_path, monkeypatch, since, left):
    library = tmp_path / "ab" / "cd" / "half.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"\x7fELF\x02")
    os.utime(library, (1000, 1000))
    monkeypatch.setattr(files, "time", SimpleNamespace(time=lambda: 1000 + since))
    told = remove_halves(tmp_path)
    assert (library.exists(), told) == (left, "" if left else f"{tmp_path}: 1 half-written libraries removed")
    assert remove_halves(tmp_path / "none") == ""


def test_a_library_is_whole_with_the_last_byte_of_its_table_if_it_is_of_64_bits_and_has_one(tmp_path):
    def library(count=2, size=64, start=100, kind=b"\x7fELF\x02"):
        return kind + bytes(40 - len(kind)) + struct.pack("=Q", start) + bytes(10) + struct.pack("=HH", size, count)

    def is_whole(content, length):
        (tmp_path / "a.so").write_bytes(content.ljust(length, b"\0"))
        return whole(tmp_path / "a.so")

    end = 100 + 2 * 64
    assert [is_whole(library(), length) for length in (end - 1, end, end + 1)] == [False, True, True]
    assert not is_whole(library(start=0, count=0), 200)
    assert not is_whole(library(kind=b"\x7fELF\x01"), end)
    assert not is_whole(library(kind=b"\x7fELG\x02"), end)


def test_what_the_system_refuses_names_the_path_and_the_option_that_gave_it(tmp_path):
    for option, words in (("--json", f"--json {tmp_path}"), ("", f"{tmp_path}")):
        with pytest.raises(Unwritable) as error, naming(tmp_path, option):
            fails()
        assert str(error.value) == f"{words}: cannot be written: No space left on device"
    with pytest.raises(Unwritable, match=r": cannot be written: it is no file$"), naming(tmp_path):
        raise OSError("it is no file")
    with pytest.raises(ZeroDivisionError), naming(tmp_path):
        raise ZeroDivisionError


@pytest.mark.parametrize("name", ["posix_fallocate", "fsync"])
def test_a_file_that_cannot_be_written_is_named_with_its_option(kept, monkeypatch, name):
    def fill_and_write():
        with reserved(kept, 100, "--json") as write:
            write(b"new")

    monkeypatch.setattr(os, name, fails)
    with pytest.raises(Unwritable, match=rf"^--json {kept}: cannot be written: No space left on device$"):
        fill_and_write()


def test_several_files_are_written_whole_or_none_of_them(kept, tmp_path_factory, monkeypatch):
    there = tmp_path_factory.mktemp("there")
    room = []
    monkeypatch.setattr(os, "posix_fallocate", lambda handle, start, count: room.append((start, count)))
    write_all({there / "a": b"of a", there / "new" / "b": b"b"})
    assert ((there / "a").read_bytes(), (there / "new" / "b").read_bytes()) == (b"of a", b"b")
    assert room == [(0, 4), (0, 1)]
    with pytest.raises(Unwritable, match=rf"^{kept}/c: cannot be written: "):
        write_all({there / "a": b"later", kept / "c": b"c"})
    assert sorted(path.name for path in there.iterdir()) == ["a", "new"]
    assert (there / "a").read_bytes() == b"of a"


def test_a_reserved_file_is_closed_whether_it_was_written_or_not(kept):
    def opened():
        links = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
        return [link for link in links if link.startswith(str(kept.parent))]

    for content in (b"new", None):
        with reserved(kept, 100) as write:
            assert len(opened()) == 1
            if content:
                write(content)
        assert opened() == []


def test_folders_are_made_above_one_that_is_to_be_written(tmp_path):
    check_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert os.listdir(tmp_path / "a" / "b") == []


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
