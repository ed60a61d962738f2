"""``rlgauge power``: the gate's error rates on a repository's own benchmarks."""

import math
import re
import signal

import pytest

from rlgauge import measurements, power
from rlgauge.rule import EXPECTED, SAME, SAME_ON_ALL, SLOWED, SLOWED_ON_ALL, GateError, Rule

from .made import INI, Repository, flat, tidy

RULE = Rule(screen=2, confirm=8, looks=1)


def line(**cases):
    """Return a pair in which each case has this log-ratio at every slowdown, and 0 for the same code."""
    log_ratios = {case: {"0": 0.0, **dict.fromkeys(("0.02", "0.05", "0.1"), value)} for case, value in cases.items()}
    return {"what": "pair", "log_ratios": log_ratios, "quick": log_ratios}


def rows(lines):
    return [row.strip("|").split(" | ")[1].split(" ")[0] for row in power.table(lines, RULE).splitlines()[2:-2]]


def test_the_table_counts_each_slowdown_of_the_cases_that_all_pairs_have():
    lines = [{"what": "machine"}, *[line(a=0.2, b=0.0)] * 9, line(a=0.2, b=0.0, new=0.2)]
    assert rows(lines) == ["0/10", *["1/6"] * 3]  # a: 1 of 1; b: 0 of 5
    assert power.table(lines, RULE).endswith("\n10 pairs of 2 benchmarks.")
    assert rows([line(a=0.2, b=0.0, c=0.0)] * 10)[1:] == ["0/11"] * 3  # 3 / 2^8 is above 0.01
    labels = [row.strip("| ").split(" | ")[0] for row in power.table(lines, RULE).splitlines()]
    assert labels[2:6] == ["0%, the same code", "2%", "5%", "10%"]


def canaries(slow, same=0.0):
    """Return a pair with these log-ratios of the slowed and of the unchanged canaries."""
    names = [name for canaries in EXPECTED.values() for name in canaries]
    log_ratios = {name: {"0": slow if "slowed" in name else same} for name in names}
    return {"what": "pair", "log_ratios": log_ratios, "quick": log_ratios}


def cells(table):
    """Return the rows of a table of rates by their first cell."""
    rows = [row.strip("| ").split(" | ") for row in table.splitlines() if row.startswith("| ")]
    return {name.strip("`"): rest for name, *rest in rows}


def test_the_table_of_canaries_has_their_spread_and_rate_of_slower():
    lines = [canaries(slow, same) for slow, same in [(0.05, -0.01), (0.06, 0.0), (0.07, 0.01)] * 4]
    slowed = ["+6.18%", "1.48%", "2/2 [15.8%, 100.0%]", "100.0%"]
    same = ["+0.00%", "1.48%", "0/6 [0.0%, 45.9%]", "0.0%"]
    text = power.canary_table([{"what": "machine"}, *lines], RULE)
    wanted = {SAME: same, SLOWED: slowed, SAME_ON_ALL: same, SLOWED_ON_ALL: slowed}
    assert {name: cells(text)[name] for name in wanted} == wanted
    assert text.endswith("\n12 pairs of processes of the same code.")
    few = cells(power.canary_table([canaries(0.0)] * 9, RULE))
    assert few[SAME] == ["+0.00%", "0.00%", "not measured", "not measured"]


def test_a_file_of_other_benchmarks_has_no_table_of_canaries():
    with pytest.raises(GateError, match=r"^power: the file has pairs of benchmarks other than the canaries; "):
        power.canary_table([line(a=0.0)], RULE)


def test_a_fault_may_have_several_patterns():
    assert power.parse_faults(["a.b:c=x", "a.b:c=y", "d:e"]) == {"a.b:c": ["x", "y"], "d:e": ["*"]}


FAULTS = """def doubled(function):
    return lambda *args: (function(*args), function(*args))[0]


def broken(function):
    raise KeyError("weights")
"""
RULE_OF_TWO = "--rule=screen=1,confirm=1,looks=1,blocks=2,level=0.5"
BRIEF = ("--minutes=0.001", RULE_OF_TWO, "benchmarks", "-k", "slow")
TEST = "benchmarks/test_sorting.py::test_slow"

toy = tidy(flat() | INI | {"benchmarks/faults.py": FAULTS})


def test_slowdowns_and_faults_are_found(toy):
    command = "rlgauge", "power", *BRIEF, "--fault=benchmarks.faults:doubled=*::test_slow"
    text = toy.interrupted("power: 1 pair", signal.SIGKILL, *command, "--minutes=10", PYTHONUNBUFFERED="1")
    assert re.search(r", about \d+ min left$", text, re.M)
    text = toy.output(0, *command)  # BRIEF is enough time for another pair
    same, two, five, ten = (cells(text)[name][0] for name in ("0%, the same code", "2%", "5%", "10%"))
    assert same.startswith("0/")
    assert two.split("/")[0] == two.split("/")[1].split()[0]
    (fault,) = [name for name in cells(text) if name.startswith("benchmarks.faults:doubled`")]
    assert float(re.search(r"\(x ([\d.]+)", fault)[1]) == pytest.approx(2, abs=0.03)  # the clock's pace varies
    assert two == five == ten == cells(text)[fault][0]
    assert "\n2 pairs of 1 benchmark.\n" in text
    pairs = [line for line in power.read(toy.root / ".rlgauge" / "power.jsonl") if line["what"] == "pair"]
    measured = [math.exp(pair["log_ratios"][TEST]["0.1"]) for pair in pairs]
    assert measured == pytest.approx([1.1] * len(pairs), abs=0.03)


DESELECTS = """

def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if item.name != "test_slow"]
"""


def test_a_benchmark_that_the_project_deselects_is_not_selected(tmp_path):
    files = flat() | INI
    files["benchmarks/conftest.py"] += DESELECTS
    text = Repository(tmp_path / "deselecting", files).output(2, "rlgauge", "power", *BRIEF)
    assert "no benchmark is selected by: benchmarks -k slow; change the selection" in text


def test_canaries_are_measured_until_the_file_has_that_many_pairs(toy, tmp_path):
    file = tmp_path / "canaries.jsonl"
    measurements.append(file, [{"what": "machine"}, canaries(0.05)])
    text = toy.output(0, "rlgauge", "power", "--canaries=2", RULE_OF_TWO, "--file", file)
    (progress,) = [line for line in text.splitlines() if line.startswith("power: ")]
    assert progress.startswith("power: 2 pairs, ")
    assert text.endswith("\n2 pairs of processes of the same code.\n")
    lines = power.read(file)
    assert [line["what"] for line in lines] == ["machine", "pair", "machine", "pair"]
    assert [lines[-1]["log_ratios"][name]["0"] for name in (SAME, SLOWED)] == pytest.approx([0, 0.05], abs=0.02)


def test_a_file_of_other_benchmarks_is_refused_before_measuring(toy, tmp_path):
    file = tmp_path / "power.jsonl"
    measurements.append(file, [{"what": "machine"}, line(another=0.0)])
    before = file.read_text()
    text = toy.output(2, "rlgauge", "power", *BRIEF, "--file", file)
    assert text == f"power: {file} has pairs of other benchmarks; give another --file\n"
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("doubled=*other", "--fault benchmarks.faults:doubled: no benchmark matches *other; change the pattern"),
        ("broken", f"{TEST}: benchmarks.faults:broken: its test failed: KeyError"),
    ],
)
def test_a_wrong_fault_is_one_line_and_code_2(toy, tmp_path, fault, words):
    file = tmp_path / "power.jsonl"
    text = toy.output(2, "rlgauge", "power", *BRIEF, "--file", file, f"--fault=benchmarks.faults:{fault}")
    assert words in text.splitlines()[-1]
    assert "Traceback" not in text
    assert not file.exists() or [line["what"] for line in power.read(file)] == ["machine"]
