"""How values look in a notebook: a small table of HTML in which text of others is shown and never obeyed."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from understudy.escaping import for_terminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["html_table"]


def html_table(
    title: str,
    rows: Iterable[Sequence[object]],
    *,
    head: Sequence[str] = (),
    warning: str | None = None,
    notes: Sequence[str] = (),
) -> str:
    """A table with a title: the first cell of every row is its heading.

    Args:
        title: above the table.
        rows: of cells, which are shown as text.
        head: the headings of the columns.
        warning: a line that nobody should miss, above everything.
        notes: lines below the table.
    """
    lines = ["<div>"]
    if warning is not None:
        lines.append(f'<p style="color:#b00020"><strong>{_text(warning)}</strong></p>')
    lines.append(f'<table><caption style="text-align:left"><strong>{_text(title)}</strong></caption>')
    if head:
        lines.append("<thead><tr>" + "".join(f"<th>{_text(one)}</th>" for one in head) + "</tr></thead>")
    lines.append("<tbody>")
    for first, *others in rows:
        cells = "".join(f"<td>{_text(one)}</td>" for one in others)
        lines.append(f'<tr><th style="text-align:left">{_text(first)}</th>{cells}</tr>')
    lines += ["</tbody></table>", *(f"<p>{_text(note)}</p>" for note in notes), "</div>"]
    return "\n".join(lines)


def _text(value: object) -> str:
    return escape(for_terminal(str(value)), quote=True)
