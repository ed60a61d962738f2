"""The replay buffer: storing, sampling and restoring."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_impls.common.replay import Replay


def small_replay(capacity):
    return Replay(capacity, obs=np.zeros(2, np.float32), action=np.int32(0))


def item(k):
    return {"obs": np.array([k, -k], np.float32), "action": k}


def items(first, count):
    numbers = np.arange(first, first + count)
    return {"obs": np.stack([numbers, -numbers], 1).astype(np.float32), "action": numbers}


def stored(replay):
    arrays = replay.arrays()
    return list(zip(arrays["obs"][:, 0].astype(int).tolist(), arrays["action"].tolist()))


OPERATIONS = st.one_of(st.sampled_from(["push", "sample", "restore"]), st.integers(0, 20))


@given(st.integers(1, 6), st.lists(OPERATIONS, max_size=40), st.integers(0, 99))
def test_replay_holds_the_last_items(capacity, operations, seed):
    replay, model, numbers = small_replay(capacity), [], itertools.count()
    rng = np.random.default_rng(seed)
    for operation in operations:
        if operation == "push":
            k = next(numbers)
            replay.push(**item(k))
            model = [*model, k][-capacity:]
        elif isinstance(operation, int):
            new = [next(numbers) for _ in range(operation)]
            replay.store(*items(new[0] if new else 0, operation).values())
            model = [*model, *new][-capacity:]
        elif operation == "restore":
            arrays = replay.arrays()
            replay = small_replay(capacity)
            replay.restore(arrays)
        elif model:
            batch = replay.sample(rng, int(rng.integers(1, len(model) + 1)))
            actions = batch["action"].tolist()
            assert len(set(actions)) == len(actions)
            assert set(actions) <= set(model)
            np.testing.assert_array_equal(batch["obs"], np.stack([batch["action"], -batch["action"]], 1))
        assert len(replay) == len(model)
        assert sorted(stored(replay)) == [(k, k) for k in sorted(model)]
        assert replay.pushed == (max(model) + 1 if model else 0)
        assert not model or replay.fields["action"][(replay.pushed - 1) % capacity] == model[-1]


def test_items_are_sampled_uniformly():
    replay, draws = small_replay(10), 4000
    for k in range(15):
        replay.push(**item(k))
    rng = np.random.default_rng(0)
    counts = np.bincount(np.concatenate([replay.sample(rng, 4)["action"] for _ in range(draws)]), minlength=15)
    assert (counts[:5] == 0).all()
    assert np.abs(counts[5:] - 0.4 * draws).max() < 5 * np.sqrt(draws * 0.4 * 0.6)


def test_replay_over_slices_of_arrays_keeps_its_items_there():
    obs, actions = np.full((9, 2), 7, np.float32), np.full(9, 7, np.int32)
    replays = [Replay.over(obs=obs[k : k + 3], action=actions[k : k + 3]) for k in (0, 3)]
    for k, replay in enumerate(replays):
        assert (len(replay), replay.capacity) == (0, 3)
        replay.store(*items(10 * k, 4).values())
        replay.push(**item(10 * k + 4))
    assert actions.tolist() == obs[:, 0].tolist() == [3, 4, 2, 13, 14, 12, 7, 7, 7]
    replays[0].restore(replays[1].arrays())
    assert actions.tolist() == [13, 14, 12, 13, 14, 12, 7, 7, 7]
    assert replays[0].pushed == 5


def filled(first):
    replay = small_replay(3)
    for k in (first, first + 1):
        replay.push(**item(k))
    return replay


def restored(**changed):
    return lambda replay, rng: replay.restore(filled(7).arrays() | changed)


BAD = {
    "item of another shape": (lambda replay, rng: replay.push(obs=np.zeros(3), action=1), "should be"),
    "batch of 0": (lambda replay, rng: replay.sample(rng, 0), "^batch_size=0 should be from 1 to 2"),
    "batch larger than the replay": (lambda replay, rng: replay.sample(rng, 3), "^batch_size=3 should be from 1 to 2"),
    "negative count": (restored(pushed=np.array(-1)), "should be"),
    "arrays of another shape": (restored(obs=np.zeros((2, 3), np.float32)), "should be"),
    "another field": (restored(more=np.zeros(2)), "should be"),
}


@pytest.mark.parametrize(("use", "message"), BAD.values(), ids=BAD)
def test_bad_use_is_an_error_and_changes_nothing(use, message):
    replay, rng = filled(0), np.random.default_rng(0)
    before = rng.bit_generator.state
    with pytest.raises(ValueError, match=message):
        use(replay, rng)
    assert (stored(replay), replay.pushed) == ([(0, 0), (1, 1)], 2)
    assert rng.bit_generator.state == before
