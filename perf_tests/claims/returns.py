"""Evidence that learning stays the same: ``python -m perf_tests.claims.returns [TRIAL ...] [--seeds 5]``.

A trial trains both sides from each of several seeds and evaluates them. What is learned stays the same if the change
keeps at least three quarters of what the base gains over a policy that plays at random: the lower end of the 95 %
interval of ``gain of change - 0.75 gain of base`` over the seeds, paired, by Student's t. What was trained is kept in
``results/returns``, with the code's hash: evidence of other code is stale, and proves nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_impls.common.files import write_whole
from rlgauge.progress import Progress

from ..interleaved import fresh_processes, interruptible
from ..suite import process
from ..suite.claim import Claim

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "results" / "returns"
SHARE, SEEDS, LEVEL = 0.75, 5, 0.95
SNAKE: Mapping[str, Any] = {
    "backend": "jax", "form": "compiled", "envs": 16, "batch": 64, "every": 4, "learning_rate": 5e-4, "gamma": 0.95,
    "capacity": 50_000,
}  # fmt: skip
MARIO: Mapping[str, Any] = {
    "backend": "torch", "form": "full", "game": "coinrun", "levels": 1, "start_level": 3, "collectors": 2, "envs": 8,
    "buffer": 20_000, "batch": 64, "updates": 8, "reuse": 4.0, "explore": 8_000, "target_every": 100,
}  # fmt: skip
PROCGEN: Mapping[str, Any] = {
    "backend": "torch", "algorithm": "ppo", "game": "jumper", "levels": 5, "envs": 8, "unroll": 128, "batch": 128,
    "learning_rate": 1e-3,
}  # fmt: skip


# Files of what a training is asked by at a terminal, and of what is shown of it: nothing is learned by them.
TERMINAL = ("__main__.py", "command.py", "config_fields.py", "config_file.py", "runs.py", "training.py")


@dataclass(frozen=True)
class Trial:
    """Two trainings that are to learn the same.

    Attributes:
        workload: whose agent learns.
        base: values of its configuration.
        change: values that are not the base's.
        steps: of the environment.
        episodes: of the evaluation.
        figure: of an episode, that the evaluation returns.
        random: its mean for a policy that plays at random.
    """

    workload: str
    base: Mapping[str, Any]
    change: Mapping[str, Any]
    steps: int
    episodes: int
    figure: str
    random: float


def snake(base: Mapping[str, Any], change: Mapping[str, Any]) -> Trial:
    """Return a trial of the agent that learns Snake; a random one eats next to nothing.

    Args:
        base: values of the configuration beside those of all trials.
        change: values that are not the base's.
    """
    return Trial("snake", {**SNAKE, **base}, change, 100_000, 200, "foods", 0.0)


def mario(base: Mapping[str, Any], change: Mapping[str, Any]) -> Trial:
    """Return a trial of the pipeline on a level of CoinRun, where drawn actions bring 5.6 of 10.

    Args:
        base: values of the configuration beside those of all trials.
        change: values that are not the base's.
    """
    return Trial("mario", {**MARIO, **base}, change, 20_000, 64, "return", 5.6)


def procgen(base: Mapping[str, Any], change: Mapping[str, Any]) -> Trial:
    """Return a trial of PPO on five levels of Jumper, where drawn actions bring 4.5 of 10.

    Args:
        base: values of the configuration beside those of all trials.
        change: values that are not the base's.
    """
    return Trial("procgen", {**PROCGEN, **base}, change, 100_000, 100, "training_return", 4.5)


TRIALS = {
    "snake-every-4": snake({"every": 1}, {"every": 4}),
    "snake-every-16": snake({"every": 4}, {"every": 16}),
    "snake-batch-256": snake({"batch": 64}, {"batch": 256}),
    "mario-publish-5": mario({"publish_every": 1}, {"publish_every": 5}),
    "mario-batch-norm": mario({"norm": "none"}, {"norm": "batch"}),
    "procgen-bfloat16": procgen({"form": "full"}, {"form": "bfloat16"}),
}


def trained(trial: Trial, seed: int, changed: bool) -> float:
    """Return the mean figure of the evaluation after a training.

    Args:
        trial: of ``TRIALS``.
        seed: of the training.
        changed: whether the change is made.
    """
    from importlib import import_module

    agents = import_module(f"rl_impls.{trial.workload}.agent")
    made = {"snake": "SnakeAgent", "mario": "MarioAgent", "procgen": "ProcgenAgent"}[trial.workload]
    agent = getattr(agents, made)(seed=seed, **{**trial.base, **(trial.change if changed else {})})
    try:
        while agent.step < trial.steps:
            agent.learn()
        return float(agent.evaluate(trial.episodes, seed=1_000 + seed)[trial.figure].mean())
    finally:
        agent.close()


def code(trial: Trial) -> str:
    """Return a hash of the code that learns, and of what it is asked.

    Args:
        trial: of ``TRIALS``.
    """
    import hashlib

    from rlgauge.revisions import digest

    code = ROOT / "rl_impls"
    learns = [
        *code.glob("*.py"),
        *(code / "common").rglob("*.py"),
        *(code / trial.workload).rglob("*.py"),
        ROOT / "requirements/py311.txt",
    ]
    parts = [path for path in learns if path.name not in TERMINAL]
    return hashlib.sha256(f"{digest(ROOT, parts)} {trial}".encode()).hexdigest()


def pairs_of(name: str) -> list[dict[str, float]]:
    """Return what was learned from each seed by the code as it is; nothing where the evidence is stale or missing.

    Args:
        name: of the trial.
    """
    path = KEPT / f"{name}.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    pairs: list[dict[str, float]] = found["pairs"] if found["code"] == code(TRIALS[name]) else []
    return pairs


def excess(pairs: Sequence[Mapping[str, float]], random: float) -> tuple[float, float]:
    """Return the 95 % interval of what the change gains beyond three quarters of the base's gain.

    Args:
        pairs: ``base`` and ``change`` of each seed.
        random: mean of a policy that plays at random.
    """
    import numpy as np
    from scipy.stats import ttest_1samp

    over = np.array([(pair["change"] - random) - SHARE * (pair["base"] - random) for pair in pairs])
    if np.ptp(over) == 0:
        return float(over[0]), float(over[0])
    found = ttest_1samp(over, 0).confidence_interval(LEVEL)
    return float(found.low), float(found.high)


def stays(pairs: Sequence[Mapping[str, float]], random: float) -> bool | None:
    """Return whether what is learned stays the same; None where the seeds do not tell, or are fewer than five.

    Args:
        pairs: ``base`` and ``change`` of each seed.
        random: mean of a policy that plays at random.
    """
    if len(pairs) < SEEDS:
        return None
    low, high = excess(pairs, random)
    return True if low >= 0 else False if high < 0 else None


def evidence(claim: Claim, workload: str) -> bool | None:
    """Return whether what a claim is about learns the same; None where nothing that is kept tells.

    Args:
        claim: of a workload; one that says nothing of returns has no evidence.
        workload: its name.
    """
    return stays(pairs_of(claim.evidence), TRIALS[claim.evidence].random) if claim.evidence else None


def train(todo: Sequence[tuple[str, int]], kept: dict[str, list[Any]]) -> None:
    """Train pairs in fresh processes; keep each as soon as it is there.

    Args:
        todo: names of trials and seeds.
        kept: pairs that are there, by trial; those that are trained are added.
    """
    sides: tuple[tuple[str, list[str]], ...] = (("base", []), ("change", ["--changed"]))
    with Progress(len(todo), "pairs of trainings") as progress:
        for name, seed in todo:
            pair = {side: next(fresh_processes(__spec__.name, [name, *more], 1, first=seed)) for side, more in sides}
            kept[name].append({"seed": seed, **pair})
            text = json.dumps({"trial": name, "code": code(TRIALS[name]), "pairs": kept[name]}, indent=1) + "\n"
            try:
                KEPT.mkdir(parents=True, exist_ok=True)
                write_whole(KEPT / f"{name}.json", text.encode())
            except OSError as error:
                sys.exit(f"{KEPT / name}.json: cannot be written: {error.strerror}")
            progress.step(f"{name}, seed {seed}: {pair['base']:.2f} and {pair['change']:.2f}")


@interruptible()
def main(arguments: list[str] | None = None) -> None:
    """Train what is missing, keep it, and say of each trial whether what is learned stays the same.

    Args:
        arguments: the command line, that of the process unless given.
    """
    parser = argparse.ArgumentParser(
        prog="python -m perf_tests.claims.returns", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("trial", nargs="*", help=f"one of {', '.join(TRIALS)} (default: all)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"of each trial (default: {SEEDS})")
    parser.add_argument("--changed", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", type=int, metavar="SEED", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for name in options.trial:
        if name not in TRIALS:
            parser.error(f"unknown trial {name!r}; known: {', '.join(TRIALS)}")
    if options.seeds < SEEDS:
        parser.error(f"got --seeds {options.seeds}, wanted {SEEDS} or more")
    names = options.trial or list(TRIALS)
    process.set_up(process.cores())
    if options.one is not None:
        print(json.dumps(trained(TRIALS[names[0]], options.one, options.changed)))
        return
    kept = {name: pairs_of(name) for name in names}
    todo = [(name, seed) for name in names for seed in range(len(kept[name]), options.seeds)]
    if todo:
        try:
            train(todo, kept)
        except KeyboardInterrupt:
            print(f"interrupted: what was trained is kept in {KEPT}; the same command goes on", file=sys.stderr)
            raise
    for name in names:
        trial = TRIALS[name]
        low, high = excess(kept[name], trial.random)
        word = {True: "stays the same", False: "is less", None: "unclear"}[stays(kept[name], trial.random)]
        print(f"{name}: what is learned {word}: {low:+.2f} to {high:+.2f} {trial.figure} beyond {SHARE:.0%} "
              f"of the gain, n = {len(kept[name])} seeds")  # fmt: skip


if __name__ == "__main__":
    main()
