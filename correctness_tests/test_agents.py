"""Agents of all workloads: seeds, checkpoints that resume bit for bit, evaluation."""

import copy
import json
import math

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.workload_agents import AGENTS, FIGURES, RL_IMPLS, SMALL, agent_of, contents, fields_of, make
from rl_impls import backends, params
from rl_impls.params import CheckpointError

pytestmark = pytest.mark.usefixtures("one_thread")


def kept(agent, folder):
    agent.save(folder / "kept")
    return contents(folder / "kept")


def assert_columns(curve):
    """Assert that a curve begins with the columns of all workloads, then has losses, and exploration at its end."""
    names = list(curve[0])
    losses = [name for name in names if name.endswith("loss")]
    assert names[:3] == ["return", "length", "episodes"]
    assert names[-1] in ("epsilon", "entropy")
    assert losses
    assert names.index(losses[0]) > 2
    for figures in curve:
        assert list(figures) == names
        assert math.isnan(figures["return"]) == math.isnan(figures["length"]) == (figures["episodes"] == 0)
        assert figures[names[-1]] >= 0


def test_agents_of_all_workloads_are_tested():
    agents = {name for name in backends.workloads() if (RL_IMPLS / name / "agent.py").is_file()}
    assert SMALL.keys() == FIGURES.keys() == agents


RESUMED = {f"{name}.{backend}": {"backend": backend} for name in SMALL for backend in ("torch", "jax")} | {
    "pirl.hybrid": {"serve": "torch-trace"},
    "snake.vectorised": {"form": "vectorised", "num_envs": 16},
    "snake.threaded": {"form": "threaded", "num_envs": 16},
    "snake.float16": {"form": "float16"},
    "snake.compiled": {"backend": "jax", "form": "compiled"},
    "snake.compiled, 16 games": {"backend": "jax", "form": "compiled", "num_envs": 16},
    "procgen.a2c": {"algorithm": "a2c", "game": "bossfight", "num_steps": 20},
    "procgen.impala": {"algorithm": "impala", "game": "bossfight", "num_steps": 20},  # episodes end in later chunks
    "procgen.residual": {"net": "residual"},
}
LONG = {  # to compile; the tests of their updates go on from torch with JAX
    "procgen.jax", "treasurehunt.jax", "snake.vectorised", "snake.compiled", "snake.compiled, 16 games", "procgen.a2c",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", quick([name for name in RESUMED if name.partition(".")[0] in AGENTS and name not in LONG], RESUMED)
)
def test_resumed_training_is_bit_for_bit_the_same(tmp_path, name):
    workload, _, _ = name.partition(".")
    whole = make(workload, **RESUMED[name])
    start = whole.params
    curve = [whole.learn() for _ in range(2)]
    whole.save(tmp_path / "agent")
    wanted = [whole.learn() for _ in range(2)]
    assert_columns(curve + wanted)
    resumed = agent_of(workload).load(tmp_path / "agent")
    assert resumed.config == whole.config
    np.testing.assert_equal([resumed.learn() for _ in range(2)], wanted)
    if "game" in RESUMED[name]:  # one with short episodes
        assert sum(figures["episodes"] for figures in wanted) > 0
    assert whole.step == resumed.step == 4 * whole.chunk
    assert all((value != start[name]).any() for name, value in whole.params.items())
    assert kept(resumed, tmp_path) == kept(whole, tmp_path) != contents(tmp_path / "agent")
    np.testing.assert_equal(resumed.evaluate(4, seed=1), whole.evaluate(4, seed=1))
    for agent in (whole, resumed):
        agent.close()


@pytest.mark.parametrize("workload", AGENTS)
def test_training_is_determined_by_the_seed(tmp_path, workload):
    make(workload, seed=1).save(tmp_path / "untrained")
    one, other = make(workload, seed=1), make(workload, seed=2)
    two = agent_of(workload).load(tmp_path / "untrained")  # also resumes identically
    state = two.state()
    before = copy.deepcopy(state)
    first, again, _ = (agent.learn() for agent in (one, two, other))
    np.testing.assert_equal(again, first)
    np.testing.assert_equal(state, before)  # training leaves it alone
    assert kept(one, tmp_path) == kept(two, tmp_path) != kept(other, tmp_path)


@pytest.mark.parametrize("workload", AGENTS)
def test_evaluation_is_seeded_and_leaves_the_agent_alone(tmp_path, workload):
    agent = make(workload)
    agent.learn()
    before = kept(agent, tmp_path)
    first, again, other = (agent.evaluate(8, seed) for seed in (1, 1, 2))
    np.testing.assert_equal(again, first)
    assert any((other[name] != first[name]).any() for name in first)
    assert {values.shape for values in first.values()} == {(8,)}
    for episodes in (0, 1.5):
        with pytest.raises(ValueError, match=f"^episodes={episodes} should be an integer from 1 to"):
            agent.evaluate(episodes, seed=0)
    assert kept(agent, tmp_path) == before


@pytest.mark.parametrize("workload", AGENTS)
def test_only_changeable_fields_may_change_on_loading(tmp_path, workload):
    agent, kind = make(workload, form="naive"), agent_of(workload)
    agent.learn()
    agent.save(tmp_path / "agent")
    other = kind.load(tmp_path / "agent", backend="jax", form="full")
    assert (other.config.backend, other.config.form, other.step) == ("jax", "full", agent.step)
    if f"{workload}.jax" not in LONG:
        other.learn()
    fixed = set(fields_of(workload, int, float)) - set(kind.CHANGEABLE)
    for wrong in ({"seed": 1}, {"backend": "jax", "seed": 1}, *({name: 8} for name in fixed)):
        with pytest.raises(ValueError, match=r"^cannot change \w+ when resuming; only "):
            kind.load(tmp_path / "agent", **wrong)


OPTIONS = {  # by workload
    "pirl": {"learning_rate": 1e-3, "batch_size": 9, "points": 5, "pde_weight": 1.0, "boundary_weight": 2.0},
    "snake": {
        "learning_rate": 3e-4, "gamma": 0.5, "max_grad_norm": 0.01, "capacity": 100, "target_frequency": 32,
        "train_frequency": 8, "starting_blocks": 2, "dist_to_border": 2,
    },
    "procgen": {"net": "residual"},
    "treasurehunt": {
        "learning_rate": 1e-3, "gamma": 0.5, "max_grad_norm": 0.01, "loss_reduction": "mean", "soft_update": 0.5,
    },
}  # fmt: skip


def learned(agent):
    """Return the weights and the moments of an agent after a chunk of training, as bytes."""
    agent.learn()
    state = {name: value for name, value in agent.state().items() if {"online", "target", "first"} & {*name.split(".")}}
    return b"".join(np.asarray(state[name]).tobytes() for name in sorted(state))


@pytest.mark.parametrize("workload", OPTIONS)
def test_each_option_changes_what_is_learned(workload):
    changes = {}, *({name: value} for name, value in OPTIONS[workload].items())
    assert len({learned(make(workload, **changed)) for changed in changes}) == len(changes)


MISFITS = {  # changes to the configuration and to the arrays of a checkpoint
    "pirl.another architecture": ({"hidden": [8, 9]}, {}),
    "pirl.a smaller replay buffer": ({"capacity": 8}, {}),
    "pirl.an episode off the road": ({}, {"episode": lambda array: np.full(16, 2.0)}),
    "procgen.too many bytes of games": ({}, {"env.sizes": lambda array: array + 1}),
    "procgen.games of other levels": ({"levels": 9}, {}),
    "treasurehunt.wider nets": ({"hidden": 9}, {}),
}


@pytest.mark.parametrize("name", MISFITS)
def test_checkpoint_that_does_not_fit_is_refused(tmp_path, name):
    workload, (config, edits) = name.partition(".")[0], MISFITS[name]
    agent = make(workload)
    agent.learn()
    agent.save(tmp_path / "agent")
    arrays, metadata = params.load_with_metadata(tmp_path / "agent")
    metadata["config"] = json.dumps(json.loads(metadata["config"]) | config)
    arrays |= {name: edit(arrays.get(name)) for name, edit in edits.items()}
    params.save(tmp_path / "edited", arrays, **metadata)
    with pytest.raises(CheckpointError, match=rf"^{tmp_path / 'edited'}: not a checkpoint of this agent"):
        agent_of(workload).load(tmp_path / "edited")
