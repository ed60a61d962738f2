"""The ``grid`` decorator: ``pytest.mark.parametrize`` over forms, backends and axes, with tiers as marks.

    @grid(
        form=("naive", "full"), backend=("torch", "jax"), batch_size=(32, 256),
        gate=[dict(form="full", batch_size=32)], bench=[dict(form="full")],
    )
    def test_train_step(bench, seed, form, backend, batch_size): ...

Each keyword other than ``exclude``, ``gate`` and ``bench`` is an axis, and every combination of their values is one
benchmark, with an id such as ``test_train_step[full-torch-32]``.

A pattern is a dict of axis values; a tuple lists alternatives, and axes it does not name match any value. A combination
that matches an ``exclude`` pattern is dropped. The others get the first matching tier: ``gate``, ``bench``, or else
``full``. In the example, the gate compares ``full`` at batch size 32, a plain run also times ``full`` at 256, and
``naive`` runs only with ``--tier full``. The pattern ``{}`` matches every combination.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

Pattern = Mapping[str, Any]
TIERS = ("gate", "bench", "full")


def grid(
    *, exclude: Sequence[Pattern] = (), gate: Sequence[Pattern] = (), bench: Sequence[Pattern] = (), **axes: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that parametrises a benchmark over all combinations of ``axes``.

    Args:
        exclude: patterns of combinations that do not exist, e.g. because a backend lacks a form.
        gate: patterns of the combinations that the regression gate compares.
        bench: patterns of the combinations that a plain run times in addition to those of ``gate``.
        axes: the values of each test parameter, as a tuple. Their order gives the order within test ids.

    Raises:
        ValueError: an axis is not a non-empty tuple, or a pattern names an unknown axis or value or matches nothing.
    """
    check(axes, {"exclude": exclude, "gate": gate, "bench": bench})
    params = [
        pytest.param(*point.values(), id="-".join(map(str, point.values())), marks=getattr(pytest.mark, tier))
        for point in product(axes)
        if (tier := tier_of(point, exclude, gate, bench))
    ]

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        marked: Callable[..., None] = pytest.mark.parametrize(",".join(axes), params)(test)
        marked.has_grid = True  # type: ignore[attr-defined]
        return marked

    return decorated


def product(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the axes' values, by axis name."""
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def tier_of(
    point: Mapping[str, Any], exclude: Sequence[Pattern], gate: Sequence[Pattern], bench: Sequence[Pattern]
) -> str | None:
    """Return the tier of a combination, or None if it is excluded."""
    for patterns, tier in ((exclude, None), (gate, "gate"), (bench, "bench")):
        if any(matches(pattern, point) for pattern in patterns):
            return tier
    return "full"


def matches(pattern: Pattern, point: Mapping[str, Any]) -> bool:
    """Return whether a combination has one of the pattern's values on every axis that the pattern names."""
    return all(point[name] in alternatives(values) for name, values in pattern.items())


def alternatives(values: Any) -> tuple[Any, ...]:
    """Return a pattern's value for an axis as a tuple."""
    return values if isinstance(values, tuple) else (values,)


def check(axes: Mapping[str, Any], patterns: Mapping[str, Sequence[Pattern]]) -> None:
    """Raise ValueError for an axis that is not a non-empty tuple and for a pattern that cannot match."""
    for name, values in axes.items():
        if not isinstance(values, tuple) or not values:
            raise ValueError(f"{name}: {values!r} is not a tuple of one or more values")
    for kind, pattern in ((kind, pattern) for kind, found in patterns.items() for pattern in found):
        for name, values in pattern.items():
            if name not in axes:
                raise ValueError(f"{kind} {dict(pattern)}: unknown axis {name!r} (choose from {', '.join(axes)})")
            for value in alternatives(values):
                if value not in axes[name]:
                    known = ", ".join(map(repr, axes[name]))
                    raise ValueError(f"{kind} {dict(pattern)}: unknown value {value!r} of {name} (choose from {known})")
    existing = [point for point in product(axes) if not any(matches(each, point) for each in patterns["exclude"])]
    for kind in ("gate", "bench"):
        for pattern in patterns[kind]:
            if not any(matches(pattern, point) for point in existing):
                raise ValueError(f"{kind} {dict(pattern)}: no benchmark matches it; change the pattern or exclude")
