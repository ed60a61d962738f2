"""What the workflow of a pull request asks the gate for."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from .toy import ROOT

DESCRIPTION = """A faster horse.\r
perf-ok: pirl.act[full-*]=one branch less, p = 1\r
perf-ok:snake.*=why not; `touch here` $(touch here)\r
not perf-ok: x=y\r
perf-ok: -x=y
"""
ALLOWED = ["pirl.act[full-*]=one branch less, p = 1", "snake.*=why not; `touch here` $(touch here)", "-x=y"]


@pytest.fixture
def asked(tmp_path):
    """Run the step of the workflow. -> the patterns it allows, and what it says"""
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > arguments\n')
    python.chmod(0o755)
    steps = yaml.safe_load((ROOT / ".github/workflows/gate.yml").read_text())["jobs"]["gate"]["steps"]
    (script,) = (step["run"] for step in steps if step.get("name") == "gate")

    def run(labelled, description):
        environment = {"PATH": "/usr/bin:/bin", "BASE": "main", "LABELLED": labelled, "DESCRIPTION": description}
        command = ["bash", "-e", "-c", script]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stderr) == (0, "")
        arguments = (tmp_path / "arguments").read_text().splitlines()
        assert arguments[:5] == ["-m", "pytest", "perf_tests", "--gate-against", "main"]
        assert not (tmp_path / "here").exists()
        given = [argument for argument in arguments if argument.startswith("--gate-allow")]
        return [argument.removeprefix("--gate-allow=") for argument in given], done.stdout

    return run


def test_every_line_of_the_description_allows_a_pattern(asked):
    assert asked("true", DESCRIPTION) == (ALLOWED, "")


def test_nothing_is_allowed_without_the_label(asked):
    assert asked("false", DESCRIPTION) == ([], "")


def test_a_label_without_a_line_is_said(asked):
    patterns, words = asked("true", "A faster horse.")
    assert (patterns, words.count("\n")) == ([], 1)
    assert 'needs lines "perf-ok: ID-PATTERN=REASON"' in words
