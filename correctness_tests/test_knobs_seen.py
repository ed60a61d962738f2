"""What each knob of each workload switches, seen from outside: one that is ignored leaves most answers as they are."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from rl_impls import backends

from .names import unlike

KNOBS = {name: importlib.import_module(f"rl_impls.{name}.knobs") for name in backends.workloads()}
CHOICES = {name: getattr(module, "CHOICES", {}) for name, module in KNOBS.items()}
SETTINGS = [
    (workload, knob, value) for workload, knobs in CHOICES.items() for knob, values in knobs.items() for value in values
]

pytestmark = pytest.mark.usefixtures("one_thread")


def seen(workload):
    """Each knob's function that looks, and what it should see of each value: the same wherever the knob is read."""
    if not CHOICES[workload]:
        return {}
    file = f"correctness_tests/{workload}/seen.py"
    assert (Path(__file__).parent / workload / "seen.py").exists(), f"{file} is missing: SEEN, what each knob shows"
    found = importlib.import_module(f"correctness_tests.{workload}.seen").SEEN
    wrong = unlike(found, CHOICES[workload])
    assert not wrong, f"{file}: SEEN {wrong}: it says where each knob shows"
    for knob, (_, wanted) in found.items():
        wrong = unlike(map(str, wanted), map(str, CHOICES[workload][knob]))
        assert not wrong, f"{file}: SEEN of {knob} {wrong}: it says what each value shows"
    return found


@pytest.mark.parametrize("workload", CHOICES)
def test_every_knob_shows(workload):
    wrong = unlike(CHOICES[workload], vars(backends.forms(workload)["naive"]))
    assert not wrong, f"rl_impls/{workload}/knobs.py: CHOICES {wrong}: it lists each knob's values"
    for _, wanted in seen(workload).values():
        assert len(set(wanted.values())) == len(wanted) > 1


@pytest.mark.parametrize(("workload", "knob", "value"), SETTINGS)
def test_what_a_knob_says_is_done_wherever_it_is_read(workload, knob, value, monkeypatch):
    look, wanted = seen(workload)[knob]
    assert set(look(value, monkeypatch)) == {wanted[value]}


def test_a_knob_that_is_not_looked_at_is_named_with_the_file(monkeypatch):
    monkeypatch.setitem(CHOICES, "snake", CHOICES["snake"] | {"layout": ("rows", "columns")})
    with pytest.raises(AssertionError, match=r"^correctness_tests/snake/seen.py: SEEN lacks 'layout': "):
        test_what_a_knob_says_is_done_wherever_it_is_read("snake", "layout", "rows", monkeypatch)
    monkeypatch.setitem(CHOICES, "toy", {"layout": ("rows", "columns")})
    with pytest.raises(AssertionError, match=r"^correctness_tests/toy/seen.py is missing: SEEN, "):
        seen("toy")
