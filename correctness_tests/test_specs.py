"""What ops are built from and called with is said in ``spec``, and what is said there is so."""

from __future__ import annotations

import importlib
import itertools
import re
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from perf_tests.recorded import benchmarks, problem_of
from rl_impls import backends
from rl_impls.common.shapes import check_alike, check_mlp, sizes

DESCRIBED = [name for name in backends.workloads() if find_spec(f"rl_impls.{name}.spec")]
SHAPES = {"obs": "f32[B, 4]", "actions": "i32[B]", "done": "bool[B, K]", "rate": "f32"}

pytestmark = pytest.mark.usefixtures("one_thread")


def described(workload):
    """The module that says what the ops of a workload are built from."""
    return importlib.import_module(f"rl_impls.{workload}.spec")


def first_problems():
    """For each op, the problem of one benchmark of each source that is here, and its form and backend."""
    found = {}
    for one in benchmarks(tuple(DESCRIBED)):
        backend = backends.get(one.params["backend"])
        here = backend.name == backend.source and backend.missing() is None
        alone = not any(mark.name == "rlgauge" and mark.kwargs.get("cores") for mark in one.test.pytestmark)
        if here and alone and one.tier != "full" and one.params["form"] != "interleaved":
            found.setdefault((one.workload, one.op, backend.source), one)
    return [pytest.param(problem_of(one, 0), one.params, id=one.id) for one in found.values()]


FIRST = first_problems()


def build(problem, params, spec, args):
    """Build the op of a benchmark of another spec or other arguments."""
    backend = backends.get(params["backend"])
    example = tuple(map(backend.to_device, args))
    options = replace(backends.forms(problem.workload)[params["form"]], **problem.options)
    return backend.build(problem.workload, problem.op, spec, example, options)


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
    timed = {param.values[0].op for param in FIRST if param.values[0].workload == workload}
    assert spec.ARGUMENTS.keys() == spec.NEEDED.keys() >= timed
    ops = spec.NEEDED
    section = spec.Spec.__doc__.partition("Attributes:")[2]
    assert re.findall(r"^ +(\w+): ", section, re.M) == list(spec.Spec.__annotations__)
    needed = {name for names in spec.NEEDED.values() for name in names}
    assert needed <= spec.Spec.__annotations__.keys()
    package = importlib.import_module(f"rl_impls.{workload}")
    assert all(f"``{op}``" in package.__doc__ for op in ops)


@pytest.mark.parametrize(("problem", "params"), FIRST)
def test_an_op_is_built_of_what_it_is_said_to_need_and_of_nothing_else(problem, params):
    spec, config = described(problem.workload), dict(problem.config)
    anywhere = {name for names in spec.NEEDED.values() for name in names}
    names = {*spec.NEEDED[problem.op], *(spec.Spec.__annotations__.keys() - anywhere)}  # what no op needs is free
    fewer = {name: value for name, value in config.items() if name in names}
    assert callable(build(problem, params, fewer, problem.args))
    for name in spec.NEEDED[problem.op]:
        with pytest.raises(ValueError, match=f"^spec of {problem.op}: got no {name}; wanted "):
            build(problem, params, {key: value for key, value in fewer.items() if key != name}, problem.args)
    with pytest.raises(ValueError, match=f"^spec of {problem.op}: got the unknown name 'lr'; known: "):
        build(problem, params, config | {"lr": 0.1}, problem.args)


@pytest.mark.parametrize(("problem", "params"), FIRST)
def test_an_argument_of_another_shape_is_refused_when_the_op_is_built(problem, params):
    names, args = list(described(problem.workload).ARGUMENTS[problem.op]), problem.args
    for k, (name, value) in enumerate(zip(names, args, strict=True)):
        wrong = (*args[:k], np.zeros((*np.shape(value), 1), np.asarray(value).dtype), *args[k + 1 :])
        with pytest.raises(ValueError, match=rf"^{name}: got "):
            build(problem, params, dict(problem.config), wrong)


def test_a_net_has_the_names_and_shapes_of_another():
    check_alike("target", mlp(3, 5, 2), mlp(3, 5, 2))
    for wrong, said in (
        (mlp(3, 6, 2), r"w0: got \[3, 6\], wanted \[3, 5\], as in params"),
        (mlp(3, 5), r"w1: got None, wanted \[5, 2\], as in params"),
        (mlp(3, 5, 2, 1), r"w2: got \[2, 1\], wanted None, as in params"),
    ):
        with pytest.raises(ValueError, match=rf"^target: {said}$"):
            check_alike("target", wrong, mlp(3, 5, 2))


def has_target_net(problem):
    """Whether an op is built from the weights of an online net and of a target net."""
    return {"params", "target"} <= set(described(problem.workload).NEEDED[problem.op])


@pytest.mark.parametrize(("problem", "params"), [param for param in FIRST if has_target_net(param.values[0])])
def test_a_target_net_of_other_widths_than_the_online_net_is_refused_when_the_op_is_built(problem, params):
    config = dict(problem.config)
    wider = {name: np.tile(value, (2,) * value.ndim) for name, value in config["target"].items()}
    with pytest.raises(ValueError, match=r"^target\b"):
        build(problem, params, config | {"target": wider}, problem.args)
