"""``rlgauge demo``, as a new user runs it."""

import os
import signal
import subprocess
import sys

import pytest

from correctness_tests.waiting import started
from rlgauge.__main__ import main
from rlgauge.demo import PLANTED
from rlgauge.rule import SAME, SLOWED

from .made import Repository, eventually
from .test_merge import CANARIES, artifact

COMMAND = [sys.executable, "-m", "rlgauge", "demo"]


@pytest.mark.alone
def test_the_demo_finds_its_slowdown_and_explains_each_verdict(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --unknown\n")  # a project around the directory
    done = subprocess.run([*COMMAND, "kept"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for words in ("3 to time", "screen ", "confirm ", "both sides run the working tree's benchmarks"):
        assert words in done.stdout.partition("What this means:")[0]
        assert f"\n{words}" in done.stdout.partition("What this means:")[2]
    for test, verdict in (("initials", "ok"), ("longest", "slower"), ("squares", "ok")):
        assert f"test_speed.py::test_{test}: {verdict}\n" in done.stdout
    assert "The gate's exit code is 1: failed." in done.stdout
    assert (tmp_path / "kept" / "words.py").exists()


@pytest.mark.parametrize(("like", "code"), [(SLOWED, 0), (SAME, 1)])
def test_the_demo_fails_if_the_gate_does_not_find_its_slowdown(tmp_path, monkeypatch, like, code):
    python, found = tmp_path / "python", tmp_path / "gate.json"
    found.write_text(artifact(CANARIES | {PLANTED: CANARIES[like]}).to_json())
    python.write_text(f"#!/bin/sh\nmkdir .rlgauge\ncp {found} .rlgauge\nexit {1 - code}\n")  # stands in for the gate
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert main(["demo"]) == code


def test_the_demo_leaves_an_existing_folder_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "."]) == 2
    assert capsys.readouterr().err == "rlgauge demo: . exists; name a folder that does not exist yet\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_an_interrupted_demo_lets_the_gate_tidy_up_and_leaves_the_repository_of_a_hook_alone(tmp_path, number):
    users = Repository(tmp_path / "users", {"a.py": ""})
    before = users.git("rev-parse", "HEAD")
    hook = {"GIT_DIR": str(users.root / ".git"), "GIT_WORK_TREE": str(users.root)}
    variables = {**os.environ, **hook, "PYTEST_ADDOPTS": "-k none_of_these", "PYTEST_XDIST_WORKER": "gw0"}
    how = {"cwd": tmp_path, "stderr": subprocess.STDOUT, "env": variables, "start_new_session": True}
    with started([*COMMAND, "kept"], **how) as process:
        assert eventually(lambda: list(tmp_path.glob("kept/.git/rlgauge/run-*/sides/head")), 60)
        (os.kill if number == signal.SIGTERM else os.killpg)(process.pid, number)
        text, _ = process.communicate(timeout=60)
    assert process.returncode == 130, text
    assert "Traceback" not in text
    assert list(tmp_path.glob("kept/.git/rlgauge/run-*")) == []
    assert (users.git("rev-parse", "HEAD"), users.git("status", "--porcelain")) == (before, "")
