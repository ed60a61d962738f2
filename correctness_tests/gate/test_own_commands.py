"""The tables that ``python -m perf_tests.gate docs`` writes."""

import json

import pytest

from correctness_tests.repositories.made import ROOT
from perf_tests.gate.__main__ import DOCUMENT, MARKERS, OTHERS, README, main
from perf_tests.gate.selfcheck import small
from rlgauge import power
from rlgauge.power import SLOWDOWNS
from rlgauge.rule import Rule


@pytest.fixture
def pages(tmp_path):
    """Create the pages with outdated tables; return a function that returns the text between a page's markers."""
    (tmp_path / "docs").mkdir()
    for page in (DOCUMENT, OTHERS, README):
        (tmp_path / page).write_text("before\n{}\nold\n{}\nafter\n".format(*MARKERS))
    return lambda page: (tmp_path / page).read_text().split(f"{MARKERS[0]}\n")[1].split(f"\n{MARKERS[1]}")[0]


def test_tables_are_written_between_the_markers_of_a_page(pages, tmp_path):
    assert main(["docs", "--root", str(tmp_path)]) == 0
    assert (pages(OTHERS), pages(DOCUMENT)) == (small.table(small.read(small.FILE)), "old")
    assert pages(README) == small.rates_table(small.read(small.FILE))
    log_ratios = {"test_a": {f"{slowdown:g}": 0.0 for slowdown in (0.0, *SLOWDOWNS)}}
    lines = [{"what": "pair", "log_ratios": log_ratios, "quick": log_ratios}] * 40
    file = tmp_path / "power.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["docs", "--root", str(tmp_path), "--power", str(file)]) == 0
    assert pages(DOCUMENT) == power.table(lines, Rule())


def test_the_published_pages_have_the_current_tables():
    assert small.table(small.read(small.FILE)) in (ROOT / OTHERS).read_text()
    assert small.rates_table(small.read(small.FILE)) in (ROOT / README).read_text()
