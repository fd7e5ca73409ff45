"""What is known of columns as named arrays, and back: for checkpoints and for the file of a release.

Columns have different numbers of outcomes, and numbers different numbers of stretches, so all of them lie one behind
the other. What comes from a file is held against the schema before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.synthesizers.marginals.columns import KnownColumn
from understudy.synthesizers.marginals.outcomes import Outcomes
from understudy.synthesizers.marginals.piles import Stretches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from understudy.synthesizers.marginals.columns import TableColumn

__all__ = ["DTYPES", "arrays_of", "columns_from", "misfit_of_columns"]

DTYPES: dict[str, type[np.generic]] = {
    "widths": np.int64,
    "stretches": np.int64,
    "starts": np.int64,
    "which": np.int64,
    "masses": np.float32,
    "roundness": np.float64,
}
"""Outcomes of each column; stretches of each number; then, for all stretches, their first value, outcome and mass; and
the shares of roundness of each number."""


def arrays_of(known: Sequence[KnownColumn]) -> dict[str, NDArray[Any]]:
    """The columns as named arrays."""
    numbers = [(one.outcomes, one.round_shares) for one in known if one.outcomes is not None]
    found = {
        "widths": np.array([one.width for one in known]),
        "stretches": np.array([len(outcomes.which) for outcomes, _ in numbers]),
        "starts": _joined([outcomes.stretches.starts for outcomes, _ in numbers]),
        "which": _joined([outcomes.which for outcomes, _ in numbers]),
        "masses": _joined([outcomes.stretches.masses for outcomes, _ in numbers]),
        "roundness": _joined([shares for _, shares in numbers if shares is not None]),
    }
    return {name: array.astype(DTYPES[name]) for name, array in found.items()}


def columns_from(
    columns: Sequence[TableColumn], named: Mapping[str, NDArray[Any]]
) -> tuple[KnownColumn, ...]:
    """The columns that `arrays_of` wrote."""
    lengths = named["stretches"].tolist()
    starts, which, masses = (iter(_split(named[name], lengths)) for name in ("starts", "which", "masses"))
    grids = [column.number for column in columns if column.number is not None]
    roundness = iter(_split(named["roundness"], [len(grid.strides) + 1 for grid in grids]))
    found = []
    for column, width in zip(columns, named["widths"].tolist(), strict=True):
        if column.number is None:
            found.append(KnownColumn(column, width))
            continue
        held = next(masses).astype(np.float64)
        stretches = Stretches(next(starts), held, column.size)
        outcomes = Outcomes(stretches, next(which))
        found.append(KnownColumn(column, width, outcomes, next(roundness)))
    return tuple(found)


def misfit_of_columns(columns: Sequence[TableColumn], named: Mapping[str, NDArray[Any]]) -> str | None:
    """Why these arrays cannot describe the columns, as the end of a sentence; None if they can."""
    grids = [column.number for column in columns if column.number is not None]
    widths, lengths = named["widths"].tolist(), named["stretches"].tolist()
    if len(widths) != len(columns) or len(lengths) != len(grids) or min([1, *widths, *lengths]) < 1:
        return "widths or stretches do not belong to the columns of the schema"
    if any(named[name].shape != (sum(lengths),) for name in ("starts", "which", "masses")):
        return "starts, which and masses must be as many as there are stretches"
    if named["roundness"].shape != (sum(len(grid.strides) + 1 for grid in grids),):
        return "roundness does not belong to the columns of the schema"
    if bool((named["masses"] < 0).any()) or bool((named["roundness"] < 0).any()):
        return "masses and roundness must not be negative"
    for column in columns_from(columns, named):
        if not _fits(column):
            return f"the outcomes of column {column.column.name!r} do not fit its values"
    return None


def _fits(known: KnownColumn) -> bool:
    column = known.column
    if known.outcomes is None:
        return known.width == column.size + column.missing
    starts, which = known.outcomes.stretches.starts, known.outcomes.which
    return (
        starts[0] == 0
        and bool((np.diff(starts) > 0).all())
        and int(starts[-1]) < column.size
        and np.array_equal(np.unique(which), np.arange(known.width - column.missing))
    )


def _split(array: NDArray[Any], lengths: Sequence[int]) -> list[NDArray[Any]]:
    return np.split(array, np.cumsum(lengths)[:-1]) if lengths else []


def _joined(
    arrays: Sequence[np.ndarray[tuple[int], np.dtype[np.generic]]],
) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    return np.concatenate(arrays) if arrays else np.zeros(0)
