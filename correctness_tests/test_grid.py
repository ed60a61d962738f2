"""The grid of a benchmark, its problems, and how many benchmarks there are."""

from __future__ import annotations

import re

import numpy as np
import pytest

from perf_tests.grid import grid
from perf_tests.recorded import benchmarks, problem_of
from rl_impls import backends
from rl_impls.common.problem import Problem

MOST = 350  # benchmarks of a plain run without an accelerator


def points(**how):
    """Ids of the combinations of a grid, with their tiers."""
    axes = {"form": ("naive", "full"), "backend": ("torch", "jax"), "size": (1, 2)}

    @grid(**axes, **how)
    def test(bench, form, backend, size):
        """Do nothing."""

    (mark,) = test.pytestmark
    return {param.id: param.marks[0].name for param in mark.args[1]}


def test_a_combination_is_of_the_first_tier_whose_pattern_matches_it():
    found = points(
        exclude=[dict(form="naive", backend="jax")],
        gate=[dict(form="full", size=1)],
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
        ({"exclude": [dict(form="ful")]}, "exclude {'form': 'ful'}: unknown value 'ful' of form"),
        ({"exclude": [dict(size=1)], "gate": [dict(size=1)]}, "gate {'size': 1}: matches nothing"),
        ({"axis": "numpy"}, "axis: got 'numpy', not a tuple of one or more values"),
    ],
)
def test_a_pattern_that_cannot_match_is_an_error(how, words):
    with pytest.raises(ValueError, match=f"^{re.escape(words)}"):
        points(**how)


def test_a_plain_run_is_of_a_few_hundred_benchmarks():
    chosen = [one for one in benchmarks() if one.tier != "full"]
    here = [one for one in chosen if backends.get(one.params["backend"]).device == "cpu"]
    assert len(here) <= MOST
    assert len({one.id for one in benchmarks()}) == len(list(benchmarks()))


@pytest.mark.parametrize("workload", backends.workloads())
def test_inputs_depend_on_the_seed_and_on_nothing_else(workload):
    for test in {one.test: one for one in benchmarks((workload,))}.values():
        first, again, other = (problem_of(test, seed).digest() for seed in (0, 0, 1))
        assert first == again, test.id
        assert first != other, test.id


def test_equal_digests_are_of_equal_problems():
    def digest(**config):
        return Problem("toy", "double", config, (np.arange(3.0),)).digest()

    assert digest(w=np.ones(2)) == digest(w=np.ones(2))
    different = [digest(w=np.ones(2)), digest(w=np.ones(2, np.float32)), digest(w=np.ones((2, 1))), digest(w=[1, 1])]
    different += [digest(w=(1, (1,))), digest(v=np.ones(2)), digest(w=np.array([1, 2.0]))]
    assert len(set(different)) == len(different)
