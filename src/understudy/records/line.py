"""A number of a column on the line [-1, 1] and back, by its public bounds, scale, step and special values alone."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from understudy.schema import Continuous, Integer, NumberScale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["from_line", "to_line"]


def to_line(values: Floats, column: Continuous | Integer) -> Floats:
    """Return values, clipped to the bounds and put on the grid of the step, scaled to [-1, 1]; NaN stays NaN."""
    kept = np.clip(values, float(column.lower), float(column.upper))
    if column.step is not None:
        kept = np.where(np.isin(kept, column.special), kept, _on_grid(kept, column))
    lower, upper = _ends(column)
    line: Floats = 2 * ((_stretched(kept, column) - lower) / (upper - lower)) - 1
    return line


def from_line(line: Floats, column: Continuous | Integer) -> Floats:
    """Return the values at these places of [-1, 1], on the grid of step or decimals and within the bounds.

    A place that is a special value's own, to the precision of float32, gives that value exactly.
    """
    lower, upper = _ends(column)
    share = (np.clip(line, -1, 1) + 1) / 2
    values = _unstretched(lower + share * (upper - lower), column)
    if column.step is not None:
        values = _on_grid(values, column)
    elif isinstance(column, Integer):
        values = np.rint(values)
    elif column.decimals is not None:
        values = np.round(values, column.decimals)
    values = np.clip(values, column.lower, column.upper)
    for special in column.special:
        place = to_line(np.array([float(special)]), column).astype(np.float32)
        values = np.where(line.astype(np.float32) == place, float(special), values)
    return values


def _on_grid(values: Floats, column: Continuous | Integer) -> Floats:
    """The nearest multiple of the step within the bounds, without the dust of binary fractions."""
    step = column.step
    assert step is not None
    first, last = math.ceil(column.lower / step), math.floor(column.upper / step)
    places = -int(Decimal(repr(step)).as_tuple().exponent)
    return np.round(np.clip(np.rint(values / step), first, last) * step, max(places, 0))


def _ends(column: Continuous | Integer) -> tuple[float, float]:
    lower, upper = _stretched(np.array([column.lower, column.upper], dtype=np.float64), column)
    return float(lower), float(upper)


def _stretched(values: Floats, column: Continuous | Integer) -> Floats:
    if column.scale is NumberScale.LINEAR:
        return values
    return np.sign(values) * np.log1p(np.abs(values) / column.unit)


def _unstretched(values: Floats, column: Continuous | Integer) -> Floats:
    if column.scale is NumberScale.LINEAR:
        return values
    return np.sign(values) * np.expm1(np.abs(values)) * column.unit
