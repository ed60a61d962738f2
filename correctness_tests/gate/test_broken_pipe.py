"""Commands whose output pipe is closed early."""

import subprocess
import sys

import pytest

from ..commands import ROOT, environment


@pytest.mark.parametrize(
    "command", [("rl_impls",), ("rl_impls.snake", "train", "--help"), ("perf_tests.claims", "--list")], ids="-".join
)
def test_a_closed_pipe_ends_a_command_silently_with_141(command):
    with subprocess.Popen(
        [sys.executable, "-m", *command], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
