"""HTML fragments with escaped content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

LONG = 24  # longer cells wrap; page.js has the same number


def cell(text: str) -> str:
    """Return a table cell."""
    return f'<td class="long">{escape(text)}</td>' if len(text) > LONG else f"<td>{escape(text)}</td>"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in a box that scrolls on its own."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    return f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
