"""``python -m perf_tests.gate``: what its commands pass on to what measures, and what they print."""

from __future__ import annotations

import pytest

from perf_tests.gate import __main__ as command
from perf_tests.gate.selfcheck import drift
from perf_tests.suite.cases import variants
from rlgauge.rule import Record, Rule

from .toy import ROOT


def test_each_try_plants_in_the_next_case_and_draws_from_its_own_number(monkeypatch, capsys):
    tried, names = [], list(variants())[:2]

    def found(root, variant, slowdown, rule, number, log):
        tried.append((variant.id, slowdown, rule.confirm, number))
        return number != 1

    monkeypatch.setattr(command, "found", found)
    asked = ["planted", "--tries", "3", "--slowdown", "0.2", "--rule", "confirm=9"]
    assert command.main([*asked, *(f"--case={name}" for name in names)]) == 0
    assert tried == [(names[0], 0.2, 9, 0), (names[1], 0.2, 9, 1), (names[0], 0.2, 9, 2)]
    assert "bisect names the commit: 2/3 " in capsys.readouterr().out


def test_drifts_are_planted_in_the_pairs_of_a_run_and_counted(monkeypatch, capsys):
    flat, rising = [(1.0, 2.0)] * 6, [(1.0 + 0.05 * number,) * 2 for number in range(6)]
    assert drift.risen(flat, 0.5) == [pytest.approx((f, 2 * f)) for f in (1, 1.1, 1.2, 1.3, 1.4, 1.5)]
    assert drift.risen(flat[:1], 0.5) == flat[:1]
    records = {"flat": [flat] * 3, "rises": [rising] * 3, "two pairs": [rising] * 2}
    records = {name: Record(screen=pairs[:2], confirm=pairs[2:]) for name, pairs in records.items()}
    assert [(told.found, told.n) for told in (drift.told(records, rise) for rise in (0, 0.5))] == [(1, 2), (2, 2)]
    monkeypatch.setattr(command, "read_run", lambda path: type("Run", (), {"records": records}))
    assert command.main(["drift", "run.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(drift.RISES)
    assert lines[0].startswith("samples that rise by 0% within each pair are told to drift: 1/2 [")
    assert lines[-1].startswith("samples that rise by 100% within each pair are told to drift: 2/2 [")


def test_drifts_are_counted_in_what_a_run_wrote(tmp_path, capsys):
    assert command.main(["drift", str(tmp_path / "run.json")]) == 2
    assert capsys.readouterr().err.endswith("run.json: it cannot be read: No such file or directory\n")


@pytest.mark.parametrize("rounds", [0, 2])
def test_rounds_on_a_small_repository_are_added_to_the_file_that_is_read(monkeypatch, tmp_path, capsys, rounds):
    asked, file = [], tmp_path / "rounds.json"
    monkeypatch.setattr(command.small, "measure", lambda *of: asked.append(of))
    monkeypatch.setattr(command.small, "read", lambda file: file)
    monkeypatch.setattr(command.small, "table", lambda found: f"of {found}")
    assert command.main(["small", "--rounds", str(rounds), "--file", str(file)]) == 0
    assert asked == [(file, rounds)] * bool(rounds)
    assert capsys.readouterr().out == f"of {file}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["small", "--rounds", "-1"], "--rounds: got -1, wanted 0 or more"),
    ],
)
def test_a_mistake_is_one_line(capsys, arguments, message):
    assert command.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_pages_get_what_was_measured_between_their_markers(monkeypatch, tmp_path):
    pages = [tmp_path / name for name in ("gate.md", "README.md", "others.md")]
    for page in pages:
        page.write_text("before\n{}\nold\n{}\nafter\n".format(*command.MARKERS))
    for name, page in zip(("DOCUMENT", "README", "OTHERS"), pages):
        monkeypatch.setattr(command, name, page)
    monkeypatch.setattr(command, "read", lambda file: f"pairs of {file.name}")
    monkeypatch.setattr(command, "table", lambda measured, rule: f"table of {measured}, {rule.confirm}")
    monkeypatch.setattr(command, "example", lambda measured, rule: f"example of {measured}, {rule.confirm}")
    monkeypatch.setattr(command, "whole_tier", lambda recorded, rule: f"{[*recorded][-1]}, {rule.confirm}")
    monkeypatch.setattr(command.small, "read", lambda file: f"rounds of {file.name}")
    monkeypatch.setattr(command.small, "table", lambda found: f"table of {found}")
    assert command.main(["docs", "--file", "some/file", "--rule", "confirm=9"]) == 0
    texts = [
        "table of pairs of file, 9\n\npairs, 9",
        "example of pairs of file, 9",
        f"table of rounds of {command.small.FILE.name}",
    ]
    wrap = "before\n{}\n{{}}\n{}\nafter\n".format(*command.MARKERS)
    assert [page.read_text() for page in pages] == [wrap.format(text) for text in texts]
    command.main(["docs"])
    said = f"table of pairs of {command.POWER.name}, {Rule().confirm}\n\npairs, {Rule().confirm}"
    assert pages[0].read_text() == wrap.format(said)


def test_commands_have_their_defaults(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(command, "found", lambda root, variant, slowdown, rule, number, log: asked.append(
        (variant.id, slowdown, rule, number)) or True)  # fmt: skip
    monkeypatch.setattr(command.small, "measure", lambda *of: asked.append(of))
    monkeypatch.setattr(command.small, "read", lambda file: file)
    monkeypatch.setattr(command.small, "table", lambda found: f"of {found}")
    assert [command.main([name]) for name in ("planted", "small")] == [0, 0]
    assert asked == [
        *((command.CASES[number % len(command.CASES)], 0.1, Rule(), number) for number in range(5)),
        (command.small.FILE, 7),
    ]
    said = capsys.readouterr()
    assert said.out.startswith("bisect names the commit: 5/5 ")
    assert said.out.endswith(f"of {command.small.FILE}\n")
    assert [line.partition("] ")[2] for line in said.err.splitlines()] == [f"right so far: {n}" for n in range(1, 6)]
    assert command.ROOT == ROOT


@pytest.mark.parametrize(
    ("option", "value", "ends"),
    [("--slowdown", "10", 0), ("--slowdown", "10.1", 2), ("--slowdown", "0", 2), ("--tries", "1", 0)],
)
def test_the_ends_of_what_may_be_asked_for_belong_to_it(monkeypatch, option, value, ends):
    monkeypatch.setattr(command, "found", lambda *of: True)
    assert command.main(["planted", f"{option}={value}"]) == ends


def test_without_a_command_there_is_nothing_to_do(capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main([])
    assert "the following arguments are required" in capsys.readouterr().err
