"""How near the answers of both sides have to be: what the order of a sum changes is no change, a thousandth is one."""

from __future__ import annotations

import numpy as np
import pytest

from perf_tests.gate.tolerances import TOLERANCES, tolerance
from perf_tests.suite.cases import variants
from rlgauge.answers import close

SHAPES = {"a batch through a layer": (2048, 512), "a mean of squares": (1, 65_536), "a sum that cancels": (64, 4096)}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES.keys())
def terms(request):
    """Return the terms of sums along the last axis."""
    drawn = np.random.default_rng(0).normal(size=request.param).astype(np.float32)
    return drawn**2 if len(drawn) == 1 else drawn


def one_by_one(terms):
    """Add in order, rounding each time, as a plain loop does."""
    return np.cumsum(terms, axis=-1)[..., -1]


def test_sums_in_another_order_are_the_same_and_a_thousandth_more_is_not(terms):
    summed = terms.sum(axis=-1)
    limit = TOLERANCES["float32"]
    for other in (
        one_by_one(terms),
        terms[..., ::-1].sum(axis=-1),
        terms.reshape(*terms.shape[:-1], 2, -1).sum((-1, -2)),
    ):
        assert close(summed, other, limit)
    assert not close(summed, summed * np.float32(1.001), limit)


def test_the_tolerance_goes_by_the_precision_of_a_case():
    assert tolerance(variants()["pirl.pde_loss[full-torch-order2]"]) == TOLERANCES["float32"]
    assert tolerance(variants()["treasurehunt.train_step[bfloat16-torch-agents5]"]) == TOLERANCES["bfloat16"]
    assert {tolerance(variant) for variant in variants().values()} == set(TOLERANCES.values())
    assert TOLERANCES["float32"] < min(TOLERANCES["bfloat16"], TOLERANCES["int8"])
