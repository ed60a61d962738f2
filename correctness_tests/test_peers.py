"""The comparisons with other people's libraries, as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from perf_tests.peers import _common as common
from perf_tests.peers import snake_plain, snake_scanned
from perf_tests.suite.cases import variants

ROOT = Path(__file__).parents[1]
SB3, PLAIN, SCANNED = SCRIPTS = [f"perf_tests.peers.snake_{name}" for name in ("sb3", "plain", "scanned")]


def run(script, *arguments, without=()):
    """Run a script with some packages as if they were not installed; return exit code, output and errors."""
    code = f"import runpy, sys; sys.modules.update(dict.fromkeys({without!r})); sys.argv[1:] = {arguments!r}; "
    code += f"runpy.run_module({script!r}, run_name='__main__', alter_sys=True)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("script", "without", "message"),
    [
        (SB3, ("stable_baselines3",), "stable_baselines3 is not installed (pip install 'rlgauge[peers]')\n"),
        (
            SB3,
            ("stable_baselines3", "torch", "jax"),
            "stable_baselines3 is not installed (pip install 'rlgauge[peers]')\n",
        ),
        (PLAIN, ("torch",), "torch: torch is not installed (pip install 'rlgauge[peers]')\n"),
        (SCANNED, ("optax",), "jax: optax is not installed (pip install 'rlgauge[peers]')\n"),
    ],
)
def test_without_the_library_one_line_says_what_to_install(script, without, message):
    assert run(script, without=without) == (1, "", message)


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--pairs", "5"), "got --pairs 5 --blocks 8, wanted 6 or more pairs, 1 or more blocks"),
        (("--blocks", "0"), "got --pairs 7 --blocks 0, wanted 6 or more pairs, 1 or more blocks"),
        (("--threads", "0"), "got --threads 0, wanted 1 to "),
        (("--seed", "-1"), "got --seed -1, wanted 0 or more"),
        (("--seed", "many"), "argument --seed: invalid int value: 'many'"),
        (("--only", "all"), "argument --only: invalid choice: 'all'"),
        (("--json", "nowhere/out.json"), "got --json nowhere/out.json, wanted a file in a folder that exists"),
    ],
)
def test_a_mistaken_option_ends_with_a_clear_line(script, arguments, message):
    code, out, errors = run(script, *arguments)
    assert code == 2
    assert out == ""
    assert f"error: {message}" in errors.splitlines()[-1]
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("script", "name"),
    [
        *((PLAIN, name) for name in snake_plain.COMPARISONS | snake_plain.CHECKS),
        *((SCANNED, name) for name in snake_scanned.COMPARISONS),
    ],
)
def test_peers_play_and_learn_as_ours_do_by_the_same_numbers(script, name, monkeypatch):
    monkeypatch.setattr(common, "STEPS", 128)
    comparison = {PLAIN: snake_plain.COMPARISONS | snake_plain.CHECKS, SCANNED: snake_scanned.COMPARISONS}[script][name]
    ours, theirs = comparison.ours([0, 0]), comparison.theirs([0, 0])
    for side in (ours, theirs):
        assert side.block() > 0
    theirs.check_first(ours)
    common.check_alike(theirs, ours)
    theirs.outcome = (theirs.outcome[0] + 1, *theirs.outcome[1:])
    with pytest.raises(RuntimeError, match="actions: the first 64 differ"):
        theirs.check_first(ours)
    theirs.outcome = tuple(part[:8] for part in theirs.outcome)
    with pytest.raises(RuntimeError, match="environment steps and updates of a block: got "):
        common.check_alike(theirs, ours)


def test_what_is_kept_of_a_comparison_names_the_case_and_the_ratio(monkeypatch, tmp_path, capsys):
    results = [{"ratio": np.log(k), "ours": 10.0 * k, "theirs": 10.0} for k in (1, 2, 3, 4, 5, 6)]
    monkeypatch.setattr(common, "fresh_processes", lambda module, asked, pairs: iter(results))
    monkeypatch.setattr(sys, "argv", ["peer", "--only", "fused", "--pairs", "6", "--json", str(tmp_path / "out.json")])
    common.main("peer", "Compare.", snake_plain.COMPARISONS, needed=())
    [kept] = json.loads((tmp_path / "out.json").read_text())
    assert kept["case"] in variants()
    assert kept["case"] in capsys.readouterr().out
    assert (kept["ratio"], kept["low"], kept["high"], kept["n"]) == pytest.approx((3.5, 1, 6, 6))
    assert kept["steps_per_second"] == {"ours": 35, "theirs": 10}
    assert kept.keys() == {
        "peer", "version", "case", "ratio", "low", "high", "n", "threads", "steps_per_second", "left_out",
    }  # fmt: skip


def test_a_peer_that_is_too_slow_fails_its_check(monkeypatch):
    results = [{"ratio": np.log(1.2), "ours": 12.0, "theirs": 10.0}] * 6
    monkeypatch.setattr(common, "fresh_processes", lambda module, asked, pairs: iter(results))
    monkeypatch.setattr(sys, "argv", ["peer", "--check"])
    with pytest.raises(SystemExit, match=r"plain_naive: got 1\.2, wanted 1\.45 or more, or the peer is wrong"):
        common.main("peer", "Compare.", snake_plain.COMPARISONS, needed=(), checks=snake_plain.CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "name"), [(SB3, "torch"), (SB3, "jax"), (PLAIN, "fused"), (SCANNED, "envs1"), (SCANNED, "envs64")]
)
def test_one_process_finds_both_sides_alike_and_gives_their_rates(script, name):
    if script == SB3 and find_spec("stable_baselines3") is None:
        pytest.skip("pip install 'rlgauge[peers]'")
    code, out, errors = run(script, "--only", name, "--one", "0", "--blocks", "1", "--threads", "1")
    assert code == 0, errors
    assert errors == ""
    result = json.loads(out.splitlines()[-1])
    assert result.keys() == {"ratio", "theirs", "ours"}
    assert min(result["theirs"], result["ours"]) > 0
