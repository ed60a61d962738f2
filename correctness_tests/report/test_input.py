"""What the report reads: this suite's results, others', claims, artifacts of the gate; and what it refuses."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from perf_tests.report.html import claims as claims_file
from perf_tests.report.html import figures, gated, markup
from perf_tests.report.html.__main__ import main
from perf_tests.report.html.runs import BadInput, read
from perf_tests.report.order import Span

from .made_up import KNOWN, artifact, claims, context, foreign, foreign_result, ours, result, stats, write


def test_a_row_of_this_suite_is_what_it_stored(tmp_path):
    benchmark = ours(seconds=2e-3)
    run = read(write(tmp_path, "a.json", result([benchmark])))
    assert benchmark["extra_info"].items() <= run.rows[0].items()
    assert (run.threads, run.commit) == (2, "abcdef123456")


def test_numbers_are_axes_of_another_suite_and_the_rest_tells_its_rows_apart(tmp_path):
    found = [foreign("test_sort", 1e-3, n=10, how="heap"), foreign("test_copy", 2e-3, group="moves", n=10)]
    one, other = read(write(tmp_path, "a.json", foreign_result(found))).rows
    assert (one["workload"], one["op"], one["backend"], one["axes"]) == ("test_sort", "test_sort", "heap", {"n": 10})
    assert (other["op"], other["backend"], other["axes"]) == ("moves", "test_copy", {"n": 10})
    assert one["seconds_per_call"] == stats(1e-3)["median"]
    assert one["low"] < one["seconds_per_call"] < one["high"]
    assert one["items_per_second"] == pytest.approx(1 / one["seconds_per_call"])


def test_quartiles_stand_for_samples_that_were_not_saved(tmp_path):
    benchmark = foreign("test_sort")
    benchmark["stats"] = stats(1e-3, rounds=16, iqr=4e-5, data=[])
    row = read(write(tmp_path, "a.json", foreign_result([benchmark]))).rows[0]
    middle, half = row["seconds_per_call"], 1.57 * 4e-5 / 4
    assert (row["low"], row["high"]) == pytest.approx(((middle - half) * 0.97, (middle + half) * 1.03))


@pytest.mark.parametrize("made", [ours(samples=1), foreign("test_sort") | {"stats": stats(rounds=1)}])
def test_of_one_sample_the_interval_is_not_known(tmp_path, made):
    row = read(write(tmp_path, "a.json", result([made]))).rows[0]
    assert math.isnan(row["low"])
    assert math.isnan(row["high"])


WANTED = "wanted the JSON of a pytest-benchmark run, as make bench writes it"
WHOLE = json.dumps(result([ours()]))


def infinite():
    """Return a run one of whose benchmarks took no time."""
    return result([ours() | {"extra_info": {}, "stats": stats() | {"median": 0.0}}])


def lacking():
    """Return a run one of whose rows lacks its interval."""
    benchmark = ours()
    del benchmark["extra_info"]["low"]
    return result([benchmark])


def newer():
    """Return a run of a later format of this suite."""
    found = result([ours()])
    found["machine_info"]["rlgauge"]["format"] = 4
    return found


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", f"{WANTED}: it is no JSON, or cut off"),
        (WHOLE[: len(WHOLE) // 2], f"{WANTED}: it is no JSON, or cut off"),
        ("[]", WANTED),
        ("{}", f"{WANTED}: benchmarks: Field required"),
        (infinite(), f"{WANTED}: benchmarks.0.stats.median: Input should be greater than 0"),
        (lacking(), f"{WANTED}: extra_info.low: Field required"),
        (result([ours()], version="6.0.0"), "was written by pytest-benchmark 6.0.0, wanted 5.x or older"),
        (newer(), "its format is 4, wanted 3 or older: use a newer rlgauge"),
        (result([]), "holds no benchmarks: nothing was measured"),
    ],
)
def test_a_result_that_cannot_be_shown_is_one_line_and_overwrites_nothing(tmp_path, content, words):
    page = write(tmp_path, "page.html", "kept")
    path = write(tmp_path, "a.json", content)
    with pytest.raises(SystemExit) as ended:
        main([str(path), "--output", str(page)])
    said = str(ended.value)
    assert said.startswith(f"{path}: {words}")
    assert "\n" not in said
    assert page.read_text() == "kept"


def test_a_missing_result_says_what_writes_it(tmp_path):
    with pytest.raises(BadInput, match=r"none\.json: wanted .* as make bench writes it: No such file"):
        read(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "wanted what python -m perf_tests.claims writes, with the format 'rlgauge-claims'"),
        (claims() | {"version": 3}, "its version is 3, wanted 2 or older"),
        (claims() | {"claims": [{}]}, "wanted what python -m perf_tests.claims writes: claims.0.id: Field required"),
        (claims(workload="chess"), "claim snake-overall: there is no workload 'chess'"),
        (
            claims(context(base="test_act[gone-torch-1]")),
            "claim snake-overall: there is no benchmark test_act[gone-torch-1]",
        ),
        (claims(context(ratio=0)), "wanted what python -m perf_tests.claims writes: claims.0.contexts.0.ratio: Input"),
    ],
)
def test_claims_that_cannot_be_shown_are_one_line(tmp_path, content, words):
    path = write(tmp_path, "claims.json", content)
    with pytest.raises(BadInput) as refused:
        claims_file.read(path)
    assert str(refused.value).startswith(f"{path}: {words}")
    assert "\n" not in str(refused.value)


def test_claims_of_benchmarks_that_exist_are_read(tmp_path):
    found = claims_file.read(write(tmp_path, "claims.json", claims()))
    assert found.claims[0].contexts[0].base == "test_act[naive-torch-1]"


@pytest.mark.parametrize("change", [{"records": 1}, {"later": 1}, {"rule": {"screen": 0}}, {"version": 3}])
def test_an_artifact_of_the_gate_that_cannot_be_shown_is_one_line(tmp_path, change):
    path = write(tmp_path, "gate.json", json.loads(artifact().to_json()) | change)
    with pytest.raises(BadInput) as refused:
        gated.read(path)
    assert re.match(rf"{path}: (not an artifact of the gate: |of version 3 of the gate's)", str(refused.value))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("option", ["--output", "--png"])
def test_what_is_written_is_none_of_what_is_read_nor_both_files(tmp_path, monkeypatch, capsys, option):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    known = {"--claims": "claims.json", "--gate": "gate.json", "--history": "history.jsonl", "--output": "page.html"}
    asked = ["a.json", "b.json", *(word for pair in known.items() for word in pair)]
    for same, name in (("b.json", "RESULT.json"), *((path, name) for name, path in known.items() if name != option)):
        with pytest.raises(SystemExit, match="2"):
            main([*asked, option, f"link/{same}"])
        assert capsys.readouterr().err.endswith(f": error: {option} link/{same}: it is {name} too\n")
    assert os.listdir(tmp_path) == ["link"]


def test_an_artifact_of_the_gate_is_decided_as_the_gate_does(tmp_path):
    found = gated.read(write(tmp_path, "gate.json", artifact().to_json()))
    assert found.decide() == artifact().decide()
    assert found.decide().findings[KNOWN].verdict == "slower"


@pytest.mark.parametrize("option", ["--output", "--png"])
def test_a_page_that_cannot_be_written_is_one_line(tmp_path, option, monkeypatch):
    monkeypatch.setattr("perf_tests.report.html.__main__.picture", lambda html: b"png")
    page, path = tmp_path / "page.html", write(tmp_path, "a.json", result([ours()]))
    where = {"--output": str(page), option: str(tmp_path)}
    with pytest.raises(SystemExit, match=f"{tmp_path}: cannot be written: it is no file"):
        main([str(path), *(word for pair in where.items() for word in pair)])
    assert not page.exists()


def test_the_kept_ledgers_can_be_shown():
    from perf_tests.report.html.claims import read

    kept = sorted((Path(__file__).parents[2] / "results").glob("*-claims.json"))
    assert kept
    for path in kept:
        assert {claim.workload for claim in read(path).claims} >= {"mario", "pirl"}


def test_of_another_suites_row_the_interval_is_above_nothing_and_the_number_of_threads_known_where_it_says(tmp_path):
    benchmark = foreign("test_sort", n=10, fast=True) | {"extra_info": {"threads": 3}}
    benchmark["stats"] = stats(1e-3, rounds=4, iqr=1.0, data=[])
    (row,) = read(write(tmp_path, "a.json", foreign_result([benchmark]))).rows
    assert row["low"] == pytest.approx(row["seconds_per_call"] / 2 * 0.97)
    assert (row["axes"], row["backend"], row["threads"]) == ({"n": 10}, "True", 3)


@pytest.mark.parametrize(
    ("info", "commit"),
    [({}, "no commit"), ({"id": "0123456789abcdef"}, "0123456789ab"), ({"id": "a", "dirty": True}, "a+dirty")],
)
def test_a_commit_that_another_suite_measured_is_named(tmp_path, info, commit):
    run = read(write(tmp_path, "a.json", foreign_result([foreign("test_sort")]) | {"commit_info": info}))
    assert run.commit == commit


def test_the_page_is_of_all_files_that_are_named_and_is_written_beside_its_picture(tmp_path, monkeypatch, capsys):
    from perf_tests.report.html import __main__ as command

    given = []
    monkeypatch.setattr(command, "read", lambda path: SimpleNamespace(rows=[0] * (3 if path.name == "a" else 9)))
    for module in (command.claims, command.gated, command.over_commits):
        monkeypatch.setattr(module, "read", lambda path, module=module: (module.__name__.rpartition(".")[2], path.name))
    monkeypatch.setattr(command, "page", lambda runs, *rest: given.append((len(runs), *rest)) or "é" * 600_000)
    monkeypatch.setattr(command, "picture", lambda html: html[:1].encode() + b" png")
    page, png = tmp_path / "page.html", tmp_path / "page.png"
    main(["a", "b", "--output", str(page)])
    assert not png.exists()
    more = [word for name in ("claims", "gate", "history") for word in (f"--{name}", f"its-{name}")]
    main(["a", "--output", str(page), "--png", str(png), *more])
    assert given == [
        (2, None, None, None),
        (1, ("claims", "its-claims"), ("gated", "its-gate"), ("over_commits", "its-history")),
    ]
    assert page.read_bytes() == "é".encode() * 600_000
    assert png.read_bytes() == "é png".encode()
    assert capsys.readouterr().out == f"{page}: 3 benchmarks, 1.2 MB\n" * 2


def test_words_of_rows_and_values_of_plots():
    rows = [
        {"op": "act", "form": "full", "backend": "torch", "precision": "float32", "low": 1e-3, "high": 2e-3,
         "seconds_per_call": 1.5e-3},
        {"op": "act", "form": "full", "backend": "jax", "precision": "bfloat16", "low": math.nan, "high": math.nan,
         "seconds_per_call": 2.0},
        {"op": "learn", "form": "bfloat16", "backend": "jax", "precision": "bfloat16"},
    ]  # fmt: skip
    assert [figures.label(row) for row in rows] == ["full torch", "full jax (bfloat16)", "bfloat16 jax"]
    assert [figures.time_words(row) for row in rows[:2]] == [["1.5 ms", "1 ms to 2 ms"], ["2 s", "one sample"]]
    assert {key: len(found) for key, found in figures.by(rows, "op", "backend").items()} == {
        ("act", "torch"): 1, ("act", "jax"): 1, ("learn", "jax"): 1,
    }  # fmt: skip
    values = {"a": (1.23456789, math.nan), "b": [math.inf, 3, "x", None, True]}
    assert figures.plain(values) == {"a": [1.23457, None], "b": [None, 3, "x", None, True]}
    assert figures.span_words(Span(2.0, math.nan, math.nan)) == "2 (one sample)"
    assert figures.span_words(Span(2.0, 1.5, 3.0)) == "2.00 (1.50-3.00)"


def test_cells_of_a_table_and_its_heads_are_escaped():
    assert markup.table(["a<b"], [["x&y"], ["z"]]) == (
        '<div class="wide" tabindex="0"><table><thead><tr><th scope="col">a&lt;b</th></tr></thead>'
        "<tbody><tr><td>x&amp;y</td></tr><tr><td>z</td></tr></tbody></table></div>"
    )
