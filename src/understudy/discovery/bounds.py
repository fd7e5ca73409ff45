"""Bounds from noisy counts: what was published goes in, a complete column comes out. Nothing private is here."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.discovery.bins import EPOCH
from understudy.errors import SchemaError
from understudy.schema import DISCOVER, GRID_LIMIT, Continuous, Datetime, Integer, TimeUnit, widest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from understudy.discovery.bins import Bins
    from understudy.schema import Column

__all__ = ["Range", "found_range", "level_of", "with_bounds"]

_FALSE_ALARM = 1e-3
"""The chance that noise alone makes any empty group look as if it held values."""

_CUT = 3.0
"""Parts of a group are cut from its end as long as they hold no more than this many deviations of the noise."""

_MARGIN = 0.05
"""One more interval at each end is taken in where it adds no more than this share, for the few values that were cut."""

_FROM_ZERO = 10
"""A range whose ends lie this many times apart, on one side of zero, is begun at zero."""


@dataclass(frozen=True)
class Range:
    """Where the values of a column lie.

    Args:
        lower: the edge below them.
        upper: the edge above them.
        seen: whether any group rose above the noise; if none did, the fullest is a guess.
    """

    lower: float
    upper: float
    seen: bool


def level_of(deviation: float, groups: int) -> float:
    """The noisy count from which on a group counts as holding values."""
    from scipy.special import ndtri

    return deviation * -float(ndtri(_FALSE_ALARM / groups))


def found_range(counts: Sequence[NDArray[np.float64]], bins: Bins, deviation: float) -> Range:
    """From the first to the last group above the noise, less what looks empty at both ends, level by level.

    Args:
        counts: the noisy count of each group of each level.
        bins: what they count.
        deviation: of the noise in each count.
    """
    passing = np.flatnonzero(counts[0] > level_of(deviation, len(counts[0])))
    seen = len(passing) > 0
    if not seen:
        passing = np.array([int(counts[0].argmax())])
    first = int(np.flatnonzero(bins.levels[0] == passing[0])[0])
    last = int(np.flatnonzero(bins.levels[0] == passing[-1])[-1])
    start, stop = (_end(counts, bins, int(passing[place]), deviation, place) for place in (0, -1))
    if start > stop:  # both ends were cut from one group, which noise made look emptier than it is
        start, stop = first, last
    edges = bins.edges
    margin = _MARGIN * (edges[stop + 1] - edges[start])
    start -= start > first and edges[start] - edges[start - 1] <= margin
    stop += stop < last and edges[stop + 2] - edges[stop + 1] <= margin
    return Range(float(edges[start]), float(edges[stop + 1]), seen)


def _end(counts: Sequence[NDArray[np.float64]], bins: Bins, group: int, deviation: float, place: int) -> int:
    """The outermost interval of a group that is not cut, from its first (0) or from its last on (-1)."""
    for level, finer in pairwise(range(len(counts))):
        inner = np.unique(bins.levels[finer][bins.levels[level] == group])
        inner = inner if place == 0 else inner[::-1]
        group = int(inner[_empty(counts[finer][inner], _CUT * deviation)])
    return group


def _empty(counts: NDArray[np.float64], level: float) -> int:
    """How many groups from the first on hold no more than noise, alone and with those before; never all of them.

    Noise below zero is forgotten (Page's test), so that it cannot hide the rows that follow.
    """
    total = 0.0
    for place, count in enumerate(counts):
        total = max(0.0, total) + float(count)
        if total > level:
            return place
    return 0


def with_bounds(column: Continuous | Integer | Datetime, found: Range) -> Column:
    """The column with round bounds around what was found; those that are declared stay, and the widest always do."""
    least, most = widest(column)
    lower: Any
    upper: Any
    try:
        lower, upper = _moments(column, found) if isinstance(column, Datetime) else _numbers(column, found)
        lower = max(lower, least) if column.lower is DISCOVER else column.lower
        upper = min(upper, most) if column.upper is DISCOVER else column.upper
        return replace(column, lower=lower, upper=upper)
    except SchemaError:  # bounds that met, or that leave nothing to choose on a grid
        return replace(column, lower=least, upper=most)


def _numbers(column: Continuous | Integer, found: Range) -> tuple[Any, Any]:
    lower, upper = found.lower, found.upper
    if 0 < lower <= upper / _FROM_ZERO:
        lower = 0.0
    if lower / _FROM_ZERO <= upper < 0:
        upper = 0.0
    if isinstance(column, Integer):
        upper = max(upper - 1, lower + 1)  # the edge itself belongs to the next interval
    lower, upper = min((lower, *column.special)), max((upper, *column.special))
    unit = column.unit if isinstance(column, Integer) else column.step
    if unit is not None:
        lower, upper = math.floor(lower / unit) * unit, math.ceil(upper / unit) * unit
        upper = upper if lower < upper else lower + unit
    kind: Any = int if isinstance(column, Integer) else _short
    return kind(lower), kind(upper)


def _short(number: float) -> float:
    """Without the last digits that multiplication leaves."""
    return float(f"{number:.12g}")


def _moments(column: Datetime, found: Range) -> tuple[dt.datetime, dt.datetime]:
    """Whole years; of minutes, the last ones that can be told apart."""
    lower, upper = (EPOCH + dt.timedelta(days=edge) for edge in (found.lower, found.upper))
    upper -= dt.timedelta(seconds=column.unit.seconds)
    if column.unit is TimeUnit.MINUTE:
        most = dt.timedelta(minutes=GRID_LIMIT)
        if column.lower is DISCOVER:
            lower = max(lower, (upper if column.upper is DISCOVER else column.upper) - most)
        else:
            upper = min(upper, column.lower + most)
    return lower, upper
