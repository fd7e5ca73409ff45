"""Conditions on the columns of a table: which values are asked for, read from text or from Python values.

A condition is a value, several of them (`a|b`), a range with both ends (`60..70`, `2024-01-01..`), or `missing`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from understudy.errors import ReleaseError
from understudy.records.columns import examine
from understudy.schema import Binary, Categorical, Ordinal, TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from understudy.schema import Column, Schema

    Mask = NDArray[np.bool_]

__all__ = ["MISSING", "Allowed", "allowed_of", "given_from_text", "holds"]

MISSING = "missing"
BETWEEN = ".."
OR = "|"


@dataclass(frozen=True)
class Allowed:
    """The values of one column that are asked for.

    Args:
        ranges: least and greatest value, both included: positions in `values` of a discrete column, else in the
            column's own unit (for moments, units since the lower bound).
        missing: whether the value may be missing.
        text: how it was asked for.
    """

    ranges: tuple[tuple[float, float], ...]
    missing: bool
    text: str

    def among(self, values: NDArray[np.float64]) -> Mask:
        """Which of these values are allowed; a missing one is NaN."""
        found = np.isnan(values) & self.missing
        for low, high in self.ranges:
            found |= (values >= low) & (values <= high)
        return found


def given_from_text(texts: Iterable[str]) -> dict[str, str]:
    """Conditions written as column=condition; one column may be named once."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, condition = text.partition("=")
        if not separator or not name.strip() or not condition.strip():
            raise ReleaseError(
                f"a condition is written column=value, as in sex=f or age=60..70; got {text[:60]!r}."
            )
        if name.strip() in found:
            raise ReleaseError(
                f"column {name.strip()!r} is given twice; write its values in one condition, as a|b."
            )
        found[name.strip()] = condition.strip()
    return found


def allowed_of(given: Mapping[str, object], schema: Schema) -> dict[str, Allowed]:
    """Conditions checked against the schema.

    Args:
        given: for each column a text as on the command line, a value, (least, greatest), a list of values, or None
            for missing.
        schema: of the table.

    Raises:
        ReleaseError: the records are no table, there is no such column, or it cannot hold such values.
    """
    if not isinstance(schema, TableSchema):
        raise ReleaseError(
            f"values can be given for the columns of a table, and this release makes {schema.kind}."
        )
    columns = {column.name: column for column in schema.columns}
    for name in given:
        if name not in columns:
            raise ReleaseError(f"there is no column {str(name)[:60]!r}. Columns: {', '.join(columns)}.")
    return {name: _allowed(value, columns[name], schema) for name, value in given.items()}


def holds(frame: pd.DataFrame, given: Mapping[str, Allowed], schema: TableSchema) -> Mask:
    """Which rows keep all conditions."""
    found = np.ones(len(frame), dtype=bool)
    for column in schema.columns:
        if column.name in given:
            values = examine(frame[column.name], replace(column, missing=True), ()).values
            found &= given[column.name].among(values)
    return found


def _allowed(value: object, column: Column, schema: TableSchema) -> Allowed:
    if isinstance(value, str):
        parts: list[object] = list(_parts(value, column))
    else:
        parts = list(value) if isinstance(value, list | set | frozenset) else [value]
    ranges, missing = [], False
    for part in parts:
        found = _range(part, column, schema)
        missing |= found is None
        ranges += [] if found is None else [found]
    text = f"{column.name}={value if isinstance(value, str) else _shown(value)}"
    if missing and not column.missing:
        raise ReleaseError(f"{text}: the schema says that values of {column.name!r} are never missing.")
    if not parts:
        raise ReleaseError(f"{text}: no value is given.")
    return Allowed(_apart(ranges), missing, text)


def _parts(text: str, column: Column) -> list[object]:
    """The values and ranges of a text; a listed value is itself, whatever signs it holds."""
    listed = column.values if isinstance(column, Binary | Ordinal | Categorical) else ()
    found: list[object] = []
    for part in [text] if text in listed else [one.strip() for one in text.split(OR)]:
        if part in listed:
            found.append(part)
        elif part == MISSING:
            found.append(None)
        elif BETWEEN in part and not isinstance(column, Categorical):
            low, _, high = part.partition(BETWEEN)
            found.append((low.strip() or None, high.strip() or None))
        else:
            found.append(part)
    return found


def _range(part: object, column: Column, schema: TableSchema) -> tuple[float, float] | None:
    """Least and greatest value; None for missing ones."""
    if part is None:
        return None
    if not isinstance(part, tuple):
        value = _number(part, column, schema)
        return value, value
    if len(part) != 2:
        raise ReleaseError(f"a range of {column.name!r} is (least, greatest), got {_shown(part)}.")
    low, high = part
    ends = (
        -np.inf if low is None else _number(low, column, schema),
        np.inf if high is None else _number(high, column, schema),
    )
    if ends[0] > ends[1]:
        raise ReleaseError(f"the range {low}{BETWEEN}{high} of column {column.name!r} ends before it begins.")
    return ends


def _number(value: object, column: Column, schema: TableSchema) -> float:
    """The value as the column counts it: a position, a number, or units since the lower bound."""
    cell = pd.Series([value], dtype=object if isinstance(value, str) else None)
    found = examine(cell, replace(column, missing=True), schema.missing_text)
    if found.faults:
        raise ReleaseError(f"{column.name}={str(value)[:60]}: the value {found.faults[0].why}")
    if found.missing[0]:
        raise ReleaseError(
            f"{column.name}: write {MISSING} (in Python None) for a missing value, not {value!r}."
        )
    if isinstance(column, Categorical) and found.changed[0]:
        raise ReleaseError(f"{column.name}={str(value)[:60]}: there is no such category.")
    return float(found.values[0])


def _apart(ranges: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The same values in ranges that do not overlap, in order."""
    found: list[tuple[float, float]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def _shown(value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, tuple):
        return BETWEEN.join("" if end is None else str(end) for end in value)
    return OR.join(map(_shown, value)) if isinstance(value, list | set | frozenset) else str(value)[:60]
