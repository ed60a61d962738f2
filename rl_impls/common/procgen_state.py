"""Serialised state of Procgen's games: check it, and convert it to arrays for a checkpoint."""

import struct

import numpy as np

from .checks import LARGEST

MODES = {"easy": 0, "hard": 1}  # as Procgen numbers them
STATE = "games", "returns", "lengths"
VERSION, END = 0, struct.pack("=I", 0xCAFECAFE)  # of a serialised game


def level_range(start_level, num_levels):
    """Return the first level and the end level (exclusive); `num_levels` = 0 means all levels."""
    return (start_level, start_level + num_levels) if num_levels else (0, LARGEST)


def check_state(state, num_envs, *wanted):
    """Raise ValueError unless `state` has `num_envs` games that all match `wanted`.

    `wanted` is the game, mode, first level and end level (exclusive).
    """
    if not isinstance(state, dict) or set(state) != set(STATE):
        raise ValueError(f"state should be a dict with {', '.join(STATE)}")
    if not isinstance(state["games"], (list, tuple)) or len(state["games"]) != num_envs:
        raise ValueError(f"state: games should be a list of {num_envs}")
    for name in STATE[1:]:
        if np.shape(state[name]) != (num_envs,):
            raise ValueError(f"state: {name} of shape {np.shape(state[name])} should have shape ({num_envs},)")
    for game in state["games"]:
        if (found := made_for(game)) != wanted:
            raise ValueError(f"state of {in_words(found)} should be of {in_words(wanted)}")


def made_for(game):
    """Return the game, mode, first level and end level (exclusive) of a serialised game; None for invalid bytes.

    Procgen writes its version, the length of the name, the name and fifteen integers. The eighth integer is the mode,
    and the last two are the levels. The state ends with a marker.
    """
    try:
        version, length = struct.unpack_from("=2i", game)
        name = bytes(game[8 : 8 + length]).decode()
        numbers = struct.unpack_from("=15i", game, 8 + length)
        mode = {number: mode for mode, number in MODES.items()}[numbers[7]]
    except (struct.error, TypeError, UnicodeDecodeError, KeyError):
        return None
    return (name, mode, *numbers[13:]) if version == VERSION and game[-4:] == END else None


def in_words(made):
    """Describe the result of :func:`made_for`, for example ``coinrun, easy, levels 0 to 199``."""
    if made is None:
        return "invalid bytes"
    game, mode, low, high = made
    return f"{game}, {mode}, levels {low} to {high - 1}"


def pack(state):
    """Convert a state to arrays: ``games`` u8[S], all games concatenated, ``sizes`` i64[N], and the statistics."""
    games = np.frombuffer(b"".join(state["games"]), np.uint8).copy()
    return {**state, "games": games, "sizes": np.array([len(game) for game in state["games"]], np.int64)}


def unpack(arrays):
    """Convert the arrays of :func:`pack` back; raise ValueError if the sizes do not add up."""
    sizes, joined = np.asarray(arrays["sizes"]), np.asarray(arrays["games"], np.uint8).tobytes()
    if sizes.ndim != 1 or (sizes < 0).any() or sizes.sum() != len(joined):
        raise ValueError(f"sizes={sizes.tolist()} should add up to the {len(joined)} bytes of the games")
    ends = np.cumsum(sizes)
    games = [joined[end - size : end] for size, end in zip(sizes.tolist(), ends.tolist())]
    return {"games": games, **{name: np.array(arrays[name]) for name in STATE[1:]}}
