"""Keep the pairs of ``rlgauge compare A B`` or ``rlgauge rank`` until its result is written, for ``--resume``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .benchmarks import trees
from .files import write_all
from .layout import Layout
from .machine import machine_and_versions
from .plan import Plan
from .progress import number_of
from .resume import hash_of_installed
from .revisions import digest
from .rule import GateError

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks
    from .compare import Comparisons


def conditions(source: Benchmarks, layout: Layout, plan: Plan, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the conditions that must be equal to combine two runs, by their name in messages."""
    code, options = layout.code(None), asdict(plan)
    values = {
        "seed": options.pop("seed"),
        "options": options,
        **more,
        "working tree": digest(code, trees.code_files(code, [], source.ignore)),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "installed packages": hash_of_installed(),
        "machine": machine_and_versions(),
    }
    return dict(json.loads(json.dumps(values, default=str)))


def file_of(command: str, source: Benchmarks) -> Path:
    """Return the file that keeps the pairs of a command."""
    return source.artifact.with_name(f"{command}-pairs.json")


class KeptPairs:
    """The finished pairs of a command, in a file beside the gate's artifact.

    Args:
        command: ``compare`` or ``rank``.
        benchmarks: ids of all benchmarks, including those that are skipped.
    """

    def __init__(self, command: str, source: Benchmarks, layout: Layout, plan: Plan, benchmarks: Sequence[str]) -> None:
        self.command, self.file = command, file_of(command, source)
        self.conditions = conditions(source, layout, plan, {"benchmarks": list(benchmarks)})

    def measure(
        self, comparisons: Comparisons, resume: bool, log: Callable[[str], None], log_pair: Callable[[], None]
    ) -> None:
        """Measure all comparisons; with `resume`, continue from the pairs of an interrupted run."""

        def keep() -> None:
            measured = [result for name, result in comparisons.results.items() if name not in comparisons.failed]
            if len({len(result.values) for result in measured}) > 1:
                raise GateError("--resume: a test that was skipped now runs; repeat the command without --resume")
            pairs = {
                name: {**asdict(result), "side_values": comparisons.side_values[name]}
                for name, result in comparisons.results.items()
            }
            write_all({self.file: json.dumps({"conditions": self.conditions, "pairs": pairs}).encode()})
            log_pair()

        if resume:
            self.restore(comparisons, log)
        comparisons.measure_all(keep)

    def restore(self, comparisons: Comparisons, log: Callable[[str], None]) -> None:
        """Add the pairs of an interrupted run to the results, or print why they cannot be reused."""
        try:
            before = json.loads(self.file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            reason = f"{self.file} does not exist" if isinstance(error, FileNotFoundError) else error
            log(f"{self.command}: nothing to resume, starting over: {reason}")
            return
        differing = [name for name, value in self.conditions.items() if value != before["conditions"].get(name)]
        if differing:
            changed = ", ".join(differing)
            log(f"{self.command}: starting over, because these changed since the interrupted run: {changed}")
            return
        pairs, results = before["pairs"], comparisons.results
        if pairs.keys() != results.keys():
            return  # the interrupted run skipped the baseline and has pairs with another
        for name, row in pairs.items():
            results[name].values += row["values"]
            results[name].sides, results[name].per = row["sides"], row["per"]
            comparisons.side_values[name] += row["side_values"]
        count = max(len(result.values) for result in results.values())
        log(f"{self.command}: resuming with {number_of(count, 'pair')} from {self.file}")
