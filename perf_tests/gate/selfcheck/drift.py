"""How often samples that drift are told, and others: a run's own pairs, made longer the later they come."""

from __future__ import annotations

from collections.abc import Mapping

from rlgauge.rates import Rate
from rlgauge.rule import DRIFT_PAIRS, Pair, Record, drifting

RISES = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)  # from the first block of a pair to the last


def risen(blocks: Pair, rise: float) -> Pair:
    """Return a pair whose samples on both sides are longer, by nothing in its first block and the rise in its last.

    Args:
        blocks: of the pair.
        rise: as a part of the sample.
    """
    last = max(1, len(blocks) - 1)
    factors = [1 + rise * number / last for number in range(len(blocks))]
    return [(base * factor, head * factor) for factor, (base, head) in zip(factors, blocks)]


def told(records: Mapping[str, Record], rise: float) -> Rate:
    """Return of how many cases a drift is told, of those whose pairs are enough to tell one.

    Args:
        records: of a run, by case.
        rise: that is added to what the pairs have by themselves.
    """
    pairs = [record.screen + record.confirm for record in records.values()]
    enough = [each for each in pairs if len(each) >= DRIFT_PAIRS]
    return Rate(
        sum(drifting(Record(screen=[risen(blocks, rise) for blocks in each])) is not None for each in enough),
        len(enough),
    )
