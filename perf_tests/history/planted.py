"""Reads a history that is measured: in a copy of the repository commits slow a case by a known part; is it found?"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from perf_tests.gate.selfcheck.planted import COMMITS, copied, plant
from perf_tests.suite.case import Variant
from rlgauge.revisions import git
from rlgauge.rule import GateError

from .chain import series
from .drawn import case_of, markdown
from .entries import label, read
from .measure import History
from .power import DRIFT, KINDS, STEP, right
from .steps import judged


def parts_of(kind: str, place: int) -> list[float]:
    """Return by which part each commit slows the case.

    Args:
        kind: ``flat``, ``step`` or ``drift``.
        place: of the step.
    """
    step = [STEP if number == place else 0.0 for number in range(COMMITS)]
    return dict(zip(KINDS, ([0.0] * COMMITS, step, [DRIFT] * COMMITS)))[kind]


def found(
    root: Path,
    variants: Sequence[Variant],
    case: str,
    kind: str,
    pairs: int,
    minutes: float,
    seed: int,
    log: Callable[[str], None] = print,
) -> bool:
    """Return whether a history of eight commits on top of HEAD is read rightly, measured against HEAD.

    Args:
        root: of the repository.
        variants: that are measured, for which p-values are adjusted.
        case: id of the one that is slowed.
        kind: ``flat``, ``step`` or ``drift``.
        pairs: of each commit.
        minutes: of each commit, at most.
        seed: of all that is left to chance.
        log: prints a line.

    Raises:
        GateError: no repository, or a case that cannot be measured.
    """
    place = random.Random(seed).randrange(COMMITS)
    (slowed,) = [variant for variant in variants if variant.id == case]
    with copied(root) as copy, tempfile.TemporaryDirectory() as folder:
        head = git(copy, "rev-parse", "HEAD").decode().strip()
        order = plant(copy, slowed, parts_of(kind, place))
        history = History(copy, Path(folder) / f"{label()}.jsonl", variants, head, pairs, minutes, seed=seed, log=log)
        history.measure(head)
        all_found = judged(series(read(history.file), [head, *order]))
    if history.failed:
        raise GateError(history.failed[0])
    log(markdown([case_of(each) for each in all_found]))
    was = right(kind, place, order, {each.series.case: each for each in all_found}[case])
    where = f" in {order[place][:12]}" if kind == "step" else ""
    log(f"planted: {kind}{where} of {case}: {'right' if was else 'WRONG'}")
    return was
