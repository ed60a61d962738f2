"""The page of a machine's results."""

import json

import pytest

from perf_tests.report.results import main

from .made_up import ours

MACHINE = {
    "cpu_model": "A CPU", "vectors": "avx2", "cores": 2, "threads": 2, "versions": {"numpy": "2.4.6"},
}  # fmt: skip
RUN = {"git": "0123456789ab", "seed": 0, "limits": {"threads": 2.0, "float32_flops": 3e11, "copy_bytes": 2e10}}


def row(backend, seconds, **changed):
    given = {"op": "act", "workload": "snake", "axes": {"num_envs": 1}, "unit": "actions", "samples": 9}
    given |= {"items_per_second": 1 / seconds, "limit_share": 0.2}
    return ours(backend=backend, seconds=seconds, **given | changed)["extra_info"]


def written(path, *rows, **machine):
    found = {
        "datetime": "2026-11-27T10:00:00", "machine_info": {"rlgauge": {**MACHINE, **machine}}, "rlgauge": RUN,
        "benchmarks": [{"extra_info": row} for row in rows],
    }  # fmt: skip
    path.write_text(json.dumps(found))
    return str(path)


def test_the_page_has_a_row_for_each_benchmark_of_all_files_and_what_failed(tmp_path, capsys):
    first = written(tmp_path / "a.json", row("torch", 2e-3))
    second = written(tmp_path / "b.json", row("jax", 1e-3, samples=1234))
    assert main([first, second, "--folder", str(tmp_path), "--failed", "onnx: not tried"]) == 0
    path = tmp_path / "a-cpu-avx2-2-cores.md"
    assert capsys.readouterr().out == f"{path}\n"
    text = path.read_text()
    assert "| full | torch | num_envs 1 | 2 ms | 5% | 500 actions/s | 20% |  |\n" in text
    assert text.index("| full | torch |") < text.index("| full | jax |"), "rows stay in the order of timing"
    assert "Limits: float32 300 GFLOP/s, copy 20 GB/s. 2 benchmarks of 9 to 1,234 samples each." in text
    assert "## Not measured\n\n- onnx: not tried\n" in text


def test_each_workload_has_only_its_own_ops_and_a_gpu_is_part_of_the_name(tmp_path):
    other = row("torch", 1e-3, workload="pirl", op="env_step")
    file = written(tmp_path / "a.json", row("torch", 2e-3), other, gpu="NVIDIA X1")
    assert main([file, "--folder", str(tmp_path)]) == 0
    heading, *lines = (tmp_path / "nvidia-x1-a-cpu-avx2-2-cores.md").read_text().splitlines()
    assert heading.startswith("# Results: NVIDIA X1, A CPU (avx2)")
    headings = [line for line in lines if line.startswith("##")]
    assert headings == ["## pirl", "### pirl.env_step", "## snake", "### snake.act"]


def test_a_file_of_something_else_is_one_line(tmp_path, capsys):
    path = tmp_path / "a.json"
    path.write_text('{"benchmarks": [{"extra_info": {}}]}')
    assert main([str(path), "--folder", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"{path}: ")
    assert message.count("\n") == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"cores": 4}, "results of several machines: a-cpu-avx2-2-cores, a-cpu-avx2-4-cores"),
        ({"threads": 1}, "different threads: 1, 2;"),
    ],
)
def test_results_of_different_runs_are_refused(tmp_path, capsys, other, words):
    files = [written(tmp_path / "a.json", row("torch", 1.0)), written(tmp_path / "b.json", row("jax", 1.0), **other)]
    assert main([*files, "--folder", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
