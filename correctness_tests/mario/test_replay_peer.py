"""The comparison of mario's replays with those of others: both sides hold the same, and what they do not is found."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from perf_tests.peers import _common as common
from perf_tests.peers import mario_replay as peer

from ..test_peers import run

SCRIPT = "perf_tests.peers.mario_replay"
INSTALL = "(pip install 'rlgauge-workloads[peers]')"


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
    hold_the_same(peer.COMPARISONS[name])


def hold_the_same(comparison):
    """Check that both sides hold the same from one seed, and not what another seed gives; return them."""
    ours, theirs = comparison.ours([0, 0]), comparison.theirs([0, 0])
    for side in (ours, theirs):
        assert side.block() > 0
    theirs.check_first(ours)
    for side in (ours, theirs):
        side.block()
    common.check_alike(theirs, ours)
    with pytest.raises(RuntimeError, match="differ, wanted the same: both got the same"):
        theirs.check_first(comparison.ours([0, 1]))
    return ours, theirs


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


class Buffer:
    """What Stable-Baselines3's ReplayBuffer is asked for, of rows in a list."""

    def __init__(self, size, stack, actions, device, **how):
        self.made = (size, stack.shape, int(actions.n), device, how)
        self.rows, self.size, self.pos, self.batches = [None] * size, size, 0, []

    def add(self, *step):
        self.rows[self.pos] = [np.array(part) for part in step[:5]]
        assert step[5] == [{}]
        self.pos = (self.pos + 1) % self.size

    def _get_samples(self, rows):
        torch = import_module("torch")
        states, after, actions, rewards, ends = (np.stack(part) for part in zip(*(self.rows[row] for row in rows)))
        columns = states[:, 0], actions, after[:, 0], ends.astype(np.float32), rewards
        return tuple(map(torch.from_numpy, columns))

    def sample(self, batch):
        self.batches.append(batch)
        return "a batch"


class Prioritised:
    """What cpprb's PrioritizedReplayBuffer is asked for, of rows in a list."""

    def __init__(self, size, fields, alpha, eps, **once):
        self.fields, self.once, self.alpha, self.eps, self.size = fields, once, alpha, eps, size
        self.rows, self.added, self.ended, self.asked = [None] * size, 0, [], []
        self.priorities, self.rng = np.zeros(size), np.random.default_rng(0)

    def add(self, **columns):
        for step in zip(*columns.values()):
            assert step[0].shape == self.fields["obs"]["shape"]
            self.rows[self.added % self.size] = dict(zip(columns, step))
            self.added += 1

    def on_episode_end(self):
        self.ended.append(self.added)

    def update_priorities(self, rows, errors):
        assert (errors >= 0).all()
        self.asked.append(("update", len(rows)))
        self.priorities[rows] = (errors.astype(float) + self.eps) ** self.alpha

    def sample(self, batch, beta):
        self.asked.append(("sample", batch, beta))
        rows = self.rng.integers(self.size, size=batch)
        got = {
            name: np.stack([np.reshape(self.rows[row][name], -1) for row in rows]) for name in ("act", "rew", "done")
        }
        got |= {name: np.stack([self.rows[row][name] for row in rows]) for name in ("obs", "next_obs")}
        return {**got, "indexes": rows, "weights": (self.priorities.min() / self.priorities[rows]) ** beta}


@pytest.fixture
def libraries(monkeypatch):
    """Stand-ins for the libraries of others."""
    made = {
        "stable_baselines3.common.buffers": SimpleNamespace(ReplayBuffer=Buffer),
        "cpprb": SimpleNamespace(PrioritizedReplayBuffer=Prioritised),
    }
    monkeypatch.setattr(peer, "import_module", lambda name: made.get(name) or import_module(name))


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", peer.COMPARISONS)
def test_both_sides_of_each_comparison_are_given_the_same(name, monkeypatch):
    monkeypatch.setattr(peer.CpprbUpdates, "calls", 32)
    monkeypatch.setattr(peer.OurUpdates, "calls", 32)
    ours, theirs = hold_the_same(peer.COMPARISONS[name])
    assert ours.done() == theirs.done() == ours.due() == theirs.due() == (128, theirs.calls)
    if name in ("push", "sample"):
        how = {"optimize_memory_usage": True, "handle_timeout_termination": False}
        assert theirs.buffer.made == (600, (4, 5, 5), 12, "cpu", how)
        assert theirs.buffer.batches == ([16] * 2 * theirs.calls if name == "sample" else [])
        assert theirs.buffer.pos == (256 if name == "push" else 0)
    else:
        buffer, shared = theirs.buffer, name.removeprefix("prioritised_")
        assert (buffer.alpha, buffer.eps) == (0.6, 1e-4)
        wanted = {"nothing": {}, "frames": {"next_of": "obs", "stack_compress": "obs"}}
        assert buffer.once == wanted.get(shared, {"next_of": "obs"})
        assert ("next_obs" in buffer.fields) is (shared == "nothing")
        assert buffer.fields["obs"] == {"shape": (5, 5, 4) if shared == "frames" else (4, 5, 5), "dtype": np.uint8}
        ends = [row for row in range(600) if buffer.rows[row]["done"]]
        assert buffer.ended == [row + 1 for row in ends]
        assert buffer.asked[0] == ("update", 600)
        assert {each for each in buffer.asked[1:] if each[0] == "sample"} == {("sample", 16, 0.4)}
        assert buffer.asked.count(("update", 16)) == 2 * theirs.calls


@pytest.mark.usefixtures("libraries")
def test_weights_that_are_not_of_the_same_errors_are_found():
    comparison = peer.COMPARISONS["update"]
    ours, theirs = comparison.ours([0, 0]), comparison.theirs([0, 0])
    theirs.check_first(ours)
    theirs.buffer.priorities[::2] *= 1.1
    with pytest.raises(RuntimeError, match=r"^weights: those drawn differ, wanted the same: both got the same errors$"):
        theirs.check_first(ours)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", ["sample", "prioritised_stacks"])
@pytest.mark.parametrize("field", ["states", "actions", "rewards", "next_states", "ends"])
def test_a_field_of_other_values_is_named(name, field):
    comparison = peer.COMPARISONS[name]
    ours, theirs = comparison.ours([0, 0]), comparison.theirs([0, 0])
    kept = ours.transitions

    def changed(rows):
        found = dict(kept(rows))
        return {**found, field: found[field] + np.ones((), found[field].dtype)}

    ours.transitions = changed
    with pytest.raises(RuntimeError, match=rf"^{field}: those (stored|drawn) differ"):
        theirs.check_first(ours)


def test_of_an_ended_step_the_next_state_is_not_compared():
    one, other = peer.OurSamples([0, 0]), peer.OurSamples([0, 0])
    kept = one.transitions

    def changed(rows):
        found = dict(kept(rows))
        ended = found["ends"] != 0
        assert ended.any()
        after = found["next_states"].copy()
        after[ended] += 1
        return {**found, "next_states": after}

    one.transitions = changed
    one.check_first(other)


def test_steps_go_on_where_the_last_ones_ended():
    side = peer.Ours([0, 0])
    first, second = side.steps(20), side.steps(30)
    frames = np.concatenate([first["frames"], second["frames"]])
    ends, times = (np.concatenate([part[name] for part in (first, second)]) for name in ("ends", "times"))
    stacks, after = (np.concatenate([part[name] for part in (first, second)]) for name in ("stacks", "after"))
    for step in range(1, 50):
        assert times[step] == (0 if ends[step - 1] else times[step - 1] + 1)
    for step in range(3, 49):
        known = [frames[step - back] if back <= times[step] else np.zeros((5, 5)) for back in (3, 2, 1, 0)]
        np.testing.assert_array_equal(stacks[step], np.stack(known))
        nothing = np.zeros((5, 5))
        np.testing.assert_array_equal(after[step, -1], nothing if ends[step] else frames[step + 1])
        np.testing.assert_array_equal(after[step, :-1], stacks[step, 1:] if ends[step] else stacks[step + 1, :-1])
    assert {name: (array.dtype.name, len(array)) for name, array in first.items()} == {
        "frames": ("uint8", 20), "actions": ("int32", 20), "rewards": ("float32", 20), "ends": ("bool", 20),
        "times": ("int32", 20), "stacks": ("uint8", 20), "after": ("uint8", 20),
    }  # fmt: skip
    assert 0 <= first["actions"].min() <= first["actions"].max() < 12


def test_packets_are_of_the_steps_of_a_block_in_order(monkeypatch):
    monkeypatch.setattr(peer, "PACKET", 50)
    side, other = peer.OurPushes([0, 0]), peer.Ours([0, 0])
    (packets,), steps = side.drawn(), other.steps(128)
    assert [len(packet[0]) for packet in packets] == [50, 50, 28]
    for number, name in enumerate(("frames", "actions", "rewards", "ends", "times")):
        np.testing.assert_array_equal(np.concatenate([packet[number] for packet in packets]), steps[name])
    before = side.replay.rings[0].pushed
    assert side.play(packets) == (128,)
    assert side.replay.rings[0].pushed == before + 128


def test_errors_are_drawn_for_rows_of_the_whole_memory():
    rows, errors = peer.drawn_errors(np.random.default_rng(0), 40)
    assert (rows.shape, errors.shape, errors.dtype) == ((40, 16), (40, 16), np.float32)
    assert 0 <= rows.min() < 10
    assert 590 < rows.max() < 600
    assert errors.min() < 0 < errors.max()
    assert peer.Played.calls == 1024 // 64
    assert peer.OurDraws.calls == peer.CpprbDraws.calls == peer.TheirSamples.calls == peer.OurSamples.calls == 16
    assert peer.OurUpdates.calls == peer.CpprbUpdates.calls == 256


def test_priorities_are_of_errors_and_a_draw_has_weights():
    side = peer.OurDraws([0, 0])
    tree = side.replay
    assert (tree.alpha, tree.beta) == (0.6, 0.4)
    (errors,) = side.drawn()
    batch, weights, calls = side.play(errors)
    assert (calls, len(weights), len(batch.states)) == (16, 16, 16)
    draws = peer.OurSamples([0, 0])
    tensors, calls = draws.play()
    torch = import_module("torch")
    assert calls == 16
    assert all(isinstance(tensor, torch.Tensor) and len(tensor) == 16 for tensor in tensors)


def test_the_version_of_a_library_is_said_where_it_is_installed():
    given = ("a peer", "a case", "ours", "theirs", "left out", 1.25)
    found = peer.against("numpy", *given)
    assert found == common.Comparison("a case", "a peer", np.__version__, "ours", "theirs", "left out", 1.25)
    assert peer.against("nowhere-to-be-found", *given).version == "(not installed)"
