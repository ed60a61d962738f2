"""Configurations: a value of the wrong type or outside its limits is a one-line error that names it."""

import dataclasses
import math
import re

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


IMPOSSIBLE = [  # workload, fields that are not the default, message
    ("pirl", {"capacity": 7, "batch_size": 8}, "batch_size=8 should be at most capacity=7"),
    ("pirl", {"backend": "torch-compile", "form": "naive"}, "form='naive' should be full on torch-compile, "),
    ("snake", {"num_envs": 6}, "num_envs=6 should be a multiple or a divisor of train_frequency=4"),
    ("snake", {"warm_up": 10}, "warm_up=10 should be from batch_size=32 to capacity=10000"),
    ("snake", {"capacity": 10}, "capacity=10 should be at least batch_size=32"),
    ("snake", {"dim": 6}, "dist_to_border=3 should be at most 2, to leave a cell to start on"),
    ("mario", {"accumulate": 4, "batch_size": 6}, "accumulate=4 should divide batch_size=6"),
    ("mario", {"capacity": 500}, "capacity=500 should be at least 640, as an epoch has 32 experiences in each of 16 "),
    ("mario", {"capacity": 100, "updates": 1, "batch_size": 20, "reuse": 1.0},
     "capacity=100 should be at least 160, as an epoch has 2 experiences in each of 16 "),
    ("mario", {"collectors": 8, "num_envs": 64},
     "num_envs=64 with collectors=8 should be fewer: in an epoch, each of the 512 "),
    ("mario", {"queue": 15}, "queue=15 should be at least 16, one for each environment"),
    ("mario", {"game": "mario", "start_level": 3}, "start_level=3 has no effect on the game mario; leave it out"),
    ("procgen", {"algorithm": "a3c"}, "actors=0 should be 1 or more for a3c"),
    ("procgen", {"algorithm": "a2c", "actors": 2}, "actors=2 should be 0 for a2c, whose parallel form is a3c"),
    ("procgen", {"actors": 3}, "actors=3 should divide num_envs=32"),
    ("procgen", {"algorithm": "a3c", "actors": 2, "lag": 1}, "lag=1 should be 0 except for ppo and impala with actors"),
    ("procgen", {"batch_size": 1000}, "batch_size=1000 should divide num_steps x num_envs, 128 x 32"),
    ("procgen", {"actors": 2, "cluster": "here"}, "cluster='here' should be local or an address such as host:6379"),
    ("procgen", {"cluster": "local"}, "cluster='local' should be empty except for ppo and impala with actors"),
    ("procgen", {"levels": 2**30 + 1}, "levels=1073741825 should be less than or equal to 1073741824"),
    ("procgen", {"levels": 0, "start_level": 3}, "start_level=3 should be at most 0 with levels=0"),
    ("procgen", {"start_level": 2**30 - 9, "levels": 10}, "start_level=1073741815 should be at most 1073741814 with "),
    ("treasurehunt", {"batch_size": 65, "capacity": 64}, "batch_size=65 should be at most capacity=64"),
    ("treasurehunt", {"form": "fastest"}, "form='fastest' should be 'naive', "),
]  # fmt: skip


@pytest.mark.parametrize(("workload", "changes", "message"), IMPOSSIBLE)
def test_impossible_configuration_is_a_one_line_error(workload, changes, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as caught:
        agent_of(workload).Config(**changes)
    assert "\n" not in str(caught.value)


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
