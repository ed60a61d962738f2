"""Evidence that an optimisation does not reduce returns: pairs of training runs."""

import importlib
import json
import math
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest

from perf_tests.claims import returns

from ..commands import python

KEPT = returns.Trial("snake", {}, {}, 100, 10, 5, "foods", 0.0)  # the gain must be kept


def pairs(*changes):
    return [{"seed": seed, "base": 4.0, "change": change} for seed, change in enumerate(changes)]


def run(*arguments):
    done = python("-m", "perf_tests.claims.returns", *arguments, limit=900)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("changes", "random", "word"),
    [
        ((3.9, 4.0, 4.1, 4.0, 3.9), 0.0, "for the claim"), ((1.0, 1.1, 0.9, 1.0, 1.0), 0.0, "against the claim"),
        ((1.0, 5.0, 3.0, 4.0, 2.0), 0.0, "undecided"), ((4.0, 4.0, 4.0, 4.0), 0.0, "missing"),
        ((3.0,) * 5, 0.0, "for the claim"),  # exactly the required share
        ((3.0,) * 5, 3.0, "against the claim"),  # none of the gain
    ],
)  # fmt: skip
def test_evidence_holds_where_the_gain_is_kept(changes, random, word):
    assert returns.finding(pairs(*changes), replace(KEPT, random=random)) == word


@pytest.mark.parametrize(
    ("change", "word"),
    [(300, "for the claim"), (392, "for the claim"), (393, "against the claim"), (400, "against the claim")],
)
def test_a_threshold_has_to_be_reached_in_fewer_updates(change, word):
    found = [{"seed": seed, "base": 400.0, "change": float(change)} for seed in range(5)]
    assert returns.finding(found, replace(KEPT, threshold=8.0)) == word


@pytest.mark.slow
def test_updates_are_counted_to_the_threshold_or_to_the_end():
    small = {"collectors": 1, "num_envs": 2, "levels": 1, "capacity": 200, "batch_size": 8, "updates": 2, "reuse": 1.0}
    trial = returns.Trial("mario", small, {}, 64, 32, 2, "return", 0.0, threshold=0.0, every=32)
    for threshold, updates in ((0.0, 4), (99.0, 8)):  # an epoch has 16 experiences
        found = returns.trained(replace(trial, threshold=threshold), 0, False, 64)
        assert found["figure"] == updates
        assert len(found["weights"]) == 16
    assert "figure" not in returns.trained(trial, 0, False, 32)


def test_the_kept_gain_is_a_paired_t_interval_beyond_three_quarters():
    found = [{"base": 5.0 + seed, "change": 5.0 + seed + (-1) ** seed} for seed in range(6)]
    low, high = returns.excess(found, replace(KEPT, random=1.0))
    over = np.array([(5 + k + (-1) ** k - 1) - 0.75 * (5 + k - 1) for k in range(6)])
    room = 2.570582 * over.std(ddof=1) / math.sqrt(6)  # Student's t with five degrees of freedom
    assert (low, high) == pytest.approx((over.mean() - room, over.mean() + room))
    assert returns.excess([{"base": 4.0, "change": 3.0}] * 5, KEPT) == (0.0, 0.0)


@pytest.mark.parametrize("name", returns.TRIALS)
def test_both_sides_of_a_trial_are_configurations_that_differ(name):
    trial = returns.TRIALS[name]
    config = importlib.import_module(f"rl_impls.{trial.workload}.agent").Config
    assert config(**trial.base) != config(**{**trial.base, **trial.change})


@pytest.mark.parametrize(("code", "count"), [("of now", 5), ("of other settings", 0), ("of old", 0)])
def test_evidence_of_other_code_or_settings_is_stale(tmp_path, code, count):
    name, trial = "snake-every-4", returns.TRIALS["snake-every-4"]
    codes = {"of now": returns.code(trial), "of other settings": returns.code(replace(trial, steps=1))}
    (tmp_path / f"{name}.json").write_text(json.dumps({"code": codes.get(code, code), "pairs": pairs(*[4.0] * 5)}))
    assert len(returns.pairs_of(name, tmp_path)) == count


def test_code_of_a_trial_covers_its_workload_shared_code_and_the_lock_file(tmp_path):
    trial, lock = returns.TRIALS["snake-every-4"], "requirements/py311.txt"
    shutil.copytree(returns.ROOT / "rl_impls", tmp_path / "rl_impls", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "requirements").mkdir()
    shutil.copy(returns.ROOT / lock, tmp_path / lock)
    before = returns.code(trial, tmp_path)
    for name, counts in (
        ("rl_impls/params.py", True), ("rl_impls/common/replay.py", True), ("rl_impls/snake/agent.py", True),
        (lock, True), ("rl_impls/mario/agent.py", False), ("rl_impls/snake/__main__.py", False),
    ):  # fmt: skip
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(f"{text}\nx = 1\n")
        assert (returns.code(trial, tmp_path) != before) == counts, name
        (tmp_path / name).write_text(text)


def test_comments_and_docstrings_do_not_make_evidence_stale():
    plain = returns.without_comments("def f():\n    return 1\n")
    reworded = '"""A module."""\n\ndef f():\n    """Return one."""\n    return 1  # why\n'
    assert returns.without_comments(reworded) == plain
    assert returns.without_comments("def f():\n    return 2\n") != plain


@pytest.mark.parametrize(
    ("weights", "same"), [(("base", "change"), True), (("base", "other"), False), (("other", "change"), False)]
)
def test_evidence_is_kept_if_both_sides_have_the_same_weights(tmp_path, monkeypatch, weights, same):
    name, python = "snake-every-4", tmp_path / "python"
    python.write_text('#!/bin/sh\nfor last; do :; done; [ "$last" = --changed ] && echo $CHANGE || echo $BASE\n')
    python.chmod(0o755)
    for side in ("base", "change"):
        monkeypatch.setenv(side.upper(), json.dumps({"weights": side}))
    monkeypatch.setattr(sys, "executable", str(python))
    (tmp_path / f"{name}.json").write_text(
        json.dumps({"code": "of old", "weights": weights, "pairs": pairs(*[4.0] * 5)})
    )
    assert returns.renewed(name, tmp_path) == same
    assert len(returns.pairs_of(name, tmp_path)) == (5 if same else 0)


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
    assert out.startswith(f"{name}: the current code computes the same weights as the stored evidence, ")
    assert f"{name}: evidence for the claim: +1.00 to +1.00 foods above 75% of the base's gain, n = 5 seeds\n" in out
    found = json.loads(file.read_text())
    assert (found["code"], found["pairs"]) == (returns.code(returns.TRIALS[name]), pairs(*[4.0] * 5))


def test_a_mistake_is_one_line_and_code_2(capsys):
    with pytest.raises(SystemExit) as ended:
        returns.main(["chess"])
    assert ended.value.code == 2
    assert "unknown trial 'chess' (choose from snake-every-4, " in capsys.readouterr().err.splitlines()[-1]
