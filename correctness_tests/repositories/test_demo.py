"""``rlgauge demo``, as a new user runs it."""

from __future__ import annotations

import subprocess
import sys

import pytest


def demo(*arguments, cwd):
    command = [sys.executable, "-m", "rlgauge", "demo", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.mark.alone
def test_the_demo_finds_its_slowdown_and_explains_each_verdict(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --unknown\n")  # a project around the directory
    done = demo("kept", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for test, verdict in (("frequencies", "slower"), ("longest", "ok"), ("squares", "ok")):
        assert f"test_speed.py::test_{test}: {verdict}\n" in done.stdout
    assert "The exit code is 1: failed." in done.stdout
    assert (tmp_path / "kept" / "words.py").exists()


def test_the_demo_leaves_an_existing_folder_alone(tmp_path):
    done = demo(".", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "rlgauge demo: . exists; name a folder that does not exist yet\n"
    assert not list(tmp_path.iterdir())
