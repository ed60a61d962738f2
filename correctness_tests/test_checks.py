"""Configurations: every number is of its kind and within its limits, and what is not is one line that names it."""

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
from rl_impls.snake.spec import Geometry
from rl_impls.treasurehunt.agent import Config as Treasurehunt
from rl_impls.treasurehunt.spec import Settings

CLASSES = {"pirl": Pirl, "snake": Snake, "geometry": Geometry, "treasurehunt": Treasurehunt, "settings": Settings}
NUMBERS = [
    pytest.param(kind, field.name, id=f"{name}-{field.name}")
    for name, kind in CLASSES.items()
    for field in fields(kind)
    if get_type_hints(kind)[field.name] not in (str,) and not is_dataclass(get_type_hints(kind)[field.name])
]
NEVER = [True, None, "3", math.nan, math.inf, -math.inf, -1, 2**31, [1], 1j]


def as_given(kind, name, value):
    """The value of a field: within a tuple, if it is one."""
    return (value,) if isinstance(getattr(kind(), name), tuple) else value


@pytest.mark.parametrize(("kind", "name"), NUMBERS)
def test_what_is_no_such_number_is_refused_by_name(kind, name):
    whole = not isinstance(getattr(kind(), name), float)
    for value in [*NEVER, 2.5] if whole else NEVER:
        if value == 2**31 and not whole:
            continue
        with pytest.raises(ValueError, match=rf"^{name}: got .*, wanted an? (integer|number) ") as caught:
            kind(**{name: as_given(kind, name, value)})
        assert repr(value) in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("kind", "name"), NUMBERS)
def test_numbers_of_numpy_become_pythons(kind, name):
    usual = getattr(kind(), name)
    if isinstance(usual, tuple):
        made = kind(**{name: [np.int32(width) for width in usual]})
    else:
        made = kind(**{name: (np.float64 if isinstance(usual, float) else np.int64)(usual)})
    assert made == kind()
    assert type(getattr(made, name)) is type(usual)
    assert json.loads(json.dumps(asdict(made))) == json.loads(json.dumps(asdict(kind())))


@pytest.mark.parametrize("value", [3, "88", None])
def test_one_width_is_no_tuple_of_them(value):
    with pytest.raises(ValueError, match=f"^hidden: got {value!r}, wanted a tuple of integers$"):
        Pirl(hidden=value)


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [
        (2, 3, 5, "an integer from 3 to 5, so"),
        (6, 3, 5, "an integer from 3 to 5, so"),
        (2.0, 1, 5, "an integer from 1 to 5, so"),
        (np.bool_(True), 0, 5, "an integer from 0 to 5, so"),
    ],
)
def test_an_integer_outside_of_its_limits_is_refused(value, low, high, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (its whole text is compared)
        checks.check_integer("it", value, low, high, ", so")
    assert str(caught.value) == f"it: got {value!r}, wanted {words}"


@pytest.mark.parametrize("value", [3, 5, np.uint8(4)])
def test_an_integer_within_its_limits_is_returned(value):
    assert checks.check_integer("it", value, 3, 5) == value
    assert type(checks.check_integer("it", value, 3, 5)) is int


@pytest.mark.parametrize(
    ("value", "limits", "words"),
    [
        (-0.5, (0,), "number of 0 or more"),
        (1.5, (0, 1), "number from 0 to 1"),
        (math.nan, (0, 1), "number from 0 to 1"),
        (math.inf, (0,), "number of 0 or more"),
        (-math.inf, (), "finite number"),
        (False, (), "finite number"),
        ("1", (), "finite number"),
    ],
)
def test_a_number_outside_of_its_limits_is_refused(value, limits, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (its whole text is compared)
        checks.check_number("it", value, *limits)
    assert str(caught.value) == f"it: got {value!r}, wanted a {words}"


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.25), np.int64(1)])
def test_a_number_within_its_limits_is_returned(value):
    assert checks.check_number("it", value, 0, 1) == value
    assert type(checks.check_number("it", value, 0, 1)) is float


def test_a_choice_is_one_of_its_words():
    assert checks.check_choice("it", "a", ("a", "b")) == "a"
    with pytest.raises(ValueError, match=r"^it: got 'c', wanted one of a, b$"):
        checks.check_choice("it", "c", ("a", "b"))
