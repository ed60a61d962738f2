"""Worlds drawn as text, one letter per cell."""

import numpy as np

LETTERS = ".#gfb"  # empty, wall, gem, food, bone; digits are agents
ACTIONS = "UDLR"
DRAWS = 2**31 - 1


def make(num_agents=2, height=3, width=4, **options):
    from rl_impls.treasurehunt.vector_env import Settings

    return Settings(num_agents=num_agents, height=height, width=width, **{"radius": 1, "spawn": 0.0, **options})


def hunt(form, *pictures, **options):
    """Build worlds from text pictures, whose lines are separated by spaces."""
    texts = [np.array([list(line) for line in picture.split()]) for picture in pictures]
    num_agents = sum(letter.isdigit() for letter in texts[0].flat)
    settings = make(num_agents, *texts[0].shape, **options)
    grid = np.ones((len(texts), settings.rows, settings.columns), np.int8)
    where = np.zeros((num_agents, len(texts)), np.int32)
    for k, text in enumerate(texts):
        for (row, column), letter in np.ndenumerate(text):
            cell = settings.radius + row, settings.radius + column
            grid[k][cell] = 0 if letter.isdigit() else LETTERS.index(letter)
            if letter.isdigit():
                where[int(letter), k] = cell[0] * settings.columns + cell[1]
    worlds = form(settings, len(texts))
    worlds.set_state({"grid": grid.reshape(len(texts), -1), "where": where, "turn": np.int32(0)})
    return worlds


def in_letters(worlds):
    """Draw worlds as text, without the walls around them."""
    state, edge = worlds.get_state(), worlds.settings.radius
    text = np.array(list(LETTERS))[state["grid"]]
    for agent, cells in enumerate(state["where"]):
        text[np.arange(len(text)), cells] = str(agent)
    text = text.reshape(-1, worlds.settings.rows, worlds.settings.columns)[:, edge:-edge, edge:-edge]
    return [" ".join("".join(row) for row in world) for world in text]


def no_items(worlds):
    return np.full((worlds.num_worlds, worlds.settings.cells), DRAWS - 1, np.int32)


def turn(worlds, *actions, draws=None):
    """Play a turn with one string of actions per world; return the rewards per world, and the worlds as text."""
    actions = np.array([[ACTIONS.index(letter) for letter in world] for world in actions]).T
    _, rewards, _ = worlds.advance(actions, no_items(worlds) if draws is None else draws)
    return rewards.T.tolist(), in_letters(worlds)


def view_in_letters(obs, settings):
    """Draw an observation as text, with agents as @."""
    kinds = obs.reshape(6, settings.side, settings.side)
    assert (kinds.sum(0) == 1).all()
    return " ".join("".join(row) for row in np.array(list(LETTERS + "@"))[kinds.argmax(0)])
