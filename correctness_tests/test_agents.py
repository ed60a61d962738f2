"""What the agents of all workloads have in common: they go on as if they had never been saved."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from correctness_tests.waiting import limit
from correctness_tests.workload_agents import AGENTS, HERE, WITH_AGENT, agent_of, contents, fields_of, make

pytestmark = pytest.mark.usefixtures("one_thread")

limited = limit("training or playing")


def kept(agent, folder):
    """All that an agent goes on from."""
    agent.save(folder / "kept")
    return contents(folder / "kept")


@pytest.mark.parametrize("workload", WITH_AGENT)
def test_an_agent_says_how_small_it_is_here(workload):
    assert (HERE / workload / "agent_sizes.py").is_file(), (
        f"correctness_tests/{workload}/agent_sizes.py is missing: SMALL, fields of a small Config, a dict, and "
        "FIGURES, the names of what an evaluation of it returns, a list in that order"
    )


@pytest.mark.parametrize("workload", AGENTS)
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_training_twice_as_long_is_training_saving_loading_and_training(tmp_path, workload, backend):
    whole, first = make(workload, backend), make(workload, backend)
    wanted = [whole.learn() for _ in range(4)]
    got = [first.learn() for _ in range(2)]
    first.save(tmp_path / "agent")
    second = agent_of(workload).load(tmp_path / "agent")
    assert second.config == first.config
    got += [second.learn() for _ in range(2)]
    np.testing.assert_equal(got, wanted)
    assert whole.step == second.step == 4 * whole.chunk
    assert kept(second, tmp_path) == kept(whole, tmp_path) != contents(tmp_path / "agent")
    np.testing.assert_equal(second.evaluate(4, seed=1), whole.evaluate(4, seed=1))
    for agent in (whole, first, second):
        agent.close()


@pytest.mark.parametrize("workload", AGENTS)
def test_an_agent_that_was_saved_before_it_learned_goes_on_alike(tmp_path, workload):
    agent = make(workload)
    agent.save(tmp_path / "agent")
    np.testing.assert_equal(agent_of(workload).load(tmp_path / "agent").learn(), agent.learn())


@pytest.mark.parametrize("workload", AGENTS)
def test_one_seed_trains_one_agent_and_another_another(tmp_path, workload):
    one, two, other = make(workload, seed=1), make(workload, seed=1), make(workload, seed=2)
    for agent in (one, two, other):
        agent.learn()
    assert kept(one, tmp_path) == kept(two, tmp_path) != kept(other, tmp_path)


@pytest.mark.parametrize("workload", AGENTS)
def test_an_evaluation_is_seeded_and_changes_nothing(tmp_path, workload):
    agent = make(workload)
    agent.learn()
    before = kept(agent, tmp_path)
    first, again, other = (agent.evaluate(8, seed) for seed in (1, 1, 2))
    np.testing.assert_equal(again, first)
    assert any((other[name] != first[name]).any() for name in first)
    assert {values.shape for values in first.values()} == {(8,)}
    assert kept(agent, tmp_path) == before


@pytest.mark.parametrize("workload", AGENTS)
def test_no_episodes_are_refused(workload):
    agent = make(workload)
    for episodes in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=f"^episodes: got {episodes}, wanted an integer from 1 to"):
            agent.evaluate(episodes, seed=0)


@pytest.mark.parametrize("workload", AGENTS)
def test_a_loaded_agent_may_have_another_backend_and_form_and_nothing_else_of_what_it_learned_by(tmp_path, workload):
    agent, kind = make(workload), agent_of(workload)
    agent.learn()
    agent.save(tmp_path / "agent")
    other = kind.load(tmp_path / "agent", backend="jax", form="naive")
    assert (other.config.backend, other.config.form, other.step) == ("jax", "naive", agent.step)
    other.learn()
    free = getattr(importlib.import_module(kind.__module__), "PLACES", ())  # where it plays
    fixed = set(fields_of(workload, int, float)) - set(free)
    for wrong in ({"seed": 1}, {"backend": "jax", "seed": 1}, *({name: 8} for name in fixed)):
        with pytest.raises(ValueError, match=r"^\w+: got a change, wanted what the checkpoint says: "):
            kind.load(tmp_path / "agent", **wrong)
