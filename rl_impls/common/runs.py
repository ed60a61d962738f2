"""The folder of a training run (checkpoints, curve, summary, evaluations), and the comparison of several runs."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import multiprocessing
import os
import platform
import statistics
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from ..params import read_metadata
from .files import copy_whole, write_whole

CHECKPOINT, CURVE, SUMMARY = "agent.safetensors", "curve.csv", "run.json"  # file names in the folder of a run
BEST = "best.safetensors"  # checkpoint with the highest mean return
EVALUATION = "evaluation-"  # prefix of the results of evaluations
PACKAGES = ("numpy", "torch", "jax", "optax", "gymnasium", "procgen-mirror")
SMOOTHED = 20  # points in the running mean of returns


def memory(kind: str = "VmRSS") -> int:
    """Return the resident memory of this process and its children in bytes, or with ``VmHWM`` its peak.

    Shared memory counts in each process.
    """
    total = 0
    for process in (os.getpid(), *(child.pid for child in multiprocessing.active_children())):
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:  # the process has ended meanwhile
            continue
        words = status.partition(f"{kind}:")[2].split()  # none for a process that is ending
        total += 1024 * int(words[0]) if words else 0
    return total


class Recorder:
    """Record a learning curve in a folder, as CSV and for TensorBoard; if the folder is None, record nothing.

    The CSV drops points after `step`, at which training resumes, when the first new point is added.
    """

    def __init__(self, folder: Path | None, step: int) -> None:
        self.folder, self.last = folder, (step, 0.0)
        self.file: TextIO | None = None
        if folder is None:
            return
        from tensorboard.summary import Writer

        folder.mkdir(parents=True, exist_ok=True)
        self.before = [point for point in points(folder) if point["step"] <= step] if step else []
        self.earlier = self.before[-1]["seconds"] if self.before else 0.0
        self.board = Writer(str(folder))
        self.returns = deque(column(self.before, "return"), SMOOTHED)
        self.best = best_return(folder, self.before)

    def add(self, step: int, seconds: float, figures: Mapping[str, float]) -> None:
        """Append one point; `seconds` count from the start or resumption of training.

        ``fps``, the steps per second since the last point, and ``memory``, see :func:`memory`, are added.
        """
        if self.folder is None:
            return
        fps = (step - self.last[0]) / max(seconds - self.last[1], 1e-9)
        self.last = step, seconds
        figures = {"seconds": round(self.earlier + seconds, 3), "fps": round(fps, 1), "memory": memory(), **figures}
        if self.file is None:
            self.file = self.begin(self.folder, figures)
        self.writer.writerow({"step": step, **figures})
        self.file.flush()
        self.returns.append(figures.get("return", math.nan))
        for name, value in figures.items():
            if not math.isnan(value):
                self.board.add_scalar(name, value, step)

    def begin(self, folder: Path, names: Iterable[str]) -> TextIO:
        """Write the earlier points atomically, with NaN for figures that they lack; return the file to append to."""
        fields, earlier = ["step", *names], io.StringIO(newline="")
        writer = csv.DictWriter(earlier, fields, math.nan, "ignore")
        writer.writeheader()
        writer.writerows(self.before)
        write_whole(folder / CURVE, earlier.getvalue().encode())
        self.before = []
        file = (folder / CURVE).open("a", newline="")
        self.writer = csv.DictWriter(file, fields, math.nan, "ignore")
        return file

    def keep_best(self, checkpoint: Path) -> None:
        """Copy a checkpoint to ``BEST`` if its mean return, over the last points, is the highest of all so far."""
        if self.folder is not None and (now := mean_return(self.returns)) > self.best:
            copy_whole(checkpoint, self.folder / BEST)
            self.best = now

    def close(self) -> None:
        """Flush and close the files."""
        if self.file is not None:
            self.file.close()
        if self.folder is not None:
            self.board.close()


def best_return(folder: Path, curve: Sequence[Mapping[str, float]]) -> float:
    """Return the mean return of the best checkpoint of a run, computed from its curve."""
    if not curve or not (folder / BEST).exists():
        return -math.inf
    step = int(read_metadata(folder / BEST)["step"])
    return mean_return(column([point for point in curve if point["step"] <= step], "return")[-SMOOTHED:])


def mean_return(returns: Iterable[float]) -> float:
    """Return the mean without NaNs; minus infinity if nothing is left."""
    known = [value for value in returns if not math.isnan(value)]
    return statistics.fmean(known) if known else -math.inf


def keep_summary(folder: Path, config: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    """Write the summary of a run: its configuration and its figures so far."""
    write_whole(folder / SUMMARY, json.dumps({"config": config, **figures}, indent=2).encode() + b"\n")


def provenance() -> dict[str, Any]:
    """Return the git commit of this package, None outside a repository, and the versions of Python and packages."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {"commit": commit(Path(__file__)), "versions": versions}


def commit(file: Path) -> str | None:
    """Return the commit of the repository that tracks `file`, with ``+dirty`` if the working tree differs.

    Returns None for an untracked file, such as one in ``site-packages``.
    """

    def git(*words: str) -> str:
        command = ["git", "-C", str(file.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", file.name)
        return git("describe", "--always", "--abbrev=40", "--dirty=+dirty", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return None


def keep_evaluation(checkpoint: Path, options: Mapping[str, Any], about: Mapping[str, Any]) -> Path:
    """Write the result of an evaluation beside its checkpoint; return its path.

    Each checkpoint and each set of `options` has its own file; a repeated evaluation replaces it.
    """
    words = [name if value is True else f"{name}={value}" for name, value in options.items() if value is not False]
    stem = checkpoint.name.removesuffix(".safetensors")  # other suffixes may be part of a name: lr0.01, lr0.001
    path = checkpoint.with_name(f"{EVALUATION}{'-'.join([stem, *words])}.json")
    write_whole(path, json.dumps({"checkpoint": checkpoint.name, **options, **about}, indent=2).encode() + b"\n")
    return path


def points(folder: Path) -> list[dict[str, float]]:
    """Return the curve of a run, one dict of figures per point; empty if there is no curve.

    An incomplete last line, left when training was killed, is ignored.
    """
    path = folder / CURVE
    if not path.exists():
        return []
    whole = path.read_bytes().rpartition(b"\n")[0].decode().splitlines()
    return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(whole)]


def summary(folder: Path) -> dict[str, Any]:
    """Read what :func:`keep_summary` wrote; raise ValueError if `folder` holds no run."""
    try:
        found: dict[str, Any] = json.loads((folder / SUMMARY).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} is not the --output-dir of a training run ({error}); name another") from None
    return found


def smoothed(values: Sequence[float]) -> list[float]:
    """Return the running mean over at most ``SMOOTHED`` values, ignoring NaNs."""
    found = []
    for k in range(len(values)):
        window = [value for value in values[max(0, k + 1 - SMOOTHED) : k + 1] if not math.isnan(value)]
        found.append(sum(window) / len(window) if window else math.nan)
    return found


def compare(folders: Sequence[Path], output: Path) -> None:
    """Print a table of runs and their evaluations; plot returns against steps and time into the HTML file `output`."""
    from rich.console import Console
    from rich.table import Table

    folders = list(dict.fromkeys(folders))
    runs = {str(folder): (summary(folder), points(folder)) for folder in folders}
    differing = sorted(
        name
        for name in {name for run, _ in runs.values() for name in run["config"]}
        if len({repr(run["config"].get(name)) for run, _ in runs.values()}) > 1
    )
    table = Table("", *runs.keys())
    for name in differing:
        table.add_row(name, *(str(run["config"].get(name, "-")) for run, _ in runs.values()))
    shown: dict[str, Callable[[Any, Any], str]] = {
        "steps": lambda run, curve: f"{curve[-1]['step']:,.0f}",
        "seconds": lambda run, curve: f"{curve[-1]['seconds']:,.0f}",
        "steps per second": lambda run, curve: f"{run['rate']:,.0f}" if "rate" in run else "-",
        "peak memory, MB": lambda run, curve: f"{run['peak_memory'] / 1e6:,.0f}" if "rate" in run else "-",
        f"return, last {SMOOTHED} points": lambda run, curve: f"{smoothed(column(curve, 'return'))[-1]:.2f}".replace(
            "nan", "-"
        ),
    }
    for name, value in shown.items():
        table.add_row(name, *(value(run, curve) if curve else "-" for run, curve in runs.values()))
    evaluated = [evaluation_rows(folder) for folder in folders]
    for name in dict.fromkeys(name for rows in evaluated for name in rows):
        table.add_row(name, *(rows.get(name, "-") for rows in evaluated))
    Console(markup=False, emoji=False).print(table)  # a folder may be named run[lr=0.01]
    draw({name: curve for name, (_, curve) in runs.items()}, output)
    print(f"plot: {output}")


def evaluation_rows(folder: Path) -> dict[str, str]:
    """Return the evaluations of a run as rows of the table: the step of each, and figures with standard errors."""
    rows = {}
    for path in sorted(folder.glob(f"{EVALUATION}*.json")):
        found, what = json.loads(path.read_text()), path.stem.removeprefix(EVALUATION)
        rows[f"{what}: step"] = f"{found['step']:,.0f}"
        for name, figure in found["figures"].items():
            error = "" if figure["error"] is None else f" +- {figure['error']:.2f}"  # None for one episode
            rows[f"{what}: {name}"] = f"{figure['mean']:.2f}{error}"
    return rows


def column(curve: Sequence[Mapping[str, float]], name: str) -> list[float]:
    """Return one figure of all points of a curve, NaN where it is missing."""
    return [point.get(name, math.nan) for point in curve]


def draw(curves: Mapping[str, Sequence[Mapping[str, float]]], output: Path) -> None:
    """Write a self-contained HTML plot of returns against steps and against time."""
    from plotly.colors import qualitative
    from plotly.graph_objects import Scatter
    from plotly.subplots import make_subplots

    picture = make_subplots(cols=2, subplot_titles=("return by steps", "return by seconds"), shared_yaxes=True)
    for k, (name, curve) in enumerate(curves.items()):
        colour = qualitative.Plotly[k % len(qualitative.Plotly)]
        for col, axis in enumerate(("step", "seconds"), 1):
            line = Scatter(
                x=column(curve, axis), y=smoothed(column(curve, "return")), name=name, legendgroup=name,
                line_color=colour, showlegend=col == 1,
            )  # fmt: skip
            picture.add_trace(line, row=1, col=col)
    write_whole(output, picture.to_html(include_plotlyjs=True).encode())
