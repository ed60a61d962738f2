"""The ``train`` command: from options to a checkpoint, with a progress bar and an optional learning curve."""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from .agent import Agent
from .checks import check_integer
from .config import YamlFile, fields_of, read_yaml, unknown
from .files import copy_whole
from .ranks import launched
from .runs import CHECKPOINT, SUMMARY, Recorder, keep_summary, memory, provenance, summary
from .signals import ending_signals
from .threads import configuration, described, use_threads
from .workers import WorkersEnded

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress

SAVE_EVERY = "10m"
SETTINGS = "save_every", "keep", "threads", "inter_op_threads"  # that a configuration file may also contain
LINES_EVERY = 10  # seconds
UNITS = {"h": 3600, "m": 60, "s": 1}
BUDGETS = "steps", "duration", "episodes"


def seconds_of(text: str, name: str = "duration") -> float:
    """Parse a duration such as ``0.5`` (hours), ``30m`` or ``90s`` into seconds; `name` is for the error message."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)([hms]?)", text)
    if not found or not float(found[1]):
        raise ValueError(f"{name}={text!r} should be a number of hours above 0, or a duration such as 30m")
    return float(found[1]) * UNITS[found[2] or "h"]


def from_file(config: Any, path: Path | None) -> YamlFile:
    """Read a configuration file, which may set fields, the seed, one of ``BUDGETS``, and ``SETTINGS``."""
    if path is None:
        return YamlFile()
    found, known = read_yaml(path), (*fields_of(config), "seed", *BUDGETS, *SETTINGS)
    for name, line in found.lines.items():
        if name not in known:
            raise ValueError(f"{path}, line {line}: {unknown(name, known)}")
    return found


def length(options: argparse.Namespace, chosen: YamlFile) -> tuple[int | None, float | None, int | None]:
    """Return steps, seconds and episodes to train, all but one None; options override the file."""
    given = {name: value for name in BUDGETS if (value := getattr(options, name)) is not None}
    given = given or {name: value for name in BUDGETS if (value := chosen.values.get(name)) is not None}
    if len(given) > 1:
        one, other, *_ = given
        raise ValueError(f"{other} cannot be combined with {one}; set only one of them")
    if "duration" in given:
        return None, seconds_of(str(given["duration"])), None
    if "episodes" in given:
        return None, None, check_integer("episodes", given["episodes"], 1)
    return check_integer("steps", given.get("steps", options.default_steps), 1), None, None


def place(options: argparse.Namespace) -> Path:
    """Return the path of the checkpoint; with ``--resume``, a run's folder may be named in its place.

    That folder then becomes ``options.output_dir``. Raises ValueError rather than overwrite the checkpoint or the curve
    of another run.
    """
    if options.resume and options.output_dir is None and options.checkpoint and options.checkpoint.is_dir():
        options.checkpoint, options.output_dir = None, options.checkpoint
    path: Path | None = options.checkpoint
    folder: Path | None = options.output_dir
    first = launched()[0] == 0  # of several processes, only the first writes
    new = first and not options.resume
    if path is None:
        if folder is None:
            raise ValueError("checkpoint: no file was given; name one, or a folder with --output-dir")
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"output-dir: {folder} is not a folder; choose another path")
        path = folder / CHECKPOINT
        if new and path.exists():
            raise ValueError(f"output-dir: {folder} holds a run; add --resume to continue it, or choose another folder")
    elif not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"checkpoint: {path} is a folder, or its folder does not exist; choose another path")
    own = options.resume and folder and path.parent.resolve() == folder.resolve()
    marks = (CHECKPOINT,) if options.resume else (CHECKPOINT, SUMMARY)  # a resumed run may have the summary
    if first and folder and not own and any((folder / name).exists() for name in marks):
        raise ValueError(f"output-dir: {folder} holds another run; choose another folder")
    if new and path.exists():
        raise ValueError(f"checkpoint: {path} exists; add --resume to continue it, or choose another file")
    return path


def train(agent_class: type[Agent], options: argparse.Namespace) -> None:
    """Train with a progress bar; write checkpoints at the start, every ``--save-every`` and at the end.

    Ctrl-C, SIGTERM and SIGHUP stop the training after the current chunk and still write its checkpoint.
    """
    if launched()[1] > 1 and not agent_class.DISTRIBUTED:
        raise ValueError(f"WORLD_SIZE={launched()[1]} should be 1: only procgen can train under torchrun")
    path, chosen = place(options), from_file(agent_class.Config, options.config)
    given = {name for name, value in vars(options).items() if value is not None}
    try:
        steps, duration, episodes = length(options, chosen)
        for name in set(SETTINGS) - given:
            setattr(options, name, chosen.values.get(name))
        if options.keep is not None:
            check_integer("keep", options.keep, 1)
        save_every = seconds_of(str(SAVE_EVERY if options.save_every is None else options.save_every), "save_every")
        fields = chosen_fields(agent_class.Config, chosen, options)
        threads = use_threads(options, configuration(agent_class, fields, path if options.resume else None))
        agent = agent_class.load(path, **fields) if options.resume else agent_class(**{"seed": 0, **fields})
    except ValueError as error:
        raise chosen.located(error, given) from None
    first = launched()[0] == 0
    folder, recorder = options.output_dir if first else None, None
    try:
        seed = None if options.resume else fields.get("seed", 0)  # a checkpoint does not hold it
        about: dict[str, Any] = {"seed": seed, "threads": threads, **provenance()}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            if options.resume and (folder / SUMMARY).exists():
                about["seed"] = summary(folder).get("seed")
        save_first(agent, path)
        recorder = Recorder(folder, agent.step)
        if folder is not None:
            keep_summary(folder, asdict(agent.config), about)
        if first:
            print(f"training from step {agent.step} {until(agent.step, steps, duration, episodes)}")
            print(described(agent.config, threads), flush=True)
        save = partial(save_and_keep, agent, path, options.keep if first else None, recorder)
        signals, figures = run(agent, path, steps, duration, episodes, recorder, save_every, save)
        if folder is not None:
            keep_summary(folder, asdict(agent.config), about | {"step": agent.step, **figures})
    finally:
        agent.close()
        if recorder:
            recorder.close()
    if first:
        peak = figures["peak_memory"] / 1e6
        print(f"{figures['rate']:,.0f} {agent.UNIT} per second, peak memory {peak:,.0f} MB")
        print(f"{path}: {agent.step} {agent.UNIT}")
        if signals:
            print(f"stopped by {signals[0].name}; continue with --resume")
    if signals:
        sys.exit(128 + signals[0])


def save_first(agent: Agent, path: Path) -> None:
    """Write the first checkpoint, so that an unwritable path or an agent that cannot learn is found before training."""
    agent.prepare()
    if wrong := not_finite(agent):
        raise FloatingPointError(f"{path}, step {agent.step}: {wrong}; resume from an earlier checkpoint")
    agent.save(path)


def save_and_keep(agent: Agent, path: Path, keep: int | None, recorder: Recorder) -> None:
    """Write a checkpoint; keep copies of the last `keep`, named by their step, and of the best one."""
    agent.save(path)
    if keep:
        copy_whole(path, path.with_stem(f"{path.stem}-{agent.step:09d}"))
        named = rf"{re.escape(path.stem)}-\d{{9,}}{re.escape(path.suffix)}"
        copies = [each for each in path.parent.iterdir() if re.fullmatch(named, each.name)]
        for old in sorted(copies, key=lambda each: (each.stat().st_mtime_ns, each.name))[:-keep]:
            old.unlink()
    recorder.keep_best(path)


def chosen_fields(config: Any, chosen: YamlFile, options: argparse.Namespace) -> dict[str, Any]:
    """Merge the configuration file and the command line, which takes precedence, into the agent's arguments."""
    if options.resume and chosen.values.keys() - {*BUDGETS, *SETTINGS}:
        allowed = ", ".join([*BUDGETS, *SETTINGS])
        raise ValueError(
            f"--config cannot be combined with --resume, except to set {allowed}: the checkpoint holds the rest"
        )
    names = (*fields_of(config), "seed")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    fields = {name: value for name, value in chosen.values.items() if name in names} | given
    if "seed" in fields:
        check_integer("seed", fields["seed"], 0)
    return fields


def until(first: int, steps: int | None, duration: float | None, episodes: int | None) -> str:
    """Describe when the training ends."""
    if episodes:
        return f"for {episodes} episodes"
    return f"to {first + steps}" if steps else f"for {round(duration or 0)} s"


def not_finite(agent: Agent, figures: Mapping[str, float] = MappingProxyType({})) -> str:
    """Describe a loss or weights that are infinite or NaN; return an empty string if all are finite.

    The losses in `figures` are ignored if the chunk had no ``updates``.
    """
    for name, value in figures.items():
        if name.endswith("loss") and not math.isfinite(value) and figures.get("updates", 1):
            return f"the {name.replace('_', ' ')} became {value}"
    return "" if all(np.isfinite(value).all() for value in agent.params.values()) else "weights became infinite or NaN"


def run(
    agent: Agent,
    path: Path,
    steps: int | None,
    duration: float | None,
    episodes: int | None,
    recorder: Recorder,
    save_every: float,
    save: Callable[[], None],
) -> tuple[list[signal.Signals], dict[str, float]]:
    """Train for `steps`, for `duration` seconds or until `episodes` have ended.

    Calls `save` every `save_every` seconds and at the end.

    Returns:
        The signals that stopped the training, and ``rate`` (steps per second) and ``peak_memory`` (bytes).
    """
    first = agent.step
    goal: float = first + steps if steps else episodes or duration or 0
    reached: float = 0
    kept = first  # step of the last checkpoint
    failed: OSError | None = None

    def diverged(reason: object) -> FloatingPointError:
        when = f"between steps {before} and {agent.step}" if agent.step > before else f"after step {before}"
        return FloatingPointError(
            f"{when}, {reason}; {path} still holds the last good state; start a new run with a smaller --learning-rate"
        )

    with stop_signals() as signals, progress_bar(disable=launched()[0] > 0) as progress:
        task = progress.add_task("training", total=round(goal), completed=first if steps else 0, rate="")
        start, now, saved, printed, over = perf_counter(), 0.0, 0.0, 0.0, False
        agent.deadline = start + duration if duration else math.inf
        while not agent.agree(bool(signals) or over or failed is not None):
            before = agent.step
            try:
                figures = agent.learn()
            except WorkersEnded as error:
                raise WorkersEnded(f"{error}; {path} holds step {kept}; continue with --resume") from error
            except FloatingPointError as error:
                raise diverged(error) from error
            now = perf_counter() - start
            reached = agent.step if steps else reached + figures["episodes"] if episodes else now
            over = reached >= goal
            try:
                recorder.add(agent.step, now, figures)
                text = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
                rate = f"{(agent.step - first) / now:,.0f} {agent.UNIT}/s"
                progress.update(task, completed=min(int(reached), round(goal)), description=text, rate=rate)
                if now - printed >= LINES_EVERY or over:
                    for line in agent.lines(figures, now - printed):
                        progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
                    printed = now
            except OSError as error:  # a full disk or a closed terminal: save before it ends the command
                failed = error
            wrong = not_finite(agent, figures)
            if agent.agree(bool(wrong)):
                raise diverged(wrong or "weights became infinite or NaN")
            if agent.agree(now - saved >= save_every):
                try:
                    save()
                    kept = agent.step
                except OSError as error:
                    progress.console.print(f"warning: no checkpoint at step {agent.step}: {error}", markup=False)
                saved = now
        save()
    if failed is not None:
        raise failed
    return signals, {"rate": (agent.step - first) / max(now, 1e-9), "peak_memory": memory("VmHWM")}


def progress_bar(**how: Any) -> Progress:
    """Return a bar with progress, remaining time and rate, and the task's description in full below it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Bar(Progress):
        def get_renderables(self) -> Iterator[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            yield from (Text(task.description) for task in self.tasks)

    done = BarColumn(bar_width=16), MofNCompleteColumn()
    return Bar(*done, TimeRemainingColumn(), TextColumn("{task.fields[rate]}"), **how)


@contextlib.contextmanager
def stop_signals() -> Iterator[list[signal.Signals]]:
    """Yield a list to which Ctrl-C, SIGTERM and SIGHUP append; a second raises KeyboardInterrupt, a third kills."""
    seen: list[signal.Signals] = []

    def stop(number: int, frame: FrameType | None) -> None:
        seen.append(signal.Signals(number))
        if len(seen) > 1:
            for each in before:
                signal.signal(each, signal.SIG_DFL)
            raise KeyboardInterrupt(number)

    before = {number: signal.signal(number, stop) for number in ending_signals()}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
