"""``python -m perf_tests.beside_load``, which trains alone and beside a busy program."""

import json
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from perf_tests.beside_load import main

from .commands import ROOT, environment
from .waiting import alive, started, until


def running(group):
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it just ended
            _, _, of_process, *_ = file.read_text().rpartition(")")[2].split()
            found += [file.parent.name] if of_process == str(group) and alive(file.parent.name) else []
    return found


def test_a_row_has_the_median_rate_alone_and_what_is_kept_beside_the_busy_loop(monkeypatch, capsys):
    rates = iter([100.0, 50.0, 60.0, 200.0, 300.0, 30.0])  # every other pair begins beside the loop

    def train(command, **how):
        folder = Path(command[command.index("--output-dir") + 1])
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps({"rate": next(rates)}))

    monkeypatch.setattr("subprocess.run", train)
    assert main(["--only", "pirl", "--pairs", "3"]) == 0
    (row,) = capsys.readouterr().out.splitlines()[1:]
    assert row.split() == ["pirl", "200.0", "30%", "10%", "3"]


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
