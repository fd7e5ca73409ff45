"""One column of a table to numbers and back, with errors that name the column and the row, and no cell."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import math
import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from understudy.errors import DataError
from understudy.records.line import from_line, to_line
from understudy.schema import Binary, Categorical, CellType, Continuous, Datetime, Integer, Ordinal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from understudy.schema import Column, Discrete

__all__ = [
    "Examined",
    "Fault",
    "as_number",
    "as_position",
    "as_texts",
    "examine",
    "from_number",
    "from_position",
    "on_line",
]

_WHOLE = re.compile(r"-?(0|[1-9]\d*)\.0+")
"""Whole numbers as programs write them when a column also holds empty cells: 1.0 means 1."""
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?)", re.ASCII | re.IGNORECASE)
_NO_NUMBER = re.compile(r"[+-]?nan(\(\w*\))?", re.ASCII | re.IGNORECASE)
"""What pyarrow takes for a number, and for none, in a text file."""


@dataclass(frozen=True, eq=False)
class Fault:
    """PRIVATE: rows whose cell the schema does not allow.

    Args:
        rows: their positions, in order.
        why: what is wrong with them and what to do; says nothing about the cells.
        cells: some of the different texts that are there.
    """

    rows: NDArray[np.int64]
    why: str
    cells: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Examined:
    """PRIVATE: everything that one column of a table holds.

    Args:
        values: for discrete columns the position in `column.values`, else the number in the column's own unit (for
            moments, units since the lower bound), not yet clipped; NaN where missing or refused.
        missing: which cells are empty.
        changed: which values encoding changes: clipped to the bounds, or mapped to the category for unknown ones.
        faults: what the schema does not allow.
    """

    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    changed: NDArray[np.bool_]
    faults: tuple[Fault, ...]

    def refuse_faults(self, column: Column) -> None:
        """Raise DataError for the first fault: the message says column and row, its detail the cells."""
        if not self.faults:
            return
        fault = min(self.faults, key=lambda fault: int(fault.rows[0]))
        place = f"column {column.name!r}, row {fault.rows[0] + 1}: the value"
        cells = ", ".join(map(repr, fault.cells))
        detail = f"{place} {fault.why} There are {len(fault.rows)} such rows"
        raise DataError(f"{place} {fault.why}", detail + (f": {cells}." if cells else "."))


def examine(series: Any, column: Column, missing_text: tuple[str, ...]) -> Examined:
    """Look at all cells of a column; nothing is refused yet.

    The work per distinct value is slow and the work per row is fast, so many rows cost little.
    """
    if isinstance(column, Binary | Ordinal | Categorical):
        values, missing, changed, faults = _examine_discrete(series, column, missing_text)
    else:
        if isinstance(column, Datetime):
            values, missing, faults = _examine_moments(series, column, missing_text)
            lower, upper = 0.0, float(column.steps)
        else:
            values, missing, faults = _examine_numbers(series, column, missing_text)
            lower, upper = float(column.lower), float(column.upper)
        changed = (values < lower) | (values > upper)
    if not column.missing and missing.any():
        cure = "but the schema allows none. Set missing = true for the column, or fill the cells."
        faults.append(Fault(np.flatnonzero(missing), f"is missing, {cure}"))
    return Examined(values, missing, changed, tuple(faults))


def as_position(
    series: Any, column: Discrete, missing_text: tuple[str, ...]
) -> tuple[NDArray[np.int64], int]:
    """Return for each value its position in `column.values` (-1 where missing), and how many were unknown."""
    found = examine(series, column, missing_text)
    found.refuse_faults(column)
    return np.where(found.missing, -1, found.values).astype(np.int64), int(found.changed.sum())


def as_texts(
    series: Any, column: Categorical, missing_text: tuple[str, ...]
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """PRIVATE: for each cell the number of its text (NaN where missing), and the texts that occur."""
    codes, distinct = _factorized(_told_apart(series), column)
    words: dict[str, int] = {}
    table = np.full(len(distinct) + 1, np.nan)
    for i, value in enumerate(distinct):
        text = _text(value, ())
        if text not in missing_text:
            table[i] = words.setdefault(text, len(words))
    return table[codes], tuple(words)


def from_position(positions: NDArray[np.int64], column: Discrete) -> Any:
    """Return the values at these positions, as text or as the schema says; missing where the position is -1."""
    match column.stored_as:
        case None:
            return pd.Series(np.array([*column.values, None], dtype=object)[positions], dtype=object)
        case CellType.CATEGORY:
            ordered = isinstance(column, Ordinal)
            dtype: Any = pd.CategoricalDtype(list(column.values), ordered=ordered)
            return pd.Series(pd.Categorical.from_codes(positions, dtype=dtype))
        case CellType.BOOL:
            return _whole(positions, positions < 0, column)
        case _:
            numbers = np.array([*(int(value) for value in column.values), 0])
            return _whole(numbers[positions], positions < 0, column)


def _whole(values: NDArray[Any], gone: NDArray[np.bool_], column: Discrete | Integer) -> Any:
    """Whole numbers or truth values in the type of the schema; a nullable one where cells may be empty."""
    stored = column.stored_as
    if stored in (CellType.FLOAT32, CellType.FLOAT64):
        return pd.Series(np.where(gone, np.nan, values).astype(stored.value))
    plain = values.astype("int64" if stored is None else stored.value)
    if not column.missing:
        return pd.Series(plain)
    return pd.Series(
        pd.arrays.BooleanArray(plain, gone)
        if stored is CellType.BOOL
        else pd.arrays.IntegerArray(plain, gone)
    )


def as_number(series: Any, column: Column, missing_text: tuple[str, ...]) -> tuple[NDArray[np.float64], int]:
    """Return the values scaled to [-1, 1] (NaN where missing), and how many were clipped to the bounds."""
    found = examine(series, column, missing_text)
    found.refuse_faults(column)
    discrete = isinstance(column, Binary | Ordinal | Categorical)
    return on_line(found.values, column), 0 if discrete else int(found.changed.sum())


def on_line(values: NDArray[np.float64], column: Column) -> NDArray[np.float64]:
    """What `examine` found, scaled to [-1, 1] and clipped to the bounds; NaN where missing."""
    if isinstance(column, Binary | Ordinal | Categorical):
        return 2 * values / (len(column.values) - 1) - 1
    if isinstance(column, Datetime):
        return 2 * (np.clip(values, 0, column.steps) / column.steps) - 1
    return to_line(values, column)


def from_number(scaled: NDArray[np.float64], gone: NDArray[np.bool_], column: Column) -> Any:
    """Return the values of a column from [-1, 1], rounded to what is valid, missing where `gone`."""
    share = (np.clip(scaled, -1, 1) + 1) / 2
    if isinstance(column, Binary | Ordinal | Categorical):
        positions = np.rint(share * (len(column.values) - 1)).astype(np.int64)
        return from_position(np.where(gone, -1, positions), column)
    if isinstance(column, Datetime):
        seconds = np.rint(share * column.steps).astype(np.int64) * column.unit.seconds
        moments = np.datetime64(column.lower, "s") + seconds.astype("timedelta64[s]")
        told: Any = pd.Series(np.where(gone, np.datetime64("NaT", "s"), moments))
        return told if column.timezone is None else told.dt.tz_localize("UTC").dt.tz_convert(column.timezone)
    values = from_line(scaled, column)
    if isinstance(column, Integer):
        return _whole(np.rint(values).astype(np.int64), gone, column)
    found = pd.Series(np.where(gone, np.nan, values))
    return found if column.stored_as is None else found.astype(column.stored_as.value)


# ------------------------------------------------------------------------------------------- discrete


def _examine_discrete(series: Any, column: Discrete, missing_text: tuple[str, ...]) -> Any:
    codes, distinct = _factorized(_told_apart(series), column)
    known = {value: position for position, value in enumerate(column.values)}
    stand_in = (
        known[column.unknown] if isinstance(column, Categorical) and column.unknown is not None else None
    )
    table = np.full(len(distinct) + 1, np.nan)
    missing, strange = np.zeros((2, len(distinct) + 1), dtype=bool)
    missing[-1] = True
    for i, value in enumerate(distinct):
        text = _text(value, column.values, truths=isinstance(column, Binary))
        if text in known:
            table[i] = known[text]
        elif text in missing_text:
            missing[i] = True
        else:
            strange[i] = True
            table[i] = np.nan if stand_in is None else stand_in
    faults = []
    if stand_in is None and strange.any():
        cells = tuple(str(value)[:60] for value in distinct[strange[:-1]][:5])
        faults.append(Fault(np.flatnonzero(strange[codes]), _not_listed(column), cells))
    return table[codes], missing[codes], strange[codes], faults


class _Truth(enum.Enum):
    """A truth value that is not equal to 0 or 1."""

    FALSE = False
    TRUE = True

    def __str__(self) -> str:
        return str(self.value)


def _told_apart(series: Any) -> Any:
    """Cells that are equal but written differently (1 and True, 1.5 and 1.50) made different.

    Otherwise the first row that has one of them would decide how all others are read.
    """
    alike = ("string", "integer", "floating", "boolean", "empty")
    if series.dtype != object or pd.api.types.infer_dtype(series, skipna=True) in alike:
        return series
    return pd.Series([_spelled(value) for value in series], index=series.index, dtype=object)


def _spelled(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return _Truth(bool(value))
    return str(value) if isinstance(value, decimal.Decimal | dt.datetime) and value == value else value  # noqa: PLR0124


def _text(value: object, listed: tuple[str, ...], *, truths: bool = False) -> str:
    """The value as text; truth values are the first and the second of those listed where `truths` says so."""
    if isinstance(value, bool | np.bool_ | _Truth):
        return listed[str(value) == "True"] if truths else str(value)
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    text = str(value)
    return text.split(".", maxsplit=1)[0] if _WHOLE.fullmatch(text) and text not in listed else text


def _not_listed(column: Discrete) -> str:
    cure = "Correct the cell or add the value to the schema"
    if isinstance(column, Categorical):
        cure += ", or name a category for such values with unknown = ..."
    listed = ", ".join(map(repr, column.values[:8])) + (", ..." if len(column.values) > 8 else "")
    return f"is not in the schema, which has {listed}. {cure}."


# -------------------------------------------------------------------------------------------- numbers


def _examine_numbers(series: Any, column: Continuous | Integer, missing_text: tuple[str, ...]) -> Any:
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(object)
    present = series.notna().to_numpy(dtype=bool, copy=True)
    if series.dtype.kind not in "biuf":
        present &= ~series.isin(missing_text).to_numpy(dtype=bool)
    numbers, written_out = _numbers(series, column)
    present &= ~written_out
    present &= ~np.isin(numbers, _numbers_in(missing_text))
    faults = []
    bad = np.flatnonzero(present & np.isnan(numbers))
    if len(bad):
        why = "is not a number. Correct it, or change the kind of the column."
        faults.append(Fault(bad, why, _cells(series, bad)))
    if isinstance(column, Integer):
        bad = np.flatnonzero(present & np.isfinite(numbers) & (numbers != np.floor(numbers)))
        if len(bad):
            why = "is not a whole number. Declare the column continuous."
            faults.append(Fault(bad, why, _cells(series, bad)))
    return np.where(present, numbers, np.nan), ~present, faults


def _numbers(series: Any, column: Column) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """PRIVATE: cells as numbers, NaN where one is none; and which texts say themselves that they are none ("nan").

    Text is read by the grammar of pyarrow and rounded as it rounds, which pandas does not: whether a file is read by
    pyarrow or as text may hang on a single cell.
    """
    if series.dtype.kind in "biuf":
        numbers: NDArray[np.float64] = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers, np.zeros(len(series), dtype=bool)
    codes, distinct = _factorized(series, column)
    plain = [None if isinstance(value, str) else value for value in distinct]
    table = np.append(
        pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce").astype(np.float64), np.nan
    )
    written_out = np.zeros(len(distinct) + 1, dtype=bool)
    for i, value in enumerate(distinct):
        if isinstance(value, str):
            text = value.strip()
            table[i] = float(text) if _NUMBER.fullmatch(text) else np.nan
            written_out[i] = _NO_NUMBER.fullmatch(text) is not None
    return table[codes], written_out[codes]


def _numbers_in(missing_text: tuple[str, ...]) -> list[float]:
    """Marks such as -9 that stand for an empty cell also where a column holds numbers instead of text."""
    found = []
    for text in missing_text:
        try:
            found.append(float(text))
        except ValueError:
            continue
    return [number for number in found if math.isfinite(number)]


def _cells(series: Any, rows: NDArray[np.int64]) -> tuple[str, ...]:
    texts = [str(series.iloc[row])[:60] for row in rows[:1000]]
    return tuple(dict.fromkeys(texts))[:5]


# -------------------------------------------------------------------------------------------- moments


def _examine_moments(series: Any, column: Datetime, missing_text: tuple[str, ...]) -> Any:
    """Whole units since the lower bound, NaN where missing; finer parts are cut off."""
    if series.dtype.kind != "M":
        series = series.astype(object)
        series = series.where(~series.isin(missing_text), None)
    present = series.notna().to_numpy(dtype=bool, copy=True)
    moments, wrong = _moments(series, present, column)
    offset = (moments - np.datetime64(column.lower, "s")).astype(np.float64)
    values = np.where(np.isnat(moments), np.nan, np.floor(offset / column.unit.seconds))
    faults = []
    if wrong.any():
        rows = np.flatnonzero(wrong)
        why = (
            "is not a date such as 2024-12-31 or 2024-12-31T23:59:59. Declare how dates are written with the key dates "
            "of the table [file]."
        )
        faults.append(Fault(rows, why, _cells(series, rows)))
    return values, ~present, faults


def _moments(series: Any, present: NDArray[np.bool_], column: Datetime) -> tuple[Any, NDArray[np.bool_]]:
    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if series.dtype.kind == "M":
        return series.to_numpy().astype("datetime64[s]"), np.zeros(len(series), dtype=bool)
    parsed = np.full(len(series), np.datetime64("NaT", "s"))
    codes, distinct = _factorized(series, column)
    table = np.full(len(distinct), np.datetime64("NaT", "s"))
    for i, value in enumerate(distinct):
        table[i] = _moment(value)
    parsed[present] = table[codes[present]]
    return parsed, present & np.isnat(parsed)


def _moment(value: object) -> np.datetime64:
    """The moment in UTC, or NaT if the value is none."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return np.datetime64(value, "s")
    try:
        moment = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(str(value))
        if moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    except (TypeError, ValueError, OverflowError):
        return np.datetime64("NaT", "s")
    return np.datetime64(moment.replace(microsecond=0), "s")


def _factorized(series: Any, column: Column) -> tuple[Any, Any]:
    try:
        return pd.factorize(series)
    except TypeError:
        _refuse_nested(series, column)


def _refuse_nested(series: Any, column: Column) -> NoReturn:
    row = next(i for i, value in enumerate(series) if not isinstance(value, Hashable))
    place = f"column {column.name!r}, row {row + 1}: the value"
    why = "is more than one value; a cell must hold one."
    raise DataError(f"{place} {why}", f"{place} {str(series.iloc[row])[:60]!r} {why}")
