"""Agents of all workloads: seeds, checkpoints that resume bit for bit, evaluation."""

import math

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.waiting import limit
from correctness_tests.workload_agents import AGENTS, SMALL, agent_of, contents, fields_of, make

pytestmark = pytest.mark.usefixtures("one_thread")

limited = limit("training or playing")


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


RESUMED = [(name, backend) for name in SMALL for backend in ("torch", "jax")]
LONG = ("procgen", "jax"), ("treasurehunt", "jax")  # to compile; the tests of their updates go on from torch with JAX


@pytest.mark.parametrize(
    ("workload", "backend"), quick([one for one in RESUMED if one[0] in AGENTS and one not in LONG], RESUMED)
)
def test_resumed_training_is_bit_for_bit_the_same(tmp_path, workload, backend):
    whole = make(workload, backend)
    curve = [whole.learn() for _ in range(2)]
    whole.save(tmp_path / "agent")
    wanted = [whole.learn() for _ in range(2)]
    assert_columns(curve + wanted)
    resumed = agent_of(workload).load(tmp_path / "agent")
    assert resumed.config == whole.config
    np.testing.assert_equal([resumed.learn() for _ in range(2)], wanted)
    assert whole.step == resumed.step == 4 * whole.chunk
    assert kept(resumed, tmp_path) == kept(whole, tmp_path) != contents(tmp_path / "agent")
    np.testing.assert_equal(resumed.evaluate(4, seed=1), whole.evaluate(4, seed=1))
    for agent in (whole, resumed):
        agent.close()


@pytest.mark.parametrize("workload", AGENTS)
def test_training_is_determined_by_the_seed(tmp_path, workload):
    make(workload, seed=1).save(tmp_path / "untrained")
    one, other = make(workload, seed=1), make(workload, seed=2)
    two = agent_of(workload).load(tmp_path / "untrained")  # also resumes identically
    first, again, _ = (agent.learn() for agent in (one, two, other))
    np.testing.assert_equal(again, first)
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
    if (workload, "jax") not in LONG:
        other.learn()
    fixed = set(fields_of(workload, int, float)) - set(kind.CHANGEABLE)
    for wrong in ({"seed": 1}, {"backend": "jax", "seed": 1}, *({name: 8} for name in fixed)):
        with pytest.raises(ValueError, match=r"^cannot change \w+ when resuming; only "):
            kind.load(tmp_path / "agent", **wrong)
