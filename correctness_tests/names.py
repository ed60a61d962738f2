"""Two collections of names beside each other, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def unlike(got: Iterable[str], wanted: Iterable[str]) -> str:
    """Return which names are missing and which are too many, as in ``lacks 'jax', has 'jaxx' too many``, or nothing."""
    got, wanted = Counter(iter(got)), Counter(iter(wanted))
    found = {"lacks {}": wanted - got, "has {} too many": got - wanted}
    return ", ".join(said.format(", ".join(map(repr, sorted(names)))) for said, names in found.items() if names)
