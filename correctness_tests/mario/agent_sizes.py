"""Configuration of a small mario agent for the tests of all agents, and the figures of its evaluation, in order."""

SMALL = {
    "game": "fruitbot", "levels": 10, "collectors": 1, "num_envs": 2, "capacity": 200, "batch_size": 4, "updates": 2,
    "reuse": 1.0, "publish_every": 2, "target_frequency": 3, "explore": 20, "queue": 64, "chunk": 8,
    "form": "only_transport",  # on busy cores, collectors that give way wait for seconds
}  # fmt: skip
SLOW = True  # each agent starts a collector, which imports torch
FIGURES = ["return", "length", "distance"]
