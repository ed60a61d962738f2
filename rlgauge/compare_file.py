"""A file of comparisons, ``rlgauge compare --file FILE.toml``, measured in random order.

Comparisons share pairs of processes in three cases:

- They run on one core with the same plan.
- They run on all cores with the same plan and name the same ``group``. Tests marked ``cores="all"`` share pairs only
  with each other.
- They compare the same two tests by different measures. Comparisons of memory never share pairs.

The results so far are written after each group, so that an interrupted run can be resumed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .allowed import suggestion
from .case import Case
from .compare import WIDE, WIDE_HINT, Comparisons, all_cases, resolve_id
from .config import tomllib
from .fields import FieldError, parse
from .files import check_file, reserved
from .kept_pairs import conditions
from .layout import Layout, laid_out
from .plan import MEMORY, Plan
from .progress import number_of
from .rule import INVALID, GateError
from .two_tests import SkippedError

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks

GROUP_SIZE = 8  # maximum number of pairs of tests in a group; an interrupt loses the measurements of one group
Row = dict[str, Any]  # result of one comparison as written to the file


@dataclass(frozen=True)
class Comparison:
    """A ``[[comparison]]`` table; missing keys default to the command-line options.

    Attributes:
        name: unique name, shown in the report.
        a: id or pattern of a benchmark.
        b: id or pattern of the other benchmark.
        items: see :class:`.plan.Plan`; likewise the following keys up to ``cores``.
        group: comparisons of the same group share pairs of processes on all cores too.
        note: for the reader; copied to the result.
        leaves_out: for the reader; copied to the result.
    """

    name: str
    a: str
    b: str
    items: bool | None = None
    outputs: str | None = None
    tolerance: float | None = None
    measure: str | None = None
    precision: float | None = None
    minutes: float | None = None
    threads_a: int | None = None
    threads_b: int | None = None
    cores: str | None = None
    group: str = ""
    note: str | None = None
    leaves_out: str | None = None

    def plan(self, default: Plan) -> Plan:
        """Return how to compare, with `default` for keys that the table does not set."""
        own = {field.name: getattr(self, field.name, None) for field in fields(Plan)}
        return replace(default, **{name: value for name, value in own.items() if value is not None})

    def row(self, **result: Any) -> Row:
        """Return the result with the table's note and ``leaves_out`` added."""
        texts = {"note": self.note, "leaves_out": self.leaves_out}
        return {**result, **{name: value for name, value in texts.items() if value is not None}}


@dataclass(frozen=True)
class ComparisonFile:
    """Contents of a file of comparisons."""

    comparison: list[dict[str, Any]] = field(default_factory=list)


def read(file: Path, default: Plan) -> dict[str, tuple[Comparison, Plan]]:
    """Return the comparisons in a TOML file by name, each with its plan; raise GateError for an invalid file."""
    found: dict[str, tuple[Comparison, Plan]] = {}
    try:
        tables = parse(ComparisonFile, tomllib.loads(file.read_text("utf-8"))).comparison
        for number, table in enumerate(tables, 1):
            key = f"comparison {number}"
            comparison: Comparison = parse(Comparison, table, (key,))
            if comparison.name in found:
                raise FieldError([key, "name"], f"another comparison is named {comparison.name!r}; rename one of them")
            try:
                found[comparison.name] = comparison, comparison.plan(default)
            except FieldError as error:
                raise FieldError([key, *error.path], error.problem) from error
    except OSError as error:
        fix = "give a TOML file with a [[comparison]] table per pair of benchmarks"
        raise GateError(f"--file {file}: cannot be read: {error.strerror}; {fix}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, FieldError) as error:
        raise GateError(f"{file}: {error}") from error
    if not found:
        raise GateError(f"{file}: there is no [[comparison]] table; add one per pair of benchmarks")
    return found


def compare_file(
    source: Benchmarks,
    root: Path,
    file: Path,
    default: Plan,
    out: Path,
    resume: bool,
    log: Callable[[str], None],
    only: Sequence[str] = (),
) -> int:
    """Measure the comparisons of a file, write and print the results; return the exit code.

    A comparison whose test is skipped or fails is recorded as such, and the others are measured. `default` says how to
    compare unless the file does. All results are written to `out` (JSON) after each group; with `resume`, those of an
    interrupted run are kept. `only` names the comparisons to measure, by default all; results of others in `out` are
    kept. Raises GateError if these were measured under other conditions.
    """
    comparisons = read(file, default)
    for name in only:
        if name not in comparisons:
            hint = suggestion(name, comparisons) or f" (choose from {', '.join(comparisons)})"
            raise GateError(f"--only {name!r}: {file} has no such comparison{hint}")
    check_file(out, "--json")
    source.leave_out(out)
    rows: dict[str, Row] = {}
    try:
        cases = all_cases(
            source, [text for comparison, _ in comparisons.values() for text in (comparison.a, comparison.b)]
        )
        tests = {
            name: (
                cases[resolve_id(comparison.a, cases, f"{file}: {name}: a", source.broken)],
                cases[resolve_id(comparison.b, cases, f"{file}: {name}: b", source.broken)],
            )
            for name, (comparison, _) in comparisons.items()
            if not only or name in only
        }
        with laid_out(source, root) as layout:
            tables = [asdict(comparison) for comparison, _ in comparisons.values()]
            current = conditions(source, layout, default, {"file of comparisons": tables})
            rows = other_rows(out, current, only) | (resumable_rows(out, current, log) if resume else {})
            order = random.Random(default.seed).sample(list(tests), len(tests))
            pending = {name: (*comparisons[name], tests[name]) for name in order if name not in rows}
            for group, names in enumerate(groups(pending)):
                chosen = {name: tests[name] for name in names}
                plans = {name: comparisons[name][1] for name in names}
                results = measure_group(
                    source, layout, chosen, plans, f"comparison-{group}", lambda text: log(f"  {text}")
                )
                rows |= {name: comparisons[name][0].row(**result) for name, result in results.items()}
                written = {name: rows[name] for name in comparisons if name in rows}
                text = json.dumps({"conditions": current, "comparisons": written}, indent=2) + "\n"
                with reserved(out, len(text), "--json") as write:
                    write(text.encode())
                finished = sum(name in rows for name in tests)
                for number, name in enumerate(names, finished - len(names) + 1):
                    log(f"compare: {number} of {len(order)}: {name}: {row_text(rows[name])}")
    except KeyboardInterrupt:
        done = f"{out} has {len(rows)} of {len(comparisons)} comparisons; to resume, repeat the command with --resume"
        raise GateError(f"interrupted: {done if rows else 'nothing was written'}") from None
    wanted = {name: rows[name] for name in tests}
    print(table(wanted))
    failed = any("error" in row for row in wanted.values()) or not any("value" in row for row in wanted.values())
    return INVALID if failed else 0


def groups(comparisons: Mapping[str, tuple[Comparison, Plan, Sequence[Case]]]) -> list[list[str]]:
    """Group the comparisons that share pairs of processes, see the top of this module."""
    all_groups: list[list[str]] = []
    last: dict[Any, list[str]] = {}  # key -> group that the next comparison joins
    of_tests: dict[Any, list[str]] = {}  # key and the two tests -> group that another comparison of them has joined
    for name, (comparison, plan, tests) in comparisons.items():
        if plan.measure in MEMORY:
            all_groups.append([name])
            continue
        alone = plan.place(tests).one is None and not comparison.group
        ids = tuple(case.id for case in tests)
        alike = replace(plan, measure="", items=False, outputs="close", tolerance=None)
        key = alike, comparison.group, any(case.all_cores for case in tests), ids if alone else ()
        group = of_tests.get((key, ids)) or last.setdefault(key, [])
        if not group or len({comparisons[other][2] for other in group} | {tests}) > GROUP_SIZE:
            group = last[key] = []
            all_groups.append(group)
        of_tests[key, ids] = group
        group.append(name)
    return all_groups


def measure_group(
    source: Benchmarks,
    layout: Layout,
    tests: Mapping[str, tuple[Case, Case]],
    plans: Mapping[str, Plan],
    folder: str,
    log: Callable[[str], None],
) -> dict[str, Row]:
    """Return the result of each comparison of a group, or its error; `folder` names the sides' directories."""

    def log_pair(names: Sequence[str]) -> None:
        values = comparisons.results[names[0]].values
        outcome = f": {values[-1]:.4g}" if len(tests) == 1 else f", {number_of(len(names), 'comparison')}"
        log(f"pair {len(values)}{outcome}")

    try:
        comparisons = Comparisons(source, layout, tests, plans, folder)
    except GateError as error:
        return {name: {"error": str(error)} for name in tests}
    comparisons.measure_each(log_pair)
    rows: dict[str, Row] = {}
    for name, result in comparisons.results.items():
        if failure := comparisons.failed.get(name):
            rows[name] = {"skipped" if isinstance(failure, SkippedError) else "error": str(failure)}
        else:
            rows[name] = {"text": str(result), **result.as_dict()}
    return rows


def resumable_rows(out: Path, current: Mapping[str, Any], log: Callable[[str], None]) -> dict[str, Row]:
    """Return the results that an interrupted run measured under the same conditions.

    If the conditions differ, print which ones and return nothing.
    """
    try:
        before = json.loads(out.read_text("utf-8"))
        rows = {name: row for name, row in before["comparisons"].items() if "value" in row}
        differing = [name for name in current if current[name] != before["conditions"].get(name)]
    except FileNotFoundError:
        log(f"compare: nothing to resume, starting over: {out} does not exist")
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise GateError(
            f"{out}: not a file that rlgauge compare --file writes: {error}; leave out --resume, or give another --json"
        ) from error
    if differing:
        log(f"compare: starting over, because these changed since the interrupted run: {', '.join(differing)}")
        return {}
    log(f"compare: resuming with {number_of(len(rows), 'comparison')} from {out}")
    return rows


def other_rows(out: Path, current: Mapping[str, Any], only: Sequence[str]) -> dict[str, Row]:
    """Return the results in `out` that `only` does not name; empty if `only` is empty.

    Raises GateError if they were measured under other conditions, since they would be lost.
    """
    try:
        before = json.loads(out.read_text("utf-8")) if only else {}
        rows = {name: row for name, row in before["comparisons"].items() if name not in only}
        differing = [name for name in current if current[name] != before["conditions"].get(name)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a file with other contents is overwritten
        return {}
    if differing and any("value" in row for row in rows.values()):
        lost = "the results of other comparisons would be lost, because these conditions changed"
        raise GateError(f"{out}: {lost}: {', '.join(differing)}; give another --json")
    return {} if differing else rows


def row_text(row: Row) -> str:
    """Return the result of a comparison as one line."""
    return str(row.get("text") or row.get("skipped") or f"error: {row['error']}")


def table(rows: Mapping[str, Row]) -> str:
    """Return the results as aligned columns: name, measure, A over B, 95% interval, pairs, verdict; then the notes."""
    lines: list[Sequence[str]] = [("comparison", "measure", "A / B", "95% interval", "pairs", "")]
    for name, row in rows.items():
        if "value" in row:
            measure = "A - B, s" if row["measure"] == "difference" else row["measure"]
            interval = f"[{row['low']:.3g}, {row['high']:.3g}]"
            lines.append((name, measure, f"{row['value']:.3g}", interval, str(len(row["values"])), row["verdict"]))
        else:
            lines.append((name, "-", "-", "-", "-", row_text(row)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    wide = [f"{WIDE}: {WIDE_HINT}"] if any(row.get("verdict") == WIDE for row in rows.values()) else []
    texts = [f"{name}: {row['note']}" for name, row in rows.items() if "note" in row]
    texts += [f"{name} leaves out: {row['leaves_out']}" for name, row in rows.items() if "leaves_out" in row]
    return "\n".join(["  ".join(map(str.ljust, each, widths)).rstrip() for each in lines] + wide + texts)
