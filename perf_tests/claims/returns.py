"""Test whether a change affects learning: ``python -m perf_tests.claims.returns [TRIAL ...] [--seeds 5]``.

A trial trains base and change from each of several seeds and evaluates both. Learning is unaffected if the change keeps
at least three quarters of the base's gain over a random policy: the 95% confidence interval (Student's t, paired by
seed) of ``gain of change - 0.75 gain of base`` must lie at or above 0. A trial with a threshold counts the updates
until an evaluation reaches it: the interval of ``log(updates of base / updates of change)`` must lie at or above log
1.02.

Results are kept in ``results/returns`` with a hash of the code, and a hash of each side's weights after 16,000
environment steps. When the code changes, they are stale until a run finds that the new code computes bit-identical
weights.
"""

from __future__ import annotations

import argparse
import ast
import functools
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_impls.common.files import write_whole
from rlgauge.command import ended
from rlgauge.interrupts import by_sigterm
from rlgauge.progress import Progress

from ..suite import process

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "results" / "returns"
SHARE, SEEDS, LEVEL = 0.75, 5, 0.95
SOME = 1.02  # largest ratio that counts as no gain
FOR, AGAINST = "for the claim", "against the claim"
SNAKE: Mapping[str, Any] = {
    "backend": "jax", "form": "compiled", "num_envs": 16, "batch_size": 64, "train_frequency": 4,
    "learning_rate": 5e-4, "gamma": 0.95, "capacity": 50_000,
}  # fmt: skip
MARIO: Mapping[str, Any] = {
    "backend": "torch", "form": "full", "game": "coinrun", "levels": 1, "start_level": 3, "collectors": 2,
    "num_envs": 8, "capacity": 20_000, "batch_size": 64, "updates": 8, "reuse": 4.0, "explore": 8_000,
    "target_frequency": 100,
}  # fmt: skip


DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
# Command-line and progress code, which does not affect learning.
TERMINAL = ("__main__.py", "command.py", "runs.py", "training.py")


@dataclass(frozen=True)
class Trial:
    """Two trainings, of which the change should learn as well as the base, or reach a threshold in fewer updates.

    Attributes:
        change: values of the configuration that differ from ``base``.
        steps: environment steps of a training.
        first: environment steps after which the weights are hashed; both sides make 1,000 or more updates by then.
        episodes: number of evaluation episodes.
        figure: name of the evaluated figure of an episode.
        random: mean of that figure for a random policy.
        threshold: value of the figure at which updates stop being counted, below the largest possible one; None to
            compare the figure after all steps.
        every: environment steps between evaluations that look for the threshold.
    """

    workload: str
    base: Mapping[str, Any]
    change: Mapping[str, Any]
    steps: int
    first: int
    episodes: int
    figure: str
    random: float
    threshold: float | None = None
    every: int = 1_280

    def margin(self, base: float, change: float) -> float:
        """Return by how much the change exceeds the requirement, given the result of both sides for one seed."""
        if self.threshold is None:
            return (change - self.random) - SHARE * (base - self.random)
        return math.log(base / change / SOME)

    @property
    def unit(self) -> str:
        """What :meth:`margin` measures, in words."""
        if self.threshold is None:
            return f"{self.figure} above {SHARE:.0%} of the base's gain"
        return (
            f"in log(updates of base / updates of change) beyond the required {math.log(SOME):.2f}; updates until a "
            f"{self.figure} of {self.threshold:g}"
        )


def snake(base: Mapping[str, Any], change: Mapping[str, Any]) -> Trial:
    """Return a Snake trial; a random policy eats next to nothing."""
    return Trial("snake", {**SNAKE, **base}, change, 100_000, 16_000, 200, "foods", 0.0)


def mario(base: Mapping[str, Any], change: Mapping[str, Any], threshold: float | None = None) -> Trial:
    """Return a trial of the mario pipeline on one CoinRun level, where a random policy scores 5.6 of 10."""
    return Trial("mario", {**MARIO, **base}, change, 20_000, 16_000, 64, "return", 5.6, threshold)


TRIALS = {
    "snake-every-4": snake({"train_frequency": 1}, {"train_frequency": 4}),
    "snake-every-8": snake({"train_frequency": 4}, {"train_frequency": 8}),
    "snake-every-16": snake({"train_frequency": 4}, {"train_frequency": 16}),
    "snake-batch-128": snake({"batch_size": 64}, {"batch_size": 128}),
    "snake-batch-256": snake({"batch_size": 64}, {"batch_size": 256}),
    "mario-publish-5": mario({"publish_every": 1}, {"publish_every": 5}),
    "mario-batch-norm-updates": mario({"norm": "none"}, {"norm": "batch"}, threshold=8.0),
}


def trained(trial: Trial, seed: int, changed: bool, steps: int) -> dict[str, Any]:
    """Train one side; return a hash of its early ``weights``, and the ``figure`` that the sides are compared by.

    That is the mean of the evaluation, or the number of updates to the threshold: all of them if it is not reached.
    There is no evaluation and no ``figure`` with fewer than the trial's steps.
    """
    from importlib import import_module

    agents, found = import_module(f"rl_impls.{trial.workload}.agent"), dict[str, Any]()
    made = {"snake": "SnakeAgent", "mario": "MarioAgent"}[trial.workload]
    agent = getattr(agents, made)(seed=seed, **{**trial.base, **(trial.change if changed else {})})

    def evaluated() -> float:
        return float(agent.evaluate(trial.episodes, seed=1_000 + seed)[trial.figure].mean())

    def updates() -> int:
        return int(agent.step // agent.chunk * agent.config.updates)

    evaluates, due = steps >= trial.steps, trial.every
    try:
        while agent.step < steps:
            agent.learn()
            if agent.step >= trial.first and "weights" not in found:
                found["weights"] = hash_of(agent.params)
            if evaluates and trial.threshold is not None and "figure" not in found and agent.step >= due:
                due += trial.every
                if evaluated() >= trial.threshold:
                    found["figure"] = updates()
        if evaluates and "figure" not in found:
            found["figure"] = evaluated() if trial.threshold is None else updates()
        return found
    finally:
        agent.close()


def hash_of(weights: Mapping[str, Any]) -> str:
    """Return a hash of named arrays."""
    import hashlib

    import numpy as np

    found = hashlib.sha256()
    for name in sorted(weights):
        found.update(name.encode() + np.asarray(weights[name]).tobytes())
    return found.hexdigest()[:16]


def code(trial: Trial, root: Path = ROOT) -> str:
    """Return a hash of a trial, the code in a repository that it trains, and the locked requirements."""
    import hashlib

    rl_impls, found = root / "rl_impls", hashlib.sha256(str(trial).encode())
    folders = rl_impls.glob("*.py"), (rl_impls / "common").rglob("*.py"), (rl_impls / trial.workload).rglob("*.py")
    for path in sorted(itertools.chain(*folders)):
        if path.name not in TERMINAL:
            found.update(f"{path.relative_to(root)} {without_comments(path.read_text())}".encode())
    found.update((root / "requirements" / "py311.txt").read_bytes())
    return found.hexdigest()


@functools.cache
def without_comments(source: str) -> str:
    """Return the syntax tree of Python code as text, without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree)


def kept(name: str, folder: Path = KEPT) -> dict[str, Any]:
    """Return the stored evidence of a trial, stale or not; empty if there is none."""
    path = folder / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def pairs_of(name: str, folder: Path = KEPT) -> list[dict[str, float]]:
    """Return the results per seed if they belong to the current code, else an empty list."""
    found = kept(name, folder)
    pairs: list[dict[str, float]] = found["pairs"] if found.get("code") == code(TRIALS[name]) else []
    return pairs


def excess(pairs: Sequence[Mapping[str, float]], trial: Trial) -> tuple[float, float]:
    """Return the 95% interval of :meth:`Trial.margin`, paired by seed."""
    import numpy as np
    from scipy.stats import ttest_1samp

    over = np.array([trial.margin(pair["base"], pair["change"]) for pair in pairs])
    if np.ptp(over) == 0:
        return float(over[0]), float(over[0])
    found = ttest_1samp(over, 0).confidence_interval(LEVEL)
    return float(found.low), float(found.high)


def finding(pairs: Sequence[Mapping[str, float]], trial: Trial) -> str:
    """Return what the results of a trial say: ``for the claim``, ``against the claim``, ``undecided`` or ``missing``.

    They are missing with fewer than five seeds.
    """
    if len(pairs) < SEEDS:
        return "missing"
    low, high = excess(pairs, trial)
    return FOR if low >= 0 else AGAINST if high < 0 else "undecided"


def evidence(name: str) -> str:
    """Return :func:`finding` for the stored results of a trial; those of other code do not count."""
    return finding(pairs_of(name), TRIALS[name])


def in_a_process(name: str, seed: int, changed: bool, steps: int) -> dict[str, Any]:
    """Run :func:`trained` in a fresh process; exit with its code if it fails."""
    command = [sys.executable, "-m", "perf_tests.claims.returns", name, f"--one={seed}", f"--steps={steps}"]
    with by_sigterm():
        done = subprocess.run([*command, *["--changed"] * changed], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(done.returncode)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def write(name: str, folder: Path, weights: Sequence[str], pairs: Sequence[Mapping[str, float]]) -> None:
    """Store the evidence of a trial under the hash of the current code."""
    found = {"trial": name, "code": code(TRIALS[name]), "weights": weights, "pairs": pairs}
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / f"{name}.json", (json.dumps(found, indent=1) + "\n").encode())


def renewed(name: str, folder: Path) -> bool:
    """Return whether the current code computes the weights of stale evidence; if so, store it for the current code."""
    found, trial = kept(name, folder), TRIALS[name]
    if not found.get("weights"):
        return False
    now = [in_a_process(name, 0, changed, trial.first)["weights"] for changed in (False, True)]
    if now == found["weights"]:
        write(name, folder, now, found["pairs"])
    return bool(now == found["weights"])


def train(name: str, seeds: int, folder: Path) -> None:
    """Train the missing seeds of a trial; store each pair as soon as it is finished."""
    if not pairs_of(name, folder) and renewed(name, folder):
        print(f"{name}: the current code computes the same weights as the stored evidence, which stays valid")
    pairs, weights = pairs_of(name, folder), kept(name, folder).get("weights", [])
    if len(pairs) >= seeds:
        return
    with Progress(seeds - len(pairs), f"pairs of trainings of {name}") as progress:
        for seed in range(len(pairs), seeds):
            sides = [in_a_process(name, seed, changed, TRIALS[name].steps) for changed in (False, True)]
            base, change = (side["figure"] for side in sides)
            weights = [side["weights"] for side in sides] if seed == 0 else weights
            pairs.append({"seed": seed, "base": base, "change": change})
            write(name, folder, weights, pairs)
            progress.step(f"{name}, seed {seed}: base {base:.2f}, change {change:.2f}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run the trials; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m perf_tests.claims.returns", description="Test whether a change affects learning."
    )
    parser.add_argument("trial", nargs="*", help=f"trials to run: {', '.join(TRIALS)} (default: all)")
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, metavar="N", help=f"train with N seeds per trial (default: {SEEDS})"
    )
    parser.add_argument(
        "--folder", type=Path, default=KEPT, help="keep the results in this folder (default: results/returns)"
    )
    for hidden in ("--one", "--steps"):
        parser.add_argument(hidden, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--changed", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for name in options.trial:
        if name not in TRIALS:
            parser.error(f"unknown trial {name!r} (choose from {', '.join(TRIALS)})")
    if options.seeds < SEEDS:
        parser.error(f"--seeds: {options.seeds} is too small; choose {SEEDS} or more")
    return ended(lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Run the missing trainings and print a verdict per trial, or train one side for :func:`in_a_process`."""
    process.set_up(process.cores())
    names = options.trial or list(TRIALS)
    if options.one is not None:
        print(json.dumps(trained(TRIALS[names[0]], options.one, options.changed, options.steps)))
        return 0
    try:
        for name in names:
            train(name, options.seeds, options.folder)
    except KeyboardInterrupt:
        print(
            f"interrupted: repeat the command to continue; finished trainings are in {options.folder}", file=sys.stderr
        )
        raise
    for name in names:
        print(in_words(name, pairs_of(name, options.folder)))
    return 0


def in_words(name: str, pairs: Sequence[Mapping[str, float]]) -> str:
    """Return the finding of a trial in one line."""
    trial = TRIALS[name]
    low, high = excess(pairs, trial)
    return f"{name}: evidence {finding(pairs, trial)}: {low:+.2f} to {high:+.2f} {trial.unit}, n = {len(pairs)} seeds"


if __name__ == "__main__":
    sys.exit(main())
