"""One column of a table to numbers and back, with errors that name the column, the row and the value."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from understudy.errors import DataError
from understudy.records.line import from_line, to_line
from understudy.schema import Binary, Categorical, Continuous, Datetime, Integer, Ordinal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from understudy.schema import Column, Discrete

__all__ = ["as_number", "as_position", "from_number", "from_position"]


def as_position(
    series: Any, column: Discrete, missing_text: tuple[str, ...]
) -> tuple[NDArray[np.int64], int]:
    """Return for each value its position in `column.values` (-1 where missing), and how many were unknown.

    The work per distinct value is slow and the work per row is fast, so many rows cost little.
    """
    codes, distinct = _factorized(series, column)
    table = np.empty(len(distinct) + 1, dtype=np.int64)
    table[-1] = -1
    known = {value: position for position, value in enumerate(column.values)}
    stand_in = (
        known[column.unknown] if isinstance(column, Categorical) and column.unknown is not None else None
    )
    strangers = np.zeros(len(distinct) + 1, dtype=bool)
    for i, value in enumerate(distinct):
        text = _text(value, column)
        if text in known:
            table[i] = known[text]
        elif text in missing_text:
            table[i] = -1
        elif stand_in is not None:
            table[i], strangers[i] = stand_in, True
        else:
            _refuse_category(int(np.flatnonzero(codes == i)[0]), text, column)
    positions = table[codes]
    if not column.missing:
        _refuse_missing(positions < 0, column)
    return positions, int(strangers[codes].sum())


def from_position(positions: NDArray[np.int64], column: Discrete) -> Any:
    """Return the values at these positions as a series of text, None where the position is -1."""
    values = np.array([*column.values, None], dtype=object)
    return pd.Series(values[positions], dtype=object)


def as_number(series: Any, column: Column, missing_text: tuple[str, ...]) -> tuple[NDArray[np.float64], int]:
    """Return the values scaled to [-1, 1] (NaN where missing), and how many were clipped to the bounds."""
    if isinstance(column, Binary | Ordinal | Categorical):
        positions, _ = as_position(series, column, missing_text)
        scaled = 2 * positions / (len(column.values) - 1) - 1
        return np.where(positions < 0, np.nan, scaled), 0
    if isinstance(column, Datetime):
        raw, lower, upper = _seconds(series, column, missing_text), 0.0, float(column.steps)
    else:
        raw, lower, upper = _parsed(series, column, missing_text), float(column.lower), float(column.upper)
    if not column.missing:
        _refuse_missing(np.isnan(raw), column)
    outside = int(((raw < lower) | (raw > upper)).sum())
    if isinstance(column, Datetime):
        return 2 * (np.clip(raw, lower, upper) / upper) - 1, outside
    return to_line(raw, column), outside


def from_number(scaled: NDArray[np.float64], gone: NDArray[np.bool_], column: Column) -> Any:
    """Return the values of a column from [-1, 1], rounded to what is valid, missing where `gone`."""
    share = (np.clip(scaled, -1, 1) + 1) / 2
    if isinstance(column, Binary | Ordinal | Categorical):
        positions = np.rint(share * (len(column.values) - 1)).astype(np.int64)
        return from_position(np.where(gone, -1, positions), column)
    if isinstance(column, Datetime):
        seconds = np.rint(share * column.steps).astype(np.int64) * column.unit.seconds
        moments = np.datetime64(column.lower, "s") + seconds.astype("timedelta64[s]")
        return pd.Series(np.where(gone, np.datetime64("NaT", "s"), moments))
    values = from_line(scaled, column)
    if isinstance(column, Integer):
        whole = np.rint(values).astype(np.int64)
        return pd.Series(pd.arrays.IntegerArray(whole, gone)) if column.missing else pd.Series(whole)
    return pd.Series(np.where(gone, np.nan, values))


def _text(value: object, column: Discrete) -> str:
    if isinstance(value, bool | np.bool_):
        return column.values[int(value)] if isinstance(column, Binary) else str(value)
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _parsed(series: Any, column: Continuous | Integer, missing_text: tuple[str, ...]) -> NDArray[np.float64]:
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(object)
    present = series.notna().to_numpy(dtype=bool)
    if series.dtype.kind not in "biuf":
        present &= ~series.isin(missing_text).to_numpy(dtype=bool)
    numbers = pd.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(present & np.isnan(numbers))
    if len(bad):
        _refuse(
            bad[0],
            series.iloc[bad[0]],
            column,
            "is not a number. Correct it, or change the kind of the column.",
        )
    if isinstance(column, Integer):
        bad = np.flatnonzero(np.isfinite(numbers) & (numbers != np.floor(numbers)))
        if len(bad):
            _refuse(bad[0], numbers[bad[0]], column, "is not a whole number. Declare the column continuous.")
    return np.where(present, numbers, np.nan)


def _seconds(series: Any, column: Datetime, missing_text: tuple[str, ...]) -> NDArray[np.float64]:
    """Return whole units since the lower bound, NaN where missing; finer parts are cut off."""
    if series.dtype.kind not in "M":
        series = series.astype(object)
        series = series.where(~series.isin(missing_text), None)
    present = series.notna().to_numpy(dtype=bool)
    moments = _moments(series, present, column)
    offset = (moments - np.datetime64(column.lower, "s")).astype(np.float64)
    return np.where(present, np.floor(offset / column.unit.seconds), np.nan)


def _moments(series: Any, present: NDArray[np.bool_], column: Datetime) -> Any:
    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if series.dtype.kind == "M":
        return series.to_numpy().astype("datetime64[s]")
    parsed = np.full(len(series), np.datetime64("NaT", "s"))
    codes, distinct = _factorized(series, column)
    table = np.empty(len(distinct), dtype="datetime64[s]")
    for i, value in enumerate(distinct):
        try:
            table[i] = _moment(value)
        except (TypeError, ValueError):
            row = int(np.flatnonzero(codes == i)[0])
            _refuse(row, value, column, "is not a date such as 2024-12-31 or 2024-12-31T23:59:59.")
    parsed[present] = table[codes[present]]
    return parsed


def _moment(value: object) -> np.datetime64:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return np.datetime64(value, "s")
    moment = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(str(value))
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    return np.datetime64(moment.replace(microsecond=0), "s")


def _factorized(series: Any, column: Column) -> tuple[Any, Any]:
    try:
        return pd.factorize(series)
    except TypeError:
        row = next(i for i, value in enumerate(series) if not isinstance(value, Hashable))
        _refuse(row, series.iloc[row], column, "is more than one value; a cell must hold one.")


def _refuse_missing(gone: NDArray[np.bool_], column: Column) -> None:
    rows = np.flatnonzero(gone)
    if len(rows):
        raise DataError(
            f"column {column.name!r}, row {rows[0] + 1}: the value is missing ({len(rows)} such rows), but "
            "the schema allows none. Set missing = true for the column, or fill the cells."
        )


def _refuse_category(row: int, text: str, column: Discrete) -> NoReturn:
    cure = "Correct the cell or add the value to the schema"
    cure += (
        ", or name a category for such values with unknown = ..." if isinstance(column, Categorical) else ""
    )
    shown = ", ".join(map(repr, column.values[:8])) + (", ..." if len(column.values) > 8 else "")
    _refuse(row, text, column, f"is not in the schema, which has {shown}. {cure}.")


def _refuse(row: int, value: object, column: Column, why: str) -> NoReturn:
    raise DataError(f"column {column.name!r}, row {row + 1}: the value {str(value)[:60]!r} {why}")
