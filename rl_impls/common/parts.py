"""Several dicts of arrays as one dict, as in a checkpoint."""


def join_parts(**parts):
    """Merge dicts of arrays into one dict, with names such as ``part.name``."""
    return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def part_of(arrays, part):
    """Return one part of :func:`join_parts`, with the names that it had before."""
    prefix = f"{part}."
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
