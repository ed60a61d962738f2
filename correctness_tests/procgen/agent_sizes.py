"""Configuration of a small Procgen agent for the tests of all agents, and the figures of its evaluation, in order."""

SMALL = {"game": "fruitbot", "levels": 10, "num_envs": 2, "num_steps": 4, "batch_size": 4, "epochs": 1}
FIGURES = [f"{levels}_{figure}" for levels in ("training", "held_out") for figure in ("return", "score", "length")]
