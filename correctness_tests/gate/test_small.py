"""The gate's self-check on a small repository: its tests and rates, and the tables of the documentation."""

import json
import re
import subprocess
import sys

import pytest

from correctness_tests.repositories.made import ROOT
from perf_tests.gate.__main__ import DOCUMENT, MARKERS, OTHERS, README, main
from perf_tests.gate.selfcheck import small
from rlgauge import power
from rlgauge.power import SLOWDOWNS
from rlgauge.rule import Rule

SLOWED = sorted(small.CASES)[:10]


def round_of(found, ratio, void=()):
    """Return a round in which these cases are ``slower``, and each median of head is ``ratio`` times base's."""
    verdicts = {name: "slower" if name in found else "ok" for name in small.CASES}
    medians = {"base": dict.fromkeys(small.CASES, 1.0), "head": dict.fromkeys(small.CASES, ratio)}
    measured = {"verdicts": verdicts, "void": list(void), "medians": medians, "seconds": 60.0}
    return {"what": "round", "slowed": SLOWED, **measured}


def test_rates_count_slowed_and_other_tests_without_void_rounds():
    alone = next(name for name in small.CASES if name not in SLOWED)
    lines = [round_of(SLOWED, 1.051), round_of([*SLOWED[1:], alone], 1.049), round_of(small.CASES, 2.0, void=["x"])]
    found = {key: (rate.found, rate.n) for key, rate in small.rates(lines).items()}
    assert found == {
        ("rlgauge", True): (19, 20),
        ("rlgauge", False): (1, 20),
        ("pytest-benchmark", True): (10, 20),
        ("pytest-benchmark", False): (10, 20),
    }


def test_the_table_says_what_it_counts(tmp_path):
    machine = {"what": "machine", "cpu_model": "abacus", "cores": 2, "date": "2026-01-01"}
    earlier = {"what": "costs", "pair": [9.0] * 3, "plugin": [0.009] * 3}
    costs = {"what": "costs", "pair": [1.0, 2.0, 3.0], "plugin": [0.001, 0.003, 0.002]}
    file = tmp_path / "small.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in (machine, earlier, costs, round_of(SLOWED, 1.0))))
    table = small.table(small.read(file))
    assert "| `pytest --gate-against` | 10/10 [69.2%, 100.0%] | 0/10 [0.0%, 30.8%] |" in table
    assert "1 run of 1.0 to 1.0 minutes, 0 of them invalid." in table
    assert "A pair of all 20 tests takes 2.0 s [1.0, 3.0] in addition to its samples." in table
    assert "importing the plugin takes 2.0 ms [1.0, 3.0]." in table


def test_pytest_collects_the_listed_tests(tmp_path):
    small.repository(tmp_path)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    found = [line for line in done.stdout.splitlines() if "::" in line]
    assert sorted(found) == sorted(small.CASES)
    assert len(found) == 20


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


def test_alternatives_are_compared_by_figures_of_the_other_pages():
    pages = "docs/alternatives.md", DOCUMENT, OTHERS
    shown, *sources = (set(re.findall(r"\d+/\d+ \[[^]]+\]", (ROOT / page).read_text())) for page in pages)
    assert len(shown) == 6
    assert shown <= set.union(*sources)
