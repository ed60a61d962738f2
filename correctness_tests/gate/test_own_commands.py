"""``python -m perf_tests.gate``: what its commands pass on to what measures, and what they print."""

from __future__ import annotations

import pytest

from perf_tests.gate import __main__ as command
from perf_tests.suite.cases import variants


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


def test_noise_is_of_as_many_pairs_as_are_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(command.noise, "counted", lambda root, pairs: asked.append(pairs) or "counts")
    monkeypatch.setattr(command.noise, "show", lambda counts, log: asked.append(counts))
    assert command.main(["noise", "--pairs", "3"]) == 0
    assert asked == [3, "counts"]


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
        (["noise", "--pairs", "0"], "--pairs: got 0, wanted at least 1"),
        (["small", "--rounds", "-1"], "--rounds: got -1, wanted 0 or more"),
    ],
)
def test_a_mistake_is_one_line(capsys, arguments, message):
    assert command.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
