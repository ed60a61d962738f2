"""Measure published claims: ``python -m perf_tests.claims [WORKLOAD ...] [--only ID] [--list]``.

Each process is fresh and measures all claims of a workload, in turns, as the workloads take turns too; the ratio's
interval is that of the median over processes. What was measured is kept in ``.cache/claims`` until the code changes, so
that an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlgauge.command import INTERRUPTED, ended
from rlgauge.files import Unwritable, check_folder, reserved
from rlgauge.machine import this_machine
from rlgauge.progress import Progress
from rlgauge.revisions import turn
from rlgauge.statistics import FEWEST

from ..interleaved import fresh_processes
from ..suite import process
from .kept import ROOT, code, file_of, kept

if TYPE_CHECKING:  # it loads NumPy, whose threads are chosen before
    from ..suite.claim import Claim

KEPT = process.CACHE / "claims"
TURNS = process.CACHE / "gate"  # whose lock a gate takes too
RESULT = process.CACHE / "claims.json"
MOST = 12  # processes of a workload
TOGETHER = 3  # further ones: by these the interval, of an even coverage, leaves out one more process at either end
ROOM = 1 << 20  # bytes of the result, more than it takes


def processes(workload: str, claims: Sequence[Claim], options: argparse.Namespace) -> Iterator[list[dict[str, Any]]]:
    """Yield what is known of a workload after each process, until nothing is open or time is up.

    After as many as were asked for, what is still open is measured alone, by three processes at a time.

    Args:
        workload: its name.
        claims: that are measured.
        options: the command line as parsed.
    """
    from .ledger import still_open

    state = {
        "code": code(workload), "claims": [claim.name for claim in claims], "threads": options.threads,
        "machine": this_machine(),
    }  # fmt: skip
    path = KEPT / file_of(workload, state)
    if options.fresh:
        path.unlink(missing_ok=True)
    measured: list[Claim] = []
    found, spent, of_a_side = kept(path, state), 0.0, 0.0
    yield found
    while len(found) < MOST:
        further = len(found) - options.processes
        if further < 0:
            measured = list(claims)
        elif not measured or further % TOGETHER == 0:
            measured = still_open(claims, found)
            soon = spent + (TOGETHER - further % TOGETHER) * of_a_side * sides_of(measured)
            if not measured or soon >= 60 * options.minutes:
                return
        start = time.monotonic()
        said: dict[str, Any] = {"claims": {}, "sides": {}}
        for part in apart(measured):
            words = [workload, "--threads", str(options.threads), *(f"--only={claim.name}" for claim in part)]
            if further >= 0:
                words += [f"--context={claim.name}:{context}" for claim in part for context in claim.contexts]
            (found_here,) = fresh_processes("perf_tests.claims", words, 1, first=len(found))
            said = {name: values | found_here[name] for name, values in said.items()}
        with path.open("a") as file:
            file.write(json.dumps(said) + "\n")
        found.append(said)
        took = time.monotonic() - start
        spent, of_a_side = spent + took, took / max(1, sides_of(measured))
        yield found


def in_turns(options: argparse.Namespace) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield what is known of a workload, with its name, at first and after each process.

    The workloads take turns: a machine is slower or faster for minutes, and a ratio that is measured within them is of
    them alone.

    Args:
        options: the command line as parsed.
    """
    running = {workload: processes(workload, claims, options) for workload, claims in options.claims.items()}
    while running:
        for workload, measuring in list(running.items()):
            found = next(measuring, None)
            if found is None:
                del running[workload]
            else:
                yield workload, found


def sides_of(claims: Sequence[Claim]) -> int:
    """Return how many sides a verdict is of.

    Args:
        claims: of a workload.
    """
    return len({side.label for claim in claims for side in claim.compared})


def apart(claims: Sequence[Claim]) -> list[list[Claim]]:
    """Return the claims that share a process: those about ops that start threads or processes have one of their own.

    What such an op leaves behind made every other loop of torch up to four times slower.

    Args:
        claims: of a workload.
    """
    started = {claim.name for claim in claims if any(side.starts_processes for side in claim.sides)}
    found = [[claim for claim in claims if (claim.name in started) is own] for own in (False, True)]
    return [part for part in found if part]


def one(workload: str, claims: Sequence[Claim], seed: int) -> None:
    """Print what this process measured, as JSON.

    Args:
        workload: its name.
        claims: that are measured.
        seed: of all that is drawn.
    """
    from .measure import measured

    print(json.dumps(measured(claims, workload, seed)))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the command line as parsed.

    Args:
        arguments: the command line, that of the process unless given.
    """
    parser = argparse.ArgumentParser(prog="python -m perf_tests.claims", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("workload", nargs="*", help="whose claims are measured, names or lists of them (default: all)")
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="measure some claims alone")
    parser.add_argument("--list", action="store_true", help="print the claims and end")
    parser.add_argument("--processes", type=int, default=FEWEST, help=f"fresh processes, at least (default: {FEWEST})")
    parser.add_argument("--minutes", type=float, default=9.5, help="of a workload, for more than those; 0: none more")
    parser.add_argument("--threads", type=int, default=process.cores(), help="of each process (default: one a core)")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs of this code measured")
    parser.add_argument(
        "--output", type=Path, default=RESULT, metavar="FILE", help="JSON; .cache/claims.json by default"
    )
    parser.add_argument("--pages", action="store_true", help="put the whole ledger into results/ and the README")
    parser.add_argument("--one", type=int, metavar="SEED", help=argparse.SUPPRESS)
    parser.add_argument("--context", action="append", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not 1 <= options.threads <= process.cores():
        parser.error(f"got --threads {options.threads}, wanted 1 to {process.cores()}")
    if not 1 <= options.processes <= MOST:
        parser.error(f"got --processes {options.processes}, wanted 1 to {MOST}")
    if options.pages and options.processes < FEWEST:
        parser.error(f"got --processes {options.processes} with --pages, wanted {FEWEST} or more")
    if not 0 <= options.minutes < math.inf:
        parser.error(f"got --minutes {options.minutes}, wanted 0 or more")
    process.set_up(options.threads)
    from ..suite.claim import ClaimsError
    from ..suite.claims import claims_of, workloads
    from .ledger import narrowed

    options.workload = [name for word in options.workload for name in word.split(",")]
    for name in options.workload:
        if name not in workloads():
            parser.error(f"unknown workload {name!r}; those with claims: {', '.join(workloads())}")
    try:
        chosen = {name: claims_of(name) for name in options.workload or workloads()}
    except ClaimsError as error:
        parser.error(str(error))
    names = [claim.name for claims in chosen.values() for claim in claims]
    for wanted in options.only:
        if wanted not in names:
            parser.error(f"unknown claim {wanted!r}; --list names them")
    options.claims = {
        name: [claim for claim in claims if not options.only or claim.name in needed(claims, options.only)]
        for name, claims in chosen.items()
    }
    if options.context:
        some = {(name, context) for name, _, context in (word.partition(":") for word in options.context)}
        options.claims = {name: narrowed(claims, some) for name, claims in options.claims.items()}
    options.claims = {name: claims for name, claims in options.claims.items() if claims}
    return options


def needed(claims: Sequence[Claim], only: Sequence[str]) -> set[str]:
    """Return the names of claims, and of those that they are compared with.

    Args:
        claims: of a workload.
        only: names of some.
    """
    return set(only) | {other for claim in claims if claim.name in only for other in claim.most_of}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print what came out, and write the JSON whole; return 0.

    Args:
        arguments: the command line, that of the process unless given.
    """
    run(parse(arguments))
    return 0


def run(options: argparse.Namespace) -> None:
    """Do what the command line says.

    Args:
        options: the command line as parsed.
    """
    if options.list:
        for claims in options.claims.values():
            for claim in claims:
                print(f"{claim.name}: {claim.words} (promised: {claim.promised})")
        return
    if options.one is not None:
        (workload,) = options.workload
        one(workload, options.claims[workload], options.one)
        return
    from ..suite.claim import ClaimsError
    from .ledger import FORMAT, VERSION, joined, row
    from .pages import kept_of, read, show
    from .returns import evidence
    from .table import lines_of

    try:
        about = head(options.threads)
        check_folder(KEPT)
        with reserved(options.output, ROOM, "--output") as write, turn(TURNS):
            earlier = still_so(read(options.output), about) if options.output.exists() else []
            if options.pages:
                published = kept_of(about["machine"])
                known_already = still_so(read(published), about) if published.exists() else []
                earlier = joined(known_already, earlier)
                check_whole(options.claims, earlier)
            codes = {workload: code(workload) for workload in options.claims}  # before it is measured
            known: dict[str, list[dict[str, Any]]] = {}
            with Progress(options.processes * len(codes), f"processes of {', '.join(codes)}") as progress:
                for workload, found in in_turns(options):
                    if workload in known:
                        progress.total += len(found) > options.processes
                        progress.step()
                    else:
                        progress.skip(min(len(found), options.processes))
                    known[workload] = found
            rows = [
                row(claim, known[workload], evidence(claim, workload)) | {"code": codes[workload]}
                for workload, claims in options.claims.items()
                for claim in claims
            ]
            print("\n".join(lines_of(rows)), flush=True)
            result = {"format": FORMAT, "version": VERSION, **about, "claims": joined(earlier, rows)}
            write((json.dumps(result, indent=1) + "\n").encode())
        if options.pages:
            show(result)
    except (ClaimsError, Unwritable, OSError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        print(f"interrupted: what was measured is kept in {KEPT}, and the same command goes on", file=sys.stderr)
        sys.exit(INTERRUPTED)
    failed = [row["id"] for row in rows if any(each["verdict"] == "error" for each in row["contexts"])]
    if failed:
        sys.exit(f"could not be measured: {', '.join(failed)}")


def check_whole(measured: Mapping[str, Sequence[Claim]], rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuse to publish a part of the ledger as all of it.

    Args:
        measured: claims that are measured now, by workload.
        rows: of earlier runs, which are still so.

    Raises:
        ClaimsError: there is a claim that is neither.
    """
    from ..suite.claim import ClaimsError
    from ..suite.claims import claims_of, workloads

    there = {claim.name for claims in measured.values() for claim in claims} | {row["id"] for row in rows}
    if left := [claim.name for name in workloads() for claim in claims_of(name) if claim.name not in there]:
        raise ClaimsError(
            f"--pages: {len(left)} claims, as {left[0]}, are not measured with this code, machine and threads: they "
            "would be gone from the pages; measure all workloads, or leave it out"
        )


def still_so(earlier: Mapping[str, Any], about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an earlier ledger of the same code, machine, threads and evidence; say how many are not.

    Args:
        earlier: as ``claims.json`` holds it.
        about: what the figures of now belong to.
    """
    from ..suite.claims import claims_of, workloads
    from .returns import evidence

    alike = earlier["threads"] == about["threads"] and all(
        earlier["machine"].get(name) == value for name, value in about["machine"].items() if name != "git"
    )
    there = {row["workload"] for row in earlier["claims"]} & {*workloads()}
    codes = {workload: code(workload) for workload in there}
    known = {claim.name: evidence(claim, name) for name in there for claim in claims_of(name) if claim.evidence}

    def is_so(row: Mapping[str, Any]) -> bool:
        judged = [each["same_holds"] for each in row["contexts"] if each["n"] and row["id"] in known]
        return row["code"] == codes.get(row["workload"]) and all(same == known[row["id"]] for same in judged)

    found = [row for row in earlier["claims"] if alike and is_so(row)]
    if left := len(earlier["claims"]) - len(found):
        print(f"{left} claims of an earlier run are dropped: they are of other code or evidence, or of another machine")
    return found


def head(threads: int) -> dict[str, Any]:
    """Return what the figures belong to.

    Args:
        threads: of each process.
    """
    from rlgauge.machine import git_state

    from ..suite import machine

    state = git_state(ROOT)
    return {
        "commit": state.removesuffix("+dirty"),
        "dirty": state.endswith("+dirty"),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.info(ROOT),
        "threads": threads,
    }


if __name__ == "__main__":
    sys.exit(ended(main))
