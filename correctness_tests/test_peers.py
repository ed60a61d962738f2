"""The comparisons with other people's libraries, as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = "perf_tests.peers.snake_sb3"


def run(*arguments, without=()):
    """Run the script with some packages as if they were not installed; return exit code, output and errors."""
    code = f"import runpy, sys; sys.modules.update(dict.fromkeys({without!r})); sys.argv[1:] = {arguments!r}; "
    code += f"runpy.run_module({SCRIPT!r}, run_name='__main__', alter_sys=True)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("without", "message"),
    [
        (("stable_baselines3",), "stable_baselines3 is not installed (pip install 'rlgauge[peers]')\n"),
        (("stable_baselines3", "torch", "jax"), "stable_baselines3 is not installed (pip install 'rlgauge[peers]')\n"),
    ],
)
def test_without_the_library_one_line_says_what_to_install(without, message):
    assert run(without=without) == (1, "", message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--pairs", "5"), "got --pairs 5 --blocks 8, wanted 6 or more pairs, 1 or more blocks"),
        (("--blocks", "0"), "got --pairs 7 --blocks 0, wanted 6 or more pairs, 1 or more blocks"),
        (("--threads", "0"), "got --threads 0, wanted 1 to "),
        (("--seed", "-1"), "got --seed -1, wanted 0 or more"),
        (("--seed", "many"), "argument --seed: invalid int value: 'many'"),
    ],
)
def test_a_mistaken_option_ends_with_a_clear_line(arguments, message):
    code, out, errors = run(*arguments)
    assert code == 2
    assert out == ""
    assert f"error: {message}" in errors.splitlines()[-1]
    assert "Traceback" not in errors


@pytest.mark.slow
@pytest.mark.skipif(find_spec("stable_baselines3") is None, reason="pip install 'rlgauge[peers]'")
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_one_process_finds_both_sides_alike_and_gives_their_rates(backend):
    code, out, errors = run(backend, "--one", "0", "--blocks", "1", "--threads", "1")
    assert code == 0, errors
    assert errors == ""
    result = json.loads(out.splitlines()[-1])
    assert result.keys() == {"ratio", "theirs", "ours"}
    assert min(result["theirs"], result["ours"]) > 0
