"""How often a history is read wrongly: flat ones, steps and drifts, made of pairs of the same code that were recorded.

A recorded pair says of the same code twice what a pair says of two commits. Which side is called the first is left to
chance, so each stands for its opposite too. Histories of a case are drawn from its own pairs, with replacement.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perf_tests.gate.selfcheck.power_table import described
from perf_tests.gate.source import everything
from perf_tests.gate.tolerances import tolerance
from perf_tests.report.readme import insert
from perf_tests.suite import machine
from perf_tests.suite.cases import variants
from rl_impls import backends
from rlgauge.files import Unwritable, reserved
from rlgauge.layout import laid_out
from rlgauge.pairs import PairError, Pairs, cores
from rlgauge.progress import left
from rlgauge.rates import Rate
from rlgauge.rule import GateError, Record, Rule
from rlgauge.run import LIMIT
from rlgauge.statistics import log_ratio

from .chain import Series, series
from .entries import Entry, timed
from .steps import LEVEL, TOLERATED, Judged, Step, judged

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

RECORDED = Path(__file__).with_name("pairs.json")
MARKERS = "<!-- history: generated -->", "<!-- end of history -->"
FORMAT, FEWEST = 1, 20  # recorded pairs of a case, from which histories are drawn
STEP, DRIFT, DRIFTS = 0.05, 0.01, 8
KINDS = ("flat", "step", "drift")


def read(file: Path) -> dict[str, Any]:
    """Return what was recorded: machines, and the log-ratio of each case, pair by pair.

    Args:
        file: its path.

    Raises:
        GateError: it is not what ``power`` writes.
    """
    if not file.exists():
        return {"format": FORMAT, "machines": [], "pairs": []}
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
        if found["format"] != FORMAT or not all(isinstance(v, float) for pair in found["pairs"] for v in pair.values()):
            raise ValueError(f"it is not of format {FORMAT}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise GateError(f"{file.name}: wanted what python -m perf_tests.history power writes: {error}") from error
    return found


def record(root: Path, file: Path, minutes: float, log: Callable[[str], None] = print) -> None:
    """Add pairs of the working tree with itself, of all cases of the gate tier, until the time is over.

    Args:
        root: of the repository.
        file: to which is added; it is written whole after each pair.
        minutes: how long to record.
        log: prints a line.

    Raises:
        GateError: a worker does not start, or the file cannot be read or written.
    """
    end, found = time.monotonic() + 60 * minutes, read(file)
    found["machines"].append({"date": datetime.date.today().isoformat(), **machine.info(root)})
    gated = [v for v in variants().values() if v.tier == "gate" and not backends.get(v.backend).missing()]
    passes = {many: [v.id for v in gated if (v.case.cores != "one") is many] for many in (False, True)}
    with laid_out(everything(), root) as layout:
        folder, sides = layout.folder, [layout.side(None, name) for name in ("base", "head")]
        while True:
            start, rng = time.monotonic(), random.Random(len(found["pairs"]))
            records = {variant.id: Record() for variant in gated}
            pairs = Pairs(sides, Rule().blocks, LIMIT, {v.id: tolerance(v) for v in gated}, folder, rng)
            try:
                for many, names in passes.items():
                    if names:
                        pairs.measure(records, names, cores(many), "confirm")
            except PairError as error:
                raise GateError(str(error)) from error
            for name, one in records.items():
                if one.state == "error":
                    log(f"power: {name}: {one.words}")
            found["pairs"].append({n: round(log_ratio(one.confirm[0]), 6) for n, one in records.items() if one.confirm})
            write(file, (json.dumps(found) + "\n").encode())
            now = time.monotonic()
            log(f"power: {len(found['pairs'])} pairs, {now - start:.0f} s the last, {left(max(0.0, end - now))}")
            if now >= end:
                return


def write(file: Path, content: bytes) -> None:
    """Write a file, whole or not at all.

    Args:
        file: its path.
        content: what it is to hold.

    Raises:
        GateError: it cannot be written.
    """
    try:
        with reserved(file, len(content)) as whole:
            whole(content)
    except Unwritable as error:
        raise GateError(str(error)) from error


def levels(kind: str, commits: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.float64], int | None]:
    """Return the true log-ratio of each commit to the one before all, and the place of a step, if there is one.

    Args:
        kind: ``flat``, ``step`` or ``drift``.
        commits: how many.
        rng: draws the places: of a step, and of the commits that slow a little each.
    """
    import numpy as np

    found = np.zeros(commits)
    if kind == "step":
        place = int(rng.integers(commits))
        found[place:] = math.log1p(STEP)
        return found, place
    if kind == "drift":
        found[rng.choice(commits, DRIFTS, replace=False)] = math.log1p(DRIFT)
    return np.cumsum(found), None


def history(
    pool: Sequence[float], true: npt.NDArray[np.float64], pairs: int, rng: np.random.Generator
) -> tuple[list[Entry], list[str]]:
    """Return the entries of a history, each commit slower than the first by a known part, and their order.

    Args:
        pool: log-ratios of the same code.
        true: log-ratio of each commit.
        pairs: of each commit.
        rng: draws from the pool.
    """
    order = [f"{number:040x}" for number in range(1 + len(true))]
    entries = []
    for commit, level in zip(order[1:], true):
        said = level + rng.choice(pool, pairs) * rng.choice((-1.0, 1.0), pairs)
        known = {"machine": "made", "date": "", "commit": commit, "anchor": order[0], "case": "made", "version": 1}
        entries.append(Entry.model_validate({**known, **timed(said.tolist())}))
    return entries, order[1:]


def right(kind: str, place: int | None, order: Sequence[str], found: Judged) -> bool:
    """Return whether a history was read rightly.

    A flat one has no step and no verdict; a step is found within one commit of its place, as slower, and no other; a
    drift is slower by the end.

    Args:
        kind: of the history.
        place: of its step, if it has one.
        order: its commits.
        found: what is concluded of it.
    """
    if kind == "flat":
        return not found.steps and found.verdict == "ok"
    if kind == "drift" or place is None:
        return found.verdict == "slower"
    near = [abs(order.index(step.commit) - place) <= 1 and step.log_ratio > 0 for step in found.steps]
    return near == [True]


def by_us(found: Series, cases: int) -> Judged:
    """Return what is concluded of a history.

    Args:
        found: a series.
        cases: for how many p-values are adjusted.
    """
    return judged([found], cases)[0]


def by_asv(found: Series) -> Judged:
    """Return what ASV's step detection concludes by itself, beyond 1 %: what is kept here is put beside that.

    Args:
        found: a series.
    """
    from asv.step_detect import detect_steps

    fit = detect_steps([1.0, *(math.exp(point.log_ratio) for point in found.points)])
    steps = []
    for (*_, before, _, _), (first, _, value, _, _) in itertools.pairwise(fit):
        change = math.log(value / before)
        if abs(change) > TOLERATED:
            steps.append(Step(found.points[first - 1].commit, change, change, change, 0.0))
    end = math.log(fit[-1][2])
    verdict = "slower" if end > TOLERATED else "faster" if end < -TOLERATED else "ok"
    return Judged(found, steps, verdict, Step(found.points[-1].commit, end, end, end, 0.0))


def counted(
    pools: Mapping[str, Sequence[float]],
    kind: str,
    histories: int,
    commits: int,
    pairs: int,
    judge: Callable[[Series], Judged],
) -> Rate:
    """Return how many histories of a kind are read rightly, the next case at every one.

    Args:
        pools: recorded log-ratios by case.
        kind: ``flat``, ``step`` or ``drift``.
        histories: how many.
        commits: of each.
        pairs: of each commit.
        judge: reads a history.
    """
    import numpy as np

    rng, names, good = np.random.default_rng(KINDS.index(kind)), sorted(pools), 0
    for number in range(histories):
        true, place = levels(kind, commits, rng)
        entries, order = history(pools[names[number % len(names)]], true, pairs, rng)
        good += right(kind, place, order, judge(series(entries, order)[0]))
    return Rate(good, histories)


def table(recorded: Mapping[str, Any], histories: int, commits: int, pairs: int) -> str:
    """Return the rates as Markdown, each with its n and exact interval.

    Args:
        recorded: as :func:`read` returns it.
        histories: of each kind.
        commits: of each history.
        pairs: of each commit.

    Raises:
        GateError: too little was recorded.
    """
    pools: dict[str, list[float]] = {}
    for pair in recorded["pairs"]:
        for case, value in pair.items():
            pools.setdefault(case, []).append(value)
    pools = {case: values for case, values in pools.items() if len(values) >= FEWEST}
    if not pools:
        raise GateError(
            f"{len(recorded['pairs'])} pairs were recorded, wanted {FEWEST} or more of a case: "
            "python -m perf_tests.history power --minutes 90"
        )
    found, alone = {}, {}
    for kind in KINDS:
        cases = 1 if kind == "flat" else len(pools)
        found[kind] = counted(pools, kind, histories, commits, pairs, partial(by_us, cases=cases))
        alone[kind] = counted(pools, kind, histories, commits, pairs, by_asv)
    false, by_itself = (Rate(histories - rates["flat"].found, histories) for rates in (found, alone))
    steps = f"{found['step']} | {alone['step']}"
    where = " and ".join(dict.fromkeys(map(described, recorded["machines"])))
    return "\n".join(
        [
            "| history | what is counted | here | ASV's step detection alone |",
            "|---|---|---:|---:|",
            f"| flat | wrong: a step, or a verdict | {false} | {by_itself} |",
            f"| one step of {100 * STEP:g} % | slower, within one commit of the place | {steps} |",
            f"| {DRIFTS} times {100 * DRIFT:g} % | slower by the end | {found['drift']} | {alone['drift']} |",
            "",
            f"Of {commits} commits of {pairs} pairs each, drawn from {min(map(len, pools.values()))} to "
            f"{max(map(len, pools.values()))} recorded pairs of the same code of {len(pools)} cases, on {where}. "
            f"Intervals are exact, at 95 %. A find is a p of at most {LEVEL:g}, adjusted as the smallest of "
            f"{len(pools)} cases; a false step is not adjusted. A step can be in any commit, the last too.",
        ]
    )


def put(page: Path, text: str) -> None:
    """Put the table on its page.

    Args:
        page: path of the document.
        text: the table.
    """
    write(page, insert(page.read_text(), *MARKERS, text).encode())
