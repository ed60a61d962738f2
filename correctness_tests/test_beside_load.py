"""``python -m perf_tests.beside_load``, which trains alone and beside a busy program."""

import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from .commands import ROOT, environment
from .waiting import alive, started, until


def running(group):
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it just ended
            _, _, of_process, *_ = file.read_text().rpartition(")")[2].split()
            found += [file.parent.name] if of_process == str(group) and alive(file.parent.name) else []
    return found


@pytest.mark.slow
def test_an_interrupted_measurement_leaves_no_process(tmp_path):
    command = [sys.executable, "-m", "perf_tests.beside_load", "--only", "pirl", "--pairs", "1", "--seconds", "30"]
    with started(command, cwd=ROOT, env=environment(TMPDIR=str(tmp_path)), start_new_session=True) as process:
        until(lambda: list(tmp_path.glob("*/run")), "a training")
        assert len(running(process.pid)) > 1
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not running(process.pid)
