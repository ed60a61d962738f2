"""A claim as it is written: what its sides are called and count for, what is a mistake in it."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from perf_tests.suite.cases import variants
from perf_tests.suite.claim import (
    Changed,
    Claim,
    ClaimsError,
    Comparison,
    Figure,
    Side,
    alone,
    between,
    removed,
    stated_in,
)
from rl_impls import backends

ACT = "snake.act[naive-torch-envs1]"
FORWARD = "pirl.forward[full-numpy-batch32-iohost-hidden32]"


def made(rng):
    """Return a function that a claim has written itself."""
    return lambda: None


@pytest.mark.parametrize(
    ("changed", "label"),
    [
        ({}, "a.b[c]"),
        ({"threads": 1}, "a.b[c], 1 thread"),
        ({"threads": 2}, "a.b[c], 2 threads"),
        ({"words": "other inputs"}, "a.b[c], other inputs"),
        (
            {"knobs": {"x": 1, "y": "z"}, "threads": 4, "words": "others"},
            "a.b[c], x=1, y=z, 4 threads, others",
        ),
    ],
)
def test_a_label_names_all_that_is_changed(changed, label):
    assert Side("a.b[c]", **changed).label == label


def test_the_op_of_a_side_is_what_stands_before_the_bracket():
    assert Side("mario.frames[kept]").op == "mario.frames"
    assert Side("mario.frames").op == "mario.frames"


def test_an_unchanged_side_is_the_benchmark_itself_and_a_changed_one_is_called_by_its_label():
    assert Side(ACT).variant is variants()[ACT]
    one = Side(ACT, {"inference": "no_grad"}).variant
    assert isinstance(one, Changed)
    assert one.id == one.label == f"{ACT}, inference=no_grad"
    plain = variants()[ACT]
    assert (one.case, one.form, one.backend, one.axes, one.tier) == (
        plain.case, plain.form, plain.backend, plain.axes, plain.tier,
    )  # fmt: skip
    assert one.knobs() == replace(plain.knobs(), inference="no_grad")
    assert np.array_equal(one.inputs(3).args[0], plain.inputs(3).args[0])
    with pytest.raises(ClaimsError, match=r"^no benchmark is called 'x'; python -m perf_tests list names them all$"):
        Side("x").variant  # noqa: B018


def test_given_inputs_are_drawn_from_the_seed():
    one = Side(ACT, given=lambda rng: rng.random()).variant
    assert one.inputs(3) == np.random.default_rng(3).random() != one.inputs(4)
    assert one.knobs() == variants()[ACT].knobs()


@pytest.mark.parametrize(
    ("side", "items", "unit"),
    [
        (Side(FORWARD), 32.0, "samples"),
        (Side(FORWARD, work=5.0), 5.0, "calls"),
        (Side("a.b[c]", make=made), 1.0, "calls"),
        (Side("a.b[c]", make=made, work=8), 8, "calls"),
    ],
)
def test_a_call_counts_for_its_items_unless_something_else_is_given(side, items, unit):
    assert (side.items, side.unit) == (items, unit)


def test_a_function_needs_its_own_backend_and_a_benchmark_that_of_its_id(monkeypatch):
    monkeypatch.setattr(backends.Backend, "missing", lambda self: f"{self.name} is missing")
    cuda = Side("snake.act[full-torch-cuda-envs1]", backend="jax")
    assert (cuda.missing(), cuda.device()) == ("torch-cuda is missing", "cuda")
    for side, name, device in (
        (Side("a.b[c]", make=made), "numpy", "cpu"),
        (Side("a.b[c]", make=made, backend="neuron"), "neuron", "neuron"),
    ):
        assert (side.missing(), side.device()) == (f"{name} is missing", device)


def test_knobs_are_set_on_the_change_or_put_back_on_the_base():
    assert alone(ACT, "spread", {"a": 1, "b": 1}, b=2) == Comparison(
        Side(ACT, {"a": 1, "b": 1}), Side(ACT, {"a": 1, "b": 2}), "spread"
    )
    assert removed(ACT, "spread", {"a": 1, "b": 1}, b=2) == Comparison(
        Side(ACT, {"a": 1, "b": 2}), Side(ACT, {"a": 1, "b": 1}), "spread"
    )
    assert alone(ACT, b=2) == Comparison(Side(ACT), Side(ACT, {"b": 2}), "seconds")
    assert removed(ACT, b=2) == Comparison(Side(ACT, {"b": 2}), Side(ACT), "seconds")
    assert between("x", "y", "resident") == Comparison(Side("x"), Side("y"), "resident")
    assert between("x", "y").measure == "seconds"


def claim(**fields):
    return Claim("toy", "words", "source", "2 x", **{"contexts": {"alone": alone(ACT, inference="no_grad")}, **fields})


def test_the_sides_of_a_claim_are_those_of_its_contexts_and_figures():
    a, b, c, d, e = (Side(name) for name in "abcde")
    one = claim(contexts={"1": Comparison(a, b), "2": Comparison(c, d)}, figures=[Figure("f", e, "9/s")])
    assert one.sides == [a, b, c, d, e]
    assert (one.figures[0].of, one.least, one.same, one.evidence) == ("rate", None, None, "")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        *({"same": same} for same in ("bits", "close")),
        {"same": "returns", "evidence": "trial"},
        *({"contexts": {"alone": alone(ACT, measure, inference="no_grad")}} for measure in (
            "seconds", "allocated", "resident", "spread", "difference", "noted:x", "noted:x+y")),
        {"contexts": {}, "figures": [Figure("f", Side(ACT), "9/s")]},
        {"contexts": {}, "most_of": ["other"]},
        {"most_of": ["other", "toy"]},
        {"contexts": {"own": Comparison(Side("a.b[c]", make=made), Side(ACT))}},
    ],
)  # fmt: skip
def test_a_claim_without_mistakes_passes(fields):
    claim(**fields).check(["toy", "other"])
    claim(**fields).check()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"evidence": "trial"}, "evidence: got 'trial' with same=None"),
        ({"same": "bits", "evidence": "trial"}, "evidence: got 'trial' with same='bits'"),
        ({"same": "returns"}, "evidence: got '' with same='returns'"),
        ({"same": "Bits"}, "same: got 'Bits', wanted one of bits, close, returns"),
        ({"most_of": ["other", "another"]}, "most_of: no claim is called 'another'"),
        (
            {"contexts": {"alone": alone(ACT, "noted", inference="no_grad")}},
            "measure: got 'noted', wanted noted:NAME or one of seconds, allocated, resident, spread, difference",
        ),
        ({"figures": [Figure("f", Side("x"), "9/s")]}, "no benchmark is called 'x'; "),
        ({"contexts": {"1": between(ACT, "x")}}, "no benchmark is called 'x'; "),
        ({"contexts": {}}, "it has neither contexts nor figures"),
    ],
)
def test_a_mistake_in_a_claim_is_named_with_the_claim(fields, message):
    with pytest.raises(ClaimsError, match=f"^toy: {re.escape(message)}"):
        claim(**fields).check(["toy", "other"])


def test_a_claim_of_a_document_names_its_section_and_promises_nothing_unless_it_says_so():
    on = stated_in("speed.md")
    one = on("a", "it is fast", "section 3", least=2.0)
    assert (one.name, one.words, one.source, one.least) == ("a", "it is fast", "speed.md, section 3", 2.0)
    assert one.promised == "nothing: measured"
    assert on("a", "it is fast", "section 3", promised="2 x").promised == "2 x"


def test_items_of_a_benchmark_are_those_of_its_own_axes(monkeypatch):
    case = SimpleNamespace(items=lambda **axes: sum(axes.values()), unit="steps")
    monkeypatch.setattr(Side, "variant", SimpleNamespace(case=case, axes={"envs": 3, "every": 4}))
    assert (Side("x").items, Side("x").unit) == (7.0, "steps")
