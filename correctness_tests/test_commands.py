"""The commands as a user types them, each in a process of its own."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*arguments, cwd=ROOT, **environment):
    """Run a command of this Python; return its exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout


ONE = ("pytest", "--benchmark-only", "--op", "act", "--rounds", "2", "-p", "no:cacheprovider")


def test_collecting_imports_neither_torch_nor_jax_and_is_quick():
    code = "import pytest, sys; end = pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider']); "
    code += "print('heavy:', sorted({'torch', 'jax', 'gym', 'procgen'} & sys.modules.keys())); sys.exit(end)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    took, loops = [], []
    for _ in range(3):
        start = time.process_time()
        sum(i * i for i in range(1_000_000))
        loops.append(time.process_time() - start)
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
        assert done.returncode == 0, done.stdout[-2000:]
        assert "heavy: []" in done.stdout
    assert min(took) < 70 * min(loops)  # 3 s of CPU where a million squares take 0.04 s


def test_a_benchmark_reports_its_figures(tmp_path):
    import json

    code, text = run(*ONE, "--backend", "numpy", "--benchmark-json", str(tmp_path / "out.json"))
    assert code == 0, text
    assert "OpenMP waits by" in text
    assert "pirl.act" in text
    result = json.loads((tmp_path / "out.json").read_text())
    machine = result["machine_info"]["rlgauge"]
    assert {"cpu_model", "cores", "threads", "blas", "versions", "git", "seed"} <= machine.keys()
    assert {"numpy", "torch", "jax"} <= machine["versions"].keys()
    info = result["benchmarks"][0]["extra_info"]
    wanted = {
        "id", "workload", "op", "form", "backend", "axes", "device", "threads", "calls", "seconds_per_call",
        "items_per_second", "unit", "limit_share", "counters",
    }  # fmt: skip
    assert wanted <= info.keys()
    assert info["id"] == "pirl.act[full-numpy]"
    assert info["seconds_per_call"] * info["items_per_second"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--backend", "tensorflow"), "unknown backend 'tensorflow'; known: numpy"),
        (("--axis", "batch"), "--axis: got 'batch', wanted name=value"),
        (("--threads", "0"), "threads: got 0, wanted 1 to"),
        (("--rounds", "0"), "--rounds: got 0, wanted 1 or more"),
        (("--tier", "gate", "--workload", "pirl", "--op", "act"), "matches none"),
    ],
)
def test_a_mistaken_option_ends_the_run_with_a_clear_error(arguments, message):
    code, text = run("pytest", "--benchmark-only", *arguments)
    assert code == 4
    assert message in text
    assert "Traceback" not in text


def test_the_best_backend_here_can_be_asked_for_and_is_no_part_of_an_id():
    code, text = run("pytest", "--benchmark-only", "--collect-only", "-q", "--op", "act", "--backend", "auto")
    assert code == 0, text
    assert "test_perf[pirl.act[full-torch" in text
    assert "auto" not in text.replace("auto-", "").split("test_perf")[1]


def test_a_missing_backend_is_skipped_with_its_reason_and_the_run_is_not_green():
    code, text = run(*ONE, "--backend", "neuron", "-rs")
    assert "SKIPPED" in text
    assert "neuron: " in text
    assert code == 1
    assert "1 benchmarks were selected and 0 were measured" in text


def test_a_required_backend_that_is_missing_fails():
    code, text = run(*ONE, "--backend", "numpy,neuron", RL_PERF_REQUIRE="numpy,neuron")
    assert code == 1
    assert "RL_PERF_REQUIRE=numpy,neuron, but neuron: " in text
    code, text = run(*ONE, "--backend", "numpy,neuron", RL_PERF_REQUIRE="numpy")
    assert code == 0, text


def test_the_backend_table_names_every_backend_and_the_install_line(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name in ('onnxruntime',) else find(name, *a)\n"
    )
    code, text = run("rl_impls", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert code == 0
    assert "onnxruntime is not installed (pip install 'rlgauge[onnx]')" in text
    assert any(line.startswith("numpy ") and " yes" in line for line in text.splitlines())
    assert any(line.startswith("neuron ") and "torch_neuronx" in line for line in text.splitlines())


TOY = {
    "rl_impls/toy/__init__.py": '"""A toy."""\n',
    "rl_impls/toy/knobs.py": """from dataclasses import dataclass
@dataclass(frozen=True)
class Knobs:
    pass
FORMS = {"naive": Knobs(), "full": Knobs()}
""",
    "rl_impls/toy/_numpy.py": """def double(fixed, example, *, knobs, lower):
    return lambda x: x * fixed["factor"]
""",
    "perf_tests/suite/cases/toy.py": """import numpy as np
from ..case import Case, Inputs
def inputs(rng, batch):
    return Inputs({"factor": 2}, (rng.random(batch),))
CASES = (Case("toy", "double", inputs, ("numpy",), "numbers", forms=("full",), axes={"batch": (1000,)},
              items=lambda batch: batch, gate=[{}]),)
""",
}


@pytest.fixture
def toy(tmp_path):
    """A copy of the repository with one more workload, which touches only its own files."""
    for name in ("rl_impls", "perf_tests", "correctness_tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (ROOT / ".cache").mkdir(exist_ok=True)
    (tmp_path / ".cache").symlink_to(ROOT / ".cache")
    for name, text in TOY.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_workload_is_added_by_its_own_files_alone(toy):
    code, text = run("pytest", "--benchmark-only", "--workload", "toy", cwd=toy, PYTHONPATH=str(toy))
    assert code == 0, text
    assert "toy.double batch 1000" in text
    assert "1 passed" in text
    file = "correctness_tests/test_against_reference.py"
    code, text = run("pytest", file, "--workload", "toy", cwd=toy, PYTHONPATH=str(toy))
    assert code == 0, text
    assert "1 passed" in text
    code, text = run("rl_impls", cwd=toy, PYTHONPATH=str(toy))
    assert "toy" in text.splitlines()[0]


def test_asv_discovers_and_times_a_new_workload(toy):
    listing = toy / "found.json"
    code = (
        "import sys, json; sys.path.insert(0, 'perf_tests')\n"
        "from asv_runner.discovery import disc_benchmarks, get_benchmark_from_name\n"
        "names = [b.name for b in disc_benchmarks('perf_tests/suite')]\n"
        "b = get_benchmark_from_name('perf_tests/suite', 'toy.double.time_sample')\n"
        "b.set_param_idx(0); b.do_setup(); out = b.do_run(); b.do_teardown()\n"
        f"json.dump([names, out['samples']], open({str(listing)!r}, 'w'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=toy,
        env={**os.environ, "PYTHONPATH": str(toy)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    import json

    names, samples = json.loads(listing.read_text())
    assert "toy.double.time_sample" in names
    assert "pirl.forward.time_sample" in names
    assert len(names) == len(set(names))
    assert not [name for name in names if "CaseBenchmark" in name]
    assert min(samples) > 0


def test_make_lists_its_targets_by_default():
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    for target in ("setup", "bench", "bench-quick", "test", "test-slow", "lint", "asv", "clean"):
        assert f"make {target} " in done.stdout
