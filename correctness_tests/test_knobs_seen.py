"""What each knob of each workload switches, seen from outside: one that is ignored leaves most answers as they are."""

from __future__ import annotations

import importlib

import pytest

from rl_impls import backends

KNOBS = {name: importlib.import_module(f"rl_impls.{name}.knobs") for name in backends.workloads()}
CHOICES = {name: getattr(module, "CHOICES", {}) for name, module in KNOBS.items()}
SETTINGS = [
    (workload, knob, value) for workload, knobs in CHOICES.items() for knob, values in knobs.items() for value in values
]

pytestmark = pytest.mark.usefixtures("one_thread")


def seen(workload):
    """Each knob's function that looks, and what it should see of each value: the same wherever the knob is read."""
    module = f"correctness_tests.{workload}.seen"
    return importlib.import_module(module).SEEN if CHOICES[workload] else {}


@pytest.mark.parametrize(("workload", "knob", "value"), SETTINGS)
def test_what_a_knob_says_is_done_wherever_it_is_read(workload, knob, value, monkeypatch):
    look, wanted = seen(workload)[knob]
    assert set(look(value, monkeypatch)) == {wanted[value]}


@pytest.mark.parametrize("workload", CHOICES)
def test_every_knob_shows(workload):
    fields = vars(backends.forms(workload)["naive"])
    assert CHOICES[workload].keys() == fields.keys(), f"rl_impls/{workload}/knobs.py: CHOICES lists each knob's values"
    assert seen(workload).keys() == fields.keys(), f"correctness_tests/{workload}/seen.py: SEEN says where each shows"
    for _, wanted in seen(workload).values():
        assert len(set(wanted.values())) == len(wanted) > 1
