"""How much counts of fresh memory differ on identical code: the margin beyond which a rise is named comes from here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perf_tests.suite.cases import variants
from rl_impls import backends
from rlgauge.layout import laid_out
from rlgauge.progress import Progress
from rlgauge.rule import MARGIN, Record, beyond
from rlgauge.run import LIMIT

from .. import memory
from ..source import everything

Counts = tuple[dict[str, int], dict[str, int]]  # of base, of head


def counted(root: Path, times: int) -> dict[str, list[Counts]]:
    """Return what both sides count of each case of the gate tier, in so many pairs of processes of the working tree.

    Args:
        root: of the repository.
        times: how many pairs.

    Raises:
        PairError: a worker did not start.
    """
    chosen = [v for v in variants().values() if v.tier == "gate" and not backends.get(v.backend).missing()]
    found: dict[str, list[Counts]] = {}
    with laid_out(everything(), root) as layout, Progress(times, "pairs of processes") as progress:
        folder, sides = layout.folder, [layout.side(None, name) for name in ("base", "head")]
        for _ in range(times):
            records = {variant.id: Record() for variant in chosen}
            memory.measure(sides, LIMIT, folder, records, chosen)
            for name, record in records.items():
                if record.words:
                    progress.say(f"{name}: {record.words}")
                elif record.memory[0]:
                    found.setdefault(name, []).append(record.memory)
            progress.step()
    return found


def show(found: dict[str, list[Counts]], say: Callable[[str], None]) -> None:
    """Say of each count how far apart both sides of a pair were, where they were, and how often beyond the margin.

    Args:
        found: counts of both sides in each pair, by case.
        say: prints a line.
    """
    for what, margin in MARGIN.items():
        named = pairs = 0
        for name, counts in found.items():
            both = [(base[what], head[what]) for base, head in counts]
            values = [value for pair in both for value in pair]
            far = max(abs(base - head) for base, head in both)
            beyond_it = sum(beyond(what, min(pair), max(pair)) for pair in both)
            pairs, named = pairs + len(both), named + beyond_it
            if far:
                say(f"{name}: {what} {min(values)} to {max(values)}, in a pair up to {far} apart, {beyond_it} beyond")
        say(f"{what}: {named} of {pairs} pairs of counts are further apart than the margin, {margin}")
