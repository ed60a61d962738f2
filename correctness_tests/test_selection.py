"""Selections: a wrong name lists the known ones, and nothing selected is never a green run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from perf_tests.selection import Selection, select, selection_of
from rl_impls import backends
from rl_impls.pirl.knobs import FORMS, Knobs


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(workloads=("pril",)), r"unknown workload 'pril'; known: .*pirl"),
        (Selection(ops=("forwards",)), r"unknown op 'forwards'; known: .*forward"),
        (Selection(forms=("fast",)), r"unknown form 'fast'; known: .*full"),
        (Selection(backends=("tensorflow",)), r"unknown backend 'tensorflow'; known: numpy, torch"),
        (Selection(tier="all"), r"unknown tier 'all'; known: gate, bench, full"),
        (Selection(axes={"size": ("1",)}), r"unknown axis 'size'; known: .*batch"),
        (Selection(axes={"batch": ("3",)}), r"unknown value of axis batch '3'; known: .*\b8\b"),
        (
            Selection(workloads=("snake",), ops=("fwd",)),
            r"unknown op 'fwd'; known: act, collect_and_learn, .*, train_step$",
        ),
        (Selection(workloads=("snake",), axes={"batch": ("3",)}), r"of axis batch '3'; known: 32, 64, 128, 256$"),
        (
            Selection(backends=("neuron",), ops=("train_step", "act"), axes={"batch": ("8",)}),
            r"^op train_step or act, backend neuron, axis batch 8: matches none of the benchmarks of any tier$",
        ),
        (
            Selection(workloads=("pirl",), ops=("act",), tier="gate"),
            r"^workload pirl, op act: matches none of the benchmarks of tier gate; try --tier full$",
        ),
    ],
)
def test_a_wrong_name_is_an_error_that_lists_the_known_ones(selection, message):
    with pytest.raises(ValueError, match=message):
        select(selection)


def test_tiers_contain_each_other():
    gate, bench, full = ({v.id for v in select(Selection(tier=tier))} for tier in ("gate", "bench", "full"))
    assert gate < bench < full


def test_a_selection_keeps_what_it_names_and_nothing_else():
    chosen = select(Selection(backends=("jax",), ops=("forward",), axes={"batch": ("1", "32")}, tier="full"))
    assert {v.axes["batch"] for v in chosen} == {1, 32}
    assert {(v.backend, v.case.op) for v in chosen} == {("jax", "forward")}


@pytest.mark.parametrize("call", [backends.get, lambda name: backends.forms(name)])
def test_unknown_names_are_refused_by_the_registry(call):
    with pytest.raises(ValueError, match=r"unknown (backend|workload) 'x'; known: "):
        call("x")


def test_an_unknown_op_names_workload_op_and_source():
    with pytest.raises(backends.OpUnavailable, match="pirl has no op 'fly' on numpy"):
        backends.get("numpy").build("pirl", "fly", {}, (), FORMS["full"])


def test_an_unknown_knob_value_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown value of knob drift 'columns'; known: rows, vectorised"):
        Knobs(drift="columns")


def test_knobs_that_exclude_each_other_are_refused():
    with pytest.raises(ValueError, match=r"knob gradient: got by_hand with derivatives=autograd"):
        Knobs(gradient="by_hand")


def test_every_knob_starts_naive_and_full_changes_those_that_help():
    assert FORMS["naive"] == Knobs()
    same = [name for name in vars(Knobs()) if getattr(FORMS["full"], name) == getattr(Knobs(), name)]
    assert same == ["order", "autocast"]


@pytest.mark.parametrize(
    ("given", "tier"),
    [({}, "bench"), ({"gate_against": "main"}, "gate"), ({"gate_against": "main", "tier": "full"}, "full")],
)
def test_options_become_a_selection(monkeypatch, given, tier):
    options = {"workload": ("pirl",), "op": ("act",), "form": ("full",), "backend": ("auto", "torch", "jax")}
    options |= {"axis": ["batch=1,2", "io=host", "batch=8"], "tier": None, "gate_against": None} | given
    monkeypatch.setattr(backends, "resolve", lambda name: "torch" if name == "auto" else name)
    assert selection_of(SimpleNamespace(getoption=options.get)) == Selection(
        ("pirl",), ("act",), ("full",), ("torch", "jax"), {"batch": ("1", "2", "8"), "io": ("host",)}, tier
    )
