"""The package runs without the optional packages of the test environment."""

from pathlib import Path

import rlgauge
from correctness_tests.commands import hiding, python

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


def test_every_module_imports_and_replay_works_without_scipy_and_pydantic(tmp_path):
    done = python("-c", IMPORT_ALL_AND_REPLAY, RECORDED, PYTHONPATH=hiding(tmp_path, "scipy", "pydantic"))
    assert (done.returncode, done.stderr) == (1, "")  # some of the cases fail
    count, text = done.stdout.split("\n", 1)
    assert int(count) == len([*Path(rlgauge.__file__).parent.rglob("*.py")]) - 1  # the package itself is not listed
    assert "slower" in text
