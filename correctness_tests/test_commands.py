"""Benchmark runs, the backend table and make, as a user runs them."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from perf_tests.rows import machine_of
from rl_impls.backends import BACKENDS

from .commands import collected, copy_with, environment, hiding, pytest_runs, python
from .report.made_up import LIMITS
from .waiting import alive, started, until

TIMED = ("--benchmark-only", "--benchmark-max-time", "0.01")
PIRL = (*TIMED, "perf_tests/test_pirl.py")
ONE = (*PIRL, "--op", "act")
HEAVY = ("torch", "jax", "optax", "onnx", "onnxruntime")
MISTAKES = {
    "unknown backend 'tensorflow' (choose from numpy": ("--backend", "tensorflow"),
    "--axis: invalid value 'batch'; write NAME=VALUE": ("--axis", "batch"),
    "threads: 0 is out of range; choose 1 to": ("--threads", "0"),
}
NO_MATCH = "no benchmark of tier gate matches; try --tier"
SHOWN = {"benchmark 'backend=numpy'": "group-by=param:backend", "cProfile": "cprofile=tottime"}  # text, option


@pytest.mark.slow
def test_collecting_the_tests_imports_neither_torch_nor_jax():
    assert collected("correctness_tests").endswith("heavy: []\n")


@pytest.fixture(scope="module")
def numpy_runs(tmp_path_factory):
    """Run pytest several times with NumPy only.

    Return exit code and output by name of the run, the standard error and the JSON.
    """
    folder, fixed = tmp_path_factory.mktemp("runs"), f"RLGAUGE_LIMITS={json.dumps(LIMITS)}"
    runs = {
        # first: the number of threads must be set before NumPy is imported
        "measured": (*ONE, "--backend=numpy,neuron", "-rs", f"--benchmark-json={folder / 'out.json'}", "--threads=1"),
        **{message: (*PIRL, *arguments) for message, arguments in MISTAKES.items()},
        NO_MATCH: (*ONE, "--tier", "gate", "--workload", "pirl"),
        "auto": (*ONE, "--collect-only", "-q", "--backend", "auto"),
        # last: their variables stay set
        **{
            text: (fixed, f"PYTEST_ADDOPTS=--benchmark-{option}", *ONE, "--backend=numpy")
            for text, option in SHOWN.items()
        },
        "missing": ("PYTEST_ADDOPTS=", *ONE, "--backend", "neuron", "--benchmark-json", str(folder / "none.json")),
        "required": ("RL_PERF_REQUIRE=neuron", *ONE, "--backend", "numpy,neuron"),
    }
    found, errors = pytest_runs(runs, PYTHONPATH=hiding(folder, *HEAVY))
    return found, errors, json.loads((folder / "out.json").read_text())


def test_tests_that_need_torch_are_skipped_where_it_is_not_installed_unless_it_is_required(tmp_path):
    files = "correctness_tests/test_compilers.py", "correctness_tests/pirl/test_physics.py"
    runs = {required: (f"RL_PERF_REQUIRE={required}", "-q", *files) for required in ("", "torch")}
    found, _ = pytest_runs(runs, PYTHONPATH=hiding(tmp_path, "torch"))
    for required, (code, text) in found.items():
        assert code == bool(required), text
        assert re.search(r"\d+ passed", text)
        assert ("skipped" in text) == (not required)


@pytest.mark.parametrize("message", MISTAKES)
def test_wrong_option_is_one_line(numpy_runs, message):
    found, errors, _ = numpy_runs
    assert found[message] == (4, "")
    (line,) = [line for line in errors.splitlines() if message in line]
    assert line.startswith("ERROR: ")
    assert "Traceback" not in errors


def test_selection_without_a_match_is_one_line_and_code_5(numpy_runs):
    found, errors, _ = numpy_runs
    assert found[NO_MATCH][0] == 5
    assert len([line for line in errors.splitlines() if NO_MATCH in line]) == 1


def test_auto_backend_selects_the_best_backend_here(numpy_runs):
    code, text = numpy_runs[0]["auto"]
    assert code == 0, text
    assert "test_pirl.py::test_act[full-torch-" in text
    assert "[full-auto-" not in text


def test_json_has_figures_and_missing_backends_show_their_reason(numpy_runs):
    code, text = numpy_runs[0]["measured"]
    assert code == 0, text
    assert "OpenMP wait policy: " in text
    assert "1 passed, 1 skipped" in text
    assert "neuron: torch is not installed (install AWS's own torch-neuronx on" in text
    machine = machine_of(numpy_runs[2])
    assert {"cpu_model", "cores", "threads", "blas", "versions", "git", "seed"} <= machine.keys()
    assert {"numpy", "torch", "jax"} <= machine["versions"].keys()
    limits = machine["limits"]
    assert limits.keys() == {"threads", "float32_flops", "bfloat16_flops", "copy_bytes"}
    assert limits["threads"] == machine["threads"] == 1
    assert (limits["float32_flops"] > 0, limits["bfloat16_flops"], limits["copy_bytes"] > 0) == (True, 0, True)
    (benchmark,) = numpy_runs[2]["benchmarks"]
    info = benchmark["extra_info"]
    wanted = {
        "id", "workload", "op", "form", "backend", "axes", "device", "threads", "calls", "seconds_per_call",
        "items_per_second", "unit", "limit_share", "spread",
    }  # fmt: skip
    assert wanted <= info.keys()
    assert info["id"] == "pirl.act[full-numpy-32]"
    assert benchmark["params"] == {"form": "full", "backend": "numpy", "hidden": 32}
    assert info["seconds_per_call"] * info["items_per_second"] == pytest.approx(1)
    assert benchmark["stats"]["median"] == pytest.approx(info["seconds_per_call"])
    assert info["samples"] == benchmark["stats"]["rounds"]
    first, middle, third = np.percentile(benchmark["stats"]["data"], [25, 50, 75])
    assert info["spread"] == pytest.approx((third - first) / middle)


def test_tables_by_parameter_and_profiles_are_shown(numpy_runs):
    for shown in SHOWN:
        code, text = numpy_runs[0][shown]
        assert code == 0, text
        assert shown in text


def test_run_that_measures_nothing_fails(numpy_runs):
    code, text = numpy_runs[0]["missing"]
    assert code == 1
    assert "1 skipped" in text
    assert "0 of 1 selected benchmark measured; the others were skipped (-rs shows why), " in text


def test_missing_backend_that_is_required_fails(numpy_runs):
    code, text = numpy_runs[0]["required"]
    assert code == 1
    assert "RL_PERF_REQUIRE=neuron, but neuron: torch is not installed" in text


def test_backend_table_names_every_backend_and_how_to_install_it(tmp_path):
    done = python("-m", "rl_impls", PYTHONPATH=hiding(tmp_path, *HEAVY))
    assert done.returncode == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert lines.keys() >= BACKENDS.keys()
    assert " yes" in lines["numpy"]
    for name, line in lines.items():
        torch_is_missing = "torch is not installed (pip install 'rlgauge-workloads[torch]')" in line
        assert torch_is_missing or name not in ("torch", "torch-trace")
    assert "jax is not installed (pip install 'rlgauge-workloads[jax]')" in lines["jax"]


TOY = {
    "rl_impls/toy/__init__.py": '"""A toy."""\n',
    "rl_impls/toy/options.py": """from ..common.config import config

@config
class Options:
    pass

FORMS = {"naive": Options(), "full": Options()}
""",
    "rl_impls/toy/_numpy.py": """import os, subprocess, time
from multiprocessing import shared_memory

def double(config, example, *, options, compiler):
    return lambda x: x * config["factor"]

overstated = double

class Hang:
    def __init__(self):
        self.memory, self.child = shared_memory.SharedMemory(create=True, size=8), subprocess.Popen(["sleep", "600"])
    def __call__(self, x):
        with open(os.environ["HELD"], "w") as file:
            file.write(f"{os.getpid()} {self.child.pid} {self.memory.name}\\n")
        time.sleep(600)
    def close(self):
        self.child.kill()
        self.child.wait()
        self.memory.close()
        self.memory.unlink()

def hang(config, example, *, options, compiler):
    return Hang()
""",
    "rl_impls/toy/problem.py": """import numpy as np

from ..common.problem import Problem


def problem(op, seed, batch_size, **more):
    numbers = np.random.default_rng(seed).random(batch_size)
    return Problem("toy", op, {"factor": 2}, (numbers,), "numbers", batch_size, **more)
""",
    "perf_tests/test_toy.py": """import os
from pathlib import Path

from rl_impls.toy.problem import problem

from .grid import grid
from .ops import build


def time(bench, form, backend, *given, **more):
    op = build(problem(*given, **more), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(form=("full",), backend=("numpy",), batch_size=(1000,), gate=[{}])
def test_double(bench, seed, form, backend, batch_size):
    time(bench, form, backend, "double", seed, batch_size)


@grid(form=("full",), backend=("numpy",), batch_size=(1000,), bench=[{}])
def test_overstated(bench, seed, form, backend, batch_size):
    more = {"flops": 1e15, "unreferenced": "its cost is wrong on purpose"}
    time(bench, form, backend, "overstated", seed, batch_size, **more)


@grid(form=("full",), backend=("numpy",), batch_size=(1000,), bench=[{}])
def test_again(bench, seed, form, backend, batch_size):
    tried = Path(os.environ.get("TRIED", "/"))
    if not tried.exists():
        tried.touch()
        raise OSError("the first time")
    time(bench, form, backend, "double", seed, batch_size)


@grid(form=("full",), backend=("numpy",), batch_size=(1000,), bench=[{}])
def test_untimed(bench, seed, form, backend, batch_size):
    if "UNTIMED" not in os.environ:
        time(bench, form, backend, "double", seed, batch_size)


@grid(form=("full",), backend=("numpy",), batch_size=(1000,), bench=[{}])
def test_hang(bench, seed, form, backend, batch_size):
    time(bench, form, backend, "hang", seed, batch_size, unreferenced="it never ends")
""",
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    copy_with(folder, TOY)
    for name in (".cache", ".benchmarks"):  # every run creates them
        (folder / name).mkdir()
    return folder


@pytest.fixture(scope="module")
def variables(toy, tmp_path_factory):
    """Environment variables for running the toy without torch and JAX, and without measuring the machine's limits."""
    path = hiding(tmp_path_factory.mktemp("hiding"), *HEAVY, root=toy)
    return {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "", "RLGAUGE_LIMITS": json.dumps(LIMITS)}


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)


@pytest.fixture(scope="module")
def toy_runs(toy, variables):
    """Run pytest several times on the toy; return exit code and output by name of the run."""
    timed = (*TIMED, "perf_tests/test_toy.py", "--workload", "toy", "--op")
    runs = {
        "added": (*timed, "double"),
        "reference": ("-q", "correctness_tests/test_against_reference.py", "--workload", "toy"),
        "overstated": (*timed, "overstated"),
        "untimed": ("UNTIMED=1", *timed, "double", "--op", "untimed"),  # last: the variable stays set
    }
    return pytest_runs(runs, cwd=toy, **variables)[0]


def test_workload_is_added_by_its_own_files_alone(toy_runs):
    code, text = toy_runs["added"]
    assert code == 0, text
    assert "toy.double batch_size 1000" in text
    assert "1 passed" in text
    code, text = toy_runs["reference"]
    assert code == 0, text
    assert " passed" in text


def test_row_above_the_peak_of_the_machine_is_a_warning(toy_runs):
    code, text = toy_runs["overstated"]
    assert code == 0, text
    assert "1 passed" in text
    assert "        above the measured peak\n" in text
    warning = r"Above the machine's measured peak: toy\.overstated\[full-numpy-1000\] \(\d+%\)\. "
    assert re.search(warning, " ".join(text.split()))
    assert "ERROR" not in text


def test_benchmark_that_times_nothing_fails_the_run(toy_runs):
    code, text = toy_runs["untimed"]
    assert code == 1, text
    assert "2 passed" in text
    assert "ERROR: 1 of 2 selected benchmarks measured; the others were skipped" in text


def test_a_backend_that_fails_fails_the_run_though_a_later_one_passes(toy, variables, tmp_path):
    tests = (f"perf_tests/test_toy.py::test_{name}" for name in ("double", "again"))
    command = "-m", "perf_tests.run", *tests, "--backend", "numpy,numpy", "--benchmark-max-time=0.01"
    command += "--json", tmp_path / "out.json"
    done = python(*command, cwd=toy, **variables, TRIED=str(tmp_path / "tried"))
    assert done.returncode == 1, done.stdout
    assert "OSError: the first time" in done.stdout
    assert "toy.double batch_size 1000" in done.stdout
    result = json.loads(command[-1].read_text())
    assert machine_of(result)["limits"] == LIMITS  # given, so not measured
    measured = [benchmark["name"].partition("[")[0] for benchmark in result["benchmarks"]]
    assert measured == ["test_double", "test_double", "test_again"]


def test_a_run_without_an_available_backend_fails(toy, variables):
    done = python("-m", "perf_tests.run", "--workload", "toy", "--backend", "neuron", cwd=toy, **variables)
    assert (done.returncode, "Nothing was measured; the reasons are above." in done.stdout) == (5, True), done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_interrupted_run_leaves_no_process_memory_or_file(toy, variables, tmp_path, number):
    result, held = tmp_path / "result.json", tmp_path / "held"
    result.write_text("kept")
    before = files_of(toy)
    command = [sys.executable, "-m", "perf_tests.run", "perf_tests/test_toy.py::test_hang", "--json", str(result)]
    how = {"cwd": toy, "env": environment(**variables, HELD=str(held)), "stderr": subprocess.STDOUT}
    with started(command, **how) as process:
        until(lambda: held.exists() and held.read_text().endswith("\n"), "a call of the benchmark")
        process.send_signal(number)
        text, _ = process.communicate(timeout=60)
    *pids, memory = held.read_text().split()
    until(lambda: not any(map(alive, pids)), "the end of the worker and of its child processes")
    assert not Path("/dev/shm", memory).exists()
    assert process.returncode == 130, text
    assert "KeyboardInterrupt" in text
    assert files_of(toy) == before
    assert result.read_text() == "kept"
    assert files_of(tmp_path) == [held, result]


def test_asv_times_a_new_workload_and_skips_a_backend_that_is_not_installed(toy, variables):
    code = """
import itertools, json, sys
sys.path.insert(0, "perf_tests")
from asv_runner.discovery import disc_benchmarks, get_benchmark_from_name
names = [b.name for b in disc_benchmarks("perf_tests/asv")]
b = get_benchmark_from_name("perf_tests/asv", "snake.env_step.time_call")
absent = list(itertools.product(*b.params)).index(("'vectorised'", "'jax'", "1024"))
b.set_param_idx(absent)
skipped = b.do_setup(), b.do_run()
b = get_benchmark_from_name("perf_tests/asv", "pirl.pde_loss.time_call")
b.set_param_idx(0)
skipped += (b.do_setup(),)
b = get_benchmark_from_name("perf_tests/asv", "toy.double.time_call")
b.set_param_idx(0)
b.do_setup()
samples = b.do_run()["samples"]
b.do_teardown()
print(json.dumps([names, skipped, samples]))
"""
    done = python("-c", code, cwd=toy, **variables)
    assert done.returncode == 0, done.stderr[-2000:]
    reason, line = done.stdout.splitlines()
    assert "torch is not installed" in reason
    names, skipped, samples = json.loads(line)
    assert skipped == [True, None, True]
    assert "toy.double.time_call" in names
    assert "pirl.forward.time_call" in names
    assert len(names) == len(set(names))
    assert min(samples) > 0
