"""What an axis or a form switches shows: in the shapes of what is given, or in the answer to what is timed."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from perf_tests.suite.cases import load, variants
from perf_tests.suite.prepared import leaves, prepare
from rl_impls import backends

from .reference import largest_difference, reference_answer

FAR = 10  # tolerances of a case
AMOUNTS = {  # axes that say how much of the same is done, and so change the shape of what is given
    "batch": "states, transitions or boards of a call",
    "hidden": "units of a layer",
    "envs": "games side by side",
    "worlds": "worlds side by side",
    "agents": "agents, each with a net of its own",
    "clients": "threads that ask, each for four states",
    "snake.collect_and_learn every": "updates of a call, each with its rows",
    "unroll": "steps of each environment",
    "epochs": "passes over what was played",
    "actors": "processes that play",
    "procgen.parallel_ppo lag": "rollouts that are played ahead",
    "procgen.parallel_impala lag": "rollouts that are played ahead",
    "side": "pixels along a side of a frame",
    "frames": "of an experience that is handed over",
    "collectors": "processes that play",
    "buffer": "experiences that a replay keeps",
    "updates": "batches of an epoch",
    "mario.train_step norm": "arrays of a convolution, of which batch norm has more",
    "mario.pipeline publish": "epochs from one publication of weights to the next",
}
PLACES = {  # axes that say where the same is done, or in how many parts
    "io": "where arguments come from and results go",
    "serve": "the backend of the net that acts",
    "accumulate": "parts of a batch that go through a net one after the other",
}
ANOTHER = {  # knobs that change what is computed; all others change how: in which order, where, how precisely
    "pirl": {"order"},
    "snake": {"every", "batch", "collection"},
    "treasurehunt": {"order"},
}
FORMS = {  # form that computes another thing than a second form does, on a benchmark where that can be seen
    "snake.collect_and_learn[threaded-torch-envs64-every4-batch32]": "vectorised",
    "treasurehunt.turn[interleaved-torch-agents5-worlds1]": "one_by_one",
    "treasurehunt.epoch[interleaved-torch-agents5-worlds1]": "one_by_one",
}


def is_amount(case, axis):
    return axis in AMOUNTS or f"{case.name} {axis}" in AMOUNTS


def name_of(value):
    return value if isinstance(value, str) else f"{value.name} {'-'.join(value.forms)}"


def drawn(case, seed, axis, value):
    """The inputs of a case's first variant with another value of an axis, from the same stream of numbers."""
    axes = {name: values[0] for name, values in case.axes.items()} | {axis: value}
    return replace(next(case.variants()), axes=axes), case.inputs(np.random.default_rng(seed), **axes)


AXES = [(case, axis) for case in load() for axis, values in case.axes.items() if len(values) > 1 and axis not in PLACES]
AMOUNTING = [pair for pair in AXES if is_amount(*pair)]
SHOWING = [pair for pair in AXES if not is_amount(*pair)]


@pytest.mark.parametrize(("case", "axis"), AMOUNTING, ids=name_of)
def test_an_axis_of_how_much_changes_the_shape_of_what_is_given(case, axis, seed):
    def shapes(value):  # a whole number in a spec says how much of something there is, as a shape does
        _, inputs = drawn(case, seed, axis, value)
        found = leaves([dict(inputs.spec), inputs.args])
        return [leaf.shape if leaf.ndim or leaf.dtype.kind != "i" else int(leaf) for leaf in found]

    first, second, *_ = case.axes[axis]
    same = f"axis {axis} of {case.name}: its values give inputs of the same shapes, wanted other ones (AMOUNTS has it)"
    assert shapes(first) != shapes(second), same


@pytest.mark.parametrize(("case", "axis"), SHOWING, ids=name_of)
def test_answers_for_the_values_of_any_other_axis_are_far_apart(case, axis, seed):
    answers = [leaves(reference_answer(*drawn(case, seed, axis, value))[0]) for value in case.axes[axis]]
    for one, other in itertools.combinations(answers, 2):
        apart, far = max(map(largest_difference, one, other)), FAR * case.tolerance
        assert apart > far, (
            f"axis {axis} of {case.name}: its values give the same answer, wanted another (an axis that changes what "
            f"is computed must show): {apart:.3g} apart, wanted more than {far:.3g}"
        )


def test_an_axis_that_changes_nothing_is_named():
    case, axis = next((case, axis) for case, axis in SHOWING if case.name == "pirl.pde_loss")
    same = replace(case, axes={**case.axes, axis: (1, 1)})
    with pytest.raises(AssertionError, match=r"^axis order of pirl.pde_loss: its values give the same answer, wanted "):
        test_answers_for_the_values_of_any_other_axis_are_far_apart(same, axis, 0)
    with pytest.raises(
        AssertionError, match=r"^axis order of pirl.pde_loss: its values give inputs of the same shapes"
    ):
        test_an_axis_of_how_much_changes_the_shape_of_what_is_given(same, axis, 0)


@pytest.mark.parametrize(("identity", "other"), FORMS.items())
def test_a_form_that_computes_another_thing_answers_otherwise(identity, other, seed):
    answers = []
    for form in (variants()[identity].form, other):
        with prepare(replace(variants()[identity], form=form), seed) as prepared:
            answers.append(leaves(prepared.answer()))
    differences = list(map(largest_difference, *answers))
    assert max(differences) > FAR * variants()[identity].case.tolerance


def test_each_form_that_computes_another_thing_is_in_the_table():
    wanted = set()
    for case in load():
        forms = backends.forms(case.workload)
        for form in case.forms:
            knobs = ANOTHER.get(case.workload, set()) - case.axes.keys()
            if any(getattr(forms[form], knob) != getattr(forms["naive"], knob) for knob in knobs):
                wanted.add((case.name, form))
    assert wanted == {(variants()[identity].case.name, variants()[identity].form) for identity in FORMS}
