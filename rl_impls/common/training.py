"""The command ``train``: from its options to a checkpoint, with progress shown and, if wanted, the curve kept."""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .checks import check_integer
from .config_fields import given, single_fields
from .config_file import NOTHING, Chosen, read
from .ranks import launched
from .runs import CHECKPOINT, CURVE, Recorder, keep_summary, peak_memory

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress

    from .command import Agent

INTERRUPTED = 130
SAVED_EVERY = 600  # seconds
SAID_EVERY = 10  # seconds, of an agent that has lines to say
UNITS = {"h": 3600, "m": 60, "s": 1}


def seconds_of(text: str) -> float:
    """Return a duration in seconds.

    Args:
        text: a number of hours, or a number with h, m or s: ``0.5``, ``30m``, ``90s``.

    Raises:
        ValueError: it is none, or not more than 0.
    """
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)([hms]?)", text)
    if not found or not float(found[1]):
        raise ValueError(f"duration: got {text!r}, wanted more than 0 hours, or as 30m or 90s")
    return float(found[1]) * UNITS[found[2] or "h"]


def from_file(config: type, path: Path | None) -> Chosen:
    """Return what a configuration's file says; its fields may stand there, and seed, steps and duration.

    Args:
        config: the dataclass that says what an agent is made of.
        path: of the file, or None.
    """
    if path is None:
        return NOTHING
    types = {field.name: kind for field, kind, _ in single_fields(config)}
    chosen = read(path, types | {"seed": int, "steps": int, "duration": float | str})
    if "duration" in chosen.values:
        chosen.values["duration"] = str(chosen.values["duration"])
    return chosen


def length(options: argparse.Namespace, chosen: Chosen) -> tuple[int | None, float | None]:
    """Return how many steps to train, or for how many seconds: as the command line says, or else the file.

    Args:
        options: the parsed command line.
        chosen: what the file says.

    Raises:
        ValueError: both in the file, or a number that makes no sense.
    """
    steps, duration = options.steps, options.duration
    if steps is None and duration is None:
        steps, duration = chosen.values.get("steps"), chosen.values.get("duration")
        if steps is not None and duration is not None:
            raise ValueError("duration: got it with steps, wanted one of them")
    if duration is not None:
        return None, seconds_of(duration)
    return check_integer("steps", options.default_steps if steps is None else steps, 1), None


def place(options: argparse.Namespace) -> Path:
    """Return the file of the checkpoint, checked; the folder of a run that goes on becomes the output's.

    Args:
        options: the parsed command line.

    Raises:
        ValueError: none was named, or a folder that does not exist, or that holds another run.
    """
    if options.resume and options.output_dir is None and options.checkpoint and options.checkpoint.is_dir():
        options.checkpoint, options.output_dir = None, options.checkpoint
    path: Path | None = options.checkpoint
    folder: Path | None = options.output_dir
    if path is None:
        if folder is None:
            raise ValueError("checkpoint: got none, wanted a file, or --output-dir")
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"output-dir: got {folder}, wanted a folder")
        if (folder / CURVE).exists() and not options.resume and launched()[0] == 0:  # which alone writes there
            raise ValueError(f"output-dir: got {folder}, which holds a run, wanted another folder, or --resume")
        return folder / CHECKPOINT
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"checkpoint: got {path}, wanted a file in a folder that exists")
    return path


def train(agent_class: type[Agent], config: type, options: argparse.Namespace) -> None:
    """Train with a progress bar; write the checkpoint every ten minutes and at the end, or when Ctrl-C came.

    Args:
        agent_class: the class of the workload's agent.
        config: the dataclass that says what it is made of.
        options: the parsed command line.
    """
    path, chosen = place(options), from_file(config, options.config)
    words = {name: value for name, value in vars(options).items() if value is not None}
    try:
        steps, duration = length(options, chosen)
        agent = make(agent_class, config, path, chosen.values, words)
    except ValueError as error:
        name = str(error).partition(":")[0]
        raise (error if name in words else chosen.located(error)) from None
    first, recorder = launched()[0] == 0, None
    try:
        recorder = Recorder(options.output_dir if first else None, agent.step)
        if first and options.output_dir is not None:
            keep_summary(options.output_dir, asdict(agent.config), {})
        interrupted, figures = run(agent, path, steps, duration, recorder)
        agent.save(path)
        if first and options.output_dir is not None:
            keep_summary(options.output_dir, asdict(agent.config), {"step": agent.step, **figures})
    finally:
        agent.close()
        if recorder:
            recorder.close()
    if first:
        memory = figures["peak_memory"] / 1e6
        print(f"{figures['rate']:,.0f} {agent.UNIT} a second, {memory:,.0f} MB of memory at the most")
        print(f"{path}: {agent.step} {agent.UNIT}")
    if interrupted:
        sys.exit(INTERRUPTED)


def make(agent_class: type[Agent], config: type, path: Path, chosen: dict[str, Any], words: dict[str, Any]) -> Agent:
    """Return the agent, new or of the checkpoint.

    Args:
        agent_class: the class of the workload's agent.
        config: the dataclass that says what it is made of.
        path: of the checkpoint.
        chosen: what the file says, by name.
        words: what the command line says, which counts more.

    Raises:
        ValueError: a value that makes no sense, or a file beside a checkpoint that is gone on from.
    """
    if words["resume"] and chosen.keys() - {"steps", "duration"}:
        raise ValueError("config: got a file with --resume, wanted none: the checkpoint says what it is made of")
    said = chosen | words
    named = given(config, argparse.Namespace(**said))
    if "seed" in said:
        named["seed"] = check_integer("seed", said["seed"], 0)
    return agent_class.load(path, **named) if words["resume"] else agent_class(**{"seed": 0, **named})


def run(
    agent: Agent, path: Path, steps: int | None, duration: float | None, recorder: Recorder
) -> tuple[list[int], dict[str, float]]:
    """Train; return the signals that came meanwhile, and the steps a second (``rate``) and bytes of memory.

    Args:
        agent: that is trained.
        path: where it is saved now and then, so that little is lost if something fails.
        steps: for how long, or None.
        duration: the same in seconds, or None.
        recorder: that keeps the curve.
    """
    first = agent.step
    total = first + steps if steps else round(duration or 0)
    shows, agree = launched()[0] == 0, getattr(agent, "agree", bool)
    with interruption() as interrupted, progress_bar(disable=not shows) as progress:
        if shows:
            print(f"training from step {first} {f'to {total}' if steps else f'for {total} s'}", flush=True)
        task = progress.add_task("training", total=total, completed=first if steps else 0, rate="")
        start, now, saved, said, over = perf_counter(), 0.0, 0.0, 0.0, False
        while not agree(bool(interrupted) or over):
            figures = agent.learn()
            now = perf_counter() - start
            recorder.add(agent.step, now, figures)
            text = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
            rate = f"{(agent.step - first) / now:,.0f} {agent.UNIT}/s"
            over = agent.step >= total if steps else now >= (duration or 0)
            done = min(agent.step if steps else int(now), total)
            progress.update(task, completed=done, description=text, rate=rate)
            if hasattr(agent, "lines") and (now - said >= SAID_EVERY or over):
                for line in agent.lines(figures, now - said):
                    progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
                said = now
            if agree(now - saved >= SAVED_EVERY):
                agent.save(path)
                saved = now
    return interrupted, {"rate": (agent.step - first) / max(now, 1e-9), "peak_memory": peak_memory()}


def progress_bar(**how: Any) -> Progress:
    """Return a bar with what is done, the time that is left and the rate; below it, in full, what else is to be seen.

    Args:
        how: as rich's ``Progress`` takes it.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Bar(Progress):
        def get_renderables(self) -> Iterator[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            yield from (Text(task.description) for task in self.tasks)

    done = BarColumn(bar_width=16), MofNCompleteColumn()
    return Bar(*done, TimeRemainingColumn(), TextColumn("{task.fields[rate]}"), **how)


@contextlib.contextmanager
def interruption() -> Iterator[list[int]]:
    """Yield a list that Ctrl-C fills, so that training ends between two chunks and is saved."""
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)
