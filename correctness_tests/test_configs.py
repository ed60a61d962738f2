"""Shipped configuration files: each sets every field and matches its name."""

import pytest

from rl_impls.common.config import fields_of
from rl_impls.common.training import from_file
from rl_impls.procgen.agent import ALGORITHMS

from .workload_agents import RL_IMPLS, agent_of

FIELDS = {
    "mario": (
        "form", "collectors", "num_envs", "capacity", "batch_size", "accumulate", "updates", "publish_every", "norm",
        "init", "chunk", "queue", "beta_increment",
    ),
    "procgen": ("algorithm", "num_envs", "actors", "lag"),
}  # fmt: skip
NAMED = {
    "mario/optimised": ("optimised", 4, 1, 50_000, 4 * 512, 4, 16, 5, "batch", "he", 1_000, 10_000, 1e-6),
    "mario/original": ("naive", 2, 1, 10_000, 256, 1, 8, 3, "none", "uniform", 1_000, 10_000, 1e-6),
    "mario/rings": ("full", 2, 8, 50_000, 256, 1, 8, 1, "none", "he", 1_000, 10_000, 1e-6),
    "mario/two_cores": ("optimised", 2, 1, 25_000, 256, 1, 8, 5, "batch", "he", 2_000, 10_000, 1e-6),
    "procgen/a2c": ("a2c", 32, 0, 0), "procgen/a3c": ("a3c", 32, 2, 0), "procgen/impala": ("impala", 32, 0, 0),
    "procgen/impala_8core": ("impala", 64, 0, 0), "procgen/impala_parallel": ("impala", 32, 2, 1),
    "procgen/impala_parallel_8core": ("impala", 64, 4, 1), "procgen/ppo": ("ppo", 32, 0, 0),
    "procgen/ppo_highend": ("ppo", 112, 0, 0), "procgen/ppo_parallel": ("ppo", 32, 2, 0),
    "procgen/ppo_parallel_highend": ("ppo", 112, 7, 0),
}  # fmt: skip
FILES = {f"{path.parts[-3]}/{path.stem}": path for path in RL_IMPLS.glob("*/configs/*.yaml")}


@pytest.mark.parametrize("name", sorted({*NAMED, *FILES}))
def test_shipped_configuration_sets_every_field_and_matches_its_name(name):
    workload, _, _ = name.partition("/")
    kind = agent_of(workload).Config
    values = from_file(kind, FILES[name]).values
    assert values.keys() == {*fields_of(kind), "seed"}
    config = kind(**{field: value for field, value in values.items() if field != "seed"})
    assert tuple(getattr(config, field) for field in FIELDS[workload]) == NAMED[name]
    if workload == "mario":
        assert config.options.accumulate == config.accumulate
        assert (config == kind()) == (name == "mario/rings")  # the defaults
    else:
        for field, value in ALGORITHMS[config.algorithm].items():
            assert field == "actors" or getattr(config, field) == value
