"""Every axis but those in ``PLACES`` changes the shape of a benchmark's inputs, or its output."""

import itertools

import pytest

from perf_tests.bench import leaves
from perf_tests.recorded import benchmarks, problem_of, record

from .reference import after_two_calls, largest_difference, reference_output

FAR = 10  # times the tolerance of the problem
AMOUNTS = {  # axes that set the amount of work, and so the shape of the inputs
    "batch_size", "hidden", "num_envs", "num_worlds", "num_agents", "clients", "num_steps", "epochs", "actors", "side",
    "frames", "collectors", "capacity", "updates", "snake.collect_and_learn train_frequency",
    "procgen.parallel_ppo lag", "procgen.parallel_impala lag", "mario.train_step norm", "mario.pipeline_waits publish",
    "mario.pipeline publish",
}  # fmt: skip
PLACES = {"io", "serve", "options", "accumulate"}  # axes that set where or how the same result is computed
FORMS = {  # benchmarks whose form computes something else than the form of another benchmark
    "snake.collect_and_learn_threaded[threaded-torch-64-4-32]": "snake.collect_and_learn[vectorised-torch-64-4-32]",
    "treasurehunt.turn[interleaved-torch-5-16]": "treasurehunt.turn[one_by_one-torch-5-16]",
    "treasurehunt.epoch[interleaved-torch-5-1]": "treasurehunt.epoch[one_by_one-torch-5-1]",
}

BENCHMARKS = {one.id: one for one in benchmarks()}
FIRST = {}  # first benchmark of each test
for one in BENCHMARKS.values():
    FIRST.setdefault(one.test, one)


def values_of(first):
    """Return, by axis, the first benchmark and those that differ from it only in that axis."""
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


AMOUNT_AXES = [param for param in AXES if is_amount(param.values[0], param.values[1][0])]
OTHER_AXES = [param for param in AXES if param not in AMOUNT_AXES]


def output_of(name, seed):
    recorded = record(BENCHMARKS[name], seed)
    op = recorded.op
    try:
        return leaves(after_two_calls(recorded)), op.problem.tolerance
    finally:
        if op.close:
            op.close()


@pytest.mark.parametrize(("axis", "chosen"), AMOUNT_AXES)
def test_axis_of_an_amount_changes_the_shape_of_the_inputs(axis, chosen, seed):
    def shapes(one):  # an integer in a configuration is an amount too
        problem = problem_of(one, seed)
        found = leaves([dict(problem.config), problem.args])
        return [leaf.shape if leaf.ndim or leaf.dtype.kind != "i" else int(leaf) for leaf in found]

    assert shapes(chosen[0]) != shapes(chosen[1]), f"{axis}: its values give inputs of the same shapes"


@pytest.mark.parametrize(("axis", "chosen"), OTHER_AXES)
def test_any_other_axis_changes_the_output(axis, chosen, seed):
    problems = [problem_of(one, seed) for one in chosen]
    outputs = [leaves(reference_output(problem)[0]) for problem in problems]
    for one, other in itertools.combinations(outputs, 2):
        assert max(map(largest_difference, one, other)) > FAR * problems[0].tolerance, f"{axis}: it changes nothing"


@pytest.mark.parametrize(("name", "other"), FORMS.items())
def test_form_that_computes_something_else_changes_the_output(name, other, seed):
    (first, tolerance), (second, _) = output_of(name, seed), output_of(other, seed)
    assert max(map(largest_difference, first, second)) > FAR * tolerance
