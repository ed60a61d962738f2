"""The whole page as one self-contained HTML file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from perf_tests.report.order import Row
from perf_tests.report.results import COLUMNS, HOW, cells
from rlgauge.artifact import Artifact
from rlgauge.progress import number_of
from rlgauge.report import WORDS

from . import gated, limit, options, over_commits, phases, promised, recommended, scaling, threads
from .claims import Claims
from .facts import cautions, facts, machine, tiles
from .figures import Chapter, by
from .markup import table
from .runs import Run

HERE = Path(__file__).parent
BACKENDS = (
    "torch", "jax", "numpy", "torch-compile", "onnx", "torch-trace", "neuron", "torch-cuda", "torch-compile-cuda",
    "jax-cuda",
)  # fmt: skip
MISSING: Mapping[str, tuple[str, str]] = {  # what a chapter shows, and how to get it
    "scaling": ("benchmarks", "<code>make bench</code> times them"),
    "limit": ("shares of the machine's limit", "<code>make bench</code> measures them"),
    "options": ("forms with one optimisation", "<code>make bench</code> times those that a workload has"),
    "phases": ("phases of loops", "<code>make bench</code> times those that a workload has"),
    "threads": ("runs with other thread counts", "<code>make bench-threads</code> makes them"),
    "claims": ("claims", "<code>make claims</code> measures them"),
    "gate": ("gate verdicts", "<code>make gate BASE=main</code> measures them"),
    "history": ("measured commits", "<code>make history SINCE=REV</code> measures them"),
}


def chapters(
    runs: Sequence[Run],
    claims: Claims | None,
    artifact: Artifact | None,
    history: Sequence[over_commits.Case] | None,
) -> list[Chapter]:
    """Return all chapters; the first of ``runs`` is the one shown, the others differ in their number of threads."""
    rows = runs[0].rows
    of_rows = [module.chapter(rows) for module in (scaling, limit, options, phases)]
    others = [threads.chapter(runs), promised.chapter(claims), gated.chapter(artifact)]
    return [*of_rows, *others, over_commits.chapter(history)]


def section(chapter: Chapter) -> str:
    """Return a chapter as HTML, with an empty plot that the page's script fills.

    A section with the class ``absent`` shows only one line: the missing data, and the command that measures it.
    """
    what, how = MISSING[chapter.name]
    head = f'<h2>{escape(chapter.title)}</h2><p class="missing">No {what}<span></span> here; {how}.</p>'
    if not chapter.figures:
        absent = "" if chapter.html else ' class="absent"'
        return f'<section id="{chapter.name}"{absent}>{head}{chapter.html}</section>'
    return (
        f'<section id="{chapter.name}">{head}<p>{escape(chapter.lead)}</p>'
        f'<div class="controls" data-controls="{chapter.name}"></div>'
        f'<div class="plot" data-plot="{chapter.name}" role="img" aria-label="{escape(chapter.title)}"></div>'
        f'<ul class="words" data-words="{chapter.name}"></ul>'
        f'<details data-table="{chapter.name}"><summary>The data of this plot</summary></details>'
        f"{chapter.html}</section>"
    )


def every(rows: Sequence[Row]) -> str:
    """Return folded tables of all benchmarks, one per workload, op by op."""
    folded = []
    for (workload,), found in by(rows, "workload").items():
        name, count = escape(workload), number_of(len(found), "benchmark")
        lines = [[f"{workload}.{op}", *cells(row)] for (op,), group in by(found, "op").items() for row in group]
        folded.append(
            f'<details data-workload="{name}"><summary>{name}: {count}</summary>'
            f"{table(['op', *COLUMNS], lines)}</details>"
        )
    return "".join(folded)


def embedded(data: object) -> str:
    """Return data as JSON that is safe inside a ``<script>`` element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def colors(rows: Sequence[Row]) -> dict[str, int]:
    """Return the colour number of each backend: fixed for this suite's backends, the free ones for others."""
    present = list(dict.fromkeys(row["backend"] for row in rows))
    ours = {name: BACKENDS.index(name) for name in present if name in BACKENDS}
    free = [number for number in range(len(BACKENDS)) if number not in ours.values()] or [0]
    others = [name for name in present if name not in ours]
    found = ours | {name: free[k % len(free)] for k, name in enumerate(others)}
    return {name: found[name] for name in [*filter(ours.__contains__, BACKENDS), *others]}


def plotly() -> str:
    """Return plotly's script and licence.

    The wrapper for module loaders is removed where it is found, because it makes browsers parse the script twice.
    """
    text = (files("plotly") / "package_data" / "plotly.min.js").read_text()
    licence, start, end = text.find("*/") + 2, text.find('"use strict";var Plotly='), text.rfind("return Plotly;")
    return text if start < licence or end < start else f"{text[:licence]}\n{text[start:end]}"


def page(
    runs: Sequence[Run],
    claims: Claims | None = None,
    artifact: Artifact | None = None,
    history: Sequence[over_commits.Case] | None = None,
) -> str:
    """Return the page as HTML; see :func:`chapters` for the runs."""
    run, found = runs[0], chapters(runs, claims, artifact, history)
    timed = {name: len(rows) for (name,), rows in by(run.rows, "workload").items()}
    data = {
        "workloads": {figure.workload: timed.get(figure.workload, 0) for one in found for figure in one.figures},
        "backends": colors([row for one in runs for row in one.rows]),
        "chapters": {
            one.name: {"choices": list(one.choices), "figures": [figure.data() for figure in one.figures]}
            for one in found
        },
    }
    links = "".join(f'<a href="#{one.name}">{escape(one.title)}</a>' for one in found if one.figures or one.html)
    warned = cautions(run, runs[1:], claims)
    counted = tiles(run.rows, {**verdicts(claims), **outcome(artifact)})
    return Template((HERE / "page.html").read_text()).substitute(
        title=escape(f"rlgauge: {run.commit}, {run.result.datetime[:10]}"),
        style=(HERE / "page.css").read_text(),
        links=f'{links}<a href="#every">All benchmarks</a>',
        tiles="".join(f"<div><b>{escape(count)}</b> {escape(name)}</div>" for name, count in counted.items()),
        facts="".join(f"<dt>{escape(name)}</dt><dd>{escape(one)}</dd>" for name, one in facts(run).items()),
        subtitle=escape(f"{machine(run)} · commit {run.commit} · {run.result.datetime[:10]}"),
        recommended=recommended.section(run.rows),
        cautions="".join(f"<li>{escape(words)}</li>" for words in warned),
        sections="".join(map(section, found)),
        legend=escape(HOW),
        every=every(run.rows),
        data=embedded(data),
        plotly=plotly(),
        script="".join((HERE / name).read_text() for name in ("plots.js", "page.js")),
    )


def verdicts(claims: Claims | None) -> dict[str, str]:
    """Return the headline count of comparisons whose promised ratio holds; empty without claims."""
    if claims is None:
        return {}
    promised = [claim for claim in claims.claims if claim.least is not None]
    found = [context.verdict for claim in promised for context in claim.contexts]
    judged = [verdict for verdict in found if verdict in ("holds", "partly", "not met", "refuted", "unclear")]
    return {"promised ratios hold": f"{judged.count('holds')} of {len(judged)}"}


def outcome(artifact: Artifact | None) -> dict[str, str]:
    """Return the headline outcome of the gate; empty without a gate run."""
    return {} if artifact is None else {"gate result": WORDS[artifact.decide().code]}
