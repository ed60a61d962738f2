"""Measure all cases of a pytest run, decide, and write the output files.

Heavy modules are imported only when needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .artifact import Artifact, Outcome
    from .benchmarks.source import Benchmarks
    from .run import Gate

INVALID = 2  # exit code
INTERRUPTED = "interrupted: no verdict"
OUTPUTS = {"--gate-json": "gate_json", "--gate-markdown": "gate_markdown", "--junitxml": "xmlpath"}


@dataclass
class Run:
    """State of one gate run.

    Attributes:
        stack: cleans up at the end of the run.
        shard: as given by ``--gate-shard``.
        json: path of the JSON artifact.
        gates: the comparison with base and, if requested, with the anchor; empty until the sides are laid out.
        allowed: patterns and reasons of ``--gate-allow``.
        write: writer of each output file, by the option that names the file.
        done: artifact and outcome, once available.
        failed: one-line reason why there is no outcome.
    """

    source: Benchmarks
    stack: ExitStack
    rule: Any
    shard: tuple[int, int] | None
    json: Path
    gates: list[Gate] = field(default_factory=list)
    allowed: list[tuple[str, str]] = field(default_factory=list)
    write: dict[str, Callable[[bytes], None]] = field(default_factory=dict)
    done: tuple[Artifact, Outcome] | None = None
    failed: str = ""


RUN = pytest.StashKey[Run]()
ENVIRONMENT = pytest.StashKey[dict[str, str]]()  # environment variables before a conftest.py may change them


def output_paths(config: pytest.Config) -> dict[str, Path]:
    """Return the path of each file that the run writes, by option."""
    given = {option: config.getoption(name, None) for option, name in OUTPUTS.items()}
    given["--gate-json"] = config.stash[RUN].json
    return {option: Path(os.path.expandvars(path)).expanduser() for option, path in given.items() if path}


def measure_and_decide(config: pytest.Config, run: Run) -> tuple[Artifact, Outcome]:
    """Measure, decide, and write the output files.

    After an interrupt or an error, the measurements so far are written; an interrupt ends pytest with code 2. The
    verdicts are printed if a file cannot be written.
    """
    from .interrupts import defer_interrupts
    from .rule import GateError

    log, artifacts = logger(config), []
    strict = config.getoption("gate_strict")
    if config.getoption("gate_resume"):
        resume_pairs(run, output_paths(config)["--gate-json"], log)
    try:
        for gate in run.gates:
            gate.log, gate.counts_memory = log, config.getoption("gate_memory")
            artifacts.append(gate.run())
            if gate.invalid and gate is not run.gates[-1] and run.shard is None:  # a merge needs each shard's anchor
                log("gate: the anchor is not measured: the comparison with base is invalid")
                break
    except (KeyboardInterrupt, GateError, OSError) as error:
        message = INTERRUPTED if isinstance(error, KeyboardInterrupt) else str(error)
        with suppress(KeyboardInterrupt), defer_interrupts():
            artifacts += [gate.artifact(complete=False) for gate in run.gates[len(artifacts) :]]
            # without any pair, the file of an earlier run stays
            if any(record.screen for each in artifacts for record in each.records.values()):
                run.write["--gate-json"](combine(artifacts, run.allowed, strict).to_json().encode())
                message += "; to resume, repeat the command with --gate-resume"
        if not isinstance(error, KeyboardInterrupt):
            raise GateError(message) from error
        pytest.exit(message, returncode=INVALID)
    artifact = combine(artifacts, run.allowed, strict)
    outcome = artifact.decide()
    write(artifact, outcome, run.write, log)
    return artifact, outcome


def combine(artifacts: Sequence[Artifact], allowed: list[tuple[str, str]], strict: bool) -> Artifact:
    """Combine the comparison with base and, if present, the one with the anchor into one artifact.

    If `strict` is true, inconclusive cases and changed outputs fail too.
    """
    for artifact in artifacts:
        artifact.allowed, artifact.strict = allowed, strict
    first, *others = artifacts
    first.anchor = others[0] if others else None
    return first


def resume_pairs(run: Run, file: Path, log: Callable[[str], None]) -> None:
    """Reuse the pairs of an interrupted run from `file`, or print why they cannot be reused."""
    from .artifact import read
    from .progress import number_of
    from .resume import resume, reusable
    from .rule import GateError

    if not file.exists():
        log(f"gate: nothing to resume, starting over: {file} does not exist")
        return
    try:
        before = read(file)
    except GateError as error:
        log(f"gate: nothing to resume, starting over: {error}")
        return
    if not before.interrupted:
        log(f"gate: nothing to resume, starting over: the run in {file} was not interrupted")
        return
    for gate, part in zip(run.gates, (before, before.anchor)):
        if part and (differing := resume(gate, part)):
            log(f"gate: starting over, because these changed since the interrupted run: {', '.join(differing)}")
        elif part:
            records = [gate.records[name] for name in reusable(gate.records)]
            pairs = sum(len(record.screen) + len(record.confirm) for record in records)
            what = f"{number_of(pairs, 'pair')} of {number_of(len(records), 'benchmark')}"
            log(f"gate: resuming with {what} from {file}; canaries are measured again")


def logger(config: pytest.Config) -> Callable[[str], None]:
    """Return a function that prints a line while tests run."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    def log(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            reporter.ensure_newline()
            reporter.write_line(text)
            reporter.flush()  # pytest 7 buffers the line if the output is not a terminal

    return log if reporter else print


def write(
    artifact: Artifact, outcome: Outcome, files: Mapping[str, Callable[[bytes], None]], log: Callable[[str], None]
) -> None:
    """Write the artifact and the Markdown table; print the verdicts if a file cannot be written."""
    from . import report
    from .files import Unwritable

    try:
        files["--gate-json"](artifact.to_json().encode())
        if "--gate-markdown" in files:
            files["--gate-markdown"](report.markdown(artifact, outcome).encode())
    except Unwritable:
        log("\n".join(report.summary(outcome)))
        raise
