"""The general test against the reference, for pirl: torch compiles its ops for longer than those of all others."""

from correctness_tests.test_against_reference import (  # noqa: F401
    optimised,
    parametrise,
    test_outputs_on_the_timed_inputs_match_the_reference,
)
from perf_tests.recorded import benchmarks


def pytest_generate_tests(metafunc):
    parametrise(metafunc, benchmarks(("pirl",)))
