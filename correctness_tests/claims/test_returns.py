"""Evidence that an optimisation learns as well: pairs of trainings."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys

import numpy as np
import pytest

from perf_tests.claims import returns

from ..commands import ROOT, environment


def pairs(*changes):
    return [{"seed": seed, "base": 4.0, "change": change} for seed, change in enumerate(changes)]


def run(*arguments):
    """Run the command; return its exit code and what it printed."""
    command = [sys.executable, "-m", "perf_tests.claims.returns", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment(), timeout=900)
    return done.returncode, done.stdout, done.stderr


def test_evidence_holds_where_the_gain_is_kept():
    assert returns.stays(pairs(3.9, 4.0, 4.1, 4.0, 3.9), 0.0) is True
    assert returns.stays(pairs(1.0, 1.1, 0.9, 1.0, 1.0), 0.0) is False
    assert returns.stays(pairs(1.0, 5.0, 3.0, 4.0, 2.0), 0.0) is None
    assert returns.stays(pairs(4.0, 4.0, 4.0, 4.0), 0.0) is None  # too few
    assert returns.stays(pairs(3.0, 3.0, 3.0, 3.0, 3.0), 0.0) is True  # just the share
    assert returns.stays(pairs(3.0, 3.0, 3.0, 3.0, 3.0), 3.0) is False  # nothing of the gain


def test_the_kept_gain_is_a_paired_t_interval_beyond_three_quarters():
    found = [{"base": 5.0 + seed, "change": 5.0 + seed + (-1) ** seed} for seed in range(6)]
    low, high = returns.excess(found, 1.0)
    over = np.array([(5 + k + (-1) ** k - 1) - 0.75 * (5 + k - 1) for k in range(6)])
    room = 2.570582 * over.std(ddof=1) / math.sqrt(6)  # Student's t of five degrees of freedom
    assert (low, high) == pytest.approx((over.mean() - room, over.mean() + room))
    assert returns.excess([{"base": 4.0, "change": 3.0}] * 5, 0.0) == (0.0, 0.0)


@pytest.mark.parametrize("name", returns.TRIALS)
def test_both_sides_of_a_trial_are_configurations_that_differ(name):
    trial = returns.TRIALS[name]
    config = importlib.import_module(f"rl_impls.{trial.workload}.agent").Config
    assert config(**trial.base) != config(**{**trial.base, **trial.change})
    assert trial.first < trial.steps


@pytest.mark.parametrize(("code", "known"), [("of now", True), ("of old", None)])
def test_evidence_of_other_code_is_stale(tmp_path, code, known):
    name = "snake-every-4"
    of = returns.code(returns.TRIALS[name]) if code == "of now" else code
    (tmp_path / f"{name}.json").write_text(json.dumps({"code": of, "pairs": pairs(*[4.0] * 5)}))
    assert returns.stays(returns.pairs_of(name, tmp_path), 0.0) is known
    assert returns.evidence("") is None


def test_comments_and_docstrings_do_not_make_evidence_stale():
    plain = returns.without_comments("def f():\n    return 1\n")
    reworded = '"""A module."""\n\ndef f():\n    """Return one."""\n    return 1  # why\n'
    assert returns.without_comments(reworded) == plain
    assert returns.without_comments("def f():\n    return 2\n") != plain


@pytest.mark.slow
def test_evidence_of_the_same_weights_is_kept(tmp_path):
    name = "snake-every-4"
    first = str(returns.TRIALS[name].first)
    weights = [json.loads(run(name, "--one=0", "--steps", first, *more)[1])["weights"] for more in ([], ["--changed"])]
    assert weights[0] != weights[1]
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps({"code": "of old", "weights": weights, "pairs": pairs(*[4.0] * 5)}))
    code, out, err = run(name, "--folder", tmp_path)
    assert code == 0, err
    assert out.startswith(f"{name}: this code computes the same weights as that of the evidence\n")
    assert f"{name}: learning stays the same: +1.00 to +1.00 foods beyond 75% of the gain, n = 5 seeds\n" in out
    found = json.loads(file.read_text())
    assert (found["code"], found["pairs"]) == (returns.code(returns.TRIALS[name]), pairs(*[4.0] * 5))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chess"], "unknown trial 'chess' (choose from snake-every-4, "),
    ],
)
def test_a_mistake_is_one_line_and_code_2(arguments, words):
    code, _, err = run(*arguments)
    assert code == 2
    assert words in err.splitlines()[-1]
