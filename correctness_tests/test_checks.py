"""Configurations: a value of the wrong type or outside its limits is a one-line error that names it."""

import dataclasses
import math

import numpy as np
import pytest

from rl_impls.common import checks

from .toy_agent import Config
from .workload_agents import SMALL, agent_of, fields_of


@pytest.mark.parametrize("workload", SMALL)
@pytest.mark.parametrize("value", [True, math.nan, math.inf, -1])
def test_invalid_number_is_an_error_that_names_the_field(workload, value):
    for name in fields_of(workload, int, float):
        with pytest.raises(ValueError, match=rf"^{name}={value!r} should be ") as caught:
            agent_of(workload).Config(**{name: value})
        assert len(str(caught.value).splitlines()) == 1


def test_numpy_numbers_and_lists_become_python_numbers_and_tuples():
    made = Config(layers=[np.int32(4), 5], batch_size=np.int64(32), share=np.float64(0.5))
    assert made == Config()
    assert hash(made) == hash(Config())
    assert {type(number) for number in (*made.layers, made.batch_size)} == {int}
    assert dataclasses.replace(made, width=1) == Config(width=1)


@pytest.mark.parametrize("value", [2, 6, 4.0, np.bool_(True)])
def test_only_integers_within_the_limits_are_accepted(value):
    assert [checks.check_integer("it", right, 3, 5) for right in (3, np.uint8(4), 5)] == [3, 4, 5]
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (its whole text is compared)
        checks.check_integer("it", value, 3, 5, ", so")
    assert str(caught.value) == f"it={value!r} should be an integer from 3 to 5, so"
