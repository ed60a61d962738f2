"""The README's table of gains, and its excerpts of command output."""

import json

import pytest

from perf_tests.recorded import benchmarks
from perf_tests.report.examples import gate_lines, table_lines
from perf_tests.report.readme import END, PAGE, PEERS, README, ROOT, START, findings, gains, main
from rlgauge.config import tomllib

MACHINE = {"cpu_model": "A CPU", "vectors": "avx2", "cores": 2, "git": "0123456789ab"}
NAIVE, FULL = (f"perf_tests/test_snake.py::test_train_step[{form}-torch-32]" for form in ("naive", "full"))


def comparison(low, high, verdict=""):
    return {
        "first": NAIVE, "second": FULL, "value": 2.0, "low": low, "high": high, "sides": [2e-3, 1e-3],
        "values": [2.0] * 7, "verdict": verdict,
    }  # fmt: skip


def test_each_comparison_has_a_line_with_its_interval_and_pairs():
    same, skipped = comparison(0.9, 2.1, "no significant difference"), {"skipped": "jax is not installed"}
    text = gains({"a": comparison(1.9, 2.1), "same": same, "skipped": skipped}, MACHINE, "2026-11-27")
    first, second, empty, about = text.splitlines()[2:6]
    sides = "| `snake.train_step` | batch_size 32 | naive torch, 2 ms | full torch, 1 ms |"
    assert first == f"{sides} **2 [1.9, 2.1]** | 7 |"
    assert "| no significant difference: 2 [0.9, 2.1] |" in second
    assert empty == ""
    assert "2026-11-27, A CPU (avx2), 2 cores, commit 0123456789ab" in about
    assert "](../results/a-cpu-avx2-2-cores.md)" in about


def test_comparisons_with_a_note_are_findings_unless_their_interval_is_wide():
    noted = comparison(1.9, 2.1) | {"note": "a ring, against a list"}
    wide = comparison(1.8, 2.1) | {"note": "a queue, against a list"}
    text = findings({"a": noted, "b": comparison(1.9, 2.1), "c": wide}, MACHINE, "2026-11-27")
    assert text.splitlines()[2:] == [
        "| a ring, against a list | **2 [1.9, 2.1]** |", "", "2026-11-27, A CPU (avx2), 2 cores, commit 0123456789ab.",
    ]  # fmt: skip


def test_only_the_tables_between_the_markers_are_renewed(tmp_path):
    found, readme, page = tmp_path / "comparisons.json", tmp_path / "README.md", tmp_path / "results.md"
    found.write_text(json.dumps({"comparisons": {"a": comparison(1.9, 2.1)}}))
    for file in (readme, page):
        file.write_text(f"before {START}\nold\n{END} after")
    assert main([str(found), "--readme", str(readme), "--page", str(page)]) == 0
    for file, head in ((readme, "| change |"), (page, "| op |")):
        text = file.read_text()
        assert text.startswith(f"before {START}\n{head}")
        assert text.endswith(f"{END} after")
        assert "old" not in text


def test_comparisons_with_other_peoples_code_have_a_table_in_the_same_page(tmp_path):
    found, theirs, readme, page = (tmp_path / name for name in ("gains.json", "peers.json", "README.md", "results.md"))
    found.write_text(json.dumps({"comparisons": {"a": comparison(1.9, 2.1)}}))
    memory = comparison(1.9, 2.1) | {"measure": "peak_rss", "sides": [3e9, 1.5e9]}
    time, skipped = comparison(1.9, 2.1) | {"measure": "seconds"}, {"skipped": "sb3 is not installed"}
    theirs.write_text(json.dumps({"comparisons": {"them": time, "their-memory": memory, "absent": skipped}}))
    readme.write_text(f"{START}\n{END}")
    page.write_text(f"{START}\n{END}\n\n{PEERS[0]}\nold\n{PEERS[1]}\n")
    assert main([str(found), "--readme", str(readme), "--page", str(page), "--peers", str(theirs)]) == 0
    first, second, empty, _ = page.read_text().partition(PEERS[0])[2].splitlines()[3:7]
    assert first == "| `them` | 2 ms | 1 ms | **2 [1.9, 2.1]** | 7 |"
    assert second == "| `their-memory` | 3,000 MB | 1,500 MB | **2 [1.9, 2.1]** | 7 |"
    assert empty == ""
    assert START in page.read_text()


def test_a_file_of_something_else_changes_nothing(tmp_path, capsys):
    found, page = tmp_path / "comparisons.json", tmp_path / "README.md"
    found.write_text('{"comparisons": {"a": {"value": 1}}}')
    page.write_text(f"{START}\nold\n{END}")
    assert main([str(found), "--readme", str(page), "--page", str(page)]) == 2
    assert capsys.readouterr().err.startswith(f"{found}: ")
    assert page.read_text() == f"{START}\nold\n{END}"


def test_a_page_without_markers_is_named_and_changes_nothing(tmp_path, capsys):
    found, readme, page = tmp_path / "comparisons.json", tmp_path / "README.md", tmp_path / "results.md"
    found.write_text(json.dumps({"comparisons": {}}))
    readme.write_text(f"{START}\nold\n{END}")
    page.write_text("no markers")
    assert main([str(found), "--readme", str(readme), "--page", str(page)]) == 2
    assert capsys.readouterr().err == f"{page}: the marker {START!r} or {END!r} is missing; add it\n"
    assert readme.read_text() == f"{START}\nold\n{END}"


@pytest.mark.parametrize("page", [README, PAGE], ids=lambda page: page.name)
def test_each_page_has_one_place_for_its_table(page):
    text = page.read_text()
    assert text.count(START) == text.count(END) == 1
    assert [text.count(marker) for marker in PEERS] == [page == PAGE] * 2


def test_headlines_compare_benchmarks_of_a_plain_run():
    known = {f"perf_tests/test_{one.workload}.py::{one.test.__name__}[{one.name}]": one.tier for one in benchmarks()}
    headlines = tomllib.loads((ROOT / "perf_tests/headlines.toml").read_text())["comparison"]
    assert len(headlines) >= 10
    assert {known[one[side]] for one in headlines for side in "ab"} <= {"gate", "bench"}


DEMO = """A repository with three benchmarks is in demo.

gate: 1a (the working tree) against 1a: 1 benchmark, 1 to time
gate: screen 1 of 4: 1 benchmark on 1 core
gate: about 25 s for the remaining pairs on 1 core, and up to 52 s more if a test looks slower or faster
gate: confirm 1 of 16: 1 benchmark on 1 core
...                                                [100%]
==================== gate ====================
test_a.py::test_a: slower, 1.20 ms -> 1.32 ms
failed: 1 slower, 29 s; all measurements: .rlgauge/gate.json
3 passed in 29.02s
"""
QUICK = """threads: 2

  form              backend                  time
-------------------------------------------------
pirl.forward batch_size 1, io host (samples/s)
  full              numpy                 14.3 µs

pirl.forward batch_size 128, io host (samples/s)
  full              numpy                 48.9 µs
"""


def test_the_readme_shows_the_verdicts_but_not_each_pair():
    assert gate_lines(DEMO.splitlines()) == [
        "gate: 1a (the working tree) against 1a: 1 benchmark, 1 to time",
        "gate: about 25 s for the remaining pairs on 1 core, and up to 52 s more if a test looks slower or faster",
        "test_a.py::test_a: slower, 1.20 ms -> 1.32 ms",
        "failed: 1 slower, 29 s; all measurements: .rlgauge/gate.json",
    ]


def test_the_readme_shows_the_head_of_the_table():
    lines = table_lines(QUICK.splitlines())
    assert lines[0].split() == ["form", "backend", "time"]
    assert lines[-1].split() == ["full", "numpy", "14.3", "µs"]
