"""The ledger as a file, as tables and as pages."""

from __future__ import annotations

import json
from pathlib import Path

from perf_tests.claims import pages, table

from .toy import row


def test_the_table_says_ratio_interval_n_and_word():
    assert "| `snake-overall` | 2 x | alone | ~1.50 (1.40-1.70), n = 6 | partly |" in table.table([row()])
    (other,) = row(verdict="refuted")["contexts"]
    assert table.verdict_words(other | {"same_holds": False}) == "refuted: another answer"
    assert table.verdict_words(other | {"same_holds": None}) == "refuted"
    needs = row(verdict="needs CUDA", ratio=None)
    assert table.ratio_words(needs["contexts"][0]) == "-"
    assert table.summary([row(), needs]) == (
        "Of 1 comparisons with a published figure 1 hold partly. 1 more need hardware that is not here."
    )


def test_what_a_ledger_says_stands_in_cells_and_words():
    assert "| a \\| b |" in table.table([row() | {"promised": "a | b"}])
    two = row() | {"contexts": row()["contexts"] * 2}
    assert [line.split(" | ")[0] for line in table.table([two]).splitlines()[2:]] == ["| `snake-overall`", "| "]
    figure = {"what": "rate", "unit": "bytes", "theirs": "9 GB", "ours": None}
    assert table.figure_words(figure | {"needs": "CUDA"}) == "rate: needs CUDA, 9 GB there"
    assert table.figure_words(figure) == "rate: not measured, 9 GB there"
    about = {"commit": "abc", "date": "2026-11-23", "machine": {"cpu_model": "a CPU", "cores": 2}, "threads": 2}
    both = [table.page({**about, "version": 1 + dirty, "dirty": dirty, "claims": [row()]}) for dirty in (False, True)]
    assert ["commit abc with changes." in text for text in both] == [False, True]
    assert ["An older ledger: " in text for text in both] == [True, False]


def test_the_kept_pages_are_those_of_the_kept_ledgers_of_which_the_readme_shows_one():
    root = Path(pages.__file__).parents[2]
    readme, shown = (root / "README.md").read_text(), []
    for path in root.glob("results/*-claims.json"):
        kept = json.loads(path.read_text())
        assert path.with_suffix(".md").read_text() == table.page(kept)
        shown.append(pages.front(kept, path.stem.removesuffix("-claims")) in readme)
    assert shown.count(True) == 1


def test_a_wide_ratio_alone_has_a_mark_and_a_figure_its_unit():
    (context,) = row()["contexts"]
    assert table.ratio_words(context | {"wide": False}) == "1.50 (1.40-1.70), n = 6"
    figure = {"what": "rate", "theirs": "9 GB"}
    assert table.figure_words(figure | {"unit": "s", "ours": 0.0123}) == "rate: 12.3 ms here, 9 GB there"
    assert table.figure_words(figure | {"unit": "moves/s", "ours": 12_345}) == "rate: 12.3k moves/s here, 9 GB there"


def test_a_terminal_gets_a_line_for_each_comparison_and_figure():
    failed = row("snake-gpu", "error", None)
    failed["contexts"][0]["error"] = "E: no"
    figure = {"what": "rate", "unit": "s", "theirs": "9 s", "ours": 2.0}
    assert table.lines_of([row() | {"figures": [figure]}, failed]) == [
        "snake-overall [alone]: partly, ~1.50 (1.40-1.70), n = 6; promised 2 x",
        "snake-overall: rate: 2 s here, 9 s there",
        "snake-gpu [alone]: error, - (E: no); promised 2 x",
    ]


def test_the_summary_counts_what_was_promised_most_first_and_the_rest_apart():
    rows = [row(verdict=word) for word in ("holds", "partly", "refuted", "partly", "unclear", "needs CUDA", "error")]
    rows += [
        row(verdict=word) | {"least": None} for word in ("measured", "measured", "unclear", "refuted", "needs CUDA")
    ]
    assert table.summary(rows) == (
        "Of 6 comparisons with a published figure 2 hold partly, 1 hold, 1 are refuted, 1 are unclear, 1 error. "
        "Of 4 without one 2 are measured, 1 are unclear, 1 are refuted. 2 more need hardware that is not here."
    )
    assert table.summary(rows[:1]) == "Of 1 comparisons with a published figure 1 hold."


def test_the_front_has_what_was_promised_and_measured_and_says_where_the_rest_is():
    rows = [row(), row("snake-gpu", "needs CUDA", None), row("snake-more") | {"least": None}]
    text = pages.front({"claims": rows}, "a-cpu")
    assert text.startswith(
        f"{table.summary(rows)} [All of them, with what each says and where](results/a-cpu-claims.md)."
    )
    assert [name for name in ("snake-overall", "snake-gpu", "snake-more") if f"`{name}`" in text] == ["snake-overall"]
