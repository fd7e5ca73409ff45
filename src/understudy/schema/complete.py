"""Schemas with facts that are to be discovered: which they are, and complete ones in their place."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from understudy.errors import SchemaError
from understudy.schema.cells import least_and_most
from understudy.schema.columns import (
    GRID_LIMIT,
    Categorical,
    Continuous,
    Datetime,
    Integer,
    TimeUnit,
)
from understudy.schema.discover import DISCOVER, FIRST_YEAR, LAST_YEAR, open_facts
from understudy.schema.schemas import TableSchema

if TYPE_CHECKING:
    from understudy.schema.columns import Column
    from understudy.schema.schemas import Schema

__all__ = [
    "UNKNOWN",
    "completes",
    "open_columns",
    "refuse_open",
    "stand_in",
    "unknown_of",
    "widest",
    "with_stand_ins",
]

UNKNOWN = "unknown"
"""The category of all values that discovery does not find, unless the schema names another."""

_FARTHEST = 1e15
"""The greatest number that is looked for."""


def open_columns(schema: Schema | None) -> tuple[Column, ...]:
    """The columns about which something is to be discovered, in the order of the schema."""
    if not isinstance(schema, TableSchema):
        return ()
    return tuple(column for column in schema.columns if open_facts(column))


def refuse_open(schema: Schema, cure: str) -> None:
    """Raise SchemaError if something is to be discovered."""
    for column in open_columns(schema):
        raise SchemaError(
            f"column {column.name!r}: {' and '.join(open_facts(column))} are to be discovered, which only fit can do. "
            + cure
        )


def unknown_of(column: Categorical) -> str:
    """The category of all values that discovery does not find."""
    return UNKNOWN if column.unknown is None else column.unknown


def widest(column: Continuous | Integer | Datetime) -> tuple[Any, Any]:
    """The widest bounds that a column may get: by its grid, its type, the years looked at, and as far as declared."""
    least, most = _widest_moments(column) if isinstance(column, Datetime) else _widest_numbers(column)
    return (
        least if column.lower is DISCOVER else column.lower,
        most if column.upper is DISCOVER else column.upper,
    )


def _widest_numbers(column: Continuous | Integer) -> tuple[float, float]:
    unit = column.unit if isinstance(column, Integer) else column.step
    lower, upper = -_FARTHEST, _FARTHEST
    if unit is not None:
        lower, upper = -(GRID_LIMIT // 2) * unit, GRID_LIMIT // 2 * unit
        if column.lower is not DISCOVER:
            upper = math.floor(column.lower / unit + GRID_LIMIT) * unit
        elif column.upper is not DISCOVER:
            lower = math.ceil(column.upper / unit - GRID_LIMIT) * unit
    if isinstance(column, Integer):
        least, most = least_and_most(column.stored_as)
        lower, upper = max(lower, least), min(upper, most)
    lower, upper = min((lower, *column.special)), max((upper, *column.special))
    return (int(lower), int(upper)) if isinstance(column, Integer) else (lower, upper)


def _widest_moments(column: Datetime) -> tuple[dt.datetime, dt.datetime]:
    """All years that are looked at; of minutes, those that can be told apart."""
    first, last = dt.datetime(FIRST_YEAR, 1, 1), dt.datetime(LAST_YEAR, 12, 31)
    if column.unit is not TimeUnit.MINUTE:
        return first, last
    span = dt.timedelta(minutes=GRID_LIMIT)
    if column.lower is not DISCOVER:
        return first, min(last, column.lower + span)
    upper = dt.datetime(2030, 12, 31) if column.upper is DISCOVER else column.upper
    return max(first, upper - span), upper


def with_stand_ins(schema: Schema) -> Schema:
    """A complete schema with made-up facts where some are to be discovered: for looks that need none of them.

    Every number and moment fits it, and every text is unknown or one of those that stand in.
    """
    if not isinstance(schema, TableSchema) or not open_columns(schema):
        return schema
    return replace(schema, columns=tuple(stand_in(column) for column in schema.columns))


def stand_in(column: Column) -> Column:
    """The column itself, or a complete one with made-up facts where some are to be discovered."""
    if not open_facts(column):
        return column
    if isinstance(column, Continuous | Integer | Datetime):
        lower, upper = widest(column)
        return replace(column, lower=lower, upper=upper)
    assert isinstance(column, Categorical)
    unknown = unknown_of(column)
    return replace(column, categories=("discovered 1", "discovered 2", unknown), unknown=unknown)


def completes(found: Schema, schema: Schema | None) -> bool:
    """Whether a schema is another one with its open facts filled in, and nothing else changed."""
    if not isinstance(schema, TableSchema) or not isinstance(found, TableSchema) or open_columns(found):
        return False
    if len(found.columns) != len(schema.columns):
        return False
    try:
        return replace(found, columns=tuple(map(_reopened, found.columns, schema.columns))) == schema
    except SchemaError:
        return False


def _reopened(found: Column, column: Column) -> Column:
    """The found column with the facts taken out again that were to be discovered."""
    facts: dict[str, Any] = dict.fromkeys(open_facts(column), DISCOVER)
    if not facts or type(found) is not type(column):
        return found
    if isinstance(column, Categorical) and isinstance(found, Categorical):
        if found.unknown != unknown_of(column):
            return found
        facts["unknown"] = column.unknown
    return replace(found, **facts)
