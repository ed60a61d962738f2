"""How Procgen's loops grow with cores: ``python -m perf_tests.procgen_growth [--op ppo] [--processes 5]``.

The model: a rollout is played in ``p(c)`` seconds (acting, steps of the games) and learned from in ``l(c)``. Of either
a share cannot be spread over c cores (Amdahl 1967): ``t(c) = t(1) (s + (1 - s) / c)``, with s from t at one core and at
two. Then a rollout takes

- ``p(c) + l(c)`` in one process;
- ``p(1) / c + l(c)`` where c actors play, one core each, and the learner waits for them (lag 0);
- ``max(l(c), (p(1) + l(1)) / c)`` where they play the next one meanwhile (lag 1): one of both sides waits, or all cores
  are busy.

p and l are measured by themselves, see :mod:`.procgen_loops`; the loops are measured whole beside what the model says
of them, at one core and at two, and it says what is to be expected of more.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from statistics import median
from typing import Any, NamedTuple

from .interleaved import fresh_processes, interruptible
from .procgen_loops import ENVS, EPOCHS, TOGETHER, UNROLL, Parts, Whole
from .suite import process

CORES = (1, 2, 4, 8, 16, 28)
KINDS = ("one process", "lag 0", "lag 1")
OPS = ("ppo", "impala")


class Rollout(NamedTuple):
    """Seconds of one rollout.

    Attributes:
        playing: acting and the games' steps.
        learning: updates.
    """

    playing: float
    learning: float


def share_alone(one: float, two: float) -> float:
    """Return the share of some work that cannot be spread over cores, from 0 to 1.

    Args:
        one: its seconds with one core.
        two: with two.
    """
    return min(1.0, max(0.0, 2 * two / one - 1))


def spread(one: float, two: float, cores: int) -> float:
    """Return the seconds of some work with so many cores, ``t(c) = t(1) (s + (1 - s) / c)``.

    Args:
        one: its seconds with one core.
        two: with two.
        cores: c.
    """
    alone = share_alone(one, two)
    return one * (alone + (1 - alone) / cores)


def expected(one: Rollout, two: Rollout, cores: int) -> dict[str, float]:
    """Return the seconds of a rollout by the kind of loop, as the model has it.

    Args:
        one: parts with one core.
        two: parts with two.
        cores: there are, each with an actor where actors play.
    """
    learning = spread(one.learning, two.learning, cores)
    return {
        "one process": spread(one.playing, two.playing, cores) + learning,
        "lag 0": one.playing / cores + learning,
        "lag 1": max(learning, (one.playing + one.learning) / cores),
    }


def measured(op: str, form: str, cores: int) -> dict[str, Any]:
    """Return the seconds of a rollout: of its parts, and of the loop of each kind; all cores of the process are used.

    Args:
        op: ppo or impala.
        form: named setting of the knobs.
        cores: of this process.
    """
    sizes, found = EPOCHS.get(op, {}), {}
    parts = Parts(op, form, **sizes)
    parts.turn()
    for name in parts.spent:
        parts.spent[name] = 0.0
    turns = 2
    for _ in range(turns):
        parts.turn()
    spent = {name: seconds / turns for name, seconds in parts.spent.items()}
    parts.loop.close()
    for kind in KINDS:
        if kind == "one process":
            loop = Whole(op, form, TOGETHER, **sizes)
        else:
            loop = Whole(f"parallel_{op}", form, TOGETHER, actors=cores, lag=KINDS.index(kind) - 1, **sizes)
        loop.turn()
        found[kind] = loop.turn() / TOGETHER
        loop.loop.close()
    return {"parts": [spent["f_act"] + spent["f_env"], spent["f_train"]], "loops": found}


def middle(results: list[dict[str, Any]]) -> tuple[Rollout, Mapping[str, float]]:
    """Return the medians over processes: of the parts, and of the loops by kind.

    Args:
        results: what :func:`measured` returned in each.
    """
    parts = Rollout(*(median(result["parts"][k] for result in results) for k in range(2)))
    return parts, {kind: median(result["loops"][kind] for result in results) for kind in KINDS}


def table(one: Rollout, two: Rollout, found: Mapping[int, Mapping[str, float]]) -> str:
    """Return frames a second by cores and kind of loop: what the model says, and what was measured, as Markdown.

    Args:
        one: parts with one core.
        two: parts with two.
        found: measured seconds of a rollout by cores and kind.
    """
    frames = ENVS * UNROLL
    lines = ["| cores | " + " | ".join(KINDS) + " |", "|---:|" + "---:|" * len(KINDS)]
    for cores in CORES:
        cells = []
        for kind, seconds in expected(one, two, cores).items():
            cell = f"{frames / seconds:,.0f}"
            if cores in found:
                real = found[cores][kind]
                cell += f" (measured {frames / real:,.0f}, {seconds / real - 1:+.0%})"
            cells.append(cell)
        lines.append(f"| {cores} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


@interruptible()
def main(arguments: list[str] | None = None) -> None:
    """Print what the model says for one to 28 cores, and what was measured where there are as many here.

    Args:
        arguments: the command line, that of the process unless given.
    """
    here = [cores for cores in CORES if cores <= process.cores()]
    parser = argparse.ArgumentParser(
        prog="python -m perf_tests.procgen_growth", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--op", choices=OPS, action="append", help="one of both alone")
    parser.add_argument("--form", choices=("full", "bfloat16"), default="full")
    parser.add_argument("--processes", type=int, default=5, help="fresh processes for each (default: 5)")
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.processes < 1:
        parser.error(f"got --processes {options.processes}, wanted 1 or more")
    if options.one is not None:
        process.set_up(options.threads)
        print(json.dumps(measured(options.op[0], options.form, options.threads)))
        return
    if len(here) < 2:
        parser.error(f"got {process.cores()} core, wanted 2 or more: how the parts spread is measured with two")
    for op in options.op or OPS:
        results: dict[int, list[dict[str, Any]]] = {cores: [] for cores in here}
        for number in range(options.processes):
            for cores in here if number % 2 else here[::-1]:
                words = ["--op", op, "--form", options.form, "--threads", str(cores)]
                results[cores] += fresh_processes("perf_tests.procgen_growth", words, 1, number)
        parts, found = {}, {}
        for cores in here:
            parts[cores], found[cores] = middle(results[cores])
        (one, two), frames = (parts[1], parts[2]), ENVS * UNROLL
        alone = [share_alone(*each) for each in zip(one, two)]
        print(f"{op} {options.form}, frames a second of {ENVS} environments x {UNROLL} steps, medians of n = "
              f"{options.processes} processes; with one core {frames / one.playing:,.0f} are played and "
              f"{frames / one.learning:,.0f} learned from, of which {alone[0]:.0%} and {alone[1]:.0%} cannot be spread"
              )  # fmt: skip
        print(table(one, two, found), flush=True)


if __name__ == "__main__":
    main()
