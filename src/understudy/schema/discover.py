"""Facts that nobody knows: a schema says "discover" in their place, and `fit` finds them out inside the budget."""

from __future__ import annotations

import datetime as dt
import enum
from typing import TYPE_CHECKING, Any, TypeAlias

from understudy.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.schema.columns import Column

__all__ = [
    "DISCOVER",
    "FIRST_YEAR",
    "LAST_YEAR",
    "Bound",
    "Discover",
    "MomentBound",
    "Names",
    "WholeBound",
    "check_years",
    "noted_open",
    "open_facts",
]

FIRST_YEAR, LAST_YEAR = 1800, 2199
"""Between which the bounds of moments are discovered."""

_FACTS = ("lower", "upper", "categories")


class Discover(enum.Enum):
    """Stands in the place of a fact that is to be discovered."""

    DISCOVER = "discover"

    def __str__(self) -> str:
        return "(to be discovered)"


DISCOVER: Any = Discover.DISCOVER
"""In place of a bound or of the categories of a column; the text "discover" means the same."""

if TYPE_CHECKING:
    # Whoever computes with a schema has a complete one (`records.encode` refuses others), so a bound is a number.
    Bound: TypeAlias = float
    WholeBound: TypeAlias = int
    MomentBound: TypeAlias = dt.datetime
    Names: TypeAlias = tuple[str, ...]
else:
    Bound = float | Discover
    WholeBound = int | Discover
    MomentBound = dt.datetime | Discover
    Names = tuple[str, ...] | Discover


def open_facts(column: Column) -> tuple[str, ...]:
    """Which facts about a column are to be discovered."""
    return tuple(fact for fact in _FACTS if getattr(column, fact, None) is DISCOVER)


def noted_open(column: Column) -> bool:
    """Whether anything about a column is to be discovered; the text that says so becomes `DISCOVER`."""
    for fact in _FACTS:
        value = getattr(column, fact, None)
        if isinstance(value, str):
            if value != DISCOVER.value:
                raise SchemaError(
                    f'column {column.name!r}: {fact} is {value!r}; the only word it may be is "discover"'
                )
            object.__setattr__(column, fact, DISCOVER)
    return bool(open_facts(column))


def check_years(name: str, known: Sequence[dt.datetime], *, fine: bool) -> None:
    """Refuse moments whose open bound could not be found: bounds out of the years looked at, and too fine a unit."""
    if fine or any(not FIRST_YEAR <= one.year <= LAST_YEAR for one in known):
        raise SchemaError(
            f"column {name!r}: bounds are discovered to the year, between {FIRST_YEAR} and {LAST_YEAR}, and in such a "
            "span seconds cannot be told apart. Set another unit, or declare both bounds."
        )
