"""What the package needs to be installed: pytest and NumPy, and nothing else of the test environment."""

from __future__ import annotations

from pathlib import Path

import rlgauge
from correctness_tests.commands import hiding, python

RECORDED = Path(__file__).with_name("recorded") / "artifact.json"
IMPORT_ALL = """
import importlib, pkgutil, sys
import rlgauge
for module in pkgutil.walk_packages(rlgauge.__path__, "rlgauge."):
    importlib.import_module(module.name)
    print(module.name)
"""


def test_every_module_imports_without_scipy_and_pydantic(tmp_path):
    done = python("-c", IMPORT_ALL, PYTHONPATH=hiding(tmp_path, "scipy", "pydantic"))
    assert done.returncode == 0, done.stderr
    folder = Path(rlgauge.__file__).parent
    assert len(done.stdout.split()) == len([*folder.rglob("*.py")]) - 1  # the package itself is not listed


def test_replay_works_without_scipy_and_pydantic(tmp_path):
    done = python("-m", "rlgauge", "replay", RECORDED, PYTHONPATH=hiding(tmp_path, "scipy", "pydantic"))
    assert (done.returncode, done.stderr) == (1, "")  # some of its cases fail
    assert "slower" in done.stdout
