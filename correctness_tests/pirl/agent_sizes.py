"""Configuration of a small pirl agent for the tests of all agents, and the figures of its evaluation, in order."""

SMALL = {
    "hidden": (8, 8), "batch_size": 8, "points": 4, "capacity": 200, "warm_up": 20, "train_frequency": 8,
    "target_frequency": 3,
}  # fmt: skip
FIGURES = ["returns", "lengths", "predicted"]
