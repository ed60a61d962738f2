"""What an axis or a form switches shows: in the shapes of what is given, or in the answer to what is timed."""

from __future__ import annotations

import itertools

import pytest

from perf_tests.bench import leaves
from perf_tests.recorded import benchmarks, problem_of, record
from rl_impls import backends

from .reference import largest_difference, reference_output

FAR = 10  # tolerances of a problem
AMOUNTS = {  # axes that say how much of the same is done, and so change the shape of what is given
    "batch_size": "states, transitions or boards of a call",
    "hidden": "units of a layer",
    "num_envs": "games side by side",
    "worlds": "worlds side by side",
    "agents": "agents, each with a net of its own",
    "clients": "threads that ask, each for four states",
    "snake.collect_and_learn every": "updates of a call, each with its rows",
    "num_steps": "steps of each environment",
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
    "mario.pipeline_waits publish": "epochs from one publication of weights to the next",
    "mario.pipeline publish": "epochs from one publication of weights to the next",
}
PLACES = {  # axes that say where the same is done, or in how many parts
    "io": "where arguments come from and results go",
    "serve": "the backend of the net that acts",
    "options": "options of a form, which change how the same is computed",
    "accumulate": "parts of a batch that go through a net one after the other",
}
ANOTHER = {  # knobs that change what is computed; all others change how: in which order, where, how precisely
    "pirl": {"order"},
    "snake": {"collection"},
    "treasurehunt": {"order"},
}
FORMS = {  # benchmarks whose form computes another thing than that of a second one
    "snake.collect_and_learn_threaded[threaded-torch-64-4-32]": "snake.collect_and_learn[vectorised-torch-64-4-32]",
    "treasurehunt.turn[interleaved-torch-5-16]": "treasurehunt.turn[one_by_one-torch-5-16]",
    "treasurehunt.epoch[interleaved-torch-5-1]": "treasurehunt.epoch[one_by_one-torch-5-1]",
}

BENCHMARKS = {one.id: one for one in benchmarks()}
FIRST = {}  # first benchmark of each test
for one in BENCHMARKS.values():
    FIRST.setdefault(one.test, one)


def values_of(first):
    """Values of each axis that has several, for benchmarks that differ from the first one in that axis alone."""
    found = {}
    for one in BENCHMARKS.values():
        if one.test is not first.test:
            continue
        different = [name for name, value in one.params.items() if value != first.params[name]]
        if len(different) == 1 and different[0] not in ("form", "backend"):
            found.setdefault(different[0], [first]).append(one)
    return found


AXES = [
    pytest.param(axis, chosen, id=f"{first.id.partition('[')[0]} {axis}")
    for first in FIRST.values()
    for axis, chosen in values_of(first).items()
    if axis not in PLACES
]


def is_amount(axis, first):
    return axis in AMOUNTS or f"{first.id.partition('[')[0].removesuffix('_threaded')} {axis}" in AMOUNTS


AMOUNTING = [param for param in AXES if is_amount(param.values[0], param.values[1][0])]
SHOWING = [param for param in AXES if param not in AMOUNTING]


@pytest.mark.parametrize(("axis", "chosen"), AMOUNTING)
def test_an_axis_of_how_much_changes_the_shape_of_what_is_given(axis, chosen, seed):
    def shapes(one):  # a whole number in a configuration says how much of something there is, as a shape does
        problem = problem_of(one, seed)
        found = leaves([dict(problem.config), problem.args])
        return [leaf.shape if leaf.ndim or leaf.dtype.kind != "i" else int(leaf) for leaf in found]

    assert shapes(chosen[0]) != shapes(chosen[1]), f"{axis}: its values give inputs of the same shapes"


@pytest.mark.parametrize(("axis", "chosen"), SHOWING)
def test_outputs_for_the_values_of_any_other_axis_are_far_apart(axis, chosen, seed):
    problems = [problem_of(one, seed) for one in chosen]
    outputs = [leaves(reference_output(problem)[0]) for problem in problems]
    for one, other in itertools.combinations(outputs, 2):
        assert max(map(largest_difference, one, other)) > FAR * problems[0].tolerance, f"{axis}: it changes nothing"


def output_of(name, seed):
    recorded = record(BENCHMARKS[name], seed)
    op = recorded.op
    try:
        if op.reset:
            op.reset()
        for _ in range(min(2, op.problem.max_calls or 2)):
            out = recorded.function(*recorded.args)
        return leaves(op.output(out)), op.problem.tolerance
    finally:
        if op.close:
            op.close()


@pytest.mark.parametrize(("name", "other"), FORMS.items())
def test_a_form_that_computes_another_thing_returns_another_output(name, other, seed):
    (first, tolerance), (second, _) = output_of(name, seed), output_of(other, seed)
    assert max(map(largest_difference, first, second)) > FAR * tolerance


def test_each_form_that_computes_another_thing_is_in_the_table():
    wanted = set()
    for one in BENCHMARKS.values():
        forms = backends.forms(one.workload)
        fixed = problem_of(one, 0).options if one is FIRST[one.test] else {}
        options = ANOTHER.get(one.workload, set()) - one.params.keys() - fixed.keys()
        if any(getattr(forms[one.params["form"]], name) != getattr(forms["naive"], name) for name in options):
            wanted.add((one.workload, one.test.__name__, one.params["form"]))
    named = [BENCHMARKS[name] for name in FORMS]
    assert wanted == {(one.workload, one.test.__name__, one.params["form"]) for one in named}
