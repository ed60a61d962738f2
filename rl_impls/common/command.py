"""Command line of a workload (``train``, ``evaluate``, ``compare``), generated from its agent and configuration."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, get_origin

from . import runs, training
from .agent import Agent
from .checks import check_integer
from .config import choices_of, fields_of
from .pipes import quiet_pipe
from .signals import exit_code, interruptible
from .threads import configuration, described, use_threads
from .workers import WorkersEnded

EPISODES = 100  # default number of evaluation episodes
LARGE = ("capacity", "batch_size", "num_envs")  # fields that determine how much memory a training run needs
USER_ERRORS = ValueError, OverflowError, FloatingPointError, NotImplementedError, ImportError, WorkersEnded
PATHS = {"file": "file to read", "checkpoint": "new file to write"}  # arguments of further commands, for the help
EXTRAS = dict.fromkeys(("rich", "yaml", "tensorboard", "plotly"), "cli") | {"torch": "torch"}  # by package


def main(
    agent: type[Agent],
    arguments: Sequence[str] | None = None,
    *,
    steps: int = 50_000,
    others: Mapping[str, tuple[Callable[..., str], str]] = MappingProxyType({}),
) -> None:
    """Run a command of a workload; user errors print one line and exit with code 1, or argparse's 2.

    Every field of the agent's configuration is an option of ``train``.

    `arguments` are by default those of this process, and `steps` is the default of ``--steps``. `others` are further
    commands by name: a function that returns a text to print, and the command's help. A parameter with the name of a
    field becomes an option, None if it is not given; any other parameter is a path.
    """
    with quiet_pipe():
        options = parser(agent, steps, others).parse_args(arguments)
    try:
        with quiet_pipe(), interruptible():
            options.run(agent, options)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(str(error.name).partition(".")[0])
        install = f"; pip install 'rlgauge-workloads[{extra}]'" if extra else ""
        sys.exit(f"{options.command}: {error}{install}")
    except OSError as error:
        named = error.strerror and error.filename
        resumed = getattr(options, "resume", False) and error.filename != str(options.config)
        if isinstance(error, FileNotFoundError) and resumed:
            sys.exit(f"{options.command}: {error.filename} does not exist; leave out --resume to start a new run")
        sys.exit(f"{options.command}: {f'{error.filename}: {error.strerror}' if named else error}")
    except USER_ERRORS as error:
        sys.exit(f"{options.command}: {error}")
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        first = str(error).strip().partition("\n")[0] or "MemoryError"
        smaller = [f"--{name.replace('_', '-')}" for name in LARGE if hasattr(options, name)] or ["--episodes"]
        sys.exit(f"{options.command}: not enough memory ({first}); try a smaller {' or '.join(smaller)}")
    except KeyboardInterrupt as error:
        sys.exit(exit_code(error))


def out_of_memory(error: Exception) -> bool:
    """Return whether NumPy, torch or JAX could not allocate memory."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or any(
        text in words for text in ("out of memory", "can't allocate memory", "resource_exhausted")
    )


class CommandParser(argparse.ArgumentParser):
    """Parser of one command, which prints an error in one line without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse unknown arguments, and suggest an option that is similar to one of them."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            known = [*self._option_string_actions]
            similar = [name for word in rest for name in get_close_matches(word.partition("=")[0], known, 1)]
            hint = f"; did you mean {similar[0]}?" if similar else ""
            self.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
        return found, rest


def parser(
    agent: type[Agent], steps: int, others: Mapping[str, tuple[Callable[..., str], str]]
) -> argparse.ArgumentParser:
    """Build the argument parser; arguments as in :func:`main`."""
    made = argparse.ArgumentParser(
        prog=f"python -m {agent.__module__.rpartition('.')[0]}", description=agent.ABOUT, allow_abbrev=False
    )
    commands = made.add_subparsers(dest="command", required=True, parser_class=CommandParser)

    def add_command(name: str, about: str) -> argparse.ArgumentParser:
        described = f"{about[:1].upper()}{about[1:]}."
        return commands.add_parser(name, help=about, description=described, allow_abbrev=False)

    trains = add_command("train", "train an agent and save checkpoints")
    trains.set_defaults(run=training.train, default_steps=steps)
    trains.add_argument(
        "checkpoint", type=Path, nargs="?", help="file to write, or to resume from (default: one in --output-dir)"
    )
    config = "read options from this YAML file; it can set all but --output-dir and --resume"
    trains.add_argument("--config", type=Path, metavar="FILE", help=config)
    trains.add_argument(
        "--output-dir",
        type=Path,
        metavar="DIR",
        help="write the learning curve and, by default, the checkpoints to this folder",
    )
    trains.add_argument("--resume", action="store_true", help="resume from the checkpoint, or from --output-dir")
    until = trains.add_mutually_exclusive_group()
    until.add_argument(
        "--steps",
        type=int,
        metavar="N",
        help=f"train for at least N {agent.UNIT} (default: {steps})",
    )
    duration = "train for this time instead of --steps, for example 0.5, 30m or 90s"
    until.add_argument("--duration", metavar="HOURS", help=duration)
    episodes = "train until N episodes have ended, instead of --steps"
    until.add_argument("--episodes", type=int, metavar="N", help=episodes)
    trains.add_argument(
        "--save-every", metavar="HOURS", help=f"write a checkpoint at this interval (default: {training.SAVE_EVERY})"
    )
    trains.add_argument(
        "--keep", type=int, metavar="N", help="also keep the last N checkpoints, named by their step (default: none)"
    )
    trains.add_argument("--seed", type=int, metavar="N", help="set the seed of all random numbers (default: 0)")
    evaluates = add_command("evaluate", "play without learning, print the results and write them as JSON")
    evaluates.set_defaults(run=evaluate)
    which = evaluates.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "checkpoint", type=Path, nargs="?", help="checkpoint to load, or the --output-dir of a training run"
    )
    which.add_argument(
        "--checkpoint",
        type=Path,
        dest="path",
        metavar="PATH",
        help="load this checkpoint, like the positional argument",
    )
    evaluates.add_argument(
        "--episodes",
        "--num-episodes",
        type=int,
        default=EPISODES,
        metavar="N",
        help=f"play N episodes (default: {EPISODES})",
    )
    evaluates.add_argument("--seed", type=int, default=0, metavar="N", help="set the seed of the episodes (default: 0)")
    if agent.STOCHASTIC:
        evaluates.add_argument("--deterministic", action="store_true", help="take the most likely action")
    for command in (trains, evaluates):
        command.add_argument(
            "--threads",
            type=int,
            metavar="N",
            help="use N threads for torch or JAX, and N for the games (default: OMP_NUM_THREADS if set; else 1 if "
            "net and batch are small, and all cores if not)",
        )
        parallel = "run at most N torch operations in parallel (default: torch's own)"
        command.add_argument("--inter-op-threads", type=int, metavar="N", help=parallel)
    compares = add_command("compare", "print runs side by side and plot their returns")
    compares.set_defaults(run=lambda _, options: runs.compare(options.runs, options.output))
    compares.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="the --output-dir of a training run")
    page = Path("comparison.html")
    compares.add_argument(
        "--output", type=Path, default=page, metavar="FILE", help=f"write the page to this HTML file (default: {page})"
    )
    for name, field in fields_of(agent.Config).items():
        option, choices = f"--{name.replace('_', '-')}", choices_of(field)
        how: dict[str, Any] = {"choices": choices}
        if choices:
            how["type"] = partial(value_of, choices)
        else:
            how["type"], how["metavar"] = PARSERS[get_origin(field.annotation) or field.annotation]
        default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
        description = (field.description or "").replace("%", "%%")
        trains.add_argument(option, **how, help=f"{description} (default: {'empty' if default == '' else default})")
        if name in (*loaded(agent), *agent.EVALUATES):
            evaluates.add_argument(option, **how, help=f"{description} (default: the checkpoint's)")
    if "game" in agent.EVALUATES:
        games = choices_of(fields_of(agent.Config)["game"])
        evaluates.add_argument(
            "--env",
            type=game_of,
            choices=games,
            dest="game",
            metavar="ID",
            help="play the game with this Gym id, for example procgen-coinrun-v0",
        )
    for name, (text, about) in others.items():
        command = add_command(name, about)
        names, known = tuple(inspect.signature(text).parameters), fields_of(agent.Config)
        for word in names:
            if word in known:
                field = known[word]
                command.add_argument(f"--{word}", choices=choices_of(field), help=field.description)
            else:
                command.add_argument(word, type=Path, help=PATHS.get(word))
        command.set_defaults(
            run=lambda agent, options, text=text, names=names: print(text(*(getattr(options, name) for name in names)))
        )
    return made


def value_of(choices: Sequence[Any], text: str) -> Any:
    """Return the choice whose string is `text`; without one, return `text`, which argparse then refuses."""
    return next((value for value in choices if str(value) == text), text)


def game_of(text: str) -> str:
    """Return the game of a Gym id such as ``procgen-coinrun-v0``; other texts are returned unchanged."""
    return text.removeprefix("procgen-").removesuffix("-v0")


def integers(text: str) -> tuple[int, ...]:
    """Parse comma-separated integers, for example ``32,32``."""
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} should be integers, for example 32,32") from None


PARSERS: Mapping[Any, tuple[Callable[[str], Any], str]] = {
    int: (int, "N"),
    float: (float, "X"),
    str: (str, "NAME"),
    tuple: (integers, "N,..."),
}


def evaluate(agent_class: type[Agent], options: argparse.Namespace) -> None:
    """Evaluate a checkpoint; print and keep the mean and the standard error of each figure over the episodes."""
    check_integer("episodes", options.episodes, 1)
    check_integer("seed", options.seed, 0)
    path = options.checkpoint or options.path
    path = path / runs.CHECKPOINT if path.is_dir() else path
    fields = given(options, *loaded(agent_class))
    if "backend" in fields and "serve" in loaded(agent_class):
        fields.setdefault("serve", "same")  # act on that backend too
    acting = {"backend": agent_class.ACTS_ON} if agent_class.ACTS_ON else {}
    threads = use_threads(options, configuration(agent_class, fields | acting, path), options.episodes)
    agent = agent_class.load(path, **fields | acting)
    print(described(agent.config, threads), file=sys.stderr)
    more = given(options, *agent.EVALUATES) | ({"deterministic": options.deterministic} if agent.STOCHASTIC else {})
    try:
        if wrong := training.not_finite(agent):
            raise FloatingPointError(f"{path}, step {agent.step}: {wrong}; evaluate an earlier checkpoint")
        figures = agent.evaluate(options.episodes, options.seed, **more)
    finally:
        agent.close()
    width = max(map(len, figures))
    results = {}
    for name, values in figures.items():
        mean, count = float(values.mean()), len(values)
        error = float(values.std(ddof=1)) / count**0.5 if count > 1 else None  # standard error of the mean
        results[name] = {"mean": mean, "error": error}
        spread = f" +- {error:.2f}" if error is not None else ""
        print(f"{name:{width}s} {mean:8.2f}{spread}, n = {count} episode{'s' * (count > 1)}")
    about = {"step": agent.step, "episodes": options.episodes, "seed": options.seed, "config": asdict(agent.config)}
    print(runs.keep_evaluation(path, fields | more, about | {"figures": results}), file=sys.stderr)


def loaded(agent: type[Agent]) -> list[str]:
    """Return the fields of a checkpoint that ``evaluate`` can change."""
    names = ("form", "serve") if agent.ACTS_ON else ("backend", "form", "serve")
    return [name for name in names if name in agent.CHANGEABLE]


def given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the options of these names that the command line sets."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}
