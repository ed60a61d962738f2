"""Building an op from the wrong names or shapes is an error that names them."""

from __future__ import annotations

import importlib
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from perf_tests.recorded import benchmarks, problem_of
from rl_impls import backends

DESCRIBED = [name for name in backends.workloads() if find_spec(f"rl_impls.{name}.spec")]

pytestmark = pytest.mark.usefixtures("one_thread")


def described(workload):
    """Return the module that describes what the ops of a workload are built from and called with."""
    return importlib.import_module(f"rl_impls.{workload}.spec")


def first_problems():
    """Return, for each op and each source installed here, the problem and parameters of one benchmark."""
    found = {}
    for one in benchmarks(tuple(DESCRIBED)):
        backend = backends.get(one.params["backend"])
        here = backend.name == backend.library and backend.missing() is None
        alone = not any(mark.name == "rlgauge" and mark.kwargs.get("cores") for mark in one.test.pytestmark)
        if here and alone and one.tier != "full" and one.params["form"] != "interleaved":
            found.setdefault((one.workload, one.op, backend.library), one)
    return [pytest.param(problem_of(one, 0), one.params, id=one.id) for one in found.values()]


FIRST = first_problems()


def build(problem, params, spec, args):
    """Build the op of a benchmark from another spec or for other arguments."""
    backend = backends.get(params["backend"])
    example = tuple(map(backend.to_device, args))
    options = replace(backends.forms(problem.workload)[params["form"]], **problem.options)
    return backend.build(problem.workload, problem.op, spec, example, options)


@pytest.mark.parametrize(("problem", "params"), FIRST)
def test_missing_or_unknown_name_in_a_spec_is_an_error(problem, params):
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
def test_argument_of_another_shape_is_an_error(problem, params):
    names, args = list(described(problem.workload).ARGUMENTS[problem.op]), problem.args
    for k, (name, value) in enumerate(zip(names, args, strict=True)):
        wrong = (*args[:k], np.zeros((*np.shape(value), 1), np.asarray(value).dtype), *args[k + 1 :])
        with pytest.raises(ValueError, match=rf"^{name}: got "):
            build(problem, params, dict(problem.config), wrong)


def has_target_net(problem):
    """Return whether an op has an online net and a target net."""
    return {"params", "target"} <= set(described(problem.workload).NEEDED[problem.op])


@pytest.mark.parametrize(("problem", "params"), [param for param in FIRST if has_target_net(param.values[0])])
def test_target_net_of_other_widths_than_the_online_net_is_an_error(problem, params):
    config = dict(problem.config)
    wider = {name: np.tile(value, (2,) * value.ndim) for name, value in config["target"].items()}
    with pytest.raises(ValueError, match=r"^target\b"):
        build(problem, params, config | {"target": wider}, problem.args)
