"""A small agent of Procgen for the tests of all agents, and the figures of an evaluation of it, in order."""

SMALL = {"game": "fruitbot", "levels": 10, "envs": 2, "unroll": 4, "batch": 4, "epochs": 1}
FIGURES = [f"{levels}_{figure}" for levels in ("training", "held_out") for figure in ("return", "score", "length")]
