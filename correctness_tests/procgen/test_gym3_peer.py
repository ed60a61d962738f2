"""The comparison with bare gym3: both sides play the same frames, and what they do not share is found."""

from __future__ import annotations

import numpy as np
import pytest

from perf_tests.peers import _common as common
from perf_tests.peers.procgen_gym3 import COMPARISONS, ENVS, STEPS
from perf_tests.suite.cases import variants
from rl_impls.backends import BackendUnavailable
from rl_impls.common.procgen_env import check_installed


@pytest.fixture(autouse=True)
def installed(unavailable):
    """Skip, or fail, where Procgen is not installed."""
    try:
        check_installed()
    except BackendUnavailable as error:
        unavailable(error)


@pytest.mark.parametrize("name", COMPARISONS)
def test_both_sides_play_the_same_frames_by_the_same_actions(name):
    comparison = COMPARISONS[name]
    ours, theirs = comparison.ours([0, 0]), comparison.theirs([0, 0])
    for _ in range(2):
        for side in (ours, theirs):
            assert side.block() > 0
        theirs.check_first(ours)
        common.check_alike(theirs, ours)
    frames, rewards, ended, steps = theirs.outcome
    assert steps * ENVS == STEPS
    theirs.outcome = frames, rewards, ~np.array(ended), steps
    with pytest.raises(RuntimeError, match=r"^ends: those of the last step differ"):
        theirs.check_first(ours)
    theirs.outcome = frames, rewards, ended, steps - 1
    with pytest.raises(RuntimeError, match=r"^environment steps and updates of a block: got "):
        common.check_alike(theirs, ours)
    ours.op.close()
    theirs.env.close()


def test_comparisons_are_of_a_benchmark():
    assert {comparison.case for comparison in COMPARISONS.values()} <= variants().keys()
