"""Selecting benchmarks by workload, op, form, backend, axes and tier."""

from types import SimpleNamespace

import pytest

from perf_tests.selection import Selection, selected, selection_of
from rl_impls import backends
from rl_impls.pirl.options import FORMS
from rlgauge.workers import SIDE


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(workloads=("pril",)), r"unknown workload 'pril' \(choose from .*pirl"),
        (Selection(tier="all"), r"unknown tier 'all' \(choose from gate, bench, full"),
        (Selection(axes={"size": ("1",)}), r"unknown axis 'size' \(choose from .*batch"),
        (Selection(workloads=("snake",), axes={"batch_size": ("3",)}),
         r"of axis batch_size '3' \(choose from 32, 64, 128, 256\)$"),
        (Selection(backends=("neuron",), ops=("train_step", "act"), axes={"batch_size": ("8",)}),
         r"^op train_step or act, backend neuron, axis batch_size 8: no benchmark of any tier matches; change "),
    ],
)  # fmt: skip
def test_wrong_name_is_an_error_that_lists_the_known_ones(selection, message):
    with pytest.raises(ValueError, match=message):
        selected(selection)


def test_tiers_contain_each_other():
    gate, bench, full = ({one.id for one in selected(Selection(tier=tier))} for tier in ("gate", "bench", "full"))
    assert gate < bench < full


def test_selection_keeps_what_it_names_and_nothing_else():
    chosen = selected(Selection(backends=("jax",), ops=("forward",), axes={"batch_size": ("1", "32")}, tier="full"))
    assert {one.axes["batch_size"] for one in chosen} == {1, 32}
    assert {(one.params["backend"], one.op) for one in chosen} == {("jax", "forward")}


def test_unknown_op_is_an_error():
    with pytest.raises(backends.OpUnavailable, match="pirl has no op 'fly' on numpy"):
        backends.get("numpy").build("pirl", "fly", {}, (), FORMS["full"])


def test_values_of_a_repeated_axis_add_up():
    options = {**dict.fromkeys(("workload", "op", "form", "backend"), ()), "tier": "full"}
    options["axis"] = ["batch_size=32", "batch_size=128,256", "side=84"]
    found = selection_of(SimpleNamespace(getoption=options.get))
    assert found.axes == {"batch_size": ("32", "128", "256"), "side": ("84",)}


def test_tier_defaults_to_gate_in_a_worker_and_to_bench_elsewhere(monkeypatch):
    config = SimpleNamespace(getoption=dict.fromkeys(("workload", "op", "form", "backend", "axis"), ()).get)
    assert selection_of(config).tier == "bench"
    monkeypatch.setenv(SIDE, "head")
    assert selection_of(config).tier == "gate"
