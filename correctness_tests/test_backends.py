"""The backends of each workload, and which one ``auto`` resolves to."""

import json

import numpy as np
import pytest

from perf_tests.bench import device_is_busy
from perf_tests.ops import build, unavailable
from perf_tests.recorded import benchmarks
from rl_impls import __main__, backends, params
from rl_impls.procgen import problem as procgen
from rl_impls.snake.dqn import DQNAgent

from .workload_agents import make

HERE = {True: lambda: None, False: lambda: "torch finds no CUDA device"}


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(("cuda", "name"), [(True, "torch-cuda"), (False, "torch")])
def test_auto_resolves_to_the_best_device(cuda, name, monkeypatch):
    monkeypatch.setitem(backends.DEVICES, ("torch", "cuda"), HERE[cuda])
    assert backends.resolve("auto") == name


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_array_on_the_device_is_a_copy(name):
    backend, array = backends.get(name), np.ones(3, np.float32)
    moved = backend.to_device(array)
    array[:] = 2
    assert backend.to_host(moved).tolist() == [1, 1, 1]


def aligned(size):
    """Return ones f32[size], aligned so that JAX would share rather than copy their memory."""
    memory = np.zeros(4 * size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    ones = memory[start : start + 4 * size].view(np.float32)
    ones[:] = 1
    return ones


def test_arrays_of_a_jax_learner_are_copies():
    import jax

    from rl_impls.common.jax_learner import to_device

    compiler = backends.get("jax").new_compiler()
    sources = {"large": aligned(1 << 21), "number": np.int32(3)}
    kept = to_device(sources, compiler)
    again = to_device(kept, compiler)
    sources["large"][:] = 0
    assert kept["large"].min() == again["large"].min() == 1
    jax.tree.map(lambda array: array.delete(), kept)
    assert (again["large"].dtype, again["large"].min(), int(again["number"])) == (np.float32, 1, 3)


def test_jax_has_pending_work_until_it_is_waited_for():
    import jax

    backend = backends.get("jax")
    matrix = backend.to_device(np.ones((1000, 1000), np.float32))
    power = jax.jit(lambda x: x @ x @ x @ x @ x @ x @ x)
    backend.wait(power(matrix))  # compiles
    result = power(matrix)
    assert backend.pending()
    assert device_is_busy()
    backend.wait(result)
    assert not backend.pending()
    assert not device_is_busy()


def test_call_of_a_benchmark_returns_when_the_device_has_finished():
    op = build(procgen.forward(0, num_envs=64), "full", "jax")
    op.call(*op.args)  # compiles
    results = op.call(*op.args)  # kept: JAX does not list arrays that nothing refers to
    assert not op.backend.pending()
    del results


def saved_with(path):
    return json.loads(params.load_with_metadata(path)[1]["config"])["backend"]


def test_checkpoint_names_the_backend_that_auto_resolved_to(tmp_path, monkeypatch):
    from rl_impls.pirl.agent import PirlAgent
    from rl_impls.snake.agent import SnakeAgent

    monkeypatch.setitem(backends.DEVICES, ("torch", "cuda"), HERE[False])
    for kind, small in ((PirlAgent, {"hidden": (8,)}), (SnakeAgent, {"hidden": 8, "warm_up": 32, "capacity": 100})):
        path = tmp_path / kind.__name__
        kind("auto", seed=0, **small).save(path)
        assert saved_with(path) == "torch"
        kind("numpy" if kind is PirlAgent else "jax", seed=0, **small).save(path)
        loaded = kind.load(path, backend="auto")
        assert loaded.config.backend == "torch"
        loaded.save(path)
        assert saved_with(path) == "torch"


@pytest.mark.parametrize(
    ("act", "backend", "error"),
    [
        (lambda name: make("snake", name, form="compiled").prepare(), "jax-cuda", backends.BackendUnavailable),
        (lambda name: make("treasurehunt", name, form="compiled").prepare(), "jax-cuda", backends.BackendUnavailable),
        (lambda name: make("treasurehunt", name).evaluate(1, 0), "torch-cuda", backends.BackendUnavailable),
        (lambda name: make("treasurehunt", name).evaluate(1, 0), "numpy", backends.OpUnavailable),
        (lambda name: make("procgen", name).evaluate(1, 0), "torch-cuda", backends.BackendUnavailable),
        (lambda name: DQNAgent(4, 2, backend=name), "torch-cuda", backends.BackendUnavailable),
        (lambda name: DQNAgent(4, 2, backend=name), "numpy", backends.OpUnavailable),
    ],
)
def test_an_agent_on_a_backend_that_cannot_run_it_gives_the_reason(act, backend, error, monkeypatch):
    for library in ("torch", "jax"):
        monkeypatch.setitem(backends.DEVICES, (library, "cuda"), HERE[False])
    with pytest.raises(error):
        act(backend)


@pytest.mark.parametrize("workload", backends.workloads())
def test_workload_lists_the_backends_of_its_benchmarks(workload):
    timed = {one.params["backend"] for one in benchmarks((workload,))}
    assert set(backends.backends_of(workload)) == timed


def test_a_required_backend_without_its_device_fails(monkeypatch):
    error = backends.BackendUnavailable("torch-cuda", "no NVIDIA driver is installed", "install it")
    with pytest.raises(pytest.skip.Exception, match="no NVIDIA driver"):
        unavailable(error)
    monkeypatch.setenv("RL_PERF_REQUIRE", "torch-cuda")
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception)) as caught:
        unavailable(error)
    assert caught.type is pytest.fail.Exception
    assert str(caught.value).startswith("RL_PERF_REQUIRE=torch-cuda, but torch-cuda: no NVIDIA driver")


def test_table_shows_a_dash_where_a_workload_has_no_backend(capsys):
    __main__.main()
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    for name, *marks in rows:
        for workload, mark in zip(head, marks):
            assert (mark == "-") == (name not in backends.backends_of(workload))
            assert mark in ("yes", "no", "-")
