"""The options that the gate adds to pytest, and those of other plugins that it overrides.

Heavy modules are imported only when needed.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest

NEED_AGAINST = (
    "--gate-anchor", "--gate-benchmarks", "--gate-own-benchmarks", "--gate-renamed", "--gate-build", "--gate-shard",
    "--gate-allow", "--gate-strict", "--gate-resume", "--gate-memory", "--gate-json", "--gate-markdown", "--gate-rule",
    "--gate-limit", "--gate-seed",
)  # fmt: skip
GROUP = "rlgauge gate"  # heading of the options in the help
NEVER = 1e9  # seconds; pytest-timeout takes 0 as the time at which a session ends
OVERRIDDEN: dict[str, Any] = {  # options of pytest and its plugins, with their values in the gate's own run
    # without benchmark_only, a conftest.py may skip, ignore or deselect benchmarks
    "benchmark_only": True, "benchmark_skip": False, "benchmark_disable": False, "benchmark_enable": True,
    "benchmark_json": None, "benchmark_save": None, "benchmark_autosave": None, "benchmark_compare": None,
    "benchmark_compare_fail": None, "benchmark_histogram": None, "durations": None, "maxfail": 0, "stepwise": False,
    "stepwise_skip": False, "stepwise_reset": False, "setuponly": False, "setupplan": False, "timeout": 0,
    "session_timeout": NEVER, "reruns": 0, "retries": 0, "forked": False, "continue_on_collection_errors": False,
    "codspeed": False,  # pytest-codspeed would measure, and write a folder .codspeed
    # pytest-testmon would skip tests, and record the verdicts as results
    "testmon": False, "testmon_noselect": False, "testmon_nocollect": False, "testmon_forceselect": False,
    "tmnet": False,
    "numprocesses": 0, "dist": "no", "distload": False, "tx": [], "store_durations": False, "clean_durations": False,
}  # fmt: skip
# those of pytest-benchmark that write or read its own results
OWN_RESULTS = (
    "benchmark_json", "benchmark_save", "benchmark_autosave", "benchmark_compare", "benchmark_compare_fail",
    "benchmark_histogram",
)  # fmt: skip


def parse_rule(text: str) -> dict[str, str]:
    """Parse ``name=value,name=value``; raise ArgumentTypeError for any other text."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and equals and value for name, equals, value in pairs):
        raise ArgumentTypeError(f"invalid value {text!r}; write NAME=VALUE[,NAME=VALUE], for example tolerated=0.02")
    return {name: value for name, _, value in pairs}


def parse_shard(text: str) -> tuple[int, int]:
    """Parse ``2/4``, the second of four shards; raise ArgumentTypeError for any other text."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ArgumentTypeError(f"invalid value {text!r}; write I/N, for example 2/4 for the second of four shards")
    return int(number), int(count)


def suggest_option(parser: pytest.Parser, args: list[str]) -> None:
    """Add a similar option to the error that pytest prints for an unknown one.

    Without ``--gate-against``, only options of the gate get a suggestion.
    """
    words = [str(word).partition("=")[0] for word in args]  # pytest.main also takes paths
    for name in words:
        if name.startswith("--gate" if "--gate-against" not in words else "--"):
            groups = [*parser._groups, parser._anonymous]
            known = [known for group in groups for option in group.options for known in option.names()]
            if name not in known:
                from difflib import get_close_matches

                if near := get_close_matches(name, known, 1):
                    parser.extra_info["did you mean"] = near[0]


def add_options(parser: pytest.Parser) -> None:
    """Add the gate's options."""
    from .fields import seconds

    add = parser.getgroup(GROUP).addoption
    add("--gate-against", metavar="REV", help="compare the speed of the working tree with this revision")
    add("--gate-anchor", metavar="REV", help="also compare with an older revision, to detect slow drift")
    add(
        "--gate-benchmarks",
        action="append",
        default=[],
        metavar="PATH",
        help="run the working tree's version of this file or folder of benchmarks on both sides (default: test "
        "folders); repeatable",
    )
    add(
        "--gate-own-benchmarks",
        action="store_true",
        help="run each side's own benchmarks, matched by id (default: the working tree's benchmarks on both sides)",
    )
    add(
        "--gate-renamed",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="compare the revision's test OLD with the working tree's test NEW; needs --gate-own-benchmarks",
    )
    add("--gate-build", metavar="COMMAND", help="build each side's tree with this command, in a separate environment")
    add("--gate-shard", metavar="I/N", help="compare only every Nth benchmark, starting at the Ith")
    add("--gate-json", type=Path, metavar="FILE", help="write all measurements to FILE (default: .rlgauge/gate.json)")
    add("--gate-markdown", type=Path, metavar="FILE", help="write the verdicts to FILE as a Markdown table")
    add("--gate-memory", action="store_true", help="also report increases in page faults and memory growth per call")
    add("--gate-resume", action="store_true", help="continue an interrupted run from the JSON file that it wrote")
    add(
        "--gate-allow",
        action="append",
        default=[],
        metavar="ID-PATTERN=REASON",
        help="accept matching tests that are slower or gone; * and ? are wildcards; to accept an error, give the exact "
        "id; repeatable",
    )
    add("--gate-strict", action="store_true", help="also fail tests that are inconclusive or whose output changed")
    add(
        "--gate-rule",
        metavar="NAME=VALUE[,NAME=VALUE]",
        help="override numbers of the decision rule, for example confirm=24,tolerated=0.02",
    )
    add(
        "--gate-limit",
        type=seconds,
        default=300.0,
        metavar="SECONDS",
        help="limit the seconds per step: listing the tests, preparing a test, two calls of it (default: 300)",
    )
    seed = "set the seed for the order of benchmarks and sides (default: 0)"
    add("--gate-seed", type=int, default=0, metavar="N", help=seed)
