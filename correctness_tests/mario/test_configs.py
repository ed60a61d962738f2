"""The configurations that are shipped: each is whole, is read, and says what the source says."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from rl_impls import mario
from rl_impls.common.training import from_file
from rl_impls.mario.agent import Config
from rl_impls.mario.loop import make_replay
from rl_impls.mario.transport import make_transport

FILES = sorted((Path(mario.__file__).parent / "configs").glob("*.yaml"))
NAMED = {  # form, collectors, buffer, batch, parts of it, updates of an epoch, epochs to a publication
    "optimised": ("optimised", 4, 50_000, 4 * 512, 4, 16, 5),
    "original": ("naive", 2, 10_000, 256, 1, 8, 3),
    "rings": ("full", 2, 50_000, 256, 1, 8, 1),
    "two_cores": ("optimised", 2, 25_000, 256, 1, 8, 5),
}


def test_those_of_the_source_are_there():
    assert [path.stem for path in FILES] == list(NAMED)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_configuration_is_whole_and_right(path):
    values = from_file(Config, path).values
    assert values.keys() == {field.name for field in fields(Config)} | {"seed"}
    config = Config(**{name: value for name, value in values.items() if name != "seed"})
    told = ("form", "collectors", "buffer", "batch", "accumulate", "updates", "publish_every")
    assert tuple(getattr(config, name) for name in told) == NAMED[path.stem]
    assert (config.beta_increment, config.queue) == (1e-6, 10_000)
    assert config.chunk == (2_000 if path.stem == "two_cores" else 1_000)


def test_what_is_taken_where_nothing_is_said_is_the_configuration_with_rings():
    values = from_file(Config, FILES[0].with_stem("rings")).values
    assert Config(**{name: value for name, value in values.items() if name != "seed"}) == Config()


@pytest.mark.parametrize(("name", "share", "consolidated"), [("original", 5_000, None), ("optimised", 2_500, 20_000)])
def test_queues_of_the_source_are_shared_out(name, share, consolidated):
    values = from_file(Config, FILES[0].with_stem(name)).values
    config = Config(**{name: value for name, value in values.items() if name != "seed"})
    sizes = {"capacity": config.queue, "batch": config.chunk}
    transport = make_transport(config.knobs.transport, config.streams, (config.side, config.side), **sizes)
    try:
        assert transport.share == share
        assert consolidated is None or transport.gatherer.room == consolidated
    finally:
        transport.close()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"collectors": 0}, "^collectors: got 0, wanted "),
        ({"side": 96}, "^side: got 96, wanted 84 or 128"),
        ({"accumulate": 2}, "^accumulate: got 2 with a batch of 256, wanted 1, or 4 parts"),
        ({"accumulate": 4, "batch": 254}, "^accumulate: got 4 with a batch of 254, wanted 1, or 4 parts"),
        ({"reuse": 0.0}, "^reuse: got 0.0, wanted more than 0"),
        ({"buffer": 500}, "^buffer: got 500, wanted 640 or more, as an epoch has 32 in each of 16 streams"),
        ({"queue": 8}, "^queue: got 8, wanted 16 or more, one in each of 16 streams"),
        ({"norm": "layer"}, "^norm: got 'layer', wanted one of none, batch"),
        ({"game": "pong"}, "^game: got 'pong', wanted one of bigfish, "),
        ({"game": "mario", "mode": "hard"}, "^mode: got 'hard', wanted none or 'easy', as the game mario has none$"),
        ({"game": "mario", "levels": 0}, "^levels: got 0, wanted none or 200, as the game mario has none$"),
        ({"game": "mario", "start_level": 3}, "^start_level: got 3, wanted none or 0, as the game mario has none$"),
        ({"beta_increment": -0.1}, "^beta_increment: got -0.1, wanted "),
        ({"epsilon_end": 1.5}, "^epsilon_end: got 1.5, wanted "),
    ],
)
def test_what_makes_no_sense_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        Config(**changes)


def test_the_game_of_the_nes_is_played_with_what_is_the_default():
    assert Config(game="mario").game == "mario"


def test_a_replay_has_the_priorities_of_its_configuration():
    config = Config(sampling="prioritised", buffer=1_000, alpha=0.7, beta=0.3, beta_increment=0.01)
    replay = make_replay(config.spec(0), config.knobs)
    assert (replay.alpha, replay.beta, replay.beta_increment) == (0.7, 0.3, 0.01)
