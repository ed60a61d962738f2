"""Which backends a workload is for, and which of them ``auto`` is."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from perf_tests.recorded import benchmarks
from rl_impls import __main__, backends, params

from .names import unlike

HERE = {True: lambda: None, False: lambda: "torch finds no CUDA device"}


@pytest.fixture(params=[True, False], ids=["cuda", "no cuda"])
def best(request, monkeypatch):
    """The name of the best backend where there is a CUDA device, and where there is none."""
    monkeypatch.setitem(backends.DEVICES, ("torch", "cuda"), HERE[request.param])
    return "torch-cuda" if request.param else "torch"


def configs():
    """The configuration of each workload that can be trained."""
    from rl_impls.pirl.agent import Config as Pirl
    from rl_impls.snake.agent import Config as Snake
    from rl_impls.treasurehunt.agent import Config as TreasureHunt

    return Pirl, Snake, TreasureHunt


def test_auto_is_the_best_device_found(best):
    assert backends.resolve("auto") == best


@pytest.mark.parametrize("name", backends.BACKENDS)
def test_a_name_stays_what_it_is(name, best):
    assert backends.resolve(name) == name


def test_an_unknown_name_is_refused_with_the_known_ones_and_auto():
    with pytest.raises(ValueError, match=r"unknown backend 'best'; known: numpy, .*, auto$"):
        backends.resolve("best")


def test_a_configuration_keeps_the_backend_that_was_found(best):
    for config in configs():
        made = config(backend="auto")
        assert made == config(backend=best)
        assert "auto" not in asdict(made).values()


def saved_with(path):
    """The backend that a checkpoint names."""
    return json.loads(params.load_with_metadata(path)[1]["config"])["backend"]


def test_a_checkpoint_names_the_backend_that_was_found(tmp_path, monkeypatch):
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


def test_no_benchmark_is_named_after_auto():
    assert "auto" not in backends.BACKENDS
    assert not [one.id for one in benchmarks() if "auto" in one.params.values()]


@pytest.mark.parametrize("workload", backends.workloads())
def test_a_workload_is_for_the_backends_of_its_benchmarks(workload):
    timed = {one.params["backend"] for one in benchmarks((workload,))}
    wrong = unlike(backends.backends_of(workload), timed)
    assert not wrong, f"rl_impls/{workload}/__init__.py: BACKENDS {wrong}, as in perf_tests/test_{workload}.py"


def test_backends_that_a_workload_lists_by_mistake_or_not_at_all_are_named(monkeypatch):
    from rl_impls import snake

    monkeypatch.setattr(snake, "BACKENDS", ("jaxx", *(name for name in snake.BACKENDS if name != "jax")))
    with pytest.raises(AssertionError, match=r"^rl_impls/snake/__init__.py: BACKENDS lacks 'jax', has 'jaxx' too many"):
        test_a_workload_is_for_the_backends_of_its_benchmarks("snake")


def test_the_table_says_neither_yes_nor_no_where_a_workload_is_not_for_a_backend(capsys):
    __main__.main()
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    for name, *marks in rows:
        for workload, mark in zip(head, marks):
            assert (mark == "-") == (name not in backends.backends_of(workload))
            assert mark in ("yes", "no", "-")


def test_a_workload_that_lists_no_backends_is_for_those_whose_source_it_has(monkeypatch):
    from rl_impls import snake

    monkeypatch.delattr(snake, "BACKENDS")
    assert list(backends.backends_of("snake")) == list(backends.BACKENDS)
