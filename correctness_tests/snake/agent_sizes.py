"""Configuration of a small Snake agent for the tests of all agents, and the figures of its evaluation, in order."""

SMALL = {"hidden": 16, "warm_up": 64, "capacity": 500, "target_frequency": 256}
FIGURES = ["foods", "returns", "lengths"]
