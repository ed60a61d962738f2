"""Super Mario Bros. on NumPy 2: frames, ends of episodes, positions, and reproducibility."""

from contextlib import closing

import numpy as np
import pytest

from correctness_tests.commands import hiding, python
from correctness_tests.mario.pipelines import make as make_pipeline
from correctness_tests.waiting import children
from rl_impls.common.procgen_env import check_installed
from rl_impls.mario import nes
from rl_impls.mario.games import NES, NesPlayed
from rl_impls.mario.nes import ACTIONS, FRAME, NesGame
from rl_impls.mario.options import FORMS

RUN = 3  # the action that runs to the right, into the first enemy
LONGEST = 400  # upper limit of the frames until then


@pytest.fixture
def installed(needed):
    """Skip or fail a test if the packages are not installed."""
    needed(check_installed, "numpy", nes.NEEDED)


@pytest.fixture
def make(installed):
    """Return a function that makes games, which are closed after the test."""
    made = []

    def one(*args, kind=NesGame, **how):
        made.append(kind(*args, **how))
        return made[-1]

    yield one
    for game in made:
        game.close()


def drawn(steps, seed=0):
    """Return random actions i64[T], mostly to the right."""
    return np.random.default_rng(seed).choice(len(ACTIONS), size=steps, p=[0.05, 0.1, 0.25, 0.25, 0.25, 0.05, 0.05])


def course(game, actions):
    """Return the result of each step and the progress, over several episodes."""
    found = [(game.reset(), 0.0, False, game.progress)]
    for action in actions:
        found.append((*game.step(action), game.progress))
        if found[-1][2]:
            found.append((game.reset(), 0.0, False, game.progress))
    return found


def same(found, wanted):
    """Return whether two courses are equal."""
    return all(
        np.array_equal(one[0], other[0]) and one[1:] == other[1:] for one, other in zip(found, wanted, strict=True)
    )


def to_the_end(game):
    """Run until an episode ends; return its steps."""
    game.reset()
    steps = []
    while not (steps and steps[-1][2]):
        steps.append(game.step(RUN))
        assert len(steps) < LONGEST
    return steps


def test_frames_change_and_are_not_overwritten(make):
    game = make()
    found = course(game, drawn(200))
    kept = [step[0].copy() for step in found]
    assert game.actions == len(ACTIONS) == 7
    for frame, reward, ended, progress in found:
        assert (frame.shape, frame.dtype, frame.flags.c_contiguous) == (FRAME, np.uint8, True)
        assert (type(reward), type(ended), type(progress)) == (float, bool, int)
        assert -15 <= reward <= 15
    assert len({frame.tobytes() for frame in kept}) > 100
    assert all(frame.std() > 30 for frame in kept)
    course(game, drawn(50, seed=1))
    for step, copy in zip(found, kept):
        np.testing.assert_array_equal(step[0], copy)


def test_an_episode_ends_with_a_penalty_and_the_next_starts_the_same(make):
    game = make()
    first = game.reset()
    begun = game.progress
    steps = to_the_end(game)
    assert steps[-1][1] == -15
    assert not any(ended for _, _, ended in steps[:-1])
    assert begun < 50 < 200 < game.progress == max(game.info["x_pos"], game.progress)
    assert sum(reward for _, reward, _ in steps[:-1]) > 150
    np.testing.assert_array_equal(game.reset(), first)
    assert game.progress == begun
    again = [game.step(RUN) for _ in steps]
    assert same(again, steps)


def test_progress_is_the_furthest_of_the_episode(make):
    game = make()
    game.reset()
    for action in [RUN] * 60 + [6] * 60:  # back to the left
        game.step(action)
    assert 40 < game.info["x_pos"] < game.progress < 400


def test_the_seed_fixes_initial_waits(make):
    actions = drawn(150)
    wanted = course(make(5, wait=30), actions)
    assert not same(course(make(6, wait=30), actions), wanted)
    assert same(course(make(5, wait=30), actions), wanted)


def test_positions_do_not_overflow_eight_bits(make):
    game = make()
    game.reset()
    level = game.game
    level.ram[0x6D], level.ram[0x86] = 12, 200
    level.ram[0xB5], level.ram[0x3B8] = 0, 10
    assert level._get_info()["x_pos"] == 12 * 256 + 200
    assert level._get_info()["y_pos"] == 255 + 255 - 10


def test_an_action_is_repeated_for_four_frames_or_until_the_episode_ends(make):
    played, plain = make(3, kind=NesPlayed), make(3, wait=30)
    np.testing.assert_array_equal(played.observe(), plain.reset())
    ended, result, length = False, 0.0, 0
    while not ended:
        assert length < LONGEST
        frame, reward, episode = played.step(RUN + 7)  # actions 0 to 14 are taken modulo the seven buttons
        steps = []
        while len(steps) < 4 and not ended:
            steps.append(plain.step(RUN))
            ended = steps[-1][2]
        assert reward == sum(step[1] for step in steps)
        result, length = result + reward, length + len(steps)
        assert (episode is not None) == ended
        np.testing.assert_array_equal(frame, plain.reset() if ended else steps[-1][0])
    assert episode.result == result
    assert (episode.length, episode.distance > 200) == (length, True)


@pytest.mark.parametrize("form", ["full", "naive"])
def test_the_pipeline_plays_super_mario_bros(installed, form):
    epochs = 6
    loop = make_pipeline(FORMS[form], game=NES, capacity=400, reuse=0.25, explore=60)
    with closing(loop):
        loop.reset()
        losses, _ = loop(np.arange(epochs))
        stats, episodes = loop.stats(), list(loop.episodes)
    assert np.isfinite(losses).all()
    assert losses.shape == (epochs, 3)
    each = 3 * 8 / 0.25
    assert stats["delivered"] == epochs * each
    assert stats["lost"] == stats["replaced_collectors"] == 0
    assert episodes, "no episode ended"
    assert all(episode.distance > 40 for episode in episodes)
    assert not children()


def test_without_its_packages_the_error_says_what_to_install(tmp_path):
    code = "from rl_impls.mario.nes import NesGame; NesGame()"
    done = python("-c", code, PYTHONPATH=hiding(tmp_path, *nes.NEEDED))
    assert done.stderr.splitlines()[-1].endswith(
        "gym_super_mario_bros is not installed (pip install 'rlgauge-workloads[mario-nes]')"
    )
