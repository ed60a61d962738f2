"""The comparison of mario's replays with those of others: both sides hold the same, and what they do not is found."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from perf_tests.peers import _common as common
from perf_tests.peers import mario_replay as peer

from ..test_peers import run

SCRIPT = "perf_tests.peers.mario_replay"
INSTALL = "(pip install 'rlgauge[peers]')"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Fewer and smaller frames, and fewer steps in a block."""
    for name, value in (("CAPACITY", 600), ("SIDE", 5), ("STEPS", 128), ("BATCH", 16), ("EPISODE", 20)):
        monkeypatch.setattr(peer, name, value)
    for side in (peer.OurPushes, peer.TheirPushes):
        monkeypatch.setattr(side, "calls", 128)


@pytest.mark.parametrize("name", peer.COMPARISONS)
def test_both_sides_hold_the_same_transitions(name):
    package = "stable_baselines3" if name in ("push", "sample") else "cpprb"
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed {INSTALL}")
    comparison = peer.COMPARISONS[name]
    ours, theirs = comparison.ours([0, 0]), comparison.theirs([0, 0])
    for side in (ours, theirs):
        assert side.block() > 0
    theirs.check_first(ours)
    for side in (ours, theirs):
        side.block()
    common.check_alike(theirs, ours)
    with pytest.raises(RuntimeError, match="differ, wanted the same: both got the same"):
        theirs.check_first(comparison.ours([0, 1]))


def test_what_others_are_given_is_what_ours_returns():
    side = peer.Ours([0, 0])
    steps = side.steps(128)
    side.fill(steps)
    rows, kept = (side.replay.rings[0].pushed - 128 + np.arange(127)) % 600, np.arange(127)
    batch = side.replay.gather(rows)
    assert steps["ends"].any()
    for got, name in zip(batch, ("stacks", "actions", "rewards", "after", "ends")):
        np.testing.assert_array_equal(got, steps[name][kept], name)


@pytest.mark.parametrize("kind", [peer.OurSamples, peer.OurPushes, peer.OurDraws, peer.OurUpdates])
def test_a_side_that_holds_other_transitions_is_found(kind):
    one, other, third = kind([0, 0]), kind([0, 0]), kind([0, 1])
    for side in (one, other, third):
        assert side.block() > 0
        assert side.done() == side.due()
    one.check_first(other)
    common.check_alike(one, other)
    with pytest.raises(RuntimeError, match=r"^states: those stored differ"):
        one.check_first(third)


def test_comparisons_say_what_is_compared_and_how_fast_it_has_to_be():
    assert {name: one.least for name, one in peer.COMPARISONS.items()} == {
        "push": 1.5, "sample": 1.5, "prioritised_nothing": 1.0, "prioritised_stacks": 1.0, "prioritised_frames": 1.0,
        "update": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "package"),
    [((), "stable_baselines3"), (("--only", "sample"), "stable_baselines3"), (("--only", "update"), "cpprb")],
)
def test_without_the_library_one_line_says_what_to_install(arguments, package):
    message = f"{package} is not installed {INSTALL}\n"
    assert run(SCRIPT, *arguments, without=("stable_baselines3", "cpprb")) == (1, "", message)


def test_the_script_takes_options():
    code, out, errors = run(SCRIPT, "--only", "all")
    assert (code, out) == (2, "")
    assert errors.splitlines()[-1].startswith(f"python -m {SCRIPT}: error: argument --only: invalid choice: 'all'")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "package"), [("push", "stable_baselines3"), ("update", "cpprb")])
def test_one_process_finds_both_sides_alike_and_gives_their_rates(name, package):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed {INSTALL}")
    code, out, errors = run(SCRIPT, "--only", name, "--one", "0", "--blocks", "1", "--threads", "1")
    assert code == 0, errors
    assert out.count("ratio") == 1
