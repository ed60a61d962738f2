"""Do two runs tell the same story? ``python -m perf_tests.report.agreement FIRST.json SECOND.json``.

Of all pairs of rows that a table puts in an order: how many does each run leave undecided, and where both decide, how
often do they agree. For comparison, how often the plain order of medians agrees.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from .order import Row, per_item
from .table import grouped


def orders(rows: Iterable[Row]) -> Iterator[tuple[tuple[str, str], int, bool]]:
    """Yield each pair of rows of one table, by their ids.

    With it, 1 or -1 where the second or the first is certainly faster, else 0; and whether the first's median is less.

    Args:
        rows: of one run.
    """
    for group in grouped(rows).values():
        for a, b in itertools.combinations(sorted(group, key=lambda row: str(row["id"])), 2):
            one, other = per_item(a), per_item(b)
            yield (a["id"], b["id"]), other.below(one) - one.below(other), one.middle < other.middle


def agreement(first: Iterable[Row], second: Iterable[Row]) -> dict[str, int]:
    """Return counts of pairs: all, undecided in each run, decided in both, of these the agreeing, medians agreeing.

    Args:
        first: rows of one run.
        second: rows of the other.
    """
    found = [{pair: (order, medians) for pair, order, medians in orders(rows)} for rows in (first, second)]
    both = [(found[0][pair], found[1][pair]) for pair in found[0] if pair in found[1]]
    decided = [(a, b) for (a, _), (b, _) in both if a and b]
    return {
        "pairs": len(both),
        "undecided in the first": sum(a == 0 for (a, _), _ in both),
        "undecided in the second": sum(b == 0 for _, (b, _) in both),
        "decided in both": len(decided),
        "of these in the same order": sum(a == b for a, b in decided),
        "medians in the same order": sum(a == b for (_, a), (_, b) in both),
    }


def rows_of(path: Path) -> list[Row]:
    """Return the rows of a pytest-benchmark JSON of this suite.

    Args:
        path: of the file.
    """
    try:
        rows = [benchmark["extra_info"] for benchmark in json.loads(path.read_text())["benchmarks"]]
        if not any({"low", "high", "precision"} <= row.keys() for row in rows):
            raise ValueError("no row with an interval")
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{path}: wanted the JSON of a pytest-benchmark run of this suite: {error!r}")
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Print the counts, a line each.

    Args:
        arguments: the command line, that of the process unless given.
    """
    parser = argparse.ArgumentParser(prog="python -m perf_tests.report.agreement", description=__doc__.splitlines()[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    options = parser.parse_args(arguments)
    for name, count in agreement(rows_of(options.first), rows_of(options.second)).items():
        print(f"{count:6} {name}")


if __name__ == "__main__":
    main()
