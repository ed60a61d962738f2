"""The ledger as Markdown, and as lines for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rlgauge.machine import called

from ..report.table import duration, factor, joined, quantity
from .ledger import SLOWDOWN, VERSION, WORDS

Row = Mapping[str, Any]
OLDER = "These results are older: some comparisons and the rules for some verdicts have changed since."
VERBS = {  # of one comparison, and of several
    "holds": ("holds", "hold"), "partly": ("holds partly", "hold partly"), "not met": ("is not met", "are not met"),
    "refuted": ("is refuted", "are refuted"), "measured": ("is measured", "are measured"),
    "unclear": ("is unclear", "are unclear"), "error": ("failed", "failed"),
}  # fmt: skip
HEAD = "| claim | promised | context | ratio | verdict |\n| --- | --- | --- | ---: | --- |"


def cell(text: str) -> str:
    """Escape the pipes in the text of a table cell."""
    return text.replace("|", "\\|")


def verdict_words(context: Mapping[str, Any]) -> str:
    """Return a verdict, with a reason if the ratio alone does not explain it."""
    older = "different output" if context["verdict"] == "refuted" and context["same_holds"] is False else ""
    why = context.get("why", older)
    return f"{context['verdict']}: {why}" if why else str(context["verdict"])


def ratio_words(context: Mapping[str, Any]) -> str:
    """Return a ratio with its interval, for example ``2.07 (1.89-2.20), n = 6``; ``~`` marks a wide interval."""
    if context["ratio"] is None:
        return "-"
    low, high = factor(context["low"]), factor(context["high"])
    return f"{'~' * context['wide']}{factor(context['ratio'])} ({low}-{high}), n = {context['n']}"


def figure_words(figure: Mapping[str, Any]) -> str:
    """Return our value of a figure next to the published one."""
    if figure["ours"] is None:
        ours = f"needs {figure['needs']}" if figure.get("needs") else "not measured"
    elif figure["unit"] == "s":
        ours = f"{duration(figure['ours'])} here"
    elif figure["unit"] == "bytes":
        ours = f"{quantity(figure['ours'], ' ')}B here"
    else:
        ours = f"{quantity(figure['ours'])} {figure['unit']} here"
    return f"{figure['what']}: {ours}, {figure['theirs']} there"


def lines_of(rows: Sequence[Row]) -> list[str]:
    """Return one line per comparison and figure, for a terminal."""
    lines = []
    for row in rows:
        for context in row["contexts"]:
            why = f" ({context['error']})" if context.get("error") else ""
            said = f"{row['id']} [{context['context']}]: {verdict_words(context)}, {ratio_words(context)}{why}"
            lines.append(f"{said}; promised {row['promised']}")
        lines += [f"{row['id']}: {figure_words(figure)}" for figure in row["figures"]]
    return lines


def table(rows: Sequence[Row]) -> str:
    """Return the comparisons as a Markdown table, one row per context."""
    lines = [HEAD]
    for row in rows:
        for number, context in enumerate(row["contexts"]):
            name, promised = (f"`{row['id']}`", row["promised"]) if number == 0 else ("", "")
            cells = (name, promised, context["context"], ratio_words(context), verdict_words(context))
            lines.append(f"| {' | '.join(map(cell, cells))} |")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """Return the number of comparisons with each verdict, in sentences."""
    promised, others, absent = Counter[str](), Counter[str](), 0
    for row in rows:
        for context in row["contexts"]:
            if context["verdict"].startswith("needs"):
                absent += 1
            else:
                (others if row["least"] is None else promised)[context["verdict"]] += 1
    sentences = []
    if promised:
        sentences.append(f"Of {promised.total()} comparisons with a promised ratio, {counted(promised)}.")
    if others:
        sentences.append(f"Of {others.total()} others, {counted(others)}.")
    if absent:
        sentences.append(f"Other hardware or packages are needed for {absent} more.")
    return " ".join(sentences)


def counted(words: Counter[str]) -> str:
    """Return the count of each verdict in words."""
    return joined([f"{words[word]} {VERBS[word][words[word] > 1]}" for word in VERBS if words[word]], "and")


def page(ledger: Mapping[str, Any]) -> str:
    """Return the whole ledger as a Markdown page."""
    machine, older = ledger["machine"], ledger["version"] < VERSION
    processes = "pairs of fresh processes" if ledger["version"] > 1 else "fresh processes"
    parts = [
        "# Published claims, measured",
        f"{called(machine)}, {machine['cores']} cores, {ledger['threads']} threads, {ledger['date'][:10]}, commit "
        f"{ledger['commit']}{' with uncommitted changes' if ledger['dirty'] else ''}. Made by `make claims`.",
        summary(ledger["claims"]),
        *([OLDER] if older else []),
        "A ratio says how many times as fast the changed version is. For other measures, such as memory, it is the "
        f"value without the change divided by the value with it. It is the median over {processes}, with its 95% "
        "interval. `alone` adds the change to the naive version, and `from full` removes it from the full version. "
        "`~` marks an interval that extends more than 10% from the median.",
        "Let [l, u] be the interval, and a the lower end of the promise. The verdicts are:",
        "\n".join(f"- **{word}**: {meaning}." for word, meaning in WORDS.items()),
        SLOWDOWN,
        "The documents that the claims come from, such as `snake-dqn.md`, are engineering notes. They are not public.",
    ]
    for workload in dict.fromkeys(row["workload"] for row in ledger["claims"]):
        rows = [row for row in ledger["claims"] if row["workload"] == workload]
        parts += [f"## {workload}", table(rows)]
        notes = []
        for row in rows:
            figures = "".join(f"\n  - {figure_words(figure)}" for figure in row["figures"])
            notes.append(f"- `{row['id']}`: {row['words']} ({row['source']}). {row['note']}".rstrip() + figures)
        parts.append("\n".join(notes))
    return "\n\n".join(parts) + "\n"
