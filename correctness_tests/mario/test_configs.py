"""The included configuration files, and the validation of a configuration."""

from pathlib import Path

import pytest

from rl_impls import mario
from rl_impls.common.config import fields_of
from rl_impls.common.training import from_file
from rl_impls.mario.agent import Config

FILES = sorted((Path(mario.__file__).parent / "configs").glob("*.yaml"))
NAMED = {  # form, collectors, num_envs, capacity, batch_size, accumulate, updates, publish_every, norm, init
    "optimised": ("optimised", 4, 1, 50_000, 4 * 512, 4, 16, 5, "batch", "he"),
    "original": ("naive", 2, 1, 10_000, 256, 1, 8, 3, "none", "uniform"),
    "rings": ("full", 2, 8, 50_000, 256, 1, 8, 1, "none", "he"),
    "two_cores": ("optimised", 2, 1, 25_000, 256, 1, 8, 5, "batch", "he"),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_configuration_sets_every_field(path):
    values = from_file(Config, path).values
    assert values.keys() == {*fields_of(Config), "seed"}
    config = Config(**{name: value for name, value in values.items() if name != "seed"})
    names = "form", "collectors", "num_envs", "capacity", "batch_size", "accumulate", "updates", "publish_every"
    assert tuple(getattr(config, name) for name in (*names, "norm", "init")) == NAMED[path.stem]
    assert config.options.accumulate == config.accumulate
    assert (config.beta_increment, config.queue) == (1e-6, 10_000)
    assert config.chunk == (2_000 if path.stem == "two_cores" else 1_000)


def test_defaults_are_the_configuration_with_rings():
    values = from_file(Config, FILES[0].with_stem("rings")).values
    assert Config(**{name: value for name, value in values.items() if name != "seed"}) == Config()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accumulate": 4, "batch_size": 6}, "^accumulate=4 should divide batch_size=6$"),
        ({"capacity": 500}, "^capacity=500 should be at least 640, as an epoch has 32 experiences in each of 16 "),
        (
            {"capacity": 100, "updates": 1, "batch_size": 20, "reuse": 1.0},
            "^capacity=100 should be at least 160, as an epoch has 2 experiences in each of 16 ",
        ),
        (
            {"collectors": 8, "num_envs": 64},
            "^num_envs=64 with collectors=8 should be fewer: in an epoch, each of the 512 ",
        ),
        ({"queue": 15}, "^queue=15 should be at least 16, one for each environment$"),
        ({"game": "mario", "start_level": 3}, "^start_level=3 should be 0, as it is not used by the game mario$"),
    ],
)
def test_incompatible_values_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Config(**changes)
