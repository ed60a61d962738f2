"""The grid of a benchmark and its seeded inputs."""

import re

import numpy as np
import pytest

from perf_tests.grid import grid
from perf_tests.recorded import benchmarks, problem_of
from rl_impls import backends
from rl_impls.common.problem import Problem

from .quick import size


def points(**how):
    axes = {"form": ("naive", "full"), "backend": ("torch", "jax"), "size": (1, 2)}

    @grid(**axes, **how)
    def test(bench, form, backend, size):
        """Do nothing."""

    (mark,) = test.pytestmark
    return {param.id: param.marks[0].name for param in mark.args[1]}


def test_combination_gets_the_first_tier_that_matches():
    found = points(
        exclude=[dict(form="naive", backend="jax")],
        gate=[dict(form="full", size=1), dict(backend="jax", size=1)],
        bench=[dict(backend="torch"), dict(size=(1, 2), form="full")],
    )
    assert found == {
        "naive-torch-1": "bench", "naive-torch-2": "bench", "full-torch-1": "gate", "full-torch-2": "bench",
        "full-jax-1": "gate", "full-jax-2": "bench",
    }  # fmt: skip
    assert set(points().values()) == {"full"}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"gate": [dict(batch=1)]}, "gate {'batch': 1}: unknown axis 'batch' (choose from form, backend, size)"),
        ({"bench": [dict(size=3)]}, "bench {'size': 3}: unknown value 3 of size (choose from 1, 2)"),
        ({"exclude": [dict(size=1)], "gate": [dict(size=1)]}, "gate {'size': 1}: no benchmark matches it; change "),
        ({"exclude": [dict(size=1)], "bench": [dict(size=1)]}, "bench {'size': 1}: no benchmark matches it; change "),
        ({"axis": "numpy"}, "axis: 'numpy' is not a tuple of one or more values"),
    ],
)
def test_pattern_that_matches_nothing_is_an_error(how, words):
    with pytest.raises(ValueError, match=f"^{re.escape(words)}"):
        points(**how)


@pytest.mark.parametrize("workload", backends.workloads())
def test_inputs_are_determined_by_the_seed(workload):
    largest_first = sorted(benchmarks((workload,)), key=size, reverse=True)
    for test in {one.test: one for one in largest_first}.values():  # the smallest of each
        first, again, other = (problem_of(test, seed).digest() for seed in (0, 0, 1))
        assert first == again, test.id
        assert first != other, test.id


def test_digest_changes_with_values_dtypes_shapes_and_names():
    def digest(**config):
        return Problem("toy", "double", config, (np.arange(3.0),)).digest()

    assert digest(w=np.ones(2)) == digest(w=np.ones(2))
    different = [digest(w=np.ones(2)), digest(w=np.ones(2, np.float32)), digest(w=np.ones((2, 1))), digest(w=[1, 1])]
    different += [digest(w=(1, (1,))), digest(v=np.ones(2)), digest(w=np.array([1, 2.0]))]
    assert len(set(different)) == len(different)
