"""Configuration of small agents for the tests of all agents, and the figures of their evaluation, in order."""

SMALL = {
    "num_agents": 2, "height": 6, "width": 6, "turns": 6, "spawn": 0.1, "num_worlds": 2, "hidden": 8, "batch_size": 8,
    "capacity": 64, "learning_rate": 1e-2,
}  # fmt: skip
FIGURES = ["returns", "agent_0", "agent_1"]
