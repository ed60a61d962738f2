"""The configurations that are shipped: each is whole, is read, and is what its name says."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from rl_impls import procgen
from rl_impls.common.config_file import read
from rl_impls.common.training import from_file
from rl_impls.procgen.agent import ALGORITHMS, Config

FILES = sorted((Path(procgen.__file__).parent / "configs").glob("*.yaml"))
NAMED = {
    "a2c": ("a2c", 32, 0, 0), "a3c": ("a3c", 32, 2, 0), "impala": ("impala", 32, 0, 0),
    "impala_8core": ("impala", 64, 0, 0), "impala_parallel": ("impala", 32, 2, 1),
    "impala_parallel_8core": ("impala", 64, 4, 1), "ppo": ("ppo", 32, 0, 0), "ppo_highend": ("ppo", 112, 0, 0),
    "ppo_parallel": ("ppo", 32, 2, 0), "ppo_parallel_highend": ("ppo", 112, 7, 0),
}  # fmt: skip


def test_those_of_the_source_are_there():
    assert [path.stem for path in FILES] == list(NAMED)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_configuration_is_whole_and_right(path):
    values = from_file(Config, path).values
    assert values.keys() == {field.name for field in fields(Config)} | {"seed"}
    config = Config(**{name: value for name, value in values.items() if name != "seed"})
    assert (config.algorithm, config.envs, config.actors, config.lag) == NAMED[path.stem]
    for name, value in ALGORITHMS[config.algorithm].items():
        assert name == "actors" or getattr(config, name) == value


def test_a_file_may_not_say_what_no_training_has():
    with pytest.raises(ValueError, match=r"ppo.yaml, line 2: got the unknown name 'backend'; known: envs"):
        read(FILES[6], {"envs": int})
