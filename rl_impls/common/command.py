"""Command line of a workload (``train``, ``evaluate``, ``compare``), generated from its agent and configuration."""

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

EPISODES = 100  # default number of evaluation episodes


class Agent(Protocol):
    """Interface of an agent that can be trained, evaluated and saved: ``Agent(seed=0, **config)``.

    Optional members: ``lines(figures, seconds)`` returns lines to print every ten seconds of training, from the last
    result of :meth:`learn` and the seconds since the previous call. ``load_to_evaluate(path, **changes)`` loads an
    agent that only evaluates, without its training state. ``prepare()`` is called before training and raises what
    :meth:`learn` would. The configuration's ``weights`` (their number) times its ``batch`` determines the default
    number of threads.

    Attributes:
        UNIT: unit of training progress, such as ``environment steps``.
        config: configuration, a dataclass with everything but the seed.
        step: training progress in its unit.

    Args:
        seed: seed of all random numbers.
        config: fields of the configuration.
    """

    UNIT: ClassVar[str]
    config: Any
    step: int

    def __init__(self, *, seed: int, **config: Any) -> None: ...

    @property
    def chunk(self) -> int:
        """Progress per call of :meth:`learn`, in the agent's unit."""

    def learn(self) -> Mapping[str, float]:
        """Train for one chunk; return figures to display."""

    def evaluate(self, episodes: int, seed: int, **how: Any) -> Mapping[str, Any]:
        """Play without learning or exploring.

        Args:
            episodes: number of episodes.
            seed: seed of their random numbers.
            how: ``deterministic``, for a ``STOCHASTIC`` agent: take the most likely action instead of sampling.

        Returns:
            An array [episodes] for each figure.
        """

    def save(self, path: Path) -> None:
        """Write a checkpoint atomically."""

    @classmethod
    def load(cls, path: Path, **changes: Any) -> Self:
        """Restore an agent from a checkpoint; training continues bit for bit.

        Args:
            path: checkpoint file.
            changes: overrides of the backend, the form and where it plays, none of which change what it learned.

        Raises:
            ValueError: not a checkpoint of this agent, or an override of another field.
        """

    def close(self) -> None:
        """Stop the threads and processes that the agent started."""


def main(
    agent: type[Agent],
    config: type,
    choices: Mapping[str, Sequence[str]],
    arguments: Sequence[str] | None = None,
    *,
    steps: int = 50_000,
    others: Mapping[str, Callable[[], str]] = MappingProxyType({}),
) -> None:
    """Run a command of a workload; user errors print one line and exit with code 1, or argparse's 2.

    Every field of the configuration becomes an option of ``train``, with its type, its default and a help text from the
    ``Attributes:`` of the class's docstring. Fields of nested dataclasses become options too.

    Args:
        agent: agent class of the workload.
        config: its configuration dataclass.
        choices: allowed values of fields that have a fixed set, by name.
        arguments: command line; defaults to that of this process.
        steps: default of ``--steps``, in the agent's unit.
        others: additional commands by name; each returns a text to print.
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
    """Build the argument parser; arguments as in :func:`main`."""
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
    """Parse comma-separated integers, as in ``32,32``."""
    return tuple(int(word) for word in text.split(","))


PARSERS: dict[Any, Callable[[str], Any]] = {int: int, float: float, str: str, tuple[int, ...]: integers}
METAVARS = {int: "N", float: "X", str: "NAME", tuple[int, ...]: "N,..."}


def compare(agent_class: type[Agent], config: type, options: argparse.Namespace) -> None:
    """Compare runs, see :func:`.runs.compare`."""
    runs.compare(options.runs, options.output)


def evaluate(agent_class: type[Agent], config: type, options: argparse.Namespace) -> None:
    """Evaluate a checkpoint; print mean and standard error of each figure over the episodes."""
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
