"""Names of columns: whether they may be shown, or are cells of a record in a file without header."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["data_like", "shown"]

_NUMBER = re.compile(r"[-+]?[\d.,'\s]*\d[\d.,'\s]*(e[-+]?\d+)?\s*%?", re.IGNORECASE)
_DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([ T].*)?|\d{1,2}:\d{2}(:\d{2}.*)?")


def data_like(names: Sequence[str]) -> str | None:
    """Say which of these names looks like a cell rather than like a name, or None if none does.

    The answer names the position and the reason, never the text.
    """
    seen: set[str] = set()
    for position, name in enumerate(names, 1):
        text = name.strip()
        if _NUMBER.fullmatch(text):
            return f"cell {position} is a number"
        if _DATE.fullmatch(text):
            return f"cell {position} is a date or time"
        if text and text in seen:
            return f"cell {position} repeats another"
        seen.add(text)
    return None


def shown(names: Sequence[str], most: int = 12) -> str:
    """Return the first names for a message; names that look like cells of a record are withheld."""
    if data_like(names) is not None:
        return f"{len(names)} columns whose names look like data"
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")
