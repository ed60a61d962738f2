"""Turn results into one page: ``python -m perf_tests.report.html RESULT.json [--claims FILE] [--gate FILE]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from perf_tests.suite.process import CACHE
from rlgauge.files import Unwritable, write_all
from rlgauge.progress import number_of

from . import claims, gated, over_commits
from .browser import NoBrowser, picture
from .page import page
from .runs import BadInput, read


def main(arguments: list[str] | None = None) -> None:
    """Write the page; exit with a message, and without writing anything, if an input is invalid."""
    parser = argparse.ArgumentParser(prog="python -m perf_tests.report.html", description="Turn results into one page.")
    parser.add_argument(
        "results",
        type=Path,
        nargs="+",
        metavar="RESULT.json",
        help="JSON of a pytest-benchmark run, then of runs with other numbers of threads",
    )
    parser.add_argument(
        "--claims", type=Path, metavar="FILE", help="show the claims in FILE, which python -m perf_tests.claims wrote"
    )
    parser.add_argument("--gate", type=Path, metavar="FILE", help="show the verdicts in FILE, which --gate-json wrote")
    parser.add_argument(
        "--history", type=Path, metavar="FILE", help="show the history in FILE, which rlgauge history wrote"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=CACHE / "report.html",
        metavar="FILE",
        help="write the page to FILE (default: .cache/report.html)",
    )
    parser.add_argument(
        "--png", type=Path, metavar="FILE", help="also write a picture of the top of the page to FILE; needs Chromium"
    )
    options = parser.parse_args(arguments)
    check_apart(parser, options)
    try:
        runs = [read(path) for path in options.results]
        html = page(
            runs,
            claims.read(options.claims) if options.claims else None,
            gated.read(options.gate) if options.gate else None,
            over_commits.read(options.history) if options.history else None,
        )
        made = {options.output: html.encode()}
        if options.png:
            made[options.png] = picture(html)
        write_all(made)
    except (BadInput, NoBrowser, Unwritable) as error:
        sys.exit(str(error))
    count = number_of(len(runs[0].rows), "benchmark")
    print(f"{options.output}: {count}, {len(html.encode()) / 1e6:.1f} MB")


def check_apart(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Reject an output path that is also an input, or the path of the other output."""
    taken = {path.resolve(): "RESULT.json" for path in options.results}
    for name in ("claims", "gate", "history", "output", "png"):
        path = getattr(options, name)
        if path is None:
            continue
        if name in ("output", "png") and path.resolve() in taken:
            parser.error(f"--{name} {path}: this is also {taken[path.resolve()]}; name another file")
        taken[path.resolve()] = f"--{name}"


if __name__ == "__main__":
    main()
