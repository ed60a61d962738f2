"""What the results page shows first of a workload: tables as data, each of rows that are compared like with like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .case import Pattern, alternatives


def holds(pattern: Pattern, row: Mapping[str, Any]) -> bool:
    """Return whether a row of a result, or a benchmark written as one, has the values that a pattern wants.

    Args:
        pattern: values of ``op``, ``form``, ``backend`` or an axis, one or a tuple of each; an axis that a row does not
            have has none of them.
        row: with ``op``, ``form``, ``backend`` and ``axes``.
    """
    parts = {name: row[name] for name in ("op", "form", "backend")} | dict(row["axes"])
    return all(parts.get(name) in alternatives(values) for name, values in pattern.items())


@dataclass(frozen=True)
class Table:
    """What all tables have.

    Attributes:
        rows: which rows of the result are in it.
    """

    rows: Pattern

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row of a result is in it.

        Args:
            row: with ``op``, ``form``, ``backend`` and ``axes``.
        """
        return holds(self.rows, row)


@dataclass(frozen=True)
class ByBackend(Table):
    """A table with a column for each backend; all that may be the fastest are named.

    Attributes:
        by: the axis that has a line for each value; where none is named, there is one for each op and its axes.
    """

    by: str = ""


@dataclass(frozen=True)
class ByForm(Table):
    """A table with a line for each form of one op, slowest first, and its gains over ``naive`` and ``plain``.

    Attributes:
        head: what stands above the forms.
        item: what stands above the time of an item.
    """

    head: str
    item: str


@dataclass(frozen=True)
class ByColumn(Table):
    """A table with a line for each op, and the best of torch over the best of JAX at its end.

    It holds those rows that have a column.

    Attributes:
        head: what stands above the ops.
        columns: by what stands above it, which rows each column shows; NumPy's where torch has not got the op itself.
    """

    head: str
    columns: Mapping[str, Pattern]

    def column(self, row: Mapping[str, Any]) -> str | None:
        """Return what stands above the column of a row, None where it has none.

        Args:
            row: with ``op``, ``form``, ``backend`` and ``axes``.
        """
        return next((name for name, pattern in self.columns.items() if holds(pattern, row)), None)

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row of a result is in it.

        Args:
            row: with ``op``, ``form``, ``backend`` and ``axes``.
        """
        return super().holds(row) and self.column(row) is not None


@dataclass(frozen=True)
class Front:
    """A workload's first tables, kept as ``FRONT`` beside its ``CASES``.

    Attributes:
        caption: what they show, in Markdown.
        tables: one or more; one without any row is left out.
    """

    caption: str
    tables: Sequence[Table]

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return whether one of its tables shows a row of a result.

        Args:
            row: with ``op``, ``form``, ``backend`` and ``axes``.
        """
        return any(table.holds(row) for table in self.tables)
