"""Environments for lock files: when a side needs one, how it is created, and which old ones are removed."""

import fcntl
import os
import sys
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path

import pytest

from rlgauge import environments
from rlgauge.environments import missing_requirement
from rlgauge.rule import GateError

LOCK = "requirements/some.txt"
INSTALLED = {"library": "2.13.0+cpu", "other-library": "1.0rc1"}


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """Make the packages in ``INSTALLED`` the only ones that appear to be installed."""

    def version(name):
        if name not in INSTALLED:
            raise metadata.PackageNotFoundError(name)
        return INSTALLED[name]

    monkeypatch.setattr(metadata, "version", version)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("# library==1\n--extra-index-url https://localhost/cpu\n\n", None),
        ("-i https://localhost/cpu\nlibrary==2.13.0\nother-library==1.0rc1\n", None),
        ("library==2.13.0 ; python_version >= '3' # as it is\n", None),
        ("library==2.13.0 \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\n", None),
        ("absent==1 ; python_version < '3'\nlibrary==2.13.1\n", "library==2.13.1 (installed: 2.13.0+cpu)"),
        ("library==2.13.0\nother-library==1.0\n", "other-library==1.0 (installed: 1.0rc1)"),
        ("library==2.13.0+cu130\n", "library==2.13.0+cu130 (installed: 2.13.0+cpu)"),
        ("absent==1\n", "absent==1 (not installed)"),
        ("./a-2.13.0-py3-none-any.whl\n", "./a-2.13.0-py3-none-any.whl (a file that may have changed)"),
        ("-e .\n./libs/core\n-e file:.[dev] ; python_version >= '3'\n../other\n", None),
        ("library @ https://localhost/a.whl\n", "library @ https://localhost/a.whl (installed: 2.13.0+cpu)"),
    ],
)
def test_a_lock_file_is_compared_with_the_installed_packages(text, wanted):
    assert missing_requirement(text) == wanted


@pytest.fixture
def side(tmp_path):
    """Return a function that creates the directory of a side with a lock file."""

    def create(name, lock):
        folder = tmp_path / name
        (folder / LOCK).parent.mkdir(parents=True)
        (folder / LOCK).write_text(lock)
        return folder

    return create


INTERPRETER = """#!/bin/sh
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; exit; fi
echo "$@" >> {calls}
{line}
"""


@pytest.fixture
def pip(monkeypatch, tmp_path):
    """Return a function that replaces ``sys.executable`` with a script whose pip runs one line of shell.

    It returns another function, which lists the calls of pip so far.
    """
    calls, script = tmp_path / "calls", tmp_path / "python"

    def replace_python(line):
        script.write_text(INTERPRETER.format(calls=calls, line=line))
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))
        return lambda: calls.read_text().splitlines() if calls.exists() else []

    return replace_python


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def python_for(cache):
    with environments.environments(cache, LOCK) as found:
        yield found


MADE = "echo Collecting library && echo Installing collected packages"


def test_a_side_gets_the_environment_of_its_lock_file_unless_this_one_satisfies_it(side, pip, python_for, capsys):
    calls, lock = pip(MADE), "library==3\n./other.whl\n"
    assert python_for("base", side("base", "library==2.13.0\n")) == Path(sys.executable)
    lockless = side("lockless", "").parent
    assert python_for("base", lockless) == Path(sys.executable)
    assert capsys.readouterr().err == ""
    head = side("head", lock)
    first = python_for("head", head)
    assert first.is_file()
    assert first.name == "python"
    reason = "head's lock file needs library==3 (installed: 2.13.0+cpu): "
    assert f"{reason}creating an environment for head" in capsys.readouterr().err
    assert python_for("lockless", lockless, [lockless, head]) == Path(sys.executable)
    satisfied = side("satisfied", "library==2.13.0\n")
    assert python_for("satisfied", satisfied, [satisfied, head]) not in (first, Path(sys.executable))
    reason = reason.replace("head's", "the other side's")
    assert f"{reason}creating an environment for satisfied" in capsys.readouterr().err
    assert python_for("other", side("same", lock)) == first
    assert python_for("other", side("other", "library==4\n")) != first
    assert len(calls()) == 3
    assert calls()[0].startswith("-m pip install ")
    assert calls()[0].endswith(f" --no-deps -r {LOCK}")


def test_lock_files_that_a_lock_file_includes_are_part_of_it(side, pip, python_for):
    pip(MADE)
    folder = side("base", "-r more.txt\n--constraint=limits/most.txt\n")
    included = folder / "requirements" / "more.txt"
    included.write_text("library==2.13.0\n")
    limits = included.parent / "limits"
    limits.mkdir()
    (limits / "most.txt").write_text("-c least.txt\n")
    assert python_for("base", folder) == Path(sys.executable)
    found = set()
    for text, limit in (("library==3\n", ""), ("library==4\n", ""), ("library==4\n", "other-library==1.0rc1\n")):
        included.write_text(text)
        (limits / "least.txt").write_text(limit)
        found.add(python_for("base", folder))
    assert len(found) == 3


def test_a_local_package_with_the_same_name_and_other_contents_gets_another_environment(side, pip, python_for):
    pip(MADE)
    found = set()
    for name in ("base", "head"):
        folder = side(name, "./other.whl\n")
        (folder / "other.whl").write_text(name)
        found.add(python_for(name, folder))
    assert len(found) == 2


def test_a_lock_file_may_have_a_byte_order_mark_and_comments_in_any_encoding(side, python_for):
    folder = side("base", "")
    (folder / LOCK).write_bytes(b"\xef\xbb\xbflibrary==2.13.0 # \xe9\n")
    assert python_for("base", folder) == Path(sys.executable)


def test_local_projects_are_not_installed(side, pip, python_for):
    # prints the file that is the last argument, and the one that it includes
    pip('for file; do true; done; echo "ERROR:" $(grep -h . "$file" requirements/more.txt); exit 1')
    folder = side("base", "")
    texts = {folder / LOCK: "-e .\n-r more.txt\n./libs/core\n"}
    texts[(folder / LOCK).with_name("more.txt")] = "-e ./tools\r\nlibrary==3\r\n"
    for file, text in texts.items():
        file.write_bytes(text.encode())
    with pytest.raises(GateError, match=r"lock file: ERROR: -r more.txt library==3$"):
        python_for("base", folder)
    assert {file: file.read_bytes().decode() for file in (folder / LOCK).parent.iterdir()} == texts


def test_a_lock_file_of_local_projects_alone_needs_no_package(side, pip, python_for):
    pip(MADE)
    empty, head = side("base", "-e .\n"), side("head", "library==3\n")
    assert python_for("base", empty, [empty, head]) != Path(sys.executable)


def test_pip_installs_into_the_environment_although_a_variable_names_another_place(side, pip, python_for, monkeypatch):
    monkeypatch.setenv("PIP_TARGET", "elsewhere")
    pip('if [ -n "$PIP_TARGET" ]; then exit 1; fi')
    assert python_for("base", side("base", "library==3\n")) != Path(sys.executable)


def test_each_version_of_python_has_an_environment_of_its_own(side, pip, python_for, monkeypatch):
    pip(MADE)
    first = python_for("base", side("base", "library==3\n"))
    monkeypatch.setattr(sys, "version", "3.99")
    assert python_for("head", side("head", "library==3\n")) != first


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("echo ERROR: no such library; echo ERROR: none at all; echo a hint; exit 1",
         "ERROR: no such library; ERROR: none at all"),
        ("echo first; echo no room left >&2; exit 1", "no room left"),
    ],
)  # fmt: skip
def test_an_environment_that_cannot_be_made_is_a_line_and_can_be_tried_again(side, pip, python_for, cache, line, words):
    pip(line)
    head = side("head", "library==3\n")
    with pytest.raises(GateError) as error:
        python_for("head", head)
    assert str(error.value) == f"head's environment cannot be created from its lock file: {words}"
    assert not [path for path in cache.iterdir() if path.is_dir()]
    (lock,) = cache.glob("env-*.lock")
    with lock.open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a lock left behind would block the next try for ever
    pip(MADE)
    assert python_for("head", head).is_file()


def create_environment(cache, name, at):
    ready = cache / f"env-{name}" / ".ready"
    ready.parent.mkdir(parents=True)
    ready.touch()
    os.utime(ready, (at, at))


def environments_left(cache):
    return {path.name for path in cache.glob("env-*") if path.is_dir()}


def test_all_environments_are_removed_but_the_two_used_last_and_those_in_use(side, pip, cache):
    for name, at in (("oldest", 1), ("older", 2), ("old", 3), ("used", 0)):
        create_environment(cache, name, at)
    (cache / "env-half").mkdir()
    (cache / "build-a").mkdir()
    pip(MADE)
    with ExitStack() as held:
        fcntl.flock(held.enter_context((cache / "env-used.lock").open("w")), fcntl.LOCK_SH)
        with environments.environments(cache, LOCK) as python_for:
            made = python_for("head", side("head", "library==3\n")).parents[1]
            assert environments_left(cache) == {made.name, "env-old", "env-used"}
            os.utime(made / ".ready", (0, 0))
            create_environment(cache, "new", 4)
            environments.remove_old(cache, "env-*", environments.KEPT)
            assert made.exists()  # locked until the context ends
    environments.remove_old(cache, "env-*", environments.KEPT)
    assert environments_left(cache) == {"env-old", "env-new"}
    assert (cache / "build-a").is_dir()


def test_an_environment_that_cannot_be_removed_entirely_is_not_used_again(cache, tmp_path):
    create_environment(tmp_path / "disk", "old", 1)
    cache.mkdir()
    (cache / "env-old").symlink_to(tmp_path / "disk/env-old")  # rmtree refuses a link
    environments.remove_old(cache, "env-*", 0)
    assert (cache / "env-old").is_dir()
    assert not (cache / "env-old/.ready").exists()
