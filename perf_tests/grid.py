"""``grid`` parametrises a benchmark over forms, backends and axes, with tiers as marks.

@grid(form=("naive", "full"), backend=("torch", "jax"), batch_size=(32, 256), gate=[dict(batch_size=32)], bench=[{}])
def test_train_step(bench, seed, form, backend, batch_size): ...

A pattern gives one value or a tuple of values for some of the axes, and leaves the others free. Each combination is in
the first tier whose patterns match it: ``gate``, ``bench``, or else ``full``. Those that ``exclude`` matches do not
exist.
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
    """Return a decorator that parametrises a benchmark.

    Args:
        exclude: patterns of combinations that do not exist.
        gate: patterns of those that a regression gate compares.
        bench: patterns of those that a plain run times unless it is asked for another tier.
        axes: values of each parameter of the test, as a tuple.

    Raises:
        ValueError: a pattern names an unknown axis or value, or matches nothing.
    """
    check(axes, {"exclude": exclude, "gate": gate, "bench": bench})
    params = [
        pytest.param(*point.values(), id="-".join(map(str, point.values())), marks=getattr(pytest.mark, tier))
        for point in product(axes)
        if (tier := tier_of(point, exclude, gate, bench))
    ]

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        marked: Callable[..., None] = pytest.mark.parametrize(",".join(axes), params)(test)
        return marked

    return decorated


def product(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the axes."""
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def tier_of(
    point: Mapping[str, Any], exclude: Sequence[Pattern], gate: Sequence[Pattern], bench: Sequence[Pattern]
) -> str | None:
    """Return the tier of a combination; None if it does not exist."""
    for patterns, tier in ((exclude, None), (gate, "gate"), (bench, "bench")):
        if any(matches(pattern, point) for pattern in patterns):
            return tier
    return "full"


def matches(pattern: Pattern, point: Mapping[str, Any]) -> bool:
    """Return whether a combination has a value that the pattern gives, for each axis in the pattern."""
    return all(point[name] in alternatives(values) for name, values in pattern.items())


def alternatives(values: Any) -> tuple[Any, ...]:
    """Return the values that a pattern gives for an axis."""
    return values if isinstance(values, tuple) else (values,)


def check(axes: Mapping[str, Any], patterns: Mapping[str, Sequence[Pattern]]) -> None:
    """Reject axes that are no tuples, and patterns that cannot match.

    Raises:
        ValueError: there is one.
    """
    for name, values in axes.items():
        if not isinstance(values, tuple) or not values:
            raise ValueError(f"{name}: got {values!r}, not a tuple of one or more values")
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
                raise ValueError(f"{kind} {dict(pattern)}: matches nothing")
