"""Public intervals in which numbers and moments are counted before anybody knows their bounds.

Numbers are counted by sign and magnitude, on three levels: between 1, 2, 5, 10, 20, 50 and so on; in about five parts
of each of these; and between numbers of two digits. Moments are counted by decades and by years. All edges are round,
so whatever bounds are chosen are round.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.schema import DISCOVER, FIRST_YEAR, LAST_YEAR, Continuous, Datetime, Integer, widest

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EPOCH", "Bins", "bins_of"]

EPOCH = dt.datetime(FIRST_YEAR, 1, 1)
"""Moments are counted in days since."""

_GROUPS = (10, 20, 50)
_PARTS = (*range(10, 20, 2), *range(20, 50, 5), *range(50, 100, 10))
"""The two digits with which groups begin, and the parts of groups."""

_LEAST_POWER = -9
"""Of ten; numbers closer to zero are counted with it."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Intervals from each edge to before the next, and groups of neighbouring ones.

    Args:
        edges: ascending; values outside count in the first and the last interval.
        levels: for each level, coarsest first, the group of each interval, ascending from 0; on the last level every
            interval is a group.
    """

    edges: NDArray[np.float64]
    levels: tuple[NDArray[np.int64], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many groups each level has."""
        return tuple(int(groups[-1]) + 1 for groups in self.levels)

    def of(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The interval of each value; -1 for NaN."""
        found = np.searchsorted(self.edges, values, side="right") - 1
        return np.where(np.isnan(values), -1, np.clip(found, 0, len(self.edges) - 2))


def bins_of(column: Continuous | Integer | Datetime) -> Bins:
    """The intervals for a column: a function of what is declared about it."""
    edges, starts = _moments() if isinstance(column, Datetime) else _numbers(column)
    least, most = _declared(column.lower, -math.inf), _declared(column.upper, math.inf)
    kept = np.flatnonzero((edges[1:] > least) & (edges[:-1] < most))
    first, last = kept[0], kept[-1]
    groups = (np.cumsum(level[first : last + 1]) for level in starts)
    return Bins(edges[first : last + 2], tuple(one - one[0] for one in groups))


def _declared(bound: Any, default: float) -> float:
    """A declared bound as a number; what lies beyond it is not looked at."""
    if bound is DISCOVER:
        return default
    return (bound - EPOCH).total_seconds() / 86_400 if isinstance(bound, dt.datetime) else float(bound)


def _moments() -> tuple[NDArray[np.float64], list[NDArray[np.bool_]]]:
    """The edges, and for each level whether an interval begins a group."""
    years = range(FIRST_YEAR, LAST_YEAR + 2)
    edges = [(dt.datetime(year, 1, 1) - EPOCH).days for year in years]
    decades = [year % 10 == 0 for year in years[:-1]]
    return np.array(edges, dtype=np.float64), [np.array(decades), np.ones(len(decades), dtype=bool)]


def _numbers(column: Continuous | Integer) -> tuple[NDArray[np.float64], list[NDArray[np.bool_]]]:
    """The edges, and for each level whether an interval begins a group."""
    lower, upper = widest(column)
    farthest = max(abs(lower), abs(upper))
    whole = isinstance(column, Integer)
    digits_of: dict[float, int] = {}
    for power in range(-1 if whole else _LEAST_POWER - 1, math.ceil(math.log10(farthest)) + 1):
        edges = {float(f"{digits}e{power}"): digits for digits in range(10, 100)}
        digits_of |= {e: d for e, d in edges.items() if e <= farthest and not (whole and e != int(e))}
    digits_of.setdefault(float(farthest), _GROUPS[0])
    positive = sorted(digits_of)
    starts = []
    for begins in (_GROUPS, _PARTS, range(10, 100)):
        own = [digits_of[edge] in begins for edge in positive]
        starts.append(
            np.array([*reversed(own), True, *own[:-1]])
        )  # intervals begin at -edges, 0 and edges but the last
    return np.array([*(-edge for edge in reversed(positive)), 0.0, *positive]), starts
