"""Included configuration files: each is complete and matches its name."""

from dataclasses import fields
from pathlib import Path

import pytest

from rl_impls import procgen
from rl_impls.common.training import from_file
from rl_impls.procgen.agent import ALGORITHMS, Config

CONFIGS = Path(procgen.__file__).parent / "configs"
NAMED = {
    "a2c": ("a2c", 32, 0, 0), "a3c": ("a3c", 32, 2, 0), "impala": ("impala", 32, 0, 0),
    "impala_8core": ("impala", 64, 0, 0), "impala_parallel": ("impala", 32, 2, 1),
    "impala_parallel_8core": ("impala", 64, 4, 1), "ppo": ("ppo", 32, 0, 0), "ppo_highend": ("ppo", 112, 0, 0),
    "ppo_parallel": ("ppo", 32, 2, 0), "ppo_parallel_highend": ("ppo", 112, 7, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*NAMED, *(path.stem for path in CONFIGS.glob("*.yaml"))}))
def test_included_configuration_is_complete_and_matches_its_name(name):
    values = from_file(Config, CONFIGS / f"{name}.yaml").values
    assert values.keys() == {field.name for field in fields(Config)} | {"seed"}
    config = Config(**{field: value for field, value in values.items() if field != "seed"})
    assert (config.algorithm, config.num_envs, config.actors, config.lag) == NAMED[name]
    for field, value in ALGORITHMS[config.algorithm].items():
        assert field == "actors" or getattr(config, field) == value
