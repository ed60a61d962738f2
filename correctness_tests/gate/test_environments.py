"""Environments of lock files: when one is needed, how it is made, and which are removed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from contextlib import ExitStack, suppress
from importlib import metadata
from pathlib import Path

import pytest

from rlgauge import environments, progress
from rlgauge.environments import lacks
from rlgauge.rule import GateError

LOCK = "requirements/some.txt"
INSTALLED = {"library": "2.13.0+cpu", "other-library": "1.0rc1"}


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """Let no more be installed than two libraries."""

    def version(name):
        if name not in INSTALLED:
            raise metadata.PackageNotFoundError(name)
        return INSTALLED[name]

    monkeypatch.setattr(environments.metadata, "version", version)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", None),
        ("# library==1\n--extra-index-url https://localhost/cpu\n\n", None),
        ("library==2.13.0\nother-library==1.0rc1\n", None),
        ("library==2.13.0 ; python_version >= '3' # as it is\n", None),
        ("library==2.13.0 \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\n", None),
        ("library==2.13.0+cpu\n", None),
        ("absent==1 ; python_version < '3'\n", None),
        ("absent==1 ; python_version < '3'\nlibrary==2.13.1\n", "library==2.13.1 (here it is 2.13.0+cpu)"),
        ("library==2.13.0\nother-library==1.0\n", "other-library==1.0 (here it is 1.0rc1)"),
        ("library==2.13.1\n", "library==2.13.1 (here it is 2.13.0+cpu)"),
        ("library==2.13.0+cu130\n", "library==2.13.0+cu130 (here it is 2.13.0+cpu)"),
        ("absent==1\n", "absent==1 (not installed here)"),
        ("./requirements/library-2.13.0-py3-none-any.whl\n", "(a file, which may have changed)"),
        ("library @ https://localhost/a.whl\n", "library @ https://localhost/a.whl (here it is 2.13.0+cpu)"),
    ],
)
def test_a_lock_file_is_compared_with_what_is_installed(text, wanted):
    found = lacks(text)
    assert found == wanted or (wanted and wanted.startswith("(") and found.endswith(wanted))


@pytest.fixture
def side(tmp_path):
    """Return the folder of a side with this lock file."""

    def made(name, lock):
        folder = tmp_path / name
        (folder / LOCK).parent.mkdir(parents=True)
        (folder / LOCK).write_text(lock)
        return folder

    return made


@pytest.fixture
def shell(monkeypatch):
    """Have environments made by a line of shell, in which ``$0`` is where; return how often that was asked for."""
    asked = []

    def by(line):
        def made(where, lock):
            assert lock == LOCK
            asked.append(where)
            return [["sh", "-c", line, where]]

        monkeypatch.setattr(environments, "commands", made)
        return asked

    return by


@pytest.fixture
def python_for(tmp_path):
    with environments.environments(tmp_path / "cache", LOCK) as found:
        yield found


MADE = "mkdir $0 && echo Collecting library && echo Processing other && echo Installing collected packages"


def test_each_side_runs_in_an_environment_of_its_own_lock_file_unless_this_is_one(side, shell, python_for, capsys):
    asked, head = shell(MADE), side("head", "library==3\n./other.whl\n")
    assert python_for("base", side("base", "library==2.13.0\n")) == Path(sys.executable)
    assert python_for("base", side("lockless", "").parent) == Path(sys.executable)
    assert capsys.readouterr().err == ""
    first = python_for("head", head)
    assert first.parents[1] == asked[0]
    said = "head's lock file wants library==3 (here it is 2.13.0+cpu): "
    assert f"{said}making its environment" in capsys.readouterr().err
    assert python_for("head", head) == first
    assert f"{said}it runs in" in capsys.readouterr().err
    assert python_for("other", side("other", "library==4\n")) != first
    assert len(asked) == 2


def test_progress_is_shown(side, shell, python_for, capsys, monkeypatch):
    monkeypatch.setattr(progress, "QUIET", 0)
    shell(MADE)
    python_for("head", side("head", "library==3\n./other.whl\n"))
    told = capsys.readouterr().err.splitlines()[1:]
    assert told[0].startswith("[1/2, about ")
    assert told[1:] == ["[2/2] packages", "all are there, installing them"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("echo ERROR: no such library; echo ERROR: none at all; echo a hint; exit 1",
         "ERROR: no such library; ERROR: none at all"),
        ("echo first; echo no room left >&2; exit 1", "no room left"),
        ("exit 3", ""),
    ],
)  # fmt: skip
def test_an_environment_that_cannot_be_made_is_one_line_and_leaves_nothing(side, shell, python_for, line, words):
    asked = shell(f"mkdir $0; {line}")
    with pytest.raises(GateError) as error:
        python_for("head", side("head", "library==3\n"))
    assert str(error.value) == f"head's environment cannot be made from its lock file: {words}"
    assert not asked[0].exists()


def test_an_interrupt_ends_what_makes_an_environment(side, shell, python_for, tmp_path, monkeypatch):
    def interrupted(self, line=""):
        raise KeyboardInterrupt

    monkeypatch.setattr(progress.Progress, "step", interrupted)
    asked = shell(f"mkdir $0; echo $$ > {tmp_path}/pid; echo Collecting library; exec sleep 60")
    with suppress(KeyboardInterrupt):
        python_for("head", side("head", "library==3\n"))
    assert not asked[0].exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def used(cache, name, at):
    """Make an environment that was last used at a time."""
    ready = cache / f"env-{name}" / ".ready"
    ready.parent.mkdir(parents=True)
    ready.touch()
    os.utime(ready, (at, at))


def test_environments_are_removed_but_for_the_two_used_last_and_those_in_use(side, shell, tmp_path):
    cache = tmp_path / "cache"
    for name, at in (("oldest", 1), ("older", 2), ("old", 3), ("used", 0)):
        used(cache, name, at)
    (cache / "env-half").mkdir()
    shell(MADE)
    with ExitStack() as held:
        fcntl.flock(held.enter_context((cache / "env-used.lock").open("w")), fcntl.LOCK_SH)
        made = environments.python_for("head", side("head", "library==3\n"), cache, LOCK, held).parents[1]
        assert {path for path in cache.glob("env-*") if path.is_dir()} == {made, cache / "env-old", cache / "env-used"}
        os.utime(made / ".ready", (0, 0))
        used(cache, "new", 4)
        environments.remove_old(cache, "env-*", environments.KEPT)
        assert made.exists()  # it is in use until the end
    environments.remove_old(cache, "env-*", environments.KEPT)
    assert {path.name for path in cache.glob("env-*") if path.is_dir()} == {"env-old", "env-new"}


def test_those_that_are_older_than_one_in_use_are_removed(tmp_path):
    for at, name in enumerate(("oldest", "older", "used", "new")):
        used(tmp_path, name, at)
    with (tmp_path / "env-used.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        environments.remove_old(tmp_path, "env-*", 1)
    assert {path.name for path in tmp_path.glob("env-*") if path.is_dir()} == {"env-used", "env-new"}


def test_an_environment_that_is_used_again_is_kept_as_one_used_last(side, tmp_path, monkeypatch):
    cache, head = tmp_path / "cache", side("head", "library==3\n")
    monkeypatch.setattr(environments, "make", lambda where, *_: used(cache, where.name.removeprefix("env-"), 0))
    with environments.environments(cache, LOCK) as python_for:
        made = python_for("head", head).parents[1]
    os.utime(made / ".ready", (0, 0))
    used(cache, "older", 1)
    used(cache, "newer", 2)
    with environments.environments(cache, LOCK) as python_for:
        assert python_for("head", head).parents[1] == made
    environments.remove_old(cache, "env-*", environments.KEPT)
    assert {path for path in cache.glob("env-*") if path.is_dir()} == {made, cache / "env-newer"}


def test_an_environment_is_an_empty_one_in_which_pip_installs_the_lock_file_alone():
    empty, install = environments.commands(Path("/cache/env-0"), LOCK)
    assert empty == [sys.executable, "-m", "venv", "/cache/env-0"]
    assert install[:4] == ["/cache/env-0/bin/python", "-m", "pip", "install"]
    assert install[-3:] == ["--no-deps", "-r", LOCK]


def test_lines_of_a_lock_file_are_those_that_name_a_package():
    text = "# all\n\na==1 # why\n  b==2 \\\n    --hash=sha256:00\n--index-url x\n./c.whl\nd @ file:///d#sha256=0\n"
    assert list(environments.lines(text)) == ["a==1", "b==2", "./c.whl", "d @ file:///d#sha256=0"]


def test_sides_of_one_lock_file_share_an_environment_that_is_named_after_it(side, shell, python_for, tmp_path, capsys):
    asked = shell(MADE)
    first, second = (python_for(name, side(name, "library==3\n")) for name in ("base", "head"))
    digest = hashlib.sha256(b"library==3\n").hexdigest()[:16]
    assert first == second == tmp_path / "cache" / f"env-{digest}" / "bin" / "python"
    assert len(asked) == 1
    wants = "lock file wants library==3 (here it is 2.13.0+cpu)"
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"gate: base's {wants}: making its environment, {first.parents[1]}"
    assert told[-1] == f"gate: head's {wants}: it runs in {first.parents[1]}"


def test_an_environment_is_made_by_one_gate_alone_and_used_by_several(side, tmp_path, monkeypatch):
    cache, seen = tmp_path / "cache", []

    def free(how):
        """Tell whether another gate could lock the environment so."""
        (lock,) = cache.glob("env-*.lock")
        with lock.open() as file:
            try:
                fcntl.flock(file, how | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    def make(environment, folder, lock, name):
        seen.append((free(fcntl.LOCK_SH), name, folder.name, lock))
        environment.mkdir()

    monkeypatch.setattr(environments, "make", make)
    with environments.environments(cache, LOCK) as python_for:
        python_for("base", side("a side", "library==3\n"))
        assert (free(fcntl.LOCK_SH), free(fcntl.LOCK_EX)) == (True, False)
    assert free(fcntl.LOCK_EX)
    assert seen == [(False, "base", "a side", LOCK)]


def test_what_was_left_half_made_is_made_anew(side, shell, tmp_path):
    asked, head = shell(MADE), side("head", "library==3\n")
    for number in (1, 2):
        with environments.environments(tmp_path / "cache", LOCK) as python_for:
            made = python_for("head", head).parents[1]
        assert len(asked) == number
        assert not (made / "half").exists()
        (made / ".ready").unlink()
        (made / "half").touch()


class Steps:
    """Takes note of what progress is told."""

    def __init__(self):
        self.told = []

    def step(self):
        self.told.append("step")

    def say(self, line):
        self.told.append(line)


def test_a_command_is_run_in_its_folder_and_its_steps_are_what_pip_collects(tmp_path):
    steps, lines = Steps(), ("Collecting a", "  Processing ./b.whl", "Using cached c", "Downloading d", "Installing e")
    printed = "".join(f"echo '{line}'; " for line in lines)
    environments.follow(["sh", "-c", f"{printed} pwd > where"], tmp_path, steps)
    assert steps.told == ["step", "step", "all are there, installing them"]
    assert (tmp_path / "where").read_text() == f"{tmp_path}\n"


def test_a_command_that_fails_has_its_code_and_its_errors(tmp_path):
    with pytest.raises(subprocess.CalledProcessError) as error:
        environments.follow(["sh", "-c", "echo ERROR: a; echo b; echo pip: ERROR: c; exit 4"], tmp_path, Steps())
    assert (error.value.returncode, error.value.output) == (4, "ERROR: a; pip: ERROR: c")


@pytest.mark.parametrize(
    ("kept", "left"), [(0, []), (1, ["env-c"]), (2, ["env-b", "env-c"]), (9, ["env-a", "env-b", "env-c"])]
)
def test_as_many_environments_as_are_asked_for_stay_and_nothing_else_is_touched(tmp_path, kept, left):
    for name, at in (("b", 2), ("c", 3), ("a", 1)):
        used(tmp_path, name, at)
    (tmp_path / "build-d").mkdir()
    (tmp_path / "env-file").touch()
    environments.remove_old(tmp_path, "env-*", kept)
    assert sorted(path.name for path in tmp_path.glob("env-*") if path.is_dir()) == left
    assert (tmp_path / "build-d").is_dir()
    assert (tmp_path / "env-file").is_file()
