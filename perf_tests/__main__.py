"""The benchmarks there are: ``python -m perf_tests list`` and ``python -m perf_tests ids WORKLOAD``."""

from __future__ import annotations

import argparse
import sys

from rl_impls.backends import get, resolve, workloads
from rl_impls.common.files import write_whole
from rlgauge.command import ended

from .selection import Selection, check_names, select
from .suite.case import TIERS
from .suite.cases import CasesError, ids_file, ids_text, load


def listed(options: argparse.Namespace) -> None:
    """Print tier and id of what is selected, and why it cannot run here where that is so.

    Args:
        options: the command line as parsed.
    """
    backends = tuple(map(resolve, options.backend))
    selection = Selection(workloads=options.workload, backends=backends, tier=options.tier)
    missing = {name: get(name).missing() for name in {variant.backend for variant in select(selection)}}
    for variant in select(selection):
        reason = missing[variant.backend]
        print(f"{variant.tier:5} {variant.id}" + (f"  # cannot run here: {reason}" if reason else ""))


def kept(options: argparse.Namespace) -> None:
    """Write the ids of a workload, which are permanent from then on, beside its cases.

    Args:
        options: the command line as parsed.
    """
    check_names(load())
    path = ids_file(options.name)
    write_whole(path, ids_text(options.name).encode())
    print(f"{path}: {len(path.read_text().splitlines())} ids")


def names(text: str) -> tuple[str, ...]:
    """Split at commas.

    Args:
        text: names with commas between them.
    """
    return tuple(text.split(","))


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands, and return 0; a mistake is one line and exit code 2.

    Args:
        arguments: the command line, that of the process unless given.
    """
    parser = argparse.ArgumentParser(prog="python -m perf_tests", description=__doc__)
    commands = parser.add_subparsers(required=True)
    show = commands.add_parser("list", help="print ids and tiers, and what cannot run here and why")
    for option in ("--workload", "--backend"):
        show.add_argument(option, type=names, default=(), metavar="NAME[,NAME]")
    show.add_argument("--tier", default="full", help=f"{', '.join(TIERS)} (the default): what it includes")
    show.set_defaults(run=listed)
    keep = commands.add_parser("ids", help="write the ids of a workload beside its cases")
    keep.add_argument("name", choices=workloads(), metavar="WORKLOAD")
    keep.set_defaults(run=kept)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, CasesError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
