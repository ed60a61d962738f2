"""Input files of the report, and errors about invalid ones."""

import json
import math
import os
from pathlib import Path

import pytest

from perf_tests.report.html import claims as claims_file
from perf_tests.report.html import gated
from perf_tests.report.html.__main__ import main
from perf_tests.report.html.runs import BadInput, read

from .made_up import KNOWN, artifact, claims, context, foreign, foreign_result, ours, result, stats, write


def test_numbers_are_axes_of_another_suite_and_the_rest_is_its_backend(tmp_path):
    found = [foreign("test_sort", 1e-3, n=10, how="heap"), foreign("test_copy", 2e-3, group="moves", n=10)]
    one, other = read(write(tmp_path, "a.json", foreign_result(found))).rows
    assert (one["workload"], one["op"], one["backend"], one["axes"]) == ("test_sort", "test_sort", "heap", {"n": 10})
    assert (other["op"], other["backend"], other["axes"]) == ("moves", "test_copy", {"n": 10})
    assert one["seconds_per_call"] == stats(1e-3)["median"]
    assert one["low"] < one["seconds_per_call"] < one["high"]
    assert one["items_per_second"] == pytest.approx(1 / one["seconds_per_call"])


@pytest.mark.parametrize("made", [ours(samples=1), foreign("test_sort") | {"stats": stats(rounds=1)}])
def test_one_sample_has_no_interval(tmp_path, made):
    row = read(write(tmp_path, "a.json", result([made]))).rows[0]
    assert math.isnan(row["low"])
    assert math.isnan(row["high"])


def test_interval_of_a_file_without_samples_is_that_of_its_quartiles(tmp_path):
    made = foreign("test_sort") | {"stats": {"median": 1e-3, "iqr": 90e-6, "rounds": 9}}
    row = read(write(tmp_path, "a.json", foreign_result([made]))).rows[0]
    # 1.57 x 90 µs / sqrt(9) to either side, and 3% for the difference between processes
    assert (row["low"], row["high"]) == pytest.approx((952.9e-6 * 0.97, 1047.1e-6 * 1.03))


WANTED = "not the JSON of a pytest-benchmark run, as make bench writes it"
WHOLE = json.dumps(result([ours()]))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (WHOLE[: len(WHOLE) // 2], "not a complete JSON file: "),
        (WHOLE.replace('"low"', '"lower"'), f"{WANTED}: extra_info.low: Field required"),
        (WHOLE.replace('"format": 2', '"format": 4'), "its format is 4, but this rlgauge reads up to 3; update "),
        (result([]), "no benchmark was measured; run make bench"),
    ],
)
def test_a_wrong_result_is_one_line_and_overwrites_nothing(tmp_path, content, words):
    page = write(tmp_path, "page.html", "kept")
    path = write(tmp_path, "a.json", content)
    with pytest.raises(SystemExit) as error:
        main([str(path), "--output", str(page)])
    message = str(error.value)
    assert message.startswith(f"{path}: {words}")
    assert "\n" not in message
    assert page.read_text() == "kept"


@pytest.mark.parametrize(
    ("reader", "content", "words"),
    [
        (claims_file.read, {}, "not a file of python -m perf_tests.claims: its format is not 'rlgauge-claims'"),
        (claims_file.read, claims(context(base="gone")), "claim snake-overall: unknown benchmark gone; measure "),
        (gated.read, json.loads(artifact().to_json()) | {"records": 1}, "not an artifact of the gate: "),
        (gated.read, json.loads(artifact().to_json()) | {"version": 3}, "format version 3 is not supported"),
    ],
)
def test_wrong_claims_and_artifacts_are_one_line(tmp_path, reader, content, words):
    path = write(tmp_path, "a.json", content)
    with pytest.raises(BadInput) as refused:
        reader(path)
    assert str(refused.value).startswith(f"{path}: {words}")
    assert "\n" not in str(refused.value)


def test_the_page_shows_all_given_files(tmp_path, capsys):
    page = tmp_path / "page.html"
    given = [str(write(tmp_path, "a.json", result([ours(), ours("act")]))), "--output", str(page)]
    for name, content in (("claims", claims()), ("gate", artifact().to_json())):
        given += [f"--{name}", str(write(tmp_path, name, content))]
    main(given)
    text = page.read_text()
    assert all(words in text for words in ("pirl.act[full-torch-batch32]", "snake-overall", KNOWN))
    assert capsys.readouterr().out.startswith(f"{page}: 2 benchmarks, ")


@pytest.mark.parametrize("option", ["--output", "--png"])
def test_output_never_overwrites_input_or_the_other_output(tmp_path, monkeypatch, capsys, option):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    known = {"--claims": "claims.json", "--gate": "gate.json", "--history": "history.jsonl", "--output": "page.html"}
    arguments = ["a.json", "b.json", *(word for pair in known.items() for word in pair)]
    for same, name in (("b.json", "RESULT.json"), *((path, name) for name, path in known.items() if name != option)):
        with pytest.raises(SystemExit, match="2"):
            main([*arguments, option, f"link/{same}"])
        message = f": error: {option} link/{same}: this is also {name}; name another file\n"
        assert capsys.readouterr().err.endswith(message)
    assert os.listdir(tmp_path) == ["link"]


def test_the_kept_ledgers_can_be_shown():
    kept = sorted((Path(__file__).parents[2] / "results").glob("*-claims.json"))
    assert kept
    for path in kept:
        assert {claim.workload for claim in claims_file.read(path).claims} >= {"mario", "pirl"}
