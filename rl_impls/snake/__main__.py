"""``python -m rl_impls.snake train|evaluate``: train a DQN, save it, and see how well it plays."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from pathlib import Path

from ..backends import NAMES, BackendUnavailable
from ..params import CheckpointError
from .agent import Config, SnakeAgent
from .knobs import FORMS

EVALUATION = 100  # episodes


def parse(arguments):
    """Return the command line as a namespace."""
    parser = argparse.ArgumentParser(prog="python -m rl_impls.snake", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train and save a checkpoint")
    train.add_argument("checkpoint", type=Path, help="file to write, and with --resume to go on from")
    train.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    train.add_argument("--steps", type=int, default=50_000, help="environment steps, rounded up to whole chunks")
    train.add_argument("--backend", choices=NAMES, help="auto: the best device found")
    train.add_argument("--form", choices=FORMS, help="named setting of the knobs")
    train.add_argument("--seed", type=int, help="of everything that is random")
    train.add_argument("--threads", type=int, help="of one torch operation")
    train.add_argument("--inter-op-threads", type=int, help="of torch operations side by side")
    for name in ("envs", "every", "batch", "hidden", "capacity", "warm-up", "target-every", "max-steps"):
        train.add_argument(f"--{name}", type=int, help=f"default {getattr(Config(), name.replace('-', '_'))}")
    for name in ("learning-rate", "gamma"):
        train.add_argument(f"--{name}", type=float, help=f"default {getattr(Config(), name.replace('-', '_'))}")
    evaluate = commands.add_parser("evaluate", help="play greedily and print how well")
    evaluate.add_argument("checkpoint", type=Path)
    evaluate.add_argument("--episodes", type=int, default=EVALUATION)
    evaluate.add_argument("--seed", type=int, default=0)
    evaluate.add_argument("--backend", choices=NAMES, help="auto: the best device found")
    return parser.parse_args(arguments)


def given(options, *left_out):
    """Return those options that were given, by name."""
    return {name: value for name, value in vars(options).items() if value is not None and name not in left_out}


def train(options):
    """Train with a progress bar; write the checkpoint at the end, or after the chunk in which Ctrl-C came."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    set_threads(options)
    if options.steps < 1:
        raise ValueError(f"steps: got {options.steps}, wanted 1 or more")
    if not options.checkpoint.parent.is_dir():
        raise ValueError(f"checkpoint: got {options.checkpoint}, wanted a file in a folder that exists")
    config = given(options, "command", "checkpoint", "resume", "steps", "threads", "inter_op_threads")
    agent = SnakeAgent.load(options.checkpoint, **config) if options.resume else SnakeAgent(**({"seed": 0} | config))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    stop = agent.step + options.steps
    try:
        with interruption() as interrupted, Progress(*columns) as progress:
            print(f"training from step {agent.step} to {stop}", flush=True)
            task = progress.add_task("training", total=stop, completed=agent.step)
            while agent.step < stop and not interrupted:
                seen = agent.learn()
                rate = seen["foods"] / max(1, seen["episodes"])
                text = f"{rate:5.2f} foods an episode, loss {seen['loss']:.4f}"
                progress.update(task, completed=min(agent.step, stop), description=text)
        agent.save(options.checkpoint)
    finally:
        agent.close()
    print(f"{options.checkpoint}: {agent.step} environment steps")
    if interrupted:
        sys.exit(130)


@contextlib.contextmanager
def interruption():
    """Yield a list that Ctrl-C fills, so that training ends between two chunks and is saved."""
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def set_threads(options):
    """Give torch its threads; torch takes the inter-op number once, before its first parallel work."""
    for name, function in (("threads", "set_num_threads"), ("inter_op_threads", "set_num_interop_threads")):
        count = getattr(options, name)
        if count is not None and count < 1:
            raise ValueError(f"{name}: got {count}, wanted 1 or more")
        if count is not None:
            import torch

            getattr(torch, function)(count)


def evaluate(options):
    """Print foods, return and length, mean and standard error over the episodes."""
    agent = SnakeAgent.load(options.checkpoint, **given(options, "command", "checkpoint", "episodes", "seed"))
    try:
        played = agent.evaluate(options.episodes, options.seed)
    finally:
        agent.close()
    for name, values in played.items():
        print(f"{name:8s} {values.mean():8.2f} +- {values.std() / len(values) ** 0.5:.2f}, n = {len(values)} episodes")


def main(arguments=None):
    """Run a command; a mistake in it is one line."""
    options = parse(arguments)
    try:
        {"train": train, "evaluate": evaluate}[options.command](options)
    except (ValueError, CheckpointError, BackendUnavailable, OSError) as error:
        sys.exit(f"{options.command}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
