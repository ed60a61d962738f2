"""treasurehunt's updates as sorrel makes them: five IQN agents in plain torch, one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from rl_impls import backends
from rl_impls.treasurehunt import problem as treasurehunt

from ..bench import Bench

pytestmark = pytest.mark.peer
AGENTS = 5


def with_replay(seed: int) -> tuple[dict[str, Any], tuple[Any, ...], dict[str, Any]]:
    """Return the configuration, arguments and cost of updates on sampled transitions.

    The arguments are rows i64[N, B] of the replay memory, quantile fractions and noise; see ``Team.learn``.
    """
    update, sample = treasurehunt.train_step(seed, AGENTS), treasurehunt.sample(seed, AGENTS)
    return {**update.config, **sample.config}, (*sample.args, *update.args[-2:]), update.cost


def test_update(bench: Bench, seed: int) -> None:
    """One update of each agent on a given batch, with the weights and the random numbers of ours.

    Left out: sampling, and generating random numbers, which happens before timing. The source computes more: its
    targets have a gradient, which it then drops.
    """
    pytest.importorskip("torch")
    from .sorrel import Agents

    problem = treasurehunt.train_step(seed, AGENTS)
    agents = Agents(problem.config)
    bench(agents.update, *problem.args, reset=agents.reset, output=agents.output, **problem.cost)


def test_sampled_update(bench: Bench, seed: int) -> None:
    """The same, on transitions from each agent's replay buffer. Left out: generating random numbers."""
    pytest.importorskip("torch")
    from .sorrel import Agents

    config, args, cost = with_replay(seed)
    agents = Agents(config)
    bench(agents.sample_and_update, *args, reset=agents.reset, output=agents.output, **cost)


def test_our_sampled_update(bench: Bench, seed: int) -> None:
    """Our batched agents, as the counterpart."""
    pytest.importorskip("torch")
    from rl_impls.treasurehunt.team import Team

    config, args, cost = with_replay(seed)
    team = Team(config, 1, backends.forms("treasurehunt")["full"], backends.get("torch"))
    bench(team.learn, *args, reset=team.reset, output=lambda losses: [losses, team.params], **cost)
