"""The folder of a training run (checkpoint, curve, summary), and the comparison of several runs."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import multiprocessing
import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from .files import write_whole

CHECKPOINT, CURVE, SUMMARY = "agent.safetensors", "curve.csv", "run.json"  # file names in the folder of a run
PACKAGES = ("numpy", "torch", "jax", "optax", "gymnasium", "procgen-mirror")
SMOOTHED = 20  # points in the running mean of a plotted curve


def peak_memory() -> float:
    """Return the peak memory of this process and its children in bytes; shared memory counts in each of them."""
    total = 0
    for process in (os.getpid(), *(child.pid for child in multiprocessing.active_children())):
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:  # the process has ended meanwhile
            continue
        total += 1024 * int(status.partition("VmHWM:")[2].split()[0])
    return float(total)


class Recorder:
    """Record the curve of a training in a folder, as CSV and for TensorBoard; a folder of None records nothing.

    Points after `step`, from a training that was not saved, are dropped.
    """

    def __init__(self, folder: Path | None, step: int) -> None:
        self.file: TextIO | None = None
        if folder is None:
            return
        from tensorboard.summary import Writer

        folder.mkdir(parents=True, exist_ok=True)
        before = [point for point in points(folder) if point["step"] <= step] if step else []
        self.seconds = before[-1]["seconds"] if before else 0.0
        self.names = [name for name in before[0] if name not in ("step", "seconds")] if before else None
        self.file = (folder / CURVE).open("w", newline="")
        self.writer = csv.writer(self.file)
        self.board = Writer(str(folder))
        if before:
            self.writer.writerow(before[0])
            self.writer.writerows(point.values() for point in before)
            self.file.flush()

    def add(self, step: int, seconds: float, figures: Mapping[str, float]) -> None:
        """Append one point; `seconds` count from the start or resumption of the training."""
        if self.file is None:
            return
        if self.names is None:
            self.names = list(figures)
            self.writer.writerow(["step", "seconds", *self.names])
        self.writer.writerow([step, f"{self.seconds + seconds:.3f}", *(figures[name] for name in self.names)])
        self.file.flush()
        for name, value in figures.items():
            if not math.isnan(value):
                self.board.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close the files."""
        if self.file is not None:
            self.file.close()
            self.board.close()


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


def points(folder: Path) -> list[dict[str, float]]:
    """Return the curve of a run, one dict of figures per point; empty if there is no curve.

    An incomplete last line, left when the training was killed, is ignored.
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
        raise ValueError(f"{folder} is not the --output-dir of a training ({error})") from None
    return found


def smoothed(values: Sequence[float]) -> list[float]:
    """Return the running mean over at most ``SMOOTHED`` values, ignoring NaNs."""
    found = []
    for k in range(len(values)):
        window = [value for value in values[max(0, k + 1 - SMOOTHED) : k + 1] if not math.isnan(value)]
        found.append(sum(window) / len(window) if window else math.nan)
    return found


def compare(folders: Sequence[Path], output: Path) -> None:
    """Print a table of runs, and plot their returns against steps and time into the HTML file `output`."""
    from rich.console import Console
    from rich.table import Table

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
        "steps a second": lambda run, curve: f"{run['rate']:,.0f}" if "rate" in run else "-",
        "peak memory, MB": lambda run, curve: f"{run['peak_memory'] / 1e6:,.0f}" if "rate" in run else "-",
        f"return, last {SMOOTHED} points": lambda run, curve: f"{smoothed(column(curve, 'return'))[-1]:.2f}".replace(
            "nan", "-"
        ),
    }
    for name, value in shown.items():
        table.add_row(name, *(value(run, curve) if curve else "-" for run, curve in runs.values()))
    Console().print(table)
    draw({name: curve for name, (_, curve) in runs.items()}, output)
    print(f"picture: {output}")


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
