"""What ops are built from and called with is said in ``spec``, and what is said there is so."""

from __future__ import annotations

import importlib
import itertools
import re
from importlib.util import find_spec

import numpy as np
import pytest

from perf_tests.suite.cases import load, variants
from rl_impls import backends
from rl_impls.common.shapes import check_alike, check_mlp, sizes

DESCRIBED = [name for name in backends.workloads() if find_spec(f"rl_impls.{name}.spec")]
SHAPES = {"obs": "f32[B, 4]", "actions": "i32[B]", "done": "bool[B, K]", "rate": "f32"}

pytestmark = pytest.mark.usefixtures("one_thread")


def described(workload):
    """The module that says what the ops of a workload are built from."""
    return importlib.import_module(f"rl_impls.{workload}.spec")


def first_variants():
    """For each op, one benchmark of each source that is here."""
    found = {}
    for variant in variants().values():
        source = backends.get(variant.backend).source
        here = variant.backend == source and backends.get(source).missing() is None
        told = variant.case.workload in DESCRIBED
        if here and told and variant.case.cores != "own" and variant.form != "interleaved":
            found.setdefault((variant.case.name, source), variant)
    return [pytest.param(variant, id=variant.id) for variant in found.values()]


def build(variant, spec, args):
    """Build the op of a benchmark of another spec or other arguments."""
    backend = backends.get(variant.backend)
    example = tuple(map(backend.to_device, args))
    return backend.build(variant.case.workload, variant.case.op, spec, example, variant.knobs())


def values(batch=3, **changed):
    """Arrays as ``SHAPES`` says, but for those that are changed."""
    right = {
        "obs": np.zeros((batch, 4), np.float32), "actions": np.zeros(batch, np.int32),
        "done": np.zeros((batch, 2), bool), "rate": 0.5,
    }  # fmt: skip
    return list((right | changed).values())


def test_sizes_are_those_of_the_axes_that_have_a_name():
    assert sizes(SHAPES, values()) == {"B": 3, "K": 2}
    assert sizes(SHAPES, values(), B=3, Q=7) == {"B": 3, "K": 2, "Q": 7}
    float64 = values(obs=np.zeros((3, 4)), actions=np.zeros(3, np.int64))
    assert sizes(SHAPES, float64) == {"B": 3, "K": 2}
    assert sizes({}, ()) == {}


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_arrays_of_other_libraries_have_sizes_too(library):
    backend = backends.get(library)
    assert sizes(SHAPES, [backend.to_device(value) for value in values()]) == {"B": 3, "K": 2}


@pytest.mark.parametrize(
    ("changed", "known", "message"),
    [
        ({"obs": np.zeros((3, 5), np.float32)}, {}, "obs: got float32[3, 5], wanted f32[B, 4], B = 3"),
        ({"obs": np.zeros((2, 4), np.float32)}, {}, "actions: got int32[3], wanted i32[B], B = 2"),
        ({"obs": np.zeros((3, 4, 1), np.float32)}, {}, "obs: got float32[3, 4, 1], wanted f32[B, 4]"),
        ({"obs": np.zeros((3, 4), np.int32)}, {}, "obs: got int32[3, 4], wanted f32[B, 4]"),
        ({"actions": np.zeros(3, np.float32)}, {}, "actions: got float32[3], wanted i32[B], B = 3"),
        ({"done": np.zeros((3, 2), np.int8)}, {}, "done: got int8[3, 2], wanted bool[B, K], B = 3"),
        ({"rate": 1}, {}, "rate: got 1, wanted f32"),
        ({"rate": np.zeros(1, np.float32)}, {}, "rate: got float32[1], wanted f32"),
        ({"obs": "board"}, {}, "obs: got str, wanted f32[B, 4]"),
        ({}, {"K": 5}, "done: got bool[3, 2], wanted bool[B, K], B = 3, K = 5"),
    ],
)
def test_what_has_another_shape_or_kind_is_refused(changed, known, message):
    with pytest.raises(ValueError, match=r"^" + re.escape(message) + "$"):
        sizes(SHAPES, values(**changed), **known)


def test_too_few_and_too_many_arguments_are_refused():
    for given in (values()[:-1], [*values(), 1.0]):
        with pytest.raises(ValueError, match=f"^arguments: got {len(given)}, wanted 4: obs, actions, done, rate$"):
            sizes(SHAPES, given)


def mlp(*widths):
    """Layers of these widths."""
    layers = enumerate(itertools.pairwise(widths))
    return {
        name: value for k, (i, o) in layers for name, value in ((f"w{k}", np.zeros((i, o))), (f"b{k}", np.zeros(o)))
    }


def test_layers_that_do_not_fit_each_other_are_refused():
    assert check_mlp("params", mlp(3, 5, 2)) == (3, 2)
    for wrong in (mlp(3, 5, 2) | {"w1": np.zeros((4, 2))}, mlp(3, 5, 2) | {"b0": np.zeros(4)}):
        with pytest.raises(ValueError, match=r"^params: \w\d: got float64\[4(, 2)?\], wanted f32\[H1"):
            check_mlp("params", wrong)
    for wrong in ({}, mlp(3, 2) | {"v0": np.zeros(2)}, {"w0": np.zeros((3, 2))}, {"w1": np.zeros((3, 2)), "b1": 0}):
        with pytest.raises(ValueError, match=r"^params: got .*, wanted w0, b0, w1, b1"):
            check_mlp("params", wrong)


@pytest.mark.parametrize("workload", DESCRIBED)
def test_each_op_that_is_timed_and_each_name_of_a_spec_is_described(workload):
    spec = described(workload)
    ops = {case.op for case in load() if case.workload == workload}
    assert spec.ARGUMENTS.keys() == spec.NEEDED.keys() == ops
    section = spec.Spec.__doc__.partition("Attributes:")[2]
    assert re.findall(r"^ +(\w+): ", section, re.M) == list(spec.Spec.__annotations__)
    needed = {name for names in spec.NEEDED.values() for name in names}
    assert needed <= spec.Spec.__annotations__.keys()
    package = importlib.import_module(f"rl_impls.{workload}")
    assert all(f"``{op}``" in package.__doc__ for op in ops)


@pytest.mark.parametrize("chosen", first_variants())
def test_an_op_is_built_of_what_it_is_said_to_need_and_of_nothing_else(chosen):
    spec, inputs = described(chosen.case.workload), chosen.inputs(0)
    anywhere = {name for names in spec.NEEDED.values() for name in names}
    names = {*spec.NEEDED[chosen.case.op], *(spec.Spec.__annotations__.keys() - anywhere)}  # what no op needs is free
    fewer = {name: value for name, value in inputs.spec.items() if name in names}
    assert callable(build(chosen, fewer, inputs.args))
    for name in spec.NEEDED[chosen.case.op]:
        with pytest.raises(ValueError, match=f"^spec of {chosen.case.op}: got no {name}; wanted "):
            build(chosen, {key: value for key, value in fewer.items() if key != name}, inputs.args)
    with pytest.raises(ValueError, match=f"^spec of {chosen.case.op}: got the unknown name 'lr'; known: "):
        build(chosen, inputs.spec | {"lr": 0.1}, inputs.args)


@pytest.mark.parametrize("chosen", first_variants())
def test_an_argument_of_another_shape_is_refused_when_the_op_is_built(chosen):
    inputs = chosen.inputs(0)
    names = list(described(chosen.case.workload).ARGUMENTS[chosen.case.op])
    for k, (name, value) in enumerate(zip(names, inputs.args, strict=True)):
        wrong = (*inputs.args[:k], np.zeros((*np.shape(value), 1), np.asarray(value).dtype), *inputs.args[k + 1 :])
        with pytest.raises(ValueError, match=rf"^{name}: got "):
            build(chosen, inputs.spec, wrong)


def test_a_net_has_the_names_and_shapes_of_another():
    check_alike("target", mlp(3, 5, 2), mlp(3, 5, 2))
    for wrong, said in (
        (mlp(3, 6, 2), r"w0: got \[3, 6\], wanted \[3, 5\], as in params"),
        (mlp(3, 5), r"w1: got None, wanted \[5, 2\], as in params"),
        (mlp(3, 5, 2, 1), r"w2: got \[2, 1\], wanted None, as in params"),
    ):
        with pytest.raises(ValueError, match=rf"^target: {said}$"):
            check_alike("target", wrong, mlp(3, 5, 2))


def has_target_net(case):
    """Whether an op is built from the weights of an online net and of a target net."""
    return {"params", "target"} <= set(described(case.workload).NEEDED[case.op])


@pytest.mark.parametrize("chosen", [chosen for chosen in first_variants() if has_target_net(chosen.values[0].case)])
def test_a_target_net_of_other_widths_than_the_online_net_is_refused_when_the_op_is_built(chosen):
    inputs = chosen.inputs(0)
    wider = {name: np.tile(value, (2,) * value.ndim) for name, value in inputs.spec["target"].items()}
    with pytest.raises(ValueError, match=r"^target\b"):
        build(chosen, inputs.spec | {"target": wider}, inputs.args)
