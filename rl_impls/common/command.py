"""The command line of a workload, ``train FILE`` and ``evaluate FILE``, made of its agent and its configuration."""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, cast, get_type_hints

from .checks import CHANGES, check_integer

EPISODES = 100  # of an evaluation
INTERRUPTED = 130


class Agent(Protocol):
    """What trains, plays, is saved and goes on: ``Agent(seed=0, **config)``, with the fields of its configuration.

    Attributes:
        UNIT: what its training is counted in, as in ``environment steps``.
        config: a dataclass, everything it is made of but its seed.
        step: how much of its training is done, in its unit.

    Args:
        seed: of everything that is random.
        config: the fields of its configuration.
    """

    UNIT: ClassVar[str]
    config: Any
    step: int

    def __init__(self, *, seed: int, **config: Any) -> None: ...

    @property
    def chunk(self) -> int:
        """How much of its training one call of :meth:`learn` does, in its unit."""

    def learn(self) -> Mapping[str, float]:
        """Train for one chunk; return the figures to show of it."""

    def evaluate(self, episodes: int, seed: int) -> Mapping[str, Any]:
        """Play without learning or exploring.

        Args:
            episodes: how many.
            seed: of all that is random in them.

        Returns:
            An array [episodes] of each figure.
        """

    def save(self, path: Path) -> None:
        """Write a checkpoint, whole or not at all.

        Args:
            path: of the file.
        """

    @classmethod
    def load(cls, path: Path, **changes: Any) -> Self:
        """Return the agent of a checkpoint, which goes on bit for bit; changes are to its backend and form alone.

        Args:
            path: of the file.
            changes: to its backend and form.

        Raises:
            ValueError: the file is no checkpoint of this agent, or another field is to be changed.
        """

    def close(self) -> None:
        """End the threads and processes that it has started."""


def main(
    agent: type[Agent],
    config: type,
    choices: Mapping[str, Sequence[str]],
    arguments: Sequence[str] | None = None,
    *,
    steps: int = 50_000,
) -> None:
    """Run a command of a workload; a mistake in it is one line, and exit code 1 or argparse's 2.

    Every field of the configuration is an option of ``train``, with its type and its default, explained by the
    ``Attributes:`` of the class's docstring. Those of a dataclass within it are options like the others.

    Args:
        agent: the class of the workload's agent.
        config: the dataclass that says what an agent is made of.
        choices: the values that a field may have, by its name, where they are a few words.
        arguments: the command line, that of this process by default.
        steps: the default of ``--steps``, in the agent's unit.
    """
    options = parser(agent, config, choices, steps).parse_args(arguments)
    try:
        options.run(agent, config, options)
    except (ValueError, NotImplementedError, ImportError, OSError) as error:
        sys.exit(f"{options.command}: {error}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def parser(
    agent: type[Agent], config: type, choices: Mapping[str, Sequence[str]], steps: int
) -> argparse.ArgumentParser:
    """Return the parser of a command line; its arguments are those of :func:`main`.

    Args:
        agent: the class of the workload's agent.
        config: the dataclass that says what an agent is made of.
        choices: the values that a field may have, by its name.
        steps: the default of ``--steps``, in the agent's unit.
    """
    made = argparse.ArgumentParser(
        prog=f"python -m {agent.__module__.rpartition('.')[0]}", description=(agent.__doc__ or "").partition("\n")[0]
    )
    commands = made.add_subparsers(dest="command", required=True)
    trains = commands.add_parser("train", help="train and save a checkpoint")
    trains.set_defaults(run=train)
    trains.add_argument("checkpoint", type=Path, help="file to write, and with --resume to go on from")
    trains.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    unit = f"{agent.UNIT}, rounded up to whole chunks (default: {steps})"
    trains.add_argument("--steps", type=int, default=steps, metavar="N", help=unit)
    trains.add_argument("--seed", type=int, metavar="N", help="of everything that is random (default: 0)")
    trains.add_argument("--threads", type=int, metavar="N", help="of one torch operation")
    trains.add_argument("--inter-op-threads", type=int, metavar="N", help="of torch operations side by side")
    evaluates = commands.add_parser("evaluate", help="play greedily and print how well")
    evaluates.set_defaults(run=evaluate)
    evaluates.add_argument("checkpoint", type=Path, help="file to read")
    evaluates.add_argument("--episodes", type=int, default=EPISODES, metavar="N", help=f"default: {EPISODES}")
    evaluates.add_argument("--seed", type=int, default=0, metavar="N", help="of the episodes (default: 0)")
    for field, kind, sentence in single_fields(config):
        option, sentence = f"--{field.name.replace('_', '-')}", sentence.rstrip(".").replace("%", "%%")
        metavar = None if field.name in choices else METAVARS[kind]
        how: dict[str, Any] = {"type": PARSERS[kind], "choices": choices.get(field.name), "metavar": metavar}
        default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
        trains.add_argument(option, **how, help=f"{sentence} (default: {default})")
        if field.name in CHANGES:
            evaluates.add_argument(option, **how, help=f"{sentence} (default: that of the checkpoint)")
    return made


def integers(text: str) -> tuple[int, ...]:
    """Return the integers between commas.

    Args:
        text: as in ``32,32``.
    """
    return tuple(int(word) for word in text.split(","))


PARSERS: dict[Any, Callable[[str], Any]] = {int: int, float: float, str: str, tuple[int, ...]: integers}
METAVARS = {int: "N", float: "X", str: "NAME", tuple[int, ...]: "N,..."}


def single_fields(config: Any) -> Iterator[tuple[Field[Any], Any, str]]:
    """Yield each field of a configuration that is no dataclass itself: the field, its type, the sentence about it.

    Args:
        config: a dataclass.
    """
    types, sentences = get_type_hints(config), attributes(config)
    for field in fields(config):
        if is_dataclass(types[field.name]):
            yield from single_fields(types[field.name])
        else:
            yield field, types[field.name], sentences[field.name]


def attributes(config: type) -> dict[str, str]:
    """Return the sentence about each attribute in the docstring of a class, in one line.

    Args:
        config: a class whose docstring has a section ``Attributes``.
    """
    section = re.search(r"^( *)Attributes:\n((?:\1 +.*\n|\n)*)", f"{config.__doc__}\n", re.M)
    if section is None:
        raise TypeError(f"{config.__name__}: its docstring has no Attributes")
    lines = re.findall(rf"^{section[1]}    (\w+): (.*(?:\n{section[1]}     +.*)*)", section[2], re.M)
    return {name: " ".join(text.split()).replace("``", "") for name, text in lines}


def given(config: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Return those fields of a configuration that were given on the command line, as its class takes them.

    Args:
        config: a dataclass.
        options: the parsed command line.
    """
    found: dict[str, Any] = {}
    for name, kind in get_type_hints(config).items():
        if is_dataclass(kind):
            inner = given(kind, options)
            found |= {name: cast(Any, kind)(**inner)} if inner else {}
        elif getattr(options, name, None) is not None:
            found[name] = getattr(options, name)
    return found


def train(agent_class: type[Agent], config: type, options: argparse.Namespace) -> None:
    """Train with a progress bar; write the checkpoint at the end, or after the chunk in which Ctrl-C came.

    Args:
        agent_class: the class of the workload's agent.
        config: the dataclass that says what it is made of.
        options: the parsed command line.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    set_threads(options)
    check_integer("steps", options.steps, 1)
    path = options.checkpoint
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"checkpoint: got {path}, wanted a file in a folder that exists")
    fields_given = given(config, options)
    if options.seed is not None:
        fields_given["seed"] = check_integer("seed", options.seed, 0)
    agent = agent_class.load(path, **fields_given) if options.resume else agent_class(**{"seed": 0} | fields_given)
    try:
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        stop = agent.step + options.steps
        with interruption() as interrupted, Progress(*columns) as progress:
            print(f"training from step {agent.step} to {stop}", flush=True)
            task = progress.add_task("training", total=stop, completed=agent.step)
            while agent.step < stop and not interrupted:
                figures = agent.learn()
                text = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
                progress.update(task, completed=min(agent.step, stop), description=text)
        agent.save(path)
    finally:
        agent.close()
    print(f"{path}: {agent.step} {agent.UNIT}")
    if interrupted:
        sys.exit(INTERRUPTED)


@contextlib.contextmanager
def interruption() -> Iterator[list[int]]:
    """Yield a list that Ctrl-C fills, so that training ends between two chunks and is saved."""
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def set_threads(options: argparse.Namespace) -> None:
    """Give torch its threads; torch takes the inter-op number once, before its first parallel work.

    Args:
        options: the parsed command line.
    """
    for name, function in (("threads", "set_num_threads"), ("inter_op_threads", "set_num_interop_threads")):
        count = getattr(options, name)
        if count is not None:
            check_integer(name, count, 1)
            import torch

            getattr(torch, function)(count)


def evaluate(agent_class: type[Agent], config: type, options: argparse.Namespace) -> None:
    """Print each figure of an evaluation, mean and standard error over the episodes.

    Args:
        agent_class: the class of the workload's agent.
        config: the dataclass that says what it is made of.
        options: the parsed command line.
    """
    check_integer("episodes", options.episodes, 1)
    check_integer("seed", options.seed, 0)
    agent = agent_class.load(options.checkpoint, **given(config, options))
    try:
        figures = agent.evaluate(options.episodes, options.seed)
    finally:
        agent.close()
    width = max(map(len, figures))
    for name, values in figures.items():
        error = values.std() / len(values) ** 0.5
        print(f"{name:{width}s} {values.mean():8.2f} +- {error:.2f}, n = {len(values)} episodes")
