"""What one column of a table may hold."""

from __future__ import annotations

import datetime as dt
import enum
import math
import zoneinfo
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from understudy.errors import SchemaError
from understudy.schema.cells import WHOLE_TYPES, CellType, check_stored, check_stored_values, holds
from understudy.schema.discover import (
    DISCOVER,
    Bound,
    MomentBound,
    Names,
    WholeBound,
    check_years,
    noted_open,
    open_facts,
)

__all__ = [
    "GRID_LIMIT",
    "Binary",
    "Categorical",
    "Column",
    "Continuous",
    "Datetime",
    "Discrete",
    "Integer",
    "NumberScale",
    "Ordinal",
    "TimeUnit",
    "check_values",
]


GRID_LIMIT = 2**24
"""The most steps between the bounds of a column with exact values: what float32 can tell apart on [-1, 1]."""


class TimeUnit(enum.Enum):
    """The resolution at which a datetime column is kept; finer parts are cut off."""

    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"

    @property
    def seconds(self) -> int:
        """The length of one unit."""
        return {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}[self.value]


class NumberScale(enum.Enum):
    """How a number's distance is measured: by differences, or by ratios as for incomes and concentrations."""

    LINEAR = "linear"
    LOG = "log"


@dataclass(frozen=True)
class Continuous:
    """A real number between public bounds; values outside are clipped.

    Args:
        name: the column's header.
        lower: the least value that is told apart; "discover" to have it found inside the budget.
        upper: the greatest value that is told apart, likewise.
        missing: whether empty cells are allowed.
        decimals: round to this many places when decoding; then values on that grid come back exactly.
        step: every value but the special ones is a whole multiple of it; others go to the nearest multiple.
        special: values within the bounds that pile up, on the grid of `step` or not, such as 0 and -1.
        scale: how distances are measured when values are scaled to [-1, 1].
        stored_as: how a data frame of synthetic rows keeps the values; None: as pandas does for the kind.
    """

    kind: ClassVar[str] = "continuous"
    name: str
    lower: Bound
    upper: Bound
    missing: bool = False
    decimals: int | None = None
    step: float | None = None
    special: tuple[float, ...] = ()
    scale: NumberScale = NumberScale.LINEAR
    stored_as: CellType | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        noted_open(self)
        _check_bounds(self.name, self.lower, self.upper)
        if self.decimals is not None and not 0 <= self.decimals <= 12:
            raise SchemaError(
                f"column {self.name!r}: decimals must lie between 0 and 12, got {self.decimals}"
            )
        _check_grid(self)
        check_stored(self.name, self.stored_as, (CellType.FLOAT32, CellType.FLOAT64))

    @property
    def unit(self) -> float:
        """The least difference that matters: the step, the last decimal, or a ten-thousandth of the greatest value."""
        if self.step is not None:
            return self.step
        if self.decimals is not None:
            return 10.0**-self.decimals
        return max(abs(self.lower), abs(self.upper)) / 10_000


@dataclass(frozen=True)
class Integer:
    """A whole number between public bounds; values outside are clipped. For its fields see `Continuous`."""

    kind: ClassVar[str] = "integer"
    name: str
    lower: WholeBound
    upper: WholeBound
    missing: bool = False
    step: int | None = None
    special: tuple[int, ...] = ()
    scale: NumberScale = NumberScale.LINEAR
    stored_as: CellType | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        opened = noted_open(self)
        if not all(one is DISCOVER or abs(one) <= 2**53 for one in (self.lower, self.upper)) or (
            not opened and not self.lower < self.upper
        ):
            raise SchemaError(
                f"column {self.name!r}: lower must be less than upper and both within ±2^53, "
                f"got {str(self.lower)[:30]} and {str(self.upper)[:30]}"
            )
        if not opened and self.upper - self.lower > GRID_LIMIT:
            raise SchemaError(
                f"column {self.name!r}: {self.lower} to {self.upper} is more than 2^24 whole numbers, "
                "which float32 cannot tell apart. Narrow the bounds, or declare it continuous."
            )
        _check_grid(self)
        check_stored(self.name, self.stored_as, (*WHOLE_TYPES, CellType.FLOAT32, CellType.FLOAT64))
        if not opened and self.stored_as is not None and not holds(self.stored_as, self.lower, self.upper):
            raise SchemaError(
                f"column {self.name!r}: {self.stored_as.value} cannot hold {self.lower} to {self.upper}"
            )

    @property
    def unit(self) -> int:
        """The least difference that matters: the step, or 1."""
        return self.step or 1


@dataclass(frozen=True)
class Categorical:
    """One of several named values without an order.

    Args:
        name: the column's header.
        categories: every value that may occur, as text; "discover" to have the frequent ones found inside the budget.
        missing: whether empty cells are allowed.
        unknown: the category that stands for values not in the list; None refuses them, or is "unknown" where the
            categories are to be discovered.
        stored_as: how a data frame of synthetic rows keeps the values; None: as text.
    """

    kind: ClassVar[str] = "categorical"
    name: str
    categories: Names
    missing: bool = False
    unknown: str | None = None
    stored_as: CellType | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        if noted_open(self):
            if self.stored_as not in (None, CellType.CATEGORY):
                raise SchemaError(
                    f"column {self.name!r}: categories that are to be discovered are text; leave stored_as out"
                )
            return
        check_values(self.name, self.categories, least=2 if self.unknown is None else 1)
        if self.unknown is not None and self.unknown not in self.categories:
            raise SchemaError(
                f"column {self.name!r}: unknown = {self.unknown!r} is not one of its categories; add it"
            )
        check_stored_values(self.name, self.categories, self.stored_as)

    @property
    def values(self) -> tuple[str, ...]:
        """The categories, under the name that all discrete columns share."""
        return self.categories


@dataclass(frozen=True)
class Binary:
    """One of two values; booleans are read as the first (false) and the second (true)."""

    kind: ClassVar[str] = "binary"
    name: str
    values: tuple[str, str] = ("0", "1")
    missing: bool = False
    stored_as: CellType | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        check_values(self.name, self.values)
        if self.stored_as is not CellType.BOOL:
            check_stored_values(self.name, self.values, self.stored_as)


@dataclass(frozen=True)
class Ordinal:
    """One of several named values in the order given."""

    kind: ClassVar[str] = "ordinal"
    name: str
    levels: tuple[str, ...]
    missing: bool = False
    stored_as: CellType | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        check_values(self.name, self.levels)
        check_stored_values(self.name, self.levels, self.stored_as)

    @property
    def values(self) -> tuple[str, ...]:
        """The levels, under the name that all discrete columns share."""
        return self.levels


@dataclass(frozen=True)
class Datetime:
    """A moment between public bounds, kept at the resolution `unit`.

    Args:
        name: the column's header.
        lower: the first moment that is told apart, in UTC; a `datetime.date` means its first second.
        upper: the last moment that is told apart, in UTC.
        unit: the resolution.
        missing: whether empty cells are allowed.
        timezone: the zone in which synthetic moments are told, such as "Europe/Berlin"; None: without zone.
    """

    kind: ClassVar[str] = "datetime"
    name: str
    lower: MomentBound
    upper: MomentBound
    unit: TimeUnit = TimeUnit.DAY
    missing: bool = False
    timezone: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        opened = noted_open(self)
        for side in ("lower", "upper"):
            if getattr(self, side) is not DISCOVER:
                object.__setattr__(self, side, _moment(self.name, side, getattr(self, side)))
        _check_zone(self.name, self.timezone)
        known = [one for one in (self.lower, self.upper) if one is not DISCOVER]
        if any(one.tzinfo is not None for one in known):
            raise SchemaError(f"column {self.name!r}: bounds must be without time zone (UTC is meant)")
        if any(one.microsecond for one in known):
            raise SchemaError(f"column {self.name!r}: bounds must be whole seconds")
        if opened:
            check_years(self.name, known, fine=self.unit is TimeUnit.SECOND)
            return
        if self.lower >= self.upper:
            raise SchemaError(f"column {self.name!r}: lower {self.lower} must be before upper {self.upper}")
        if not 1 <= self.steps <= GRID_LIMIT:
            raise SchemaError(
                f"column {self.name!r}: {self.lower} to {self.upper} is {self.steps} steps "
                f"of one {self.unit.value}; 1 to 2^24 can be told apart. Change the unit or the bounds."
            )

    @property
    def steps(self) -> int:
        """How many whole units lie between the bounds."""
        return int((self.upper - self.lower).total_seconds()) // self.unit.seconds


Column: TypeAlias = Continuous | Integer | Categorical | Binary | Ordinal | Datetime
Discrete: TypeAlias = Categorical | Binary | Ordinal


def _check_name(name: str) -> None:
    if not name or name != name.strip():
        raise SchemaError(f"a column needs a name without spaces around it, got {name!r}")


def _check_bounds(name: str, lower: float, upper: float) -> None:
    if DISCOVER in (lower, upper):
        if not all(one is DISCOVER or math.isfinite(one) for one in (lower, upper)):
            raise SchemaError(f"column {name!r}: a bound must be finite, got {lower} and {upper}")
        return
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise SchemaError(
            f"column {name!r}: lower must be less than upper and both finite, got {lower} and {upper}"
        )
    if not math.isfinite(upper - lower):
        raise SchemaError(f"column {name!r}: the distance from {lower} to {upper} overflows")


def _check_grid(column: Continuous | Integer) -> None:
    """Refuse steps that leave nothing to choose or too much to tell apart, and special values out of bounds."""
    step, place = column.step, f"column {column.name!r}"
    if step is not None and not (math.isfinite(step) and step > 0):
        raise SchemaError(f"{place}: step must be a number above 0, got {step}")
    if len(set(column.special)) < len(column.special):
        raise SchemaError(f"{place}: special lists a value more than once: {list(column.special)}")
    lower = -math.inf if column.lower is DISCOVER else column.lower
    upper = math.inf if column.upper is DISCOVER else column.upper
    for value in column.special:
        if not lower <= value <= upper:
            raise SchemaError(
                f"{place}: the special value {value} lies outside {lower} to {upper}; "
                "widen the bounds so that they hold it"
            )
    if open_facts(column):
        return
    if step is not None:
        steps = math.floor(column.upper / step) - math.ceil(column.lower / step)
        if not 1 <= steps <= GRID_LIMIT:
            raise SchemaError(
                f"{place}: {column.lower} to {column.upper} holds {max(steps + 1, 0)} multiples of the step "
                f"{step}; 2 to 2^24 can be told apart. Change the step or the bounds."
            )
    if column.scale is NumberScale.LOG and not math.log1p(_farthest(column) / column.unit) <= 64:
        raise SchemaError(
            f"{place}: {column.lower} to {column.upper} spans too many magnitudes of {column.unit} for a "
            "logarithmic scale; set a larger step"
        )


def _moment(name: str, side: str, given: object) -> dt.datetime:
    """A bound as a moment: a day begins at midnight."""
    if isinstance(given, dt.datetime):
        return given
    if isinstance(given, dt.date):
        return dt.datetime.combine(given, dt.time())
    raise SchemaError(
        f"column {name!r}: {side} must be a date or a moment, such as datetime.date(2024, 12, 31); got {given!r}"
    )


def _check_zone(name: str, zone: str | None) -> None:
    if zone is None:
        return
    try:
        zoneinfo.ZoneInfo(zone)
    except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
        raise SchemaError(f'column {name!r}: {zone!r} is no time zone such as "Europe/Berlin"') from None


def _farthest(column: Continuous | Integer) -> float:
    return float(max(abs(column.lower), abs(column.upper)))


def check_values(name: str, values: tuple[str, ...], least: int = 2) -> None:
    """Refuse a list of names that is too short or repeats one."""
    if len(values) < least:
        raise SchemaError(f"{name!r} needs at least {least} values, got {len(values)}: {list(values)}")
    if len(set(values)) < len(values):
        repeated = Counter(values).most_common(1)[0][0]
        raise SchemaError(f"{name!r} lists the value {repeated!r} more than once")
