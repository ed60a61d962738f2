"""Commands in other surroundings: with another encoding, without optional packages, and with a closed pipe."""

import subprocess
import sys
from pathlib import Path

import pytest

import rlgauge
from correctness_tests.repositories.made import Repository
from rlgauge.artifact import Artifact
from rlgauge.rule import Record, Rule

from ..commands import ROOT, environment, hiding, python

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
RECORDED = Path(__file__).with_name("recorded") / "artifact.json"
IMPORT_ALL_AND_REPLAY = """
import importlib, pkgutil, sys
import rlgauge
names = [module.name for module in pkgutil.walk_packages(rlgauge.__path__, "rlgauge.")]
for name in names:
    importlib.import_module(name)
print(len(names))
sys.exit(importlib.import_module("rlgauge.__main__").main(["replay", sys.argv[1]]))
"""


def test_settings_are_read_as_utf_8_and_verdicts_printed_with_escapes(tmp_path):
    records = {"test_größer": Record(state="gone")}
    machine = {"cpu_model": "abacus"}
    artifact = Artifact(base="b", head="h", seed=0, seconds=9.0, machine=machine, rule=Rule(), records=records)
    files = {"pyproject.toml": "# größer\n[tool.rlgauge]\n", "gate.json": artifact.to_json()}
    toy = Repository(tmp_path / "toy", files)
    words = 'give one, for example main, or set against = "main" in [tool.rlgauge]'
    assert toy.run("rlgauge", "gate", "-k", "kept", **ASCII) == (2, f"rlgauge gate: no revision is given; {words}\n")
    code, text = toy.run("rlgauge", "replay", "gate.json", **ASCII)
    assert (code, "Traceback" in text) == (1, False)
    assert "`test_gr\\xf6\\xdfer` | gone" in text


def test_every_module_imports_and_replay_works_without_scipy_and_pydantic(tmp_path):
    done = python("-c", IMPORT_ALL_AND_REPLAY, RECORDED, PYTHONPATH=hiding(tmp_path, "scipy", "pydantic"))
    assert (done.returncode, done.stderr) == (1, "")  # some of the cases fail
    count, text = done.stdout.split("\n", 1)
    assert int(count) == len([*Path(rlgauge.__file__).parent.rglob("*.py")]) - 1  # the package itself is not listed
    assert "slower" in text


@pytest.mark.parametrize("command", ["rl_impls", "perf_tests.claims pirl --list", "rl_impls.snake train --help"])
def test_a_closed_pipe_ends_a_command_silently_with_141(command):
    words, pipe, variables = [sys.executable, "-m", *command.split()], subprocess.PIPE, environment(PYTHONUNBUFFERED="")
    with subprocess.Popen(words, cwd=ROOT, env=variables, stdout=pipe, stderr=pipe) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
