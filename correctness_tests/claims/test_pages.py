"""The ledger as tables and as pages."""

import json
from pathlib import Path

from perf_tests.claims import chart, pages, table

from ..commands import ROOT, copy_with, python
from .toy import row


def test_the_table_shows_ratio_interval_n_and_verdict():
    assert "| `snake-overall` | 2 x | alone | ~1.50 (1.40-1.70), n = 6 | partly |" in table.table([row()])
    assert "| a \\| b |" in table.table([row() | {"promised": "a | b"}])
    (other,) = row(verdict="refuted")["contexts"]
    assert table.verdict_words(other | {"why": "evidence against the claim"}) == "refuted: evidence against the claim"
    assert table.verdict_words(other | {"same_holds": False}) == "refuted: different output"  # from an older ledger
    assert table.verdict_words(other) == "refuted"
    needs = row(verdict="needs a GPU", ratio=None)
    assert table.ratio_words(needs["contexts"][0]) == "-"


def test_figures_show_ours_beside_theirs():
    figure = {"what": "rate", "theirs": "9 GB", "unit": "s"}
    assert table.figure_words(figure | {"ours": 0.0123}) == "rate: 12.3 ms here, 9 GB there"
    assert table.figure_words(figure | {"ours": None}) == "rate: not measured, 9 GB there"
    assert table.figure_words(figure | {"ours": None, "needs": "a GPU"}) == "rate: needs a GPU, 9 GB there"


def test_a_terminal_gets_a_line_for_each_comparison():
    failed = row("snake-gpu", "error", None)
    failed["contexts"][0]["error"] = "E: no"
    assert table.lines_of([row(), failed]) == [
        "snake-overall [alone]: partly, ~1.50 (1.40-1.70), n = 6; promised 2 x",
        "snake-gpu [alone]: error, - (E: no); promised 2 x",
    ]


def test_the_summary_counts_verdicts_with_and_without_a_promised_ratio():
    rows = [row(verdict=word) for word in ("holds", "partly", "refuted", "partly", "not met", "needs a GPU", "error")]
    rows += [row(verdict=word) | {"least": None} for word in ("measured", "measured", "unclear", "needs Neuron")]
    assert table.summary(rows) == (
        "Of 6 comparisons with a promised ratio, 1 holds, 2 hold partly, 1 is not met, 1 is refuted and 1 failed. "
        "Of 3 others, 2 are measured and 1 is unclear. Other hardware or packages are needed for 2 more."
    )


def test_the_readme_gets_the_chart_and_a_link():
    machine = {"cpu_model": "A CPU", "vectors": "avx2", "cores": 2}
    ledger = {"claims": [row()], "date": "2026-11-29T11:08:15+00:00", "machine": machine}
    assert pages.section(ledger, "a-cpu").splitlines() == [
        "![Published speedups, measured](docs/claims.svg)", "",
        "2026-11-29, A CPU (avx2), 2 cores. [All verdicts](results/a-cpu-claims.md).",
    ]  # fmt: skip


def test_the_kept_pages_and_the_readme_show_the_kept_ledgers():
    root = Path(pages.__file__).parents[2]
    readme, shown = (root / "README.md").read_text(), []
    for path in root.glob("results/*-claims.json"):
        kept = json.loads(path.read_text())
        assert path.with_suffix(".md").read_text() == table.page(kept)
        shown.append(pages.section(kept, path.stem.removesuffix("-claims")) in readme)
        if shown[-1]:
            assert (root / "docs/claims.svg").read_text() == chart.svg(kept["claims"])
    assert shown.count(True) == 1


def test_a_ledger_that_was_measured_on_some_of_the_cores_is_not_shown(tmp_path, capsys):
    file, machine = tmp_path / "ledger.json", {"cpu_model": "A CPU", "cores": 2}
    file.write_text(json.dumps({"format": pages.FORMAT, "version": pages.VERSION, "threads": 1, "machine": machine}))
    assert pages.main([str(file)]) == 2
    assert "pages need claims measured on all 2 cores, not on 1; use all cores" in capsys.readouterr().err


def test_a_file_of_something_else_changes_nothing(tmp_path, capsys):
    file = tmp_path / "other.json"
    old = f"not a file of claims of version {pages.VERSION}; write a new one with make claims\n"
    for text, reason, end in (("{", "not JSON", "; give a file that make claims wrote\n"), ("{}", old, old)):
        file.write_text(text)
        assert pages.main([str(file)]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"{file}: {reason}")
        assert error.endswith(end)


def test_a_ledger_of_some_claims_changes_only_its_own_page(tmp_path):
    readme = (ROOT / "README.md").read_text()
    copy_with(tmp_path, {"README.md": readme})
    (tmp_path / "results").mkdir()
    kept, file = tmp_path / "results/a-gpu-1-cores-claims.json", tmp_path / "ledger.json"
    machine = {"cpu_model": "A GPU", "cores": 1}
    about = {"format": pages.FORMAT, "version": pages.VERSION, "threads": 1, "machine": machine, "date": "2026-11-29"}

    def show(*names):
        file.write_text(json.dumps({**about, "commit": "a", "dirty": False, "claims": [row(name) for name in names]}))
        return python("-m", "perf_tests.claims.pages", file, cwd=tmp_path, PYTHONPATH=str(tmp_path))

    done = show("snake-gpu", "snake-amp")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("README.md and claims.svg are unchanged, because ")
    assert [each["id"] for each in json.loads(kept.read_text())["claims"]] == ["snake-gpu", "snake-amp"]
    assert "`snake-amp`" in kept.with_suffix(".md").read_text()
    assert (tmp_path / "README.md").read_text() == readme
    assert (tmp_path / "docs/claims.svg").read_text() == (ROOT / "docs/claims.svg").read_text()
    done = show("snake-gpu")
    assert done.returncode == 2
    assert done.stderr.endswith("has claims that this file lacks, such as snake-amp; measure all claims\n")
    assert "`snake-amp`" in kept.with_suffix(".md").read_text()
