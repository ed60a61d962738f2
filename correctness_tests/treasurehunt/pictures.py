"""Worlds drawn in letters."""

from __future__ import annotations

import numpy as np

LETTERS = ".#gfb"  # empty, wall, gem, food, bone; digits are agents
ACTIONS = "UDLR"
DRAWS = 2**31 - 1


def make(agents=2, height=3, width=4, **options):
    from rl_impls.treasurehunt.spec import Settings

    return Settings(agents=agents, height=height, width=width, **{"radius": 1, "spawn": 0.0, **options})


def hunt(form, *pictures, **options):
    """Build worlds that look like the pictures, lines separated by blanks."""
    texts = [np.array([list(line) for line in picture.split()]) for picture in pictures]
    agents = sum(letter.isdigit() for letter in texts[0].flat)
    given = make(agents, *texts[0].shape, **options)
    grid = np.ones((len(texts), given.rows, given.columns), np.int8)
    where = np.zeros((agents, len(texts)), np.int32)
    for k, text in enumerate(texts):
        for (row, column), letter in np.ndenumerate(text):
            cell = given.radius + row, given.radius + column
            grid[k][cell] = 0 if letter.isdigit() else LETTERS.index(letter)
            if letter.isdigit():
                where[int(letter), k] = cell[0] * given.columns + cell[1]
    worlds = form(given, len(texts))
    worlds.set_state({"grid": grid.reshape(len(texts), -1), "where": where, "turn": np.int32(0)})
    return worlds


def drawn(worlds):
    """Draw worlds in letters, walls at the edge left out."""
    state, edge = worlds.get_state(), worlds.settings.radius
    text = np.array(list(LETTERS))[state["grid"]]
    for agent, cells in enumerate(state["where"]):
        text[np.arange(len(text)), cells] = str(agent)
    text = text.reshape(-1, worlds.settings.rows, worlds.settings.columns)[:, edge:-edge, edge:-edge]
    return [" ".join("".join(row) for row in world) for world in text]


def no_items(worlds):
    return np.full((worlds.worlds, worlds.settings.height * worlds.settings.width), DRAWS - 1, np.int32)


def turn(worlds, *actions, draws=None):
    """Play a turn, the actions of each world as letters.  -> rewards of each world, all worlds drawn"""
    actions = np.array([[ACTIONS.index(letter) for letter in world] for world in actions]).T
    _, rewards, _ = worlds.advance(actions, no_items(worlds) if draws is None else draws)
    return rewards.T.tolist(), drawn(worlds)


def seen(obs, given):
    """Read an observation in letters, agents as @."""
    kinds = obs.reshape(6, given.side, given.side)
    assert (kinds.sum(0) == 1).all()
    return " ".join("".join(row) for row in np.array(list(LETTERS + "@"))[kinds.argmax(0)])


def assert_same_state(state, wanted):
    assert set(state) == set(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(state[name], array, name, strict=True)
