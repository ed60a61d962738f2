"""The options of pytest-benchmark under this suite's conftest, in runs of one fast benchmark."""

from __future__ import annotations

import json

import pytest

from .commands import hiding, pytest_runs

ONE = ("--benchmark-only", "perf_tests/test_perf.py", "--workload", "pirl", "--op", "act", "--backend", "numpy")
ID = "test_perf[pirl.act[full-numpy]]"
SLOW = ("torch", "jax", "optax", "onnx", "onnxruntime")  # to import, so they are hidden from the runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("options")


@pytest.fixture(scope="module")
def runs(folder):
    """Return a function that runs the benchmark with several sets of options: exit codes and output, by name."""

    def run(**options):
        storage = f"--benchmark-storage={folder / 'saved'}"
        arguments = {name: (*ONE, "--rounds", "2", storage, *more) for name, more in options.items()}
        found, errors = pytest_runs(arguments, PYTHONPATH=hiding(folder, *SLOW, "pygal"))
        for code, text in found.values():
            assert code in (0, 1, 4), text
            assert "INTERNALERROR" not in text
        assert "Traceback" not in errors
        return found, errors

    return run


@pytest.fixture(scope="module")
def saved(runs, folder):
    """Save two runs, compare with them, and return what these runs printed and the folder of the saved files."""
    found, _ = runs(
        first=("--benchmark-save=first",),
        latest=("--benchmark-autosave", "--benchmark-compare", "--benchmark-compare-fail=median:99999%"),
        numbered=("--benchmark-compare=0001", "--benchmark-columns=median,ops", "--benchmark-group-by=fullname"),
    )
    (of_platform,) = (folder / "saved").iterdir()
    return found, of_platform


def changed(path, name, change):
    """Write a saved run, changed in place, beside the original under another name; return its path."""
    content = json.loads(path.read_text())
    change(content)
    copy = path.with_name(name)
    copy.write_text(json.dumps(content))
    return copy


def test_a_run_compares_with_the_latest_saved_run_or_a_numbered_one(saved):
    found, folder = saved
    assert [path.name[:5] for path in sorted(folder.iterdir())] == ["0001_", "0002_"]
    for name in ("latest", "numbered"):
        code, text = found[name]
        assert code == 0, text
        assert f"{ID} (0001_first)" in text
        assert f"{ID} (NOW)" in text
        assert "another machine" not in text


def test_the_table_of_pytest_benchmark_is_shown_as_its_options_ask(saved):
    plain, numbered = (saved[0][name][1] for name in ("first", "numbered"))
    assert "actions/s" in plain
    assert "Median" not in plain
    assert f"benchmark 'perf_tests/test_perf.py::{ID}': 2 tests" in numbered
    assert "OPS (" in numbered
    assert "Rounds" not in numbered


def test_machine_info_holds_nothing_that_changes_from_run_to_run(saved):
    first, second = (json.loads(path.read_text()) for path in sorted(saved[1].glob("000[12]_*")))
    assert first["machine_info"] == second["machine_info"]
    assert {"cpu_model", "threads", "versions"} <= first["machine_info"]["rlgauge"].keys()
    assert {"git", "seed", "limits", "loudness"} == first["rlgauge"].keys()
    assert first["rlgauge"]["limits"] != second["rlgauge"]["limits"]


def test_a_slower_run_fails_and_its_benchmarks_are_named(saved, runs):
    def hurry(content):
        stats = content["benchmarks"][0]["stats"]
        for name in ("min", "max", "mean", "median", "q1", "q3", "iqr", "stddev"):
            stats[name] /= 1000

    (path,) = saved[1].glob("0001_*")
    faster = changed(path, "faster.json", hurry)
    ((code, text),) = runs(slower=(f"--benchmark-compare={faster}", "--benchmark-compare-fail=median:5%"))[0].values()
    assert code == 1
    assert (
        f"ERROR: --benchmark-compare-fail: {ID} (faster): Field 'median' has failed PercentageRegressionCheck" in text
    )
    assert "Performance has regressed" not in text  # which the exception of pytest-benchmark says


def test_a_saved_run_of_another_machine_is_compared_with_a_warning(saved, runs):
    def move(content):
        content["machine_info"]["node"] = "elsewhere"
        content["machine_info"]["rlgauge"]["threads"] = 64

    (path,) = saved[1].glob("0001_*")
    ((code, text),) = runs(other=(f"--benchmark-compare={changed(path, 'other.json', move)}",))[0].values()
    assert code == 0, text
    assert f"{ID} (NOW)" in text
    warning, _, differences = " ".join(text.split()).partition("is of another machine or setup, ")
    assert "WARNING: the saved run of " in warning
    assert "node 'elsewhere', now " in differences
    assert "rlgauge.threads 64, now " in differences


def test_without_a_saved_run_the_comparison_is_left_out_with_a_warning(runs, folder):
    found, errors = runs(none=(f"--benchmark-storage={folder / 'empty'}", "--benchmark-compare"))
    assert found["none"][0] == 0
    assert "PytestBenchmarkWarning: Can't compare. No benchmark files in " in errors


MISTAKES = {
    "--benchmark-compare-fail: there is no run to compare with": ("--benchmark-compare-fail=median:5%",),
    "--benchmark-compare: no file 'no/such/file.json'": ("--benchmark-compare=no/such/file.json",),
    "--benchmark-histogram: pygal is not installed": ("--benchmark-histogram",),
    "--benchmark-group-by: unknown grouping 'color'": ("--benchmark-group-by=color",),
}


def test_options_that_cannot_work_end_the_run_before_anything_is_timed(runs):
    found, errors = runs(**MISTAKES)
    for message, (code, text) in found.items():
        assert code == 4
        assert f"ERROR: {message}" in errors
        assert "1/2" not in text
