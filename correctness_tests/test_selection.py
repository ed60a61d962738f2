"""Selections: a wrong name lists the known ones, and nothing selected is never a green run."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from perf_tests.selection import Selection, axis, in_order, selected, selection_of
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
            r"unknown op 'fwd'; known: act, .*collect_and_learn, .*, train_step\b",
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
        selected(selection)


def test_tiers_contain_each_other():
    gate, bench, full = ({one.id for one in selected(Selection(tier=tier))} for tier in ("gate", "bench", "full"))
    assert gate < bench < full


def test_a_selection_keeps_what_it_names_and_nothing_else():
    for name in ("batch_size", "batch"):
        chosen = selected(Selection(backends=("jax",), ops=("forward",), axes={name: ("1", "32")}, tier="full"))
        assert {one.axes["batch_size"] for one in chosen} == {1, 32}
        assert {(one.params["backend"], one.op) for one in chosen} == {("jax", "forward")}


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


@pytest.mark.parametrize(("tier", "included"), [("gate", [True, False, False]), ("bench", [True, True, False]),
                                                ("full", [True, True, True])])  # fmt: skip
def test_a_tier_includes_those_before_it(tier, included):
    assert [Selection(tier=tier).has(name) for name in ("gate", "bench", "full")] == included


def test_what_is_asked_for_is_said_in_words():
    assert str(Selection()) == str(Selection(tier="full", axes={})) == "everything"
    asked = Selection(("a", "b"), ("act",), ("full",), ("jax",), {"batch": ("1", "32"), "io": ("host",)})
    assert str(asked) == ("workload a or b, op act, form full, backend jax, axis batch 1 or 32, axis io host")


@pytest.mark.parametrize("part", ["workloads", "ops", "forms", "backends"])
def test_each_part_of_a_selection_keeps_what_it_names(part):
    place = ["workloads", "ops", "forms", "backends"].index(part)
    one = Selection(**{part: ("a", "b")})
    for value, kept in (("a", True), ("b", True), ("c", False), ("ab", False)):
        parts = ["x"] * 4
        parts[place] = value
        assert one.keeps(*parts, {}) is kept


def test_axes_keep_values_as_text_and_nothing_of_what_lacks_the_axis():
    one = Selection(axes={"batch": ("1", "32"), "io": ("host",)})
    kept = [
        one.keeps("w", "o", "f", "b", axes)
        for axes in (
            {"batch": 32, "io": "host", "more": 1}, {"batch": 3, "io": "host"}, {"batch": 1, "io": "own"},
            {"batch": 1}, {},
        )
    ]  # fmt: skip
    assert kept == [True, False, False, False, False]
    assert Selection(axes={"batch": ()}).keeps("w", "o", "f", "b", {})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("batch=1", ("batch", ("1",))),
        ("batch= 1, 2 ,", ("batch", ("1", "2"))),
        ("name=a=b", ("name", ("a=b",))),
        ("batch", None),
        ("batch=", None),
        ("batch= , ", None),
    ],
)
def test_an_axis_is_a_name_and_values(text, found):
    if found:
        assert axis(text) == found
    else:
        with pytest.raises(ValueError, match=re.escape(f"--axis: got {text!r}, wanted name=value[,value]")):
            axis(text)


def test_known_values_of_axes_are_sorted_with_numbers_first():
    assert in_order({10, 9, "all"}) == ["9", "10", "all"]


def test_a_backend_that_is_asked_for_twice_is_one(monkeypatch):
    options = {name: () for name in ("workload", "op", "form")} | {"backend": ("torch", "auto"), "axis": []}
    monkeypatch.setattr(backends, "resolve", lambda name: "torch")
    assert selection_of(SimpleNamespace(getoption=options.get)) == Selection(backends=("torch",), axes={})
