"""Collectors: frame skip, ends of episodes, frame stacks, random actions, and resuming from a state."""

import numpy as np
import pytest

from correctness_tests.mario.pipelines import ListSender, config_of
from rl_impls.common.procgen_env import ProcgenVectorEnv
from rl_impls.common.procgen_state import made_for
from rl_impls.mario._numpy import RESIZE
from rl_impls.mario.collectors import Collector
from rl_impls.mario.evaluation import evaluate
from rl_impls.mario.games import ProcgenGame, make_game
from rl_impls.mario.options import FORMS


def collector(index=0):
    config, senders = config_of(), [ListSender(), ListSender()]
    return Collector(config, index, 0, senders, None, (0, config["params"]), FORMS["full"]), senders


@pytest.mark.parametrize(("name", "distances"), [("coinrun", {0.0, 1.0}), ("chaser", {0.0})])
def test_an_action_is_repeated_for_four_frames_or_until_the_episode_ends(name, distances):
    game = ProcgenGame(name, "easy", 1, 3, seed=3)
    plain = ProcgenVectorEnv(name, 1, seed=3, start_level=3, num_levels=1, threads=1)
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(game.observe(), plain.observe()[0])
    lengths, results = [], []
    for _ in range(1500):
        action, wanted, steps, ended = int(rng.integers(15)), 0.0, 0, False
        while steps < 4 and not ended:
            frames, rewards, [ended] = plain.advance(np.array([action]))
            wanted, steps = wanted + float(rewards[0]), steps + 1
        frame, reward, episode = game.step(action)
        np.testing.assert_array_equal(frame, frames[0])
        assert reward == wanted
        assert (episode is not None) == ended
        if ended:
            [result], [length], [solved] = plain.finished.returns, plain.finished.lengths, plain.finished.solved
            assert episode == (result, length, float(solved))
            lengths.append(steps)
            results.append(episode)
    assert set(lengths) & {1, 2, 3}, "no episode ended before the fourth frame"
    assert {episode.distance for episode in results} == distances
    game.close()
    plain.close()


def test_a_game_has_the_mode_and_the_levels_of_the_configuration():
    game = make_game({"game": "coinrun", "mode": "hard", "levels": 2, "start_level": 7}, 3)
    assert made_for(game.get_state()["games"].tobytes()) == ("coinrun", "hard", 7, 9)
    game.close()


def test_each_environment_of_each_collector_plays_its_own_games():
    players = [collector(index)[0] for index in (0, 1)]
    states = {game.get_state()["games"].tobytes() for player in players for game in player.games}
    assert len(states) == 4
    for player in players:
        player.close()


def test_each_step_is_sent_with_its_frame_action_reward_end_and_time():
    (player, senders), (other, _) = collector(), collector()
    version, episodes = player.play(0, 400, 1.0)
    assert version == 0
    assert episodes
    resize = RESIZE["dense"](64, 64, 36)
    for sender, game in zip(senders, other.games):  # games with the same seeds
        assert len(sender.items) == 400
        shown, time = game.observe().copy(), 0
        for frame, action, reward, terminated, at in sender.items:
            np.testing.assert_array_equal(frame, resize(shown[None])[0])
            assert at == time
            assert 0 <= action < 15
            shown, wanted, episode = game.step(action)
            assert (reward, terminated) == (wanted, episode is not None)
            time = 0 if terminated else time + 1
    assert sum(item[3] for sender in senders for item in sender.items) == len(episodes)
    actions = np.bincount([item[1] for sender in senders for item in sender.items], minlength=15)
    assert actions.min() > 20
    player.close()
    other.close()


def test_an_observation_is_four_frames_of_one_episode():
    player, senders = collector()
    for _ in range(150):
        player.play(0, senders[0].produced + 1, 0.5)
        for k, sender in enumerate(senders):
            recent = sender.items[len(sender.items) - int(player.times[k]) :][-3:]
            wanted = [np.zeros((36, 36), np.uint8)] * (3 - len(recent)) + [item[0] for item in recent]
            np.testing.assert_array_equal(player.obs[k, :3], wanted)
            assert player.obs[k, 3].any()
    assert any(item[3] for sender in senders for item in sender.items)
    player.close()


def test_the_net_acts_unless_epsilon_has_a_random_action():
    player, _ = collector()
    drawn = np.array([[0.4, 0.99], [0.6, 0.99]])
    best = player.actor(player.obs)
    np.testing.assert_array_equal(player.actions(drawn, 0.5), [14, best[1]])
    np.testing.assert_array_equal(player.actions(drawn, 0.0), best)
    np.testing.assert_array_equal(player.actions(drawn, 1.0), [14, 14])
    wanted = (best + 1) % 15
    params = {name: np.zeros_like(value) for name, value in player.config["params"].items()}
    params["b_value"][wanted[0]] = 1
    player.load(5, params)
    assert (player.version, set(player.actor(player.obs).tolist())) == (5, {int(wanted[0])})
    player.close()


def test_random_actions_depend_on_the_collector_and_the_chunk():
    def actions(index, number):
        player, senders = collector(index)
        player.play(number, 30, 1.0)
        player.close()
        return [item[1] for sender in senders for item in sender.items]

    found = [actions(*where) for where in ((0, 1), (1, 1), (0, 2), (1, 2))]
    assert actions(1, 2) == found[3]
    assert len(set(map(tuple, found))) == 4


def test_an_evaluation_plays_as_many_episodes_as_asked_for():
    config = config_of()
    for episodes in (1, 10):  # eight environments play side by side, and two of them a second episode
        found = evaluate(config, config["params"], episodes, 0, FORMS["full"])
        assert {len(values) for values in found.values()} == {episodes}
    rng = np.random.default_rng(0)
    given, played = config | {"num_envs": 8, "seed": int(rng.integers(2**31))}, [[] for _ in range(8)]
    player = Collector(given, 0, 0, [ListSender() for _ in played], None, (0, config["params"]), FORMS["full"])
    while min(map(len, played)) < 2:
        chosen = player.actions(rng.random((8, 2)), 0.05)
        for k, ended in enumerate(played):
            player.step(k, int(chosen[k]), ended)
    player.close()
    wanted = [episode for k, ended in enumerate(played) for episode in ended[: 2 if k < 2 else 1]]
    assert sorted(zip(*found.values())) == sorted(wanted)  # otherwise, short episodes would be over-represented


def test_an_evaluation_does_not_depend_on_the_training_seed_and_exploration():
    configs = config_of(seed=1), config_of(seed=2, epsilon=(1.0, 1.0))
    found = [evaluate(config, config["params"], 8, 0, FORMS["full"]) for config in configs]
    np.testing.assert_equal(found[1], found[0])
