"""A small agent of Snake for the tests of all agents, and the figures of an evaluation of it, in order."""

SMALL = {"hidden": 16, "warm_up": 64, "capacity": 500, "target_frequency": 256}
FIGURES = ["foods", "returns", "lengths"]
