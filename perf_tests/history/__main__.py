"""Speed over commits: ``python -m perf_tests.history --since REV``, then ``show``.

How often is it wrong? ``power`` counts that on recorded pairs, ``planted`` measures a history with a known change.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

from perf_tests.__main__ import names
from perf_tests.gate.source import variant_of
from perf_tests.selection import Selection, select
from perf_tests.suite.cases import CasesError
from rl_impls import backends
from rlgauge.command import ended
from rlgauge.rule import GateError

from . import planted as hidden
from . import power
from .drawn import drawn, markdown
from .entries import label, read
from .measure import MINUTES, PAIRS, History
from .releases import in_order

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results" / "history"
SLOWED = "pirl.train_step[full-torch-batch256-order2]"


def measure(options: argparse.Namespace) -> int:
    """Measure the commits that are not known yet; the code is 1 where a case could not be.

    Args:
        options: the command line as parsed.

    Raises:
        GateError: see :meth:`.measure.History.measure`.
        ValueError: an unknown workload.
    """
    if options.since is None:
        raise GateError("--since: wanted a revision, the last before those to be measured")
    at_least("--pairs", options.pairs, 1)
    more_than_none(options.minutes)
    chosen = select(Selection(workloads=options.workload, tier="gate"))
    able = [variant for variant in chosen if not backends.get(variant.backend).missing()]
    file = options.file or FOLDER / f"{label()}.jsonl"
    history = History(ROOT, file, able, options.anchor, options.pairs, options.minutes)
    history.measure(options.since)
    where = f" --file {options.file}" if options.file else ""
    print(f"history: {len(read(file))} entries in {file.name}; python -m perf_tests.history show{where}")
    return 1 if history.failed else 0


def show(options: argparse.Namespace) -> int:
    """Print what is known as a table, its steps marked, or as JSON.

    Args:
        options: the command line as parsed.

    Raises:
        GateError: there is nothing to show, or it cannot be read.
    """
    if options.file and not options.file.exists():
        raise GateError(f"--file {options.file}: there is none")
    file = options.file or FOLDER / f"{options.machine or label()}.jsonl"
    entries = read(file)
    if options.workload:
        kept = {entry.case.partition(".")[0] for entry in entries}
        if unknown := [name for name in options.workload if kept and name not in kept]:
            raise GateError(f"--workload: {file.name} has nothing of {unknown[0]!r}, but of {', '.join(sorted(kept))}")
        entries = [entry for entry in entries if entry.case.partition(".")[0] in options.workload]
    found = drawn(entries, in_order(ROOT))
    if not found:
        raise GateError(f"{file.name}: nothing of this branch's commits: python -m perf_tests.history --since REV")
    print(json.dumps(found, indent=1) if options.json else markdown(found))
    return 0


def rates(options: argparse.Namespace) -> int:
    """Record pairs of the same code for some minutes, then count how often histories made of them are read wrongly.

    Args:
        options: the command line as parsed.

    Raises:
        GateError: nothing was recorded yet, or it cannot be read or written.
    """
    for name in ("histories", "pairs"):
        at_least(f"--{name}", getattr(options, name), 1)
    at_least("--commits", options.commits, power.DRIFTS)
    if options.minutes > 0:
        power.record(ROOT, options.file, options.minutes)
    text = power.table(power.read(options.file), options.histories, options.commits, options.pairs)
    print(text)
    if options.docs:
        power.put(ROOT / "docs" / "history.md", text)
    return 0


def planted(options: argparse.Namespace) -> int:
    """Measure a history whose commits slow a case by a known part; the code is 1 where it is not read rightly.

    Args:
        options: the command line as parsed.

    Raises:
        GateError: no such case, or one that cannot be measured; no repository.
    """
    at_least("--pairs", options.pairs, 1)
    more_than_none(options.minutes)
    case = variant_of(options.case)
    if lacking := backends.get(case.backend).missing():
        raise GateError(f"{case.id}: {lacking}")
    beside = select(Selection(workloads=[case.case.workload], backends=[case.backend], tier="gate"))
    variants = list({variant.id: variant for variant in (case, *beside)}.values())
    asked = case.id, options.kind, options.pairs, options.minutes, options.seed
    return 0 if hidden.found(ROOT, variants, *asked) else 1


def at_least(option: str, value: int, least: int) -> None:
    """Refuse a number that is too small.

    Args:
        option: its name.
        value: as given.
        least: what it has to be.

    Raises:
        GateError: it is less.
    """
    if value < least:
        raise GateError(f"{option}: got {value}, wanted {least} or more")


def more_than_none(minutes: float) -> None:
    """Refuse a time in which nothing can be measured.

    Args:
        minutes: as given.

    Raises:
        GateError: there are none, or no end of them.
    """
    if not 0 < minutes < math.inf:
        raise GateError(f"--minutes: got {minutes}, wanted a finite number above 0")


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands; a mistake is one line and code 2.

    Args:
        arguments: the command line, that of the process unless given.
    """
    parser = argparse.ArgumentParser(prog="python -m perf_tests.history", description=__doc__)
    parser.add_argument("--since", metavar="REV", help="the commits after this one, up to HEAD, are measured")
    parser.add_argument("--workload", type=names, default=(), metavar="NAME[,NAME]", help="only these workloads")
    parser.add_argument("--anchor", metavar="REV", help="compare with this commit (default: the tag before each)")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"of processes, for each commit (default: {PAIRS})")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"a commit, at most (default: {MINUTES:g})")
    parser.add_argument("--file", type=Path, help="what is kept (default: results/history/<machine>.jsonl)")
    parser.set_defaults(run=measure)
    commands = parser.add_subparsers(dest="command")
    shown = commands.add_parser("show", help="print what is known, with its steps")
    shown.add_argument("--json", action="store_true", help="all that there is to draw")
    shown.add_argument("--machine", metavar="LABEL", help="of which machine (default: this one)")
    shown.add_argument("--workload", type=names, default=(), metavar="NAME[,NAME]", help="only these workloads")
    shown.add_argument("--file", type=Path, help="what is kept (default: results/history/<machine>.jsonl)")
    shown.set_defaults(run=show)
    wrong = commands.add_parser("power", help="measure how often histories are read wrongly")
    wrong.add_argument("--minutes", type=float, default=0.0, help="how long to record; 0 counts in what is recorded")
    wrong.add_argument("--file", type=Path, default=power.RECORDED, help="where the pairs are kept")
    wrong.add_argument("--histories", type=int, default=1000, help="of each kind (default: 1000)")
    wrong.add_argument("--commits", type=int, default=12, help="of a history (default: 12)")
    wrong.add_argument("--pairs", type=int, default=PAIRS, help=f"of a commit (default: {PAIRS})")
    wrong.add_argument("--docs", action="store_true", help="put the table into docs/history.md")
    wrong.set_defaults(run=rates)
    known = commands.add_parser("planted", help="measure a history that has a known change: is it found?")
    known.add_argument("kind", choices=power.KINDS, help="eight commits: all alike, one of 5 %%, or 1 %% each")
    known.add_argument("--case", default=SLOWED, metavar="ID", help=f"that is slowed (default: {SLOWED})")
    known.add_argument("--pairs", type=int, default=PAIRS, help=f"of processes, for each commit (default: {PAIRS})")
    known.add_argument("--minutes", type=float, default=MINUTES, help=f"a commit, at most (default: {MINUTES:g})")
    known.add_argument("--seed", type=int, default=0, help="of the place of the step, and the order of all")
    known.set_defaults(run=planted)
    words = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(words)
    if options.command and words[0] != options.command:
        parser.error(f"got {words[0]} before {options.command}, wanted its options after it")
    return ended(lambda: options.run(options), CasesError, ValueError)


if __name__ == "__main__":
    sys.exit(main())
