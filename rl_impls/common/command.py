"""The command line of a workload, ``train``, ``evaluate`` and ``compare``, made of its agent and its configuration."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self

from . import runs, training
from .checks import CHANGES, check_integer
from .config_fields import given, single_fields
from .pipes import quiet_pipe
from .signals import exit_code, interruptible
from .threads import configuration, described, use_threads
from .workers import WorkersEnded

EPISODES = 100  # of an evaluation


class Agent(Protocol):
    """What trains, plays, is saved and goes on: ``Agent(seed=0, **config)``, with the fields of its configuration.

    One whose training is worth a look while it goes on has ``lines(figures, seconds)``: the lines that are shown every
    ten seconds, from what :meth:`learn` returned last and the seconds since the last time. One that can do without
    what it trains by has ``load_to_evaluate(path, **changes)``, which is :meth:`load` of an agent that only evaluates.
    ``prepare()``, if there is one, is called before training and raises what :meth:`learn` would. The configuration's
    ``weights``, their number, times its ``batch`` decide how many threads train by default.

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

    def evaluate(self, episodes: int, seed: int, **how: Any) -> Mapping[str, Any]:
        """Play without learning or exploring.

        Args:
            episodes: how many.
            seed: of all that is random in them.
            how: ``deterministic`` of an agent that is ``STOCHASTIC``: take the likeliest action, rather than draw one.

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
        """Return the agent of a checkpoint, which goes on bit for bit; what it learned is not changed.

        Args:
            path: of the file.
            changes: to its backend, its form and where it plays.

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
    others: Mapping[str, Callable[[], str]] = MappingProxyType({}),
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
        others: further commands by name, each returns a text that is printed.
    """
    options = parser(agent, config, choices, steps, others).parse_args(arguments)
    try:
        with quiet_pipe(), interruptible():
            options.run(agent, config, options)
    except OSError as error:
        named = error.strerror and error.filename
        sys.exit(f"{options.command}: {f'{error.filename}: {error.strerror}' if named else error}")
    except (ValueError, NotImplementedError, ImportError, FloatingPointError, WorkersEnded) as error:
        sys.exit(f"{options.command}: {error}")
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        first = str(error).strip().partition("\n")[0] or "MemoryError"
        sys.exit(f"{options.command}: not enough memory ({first}); try a smaller --capacity, --buffer or --batch")
    except KeyboardInterrupt as error:
        sys.exit(exit_code(error))


def out_of_memory(error: Exception) -> bool:
    """Return whether NumPy, torch or JAX could not allocate memory."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(
        text in words for text in ("out of memory", "can't allocate memory", "resource_exhausted")
    )


def parser(
    agent: type[Agent],
    config: type,
    choices: Mapping[str, Sequence[str]],
    steps: int,
    others: Mapping[str, Callable[[], str]],
) -> argparse.ArgumentParser:
    """Return the parser of a command line; its arguments are those of :func:`main`.

    Args:
        agent: the class of the workload's agent.
        config: the dataclass that says what an agent is made of.
        choices: the values that a field may have, by its name.
        steps: the default of ``--steps``, in the agent's unit.
        others: further commands by name.
    """
    made = argparse.ArgumentParser(
        prog=f"python -m {agent.__module__.rpartition('.')[0]}",
        description=(agent.__doc__ or "").partition("\n")[0],
        allow_abbrev=False,
    )
    commands = made.add_subparsers(dest="command", required=True)
    trains = commands.add_parser("train", help="train and save a checkpoint", allow_abbrev=False)
    trains.set_defaults(run=training.train)
    file = "file to write, and with --resume to go on from, or its --output-dir (default: in --output-dir)"
    trains.add_argument("checkpoint", type=Path, nargs="?", help=file)
    trains.add_argument("--config", type=Path, metavar="FILE", help="YAML whose names are the options below")
    trains.add_argument("--output-dir", type=Path, metavar="DIR", help="keep the curve there, also for TensorBoard")
    trains.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    unit = f"{agent.UNIT}, rounded up to whole chunks (default: {steps})"
    trains.set_defaults(default_steps=steps)
    until = trains.add_mutually_exclusive_group()
    until.add_argument("--steps", type=int, metavar="N", help=unit)
    until.add_argument("--duration", metavar="HOURS", help="or for so long: 0.5, 30m, 90s")
    trains.add_argument("--seed", type=int, metavar="N", help="of everything that is random (default: 0)")
    evaluates = commands.add_parser("evaluate", help="play without learning, and print how well", allow_abbrev=False)
    for command in (trains, evaluates):
        threads = "threads of one operation, and of the games (default: 1 for a small net, else all cores)"
        command.add_argument("--threads", type=int, metavar="N", help=threads)
        command.add_argument("--inter-op-threads", type=int, metavar="N", help="torch operations that run side by side")
    evaluates.set_defaults(run=evaluate)
    evaluates.add_argument("checkpoint", type=Path, help="file to read, or the --output-dir of the training")
    names, most = ("--episodes", "--num-episodes"), f"default: {EPISODES}"
    evaluates.add_argument(*names, type=int, default=EPISODES, metavar="N", help=most)
    if getattr(agent, "STOCHASTIC", False):
        evaluates.add_argument("--deterministic", action="store_true", help="take the likeliest action")
    compares = commands.add_parser("compare", help="show runs side by side, and plot their returns", allow_abbrev=False)
    compares.set_defaults(run=compare)
    compares.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="the --output-dir of a training")
    page = Path("comparison.html")
    compares.add_argument("--output", type=Path, default=page, metavar="FILE", help=f"the picture (default: {page})")
    evaluates.add_argument("--seed", type=int, default=0, metavar="N", help="of the episodes (default: 0)")
    for field, kind, sentence in single_fields(config):
        option, sentence = f"--{field.name.replace('_', '-')}", sentence.rstrip(".").replace("%", "%%")
        metavar = None if field.name in choices else METAVARS[kind]
        how: dict[str, Any] = {"type": PARSERS[kind], "choices": choices.get(field.name), "metavar": metavar}
        default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
        trains.add_argument(option, **how, help=f"{sentence} (default: {default})")
        if field.name in CHANGES:
            evaluates.add_argument(option, **how, help=f"{sentence} (default: that of the checkpoint)")
    for name, text in others.items():
        summary = (text.__doc__ or "").partition("\n")[0].removeprefix("Return ").rstrip(".")
        command = commands.add_parser(name, help=f"print {summary}", allow_abbrev=False)
        command.set_defaults(run=lambda agent, config, options, text=text: print(text()))
    return made


def integers(text: str) -> tuple[int, ...]:
    """Return the integers between commas.

    Args:
        text: as in ``32,32``.
    """
    return tuple(int(word) for word in text.split(","))


PARSERS: dict[Any, Callable[[str], Any]] = {int: int, float: float, str: str, tuple[int, ...]: integers}
METAVARS = {int: "N", float: "X", str: "NAME", tuple[int, ...]: "N,..."}


def compare(agent_class: type[Agent], config: type, options: argparse.Namespace) -> None:
    """Print runs beside each other and draw their returns, see :func:`.runs.compare`.

    Args:
        agent_class: the class of the workload's agent.
        config: the dataclass that says what it is made of.
        options: the parsed command line.
    """
    runs.compare(options.runs, options.output)


def evaluate(agent_class: type[Agent], config: type, options: argparse.Namespace) -> None:
    """Print each figure of an evaluation, mean and standard error over the episodes.

    Args:
        agent_class: the class of the workload's agent.
        config: the dataclass that says what it is made of.
        options: the parsed command line.
    """
    check_integer("episodes", options.episodes, 1)
    check_integer("seed", options.seed, 0)
    path = options.checkpoint / runs.CHECKPOINT if options.checkpoint.is_dir() else options.checkpoint
    load = getattr(agent_class, "load_to_evaluate", agent_class.load)
    fields = given(config, options)
    threads = use_threads(options, configuration(agent_class, config, fields, path), options.episodes)
    agent = load(path, **fields)
    print(described(agent.config, threads), file=sys.stderr)
    how = {"deterministic": True} if getattr(options, "deterministic", False) else {}
    try:
        if wrong := training.not_finite(agent):
            raise FloatingPointError(f"{path}, step {agent.step}: {wrong}; evaluate an earlier checkpoint")
        figures = agent.evaluate(options.episodes, options.seed, **how)
    finally:
        agent.close()
    width = max(map(len, figures))
    for name, values in figures.items():
        error = values.std() / len(values) ** 0.5
        print(f"{name:{width}s} {values.mean():8.2f} +- {error:.2f}, n = {len(values)} episodes")
