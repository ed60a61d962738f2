"""The slowdowns that test the gate do not change outputs."""

import pytest

from perf_tests import faults
from perf_tests.bench import close_to, leaves
from perf_tests.recorded import benchmarks, record

TESTS = {f"perf_tests/test_{found.workload}.py::{found.test.__name__}[{found.name}]": found for found in benchmarks()}


@pytest.mark.parametrize(("fault", "test"), faults.FOUND)
def test_injected_slowdown_changes_no_output(fault, test):
    assert TESTS[test].tier == "gate"
    found = record(TESTS[test], 0)
    wanted = leaves(found.function(*found.args))
    got = leaves(getattr(faults, fault)(found.function)(*found.args))
    for one, other in zip(wanted, got, strict=True):
        assert close_to(one, other.astype(one.dtype))
