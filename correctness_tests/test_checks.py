"""Configurations: a number of the wrong kind or outside its limits is a one-line error that names it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields, is_dataclass
from typing import get_type_hints

import numpy as np
import pytest

from rl_impls.common import checks
from rl_impls.pirl.agent import Config as Pirl
from rl_impls.snake.agent import Config as Snake
from rl_impls.treasurehunt.agent import Config as Treasurehunt


def numbers(kind):
    """Return the names of the fields that are numbers or tuples of numbers."""
    types = get_type_hints(kind)
    return [
        field.name for field in fields(kind) if types[field.name] is not str and not is_dataclass(types[field.name])
    ]


@pytest.mark.parametrize("kind", [Pirl, Snake, Treasurehunt], ids=["pirl", "snake", "treasurehunt"])
@pytest.mark.parametrize("value", [True, None, "3", math.nan, math.inf, -1])
def test_field_that_is_no_number_within_its_limits_is_an_error_that_names_it(kind, value):
    for name in numbers(kind):
        wrong = (value,) if isinstance(getattr(kind(), name), tuple) else value
        with pytest.raises(ValueError, match=rf"^{name}: got .*, wanted an? (integer|number) ") as caught:
            kind(**{name: wrong})
        assert repr(value) in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


def test_numpy_numbers_become_python_numbers():
    made = Pirl(hidden=[np.int32(32)] * 3, batch=np.int64(256), learning_rate=np.float64(5e-4))
    assert made == Pirl()
    assert json.loads(json.dumps(asdict(made))) == json.loads(json.dumps(asdict(Pirl())))


@pytest.mark.parametrize("value", [2, 6, 4.0, np.bool_(True)])
def test_integer_outside_its_limits_is_an_error(value):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (its whole text is compared)
        checks.check_integer("it", value, 3, 5, ", so")
    assert str(caught.value) == f"it: got {value!r}, wanted an integer from 3 to 5, so"


@pytest.mark.parametrize("value", [-0.5, 1.5, math.nan, False, "1"])
def test_number_outside_its_limits_is_an_error(value):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (its whole text is compared)
        checks.check_number("it", value, 0, 1)
    assert str(caught.value) == f"it: got {value!r}, wanted a number from 0 to 1"


def test_limits_are_inclusive():
    assert [checks.check_integer("it", value, 3, 5) for value in (3, np.uint8(4), 5)] == [3, 4, 5]
    assert [checks.check_number("it", value, 0, 1) for value in (0, np.float32(0.25), 1)] == [0.0, 0.25, 1.0]
