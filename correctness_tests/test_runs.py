"""Training runs: the learning curve, its summary, and the comparison of several runs."""

import math
import multiprocessing
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from correctness_tests.waiting import until
from rl_impls import params
from rl_impls.common import runs, training


def curve(folder, steps, first=0):
    recorder = runs.Recorder(folder, first)
    for k in range(steps):
        recorder.add(first + 2 * (k + 1), 0.5 * (k + 1), {"return": float(k), "loss": math.nan})
    recorder.close()
    return runs.points(folder)


def run(folder, steps=3, **config):
    found = curve(folder, steps)
    runs.keep_summary(folder, config, {"step": 2 * steps, "rate": 4.0, "peak_memory": 5e6})
    return found


def test_curve_continues_from_the_checkpoint(tmp_path):
    curve(tmp_path, 3)
    found = curve(tmp_path, 2, first=4)  # the third point is after the last checkpoint
    assert [point["step"] for point in found] == [2, 4, 6, 8]
    np.testing.assert_allclose([point["seconds"] for point in found], [0.5, 1.0, 1.5, 2.0])
    assert {point["fps"] for point in found} == {4.0}
    assert [point["step"] for point in curve(tmp_path, 1)] == [2]  # a run from the start replaces it


@pytest.mark.parametrize("left", ["4,1.0", "4,1.000,1.0,nan"])
def test_half_written_last_point_is_ignored(tmp_path, left):
    whole = curve(tmp_path, 1)
    with (tmp_path / runs.CURVE).open("a", newline="") as file:
        file.write(left)
    np.testing.assert_equal(runs.points(tmp_path), whole)
    assert [point["step"] for point in curve(tmp_path, 1, first=2)] == [2, 4]


def test_full_disk_on_resuming_keeps_the_curve(tmp_path):
    before = curve(tmp_path, 50)
    recorder, limits = runs.Recorder(tmp_path, 100), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # bytes; the curve is larger
    try:
        with pytest.raises(OSError, match="File too large"):
            recorder.add(102, 1.0, {"return": 1.0, "loss": math.nan})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        recorder.close()
    np.testing.assert_equal(runs.points(tmp_path), before)


def test_tensorboard_reads_the_curve(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    curve(tmp_path, 3)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert sorted(events.Tags()["tensors"]) == ["fps", "memory", "return", "seconds"]  # NaN losses are left out
    for name, values in (("return", (0.0, 1.0, 2.0)), ("seconds", (0.5, 1.0, 1.5))):
        found = [(event.step, event.tensor_proto.float_val[0]) for event in events.Tensors(name)]
        assert found == [*zip((2, 4, 6), values)]


def test_compare_shows_settings_and_figures_of_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    run(tmp_path / "a", form="full", num_envs=4)
    run(tmp_path / "b", steps=5, form="naive", num_envs=4)
    for checkpoint, options, mean in (("agent", {}, 1), ("best", {"game": "maze", "deterministic": True}, 2)):
        result = {"step": 4000, "figures": {"held_out_return": {"mean": mean, "error": 0.5}}}
        runs.keep_evaluation(tmp_path / "b" / f"{checkpoint}.safetensors", options, result)
    runs.compare([tmp_path / "a", tmp_path / "b", tmp_path / "a"], tmp_path / "it.html")  # one twice
    lines = [re.split(r"\s*│\s*", line)[1:-1] for line in capsys.readouterr().out.splitlines() if "│" in line]
    shown = {name: values for name, *values in lines}
    assert shown == {
        "form": ["full", "naive"], "steps": ["6", "10"], "seconds": ["2", "2"], "steps per second": ["4", "4"],
        "peak memory, MB": ["5", "5"], "return, last 20 points": ["1.00", "2.00"],
        "agent: step": ["-", "4,000"], "agent: held_out_return": ["-", "1.00 +- 0.50"],
        "best-game=maze-deterministic: step": ["-", "4,000"],
        "best-game=maze-deterministic: held_out_return": ["-", "2.00 +- 0.50"],
    }  # fmt: skip
    page = (tmp_path / "it.html").read_text()
    assert page.count('"legendgroup":') == 4  # each run over steps and over seconds
    assert "<script src=" not in page


def test_compare_shows_brackets_in_the_names_of_folders(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    folders = [Path("run[lr=0.1]"), Path("run[/b]")]
    for folder in folders:
        run(folder)
    runs.compare(folders, tmp_path / "it.html")
    shown = capsys.readouterr().out
    assert all(str(folder) in shown for folder in folders)


def test_fps_is_the_rate_since_the_last_point(tmp_path):
    recorder = runs.Recorder(tmp_path, 0)
    recorder.add(100, 1.0, {"return": 1.0})
    recorder.add(400, 2.0, {"return": 1.0})
    recorder.close()
    assert [point["fps"] for point in runs.points(tmp_path)] == [100.0, 300.0]


def test_running_mean_is_over_the_last_20_values_without_nans():
    found = runs.smoothed([math.nan, *map(float, range(29))])
    assert math.isnan(found[0])
    assert (found[1], found[2], found[19], found[29]) == (0.0, 0.5, 9.0, 18.5)  # the last one of 9 to 28


def test_best_checkpoint_has_the_highest_mean_of_20_returns(tmp_path):
    recorder, kept = runs.Recorder(tmp_path / "run", 0), []
    for step, value in enumerate([100.0, *20 * [1.0], *20 * [2.0]], 1):
        recorder.add(step, float(step), {"return": value})
        if step in (21, 41):  # with a mean of 1 and of 2
            checkpoint = tmp_path / f"of step {step}"
            checkpoint.write_text(checkpoint.name)
            recorder.keep_best(checkpoint)
            kept.append((tmp_path / "run" / runs.BEST).read_text())
    recorder.close()
    assert kept == ["of step 21", "of step 41"]


def test_best_checkpoint_stays_after_a_resume_with_lower_returns(tmp_path):
    folder, checkpoint = tmp_path / "run", tmp_path / "agent.safetensors"
    parts = (0, 20, 2.0, 20), (20, 20, 0.0, 20), (40, 1, 9.0, 20), (41, 20, 3.0, 61), (61, 20, 2.5, 61)
    for first, count, value, best in parts:
        recorder = runs.Recorder(folder, first)
        for step in range(first + 1, first + count + 1):
            recorder.add(step, 1.0, {"return": value})
        params.save(checkpoint, {}, step=str(step))
        recorder.keep_best(checkpoint)
        recorder.close()
        assert params.read_metadata(folder / runs.BEST)["step"] == str(best)


@pytest.mark.parametrize("text", [None, "no JSON"])
def test_folder_that_is_no_run_is_an_error(tmp_path, text):
    if text:
        (tmp_path / runs.SUMMARY).write_text(text)
    with pytest.raises(ValueError, match=rf"^{tmp_path} is not the --output-dir of a training run "):
        runs.compare([tmp_path], tmp_path / "it.html")
    assert not (tmp_path / "it.html").exists()


def test_peak_memory_includes_freed_memory():
    grow = "import numpy as np; from rl_impls.common.runs import memory; before = memory(), memory('VmHWM');"
    grow += "del_me = np.ones(50_000_000); del del_me; print(memory() - before[0], memory('VmHWM') - before[1])"
    shown = subprocess.run([sys.executable, "-c", grow], capture_output=True, text=True, check=True).stdout
    now, peak = map(int, shown.split())
    assert now < 50e6
    assert 390e6 < peak < 450e6


def test_memory_includes_that_of_child_processes():
    before = runs.memory()
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,), daemon=True)
    process.start()
    try:
        until(lambda: runs.memory() > before + 5_000_000, "the memory of an interpreter", seconds=30)
    finally:
        process.kill()
        process.join()
        process.close()


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1800), ("0.5h", 1800), (".5s", 0.5), ("2", 7200)])
def test_durations(text, seconds):
    assert training.seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["0", "1d", "1h30m", "nan"])
def test_wrong_duration_is_an_error(text):
    with pytest.raises(ValueError, match=f"^duration={re.escape(repr(text))} should be a number of hours above 0, or "):
        training.seconds_of(text)


def test_curve_of_an_older_version_continues_with_new_columns(tmp_path):
    (tmp_path / runs.CURVE).write_text("step,seconds,score,return\n2,0.5,7,1.0\n")
    found = curve(tmp_path, 1, first=2)
    assert list(found[0]) == ["step", "seconds", "fps", "memory", "return", "loss"]
    assert [point["return"] for point in found] == [1.0, 0.0]
    assert math.isnan(found[0]["memory"])
    assert found[1]["memory"] > 1e6
