"""The ledger as a file, as tables and as pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf_tests.claims import pages, table
from perf_tests.suite.claim import ClaimsError

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
    pages_of = [table.page({**about, "dirty": dirty, "claims": [row()]}) for dirty in (False, True)]
    assert ["commit abc with changes." in text for text in pages_of] == [False, True]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": "other"}', '{"format": "rlgauge-claims", "version": 99}', "\x00"]
)
def test_a_ledger_that_is_none_is_refused(tmp_path, text):
    path = tmp_path / "claims.json"
    path.write_text(text)
    with pytest.raises(ClaimsError, match=r"claims\.json"):
        pages.read(path)


LEDGER = {
    "format": "rlgauge-claims", "version": 1, "commit": "abc", "dirty": False, "date": "2026-11-26", "machine": {},
    "threads": 2, "claims": [row() | {"code": "of now"}],
}  # fmt: skip
IN_A_ROW = ["id", "workload", "words", "least", "contexts", "figures", "code"]
IN_A_CONTEXT = ["context", "base", "change", "ratio", "low", "high", "n", "wide", "same_holds", "verdict"]


def without(name, fields):
    """Return what a mapping holds but for one."""
    return {key: value for key, value in fields.items() if key != name}


def of_row(**fields):
    """Return a ledger of one row, some of which is other."""
    return LEDGER | {"claims": [LEDGER["claims"][0] | fields]}


@pytest.mark.parametrize(
    ("ledger", "where"),
    [
        *((without(name, LEDGER), name) for name in ("commit", "dirty", "date", "machine", "threads", "claims")),
        *((LEDGER | {"claims": [without(name, LEDGER["claims"][0])]}, f"claims.0.{name}") for name in IN_A_ROW),
        *((of_row(contexts=[without(name, row()["contexts"][0])]), "claims.0.contexts.0") for name in IN_A_CONTEXT),
        (LEDGER | {"machine": []}, "machine"),
        (LEDGER | {"claims": 5}, "claims"),
        (LEDGER | {"claims": ["a"]}, "claims.0"),
    ],
)
def test_a_ledger_that_lacks_something_is_one_line_that_says_what(tmp_path, ledger, where):
    path = tmp_path / "claims.json"
    path.write_text(json.dumps(LEDGER))
    assert pages.read(path) == LEDGER
    path.write_text(json.dumps(ledger))
    with pytest.raises(ClaimsError, match=rf"claims\.json: wanted what perf_tests\.claims writes: {where}") as error:
        pages.read(path)
    assert "\n" not in str(error.value)


def test_the_kept_pages_are_those_of_the_kept_ledgers_of_which_the_readme_shows_one():
    root = Path(pages.__file__).parents[2]
    readme, shown = (root / "README.md").read_text(), []
    for path in root.glob("results/*-claims.json"):
        kept = pages.read(path)
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


def test_pages_are_written_together_or_not_at_all(tmp_path, monkeypatch):
    about = {"commit": "abc", "date": "2026-11-23", "machine": {"cpu_model": "a CPU", "cores": 2}, "threads": 2}
    found = {**about, "dirty": False, "claims": [row()]}
    (tmp_path / "results").mkdir()
    readme = tmp_path / "README.md"
    monkeypatch.setattr(pages, "PAGES", tmp_path / "results")
    monkeypatch.setattr(pages, "README", readme)
    readme.write_text("no place")
    with pytest.raises(ClaimsError, match=rf"^{readme}: wanted the markers"):
        pages.show(found)
    assert list((tmp_path / "results").iterdir()) == []
    readme.write_text(f"before\n{pages.START}\nold\n{pages.END}\nafter\n")
    pages.show(found)
    assert (tmp_path / "results" / "a-cpu-2-cores-claims.md").read_text() == table.page(found)
    assert json.loads((tmp_path / "results" / "a-cpu-2-cores-claims.json").read_text()) == found
    front = pages.front(found, "a-cpu-2-cores")
    assert readme.read_text() == f"before\n{pages.START}\n{front}\n{pages.END}\nafter\n"
