"""A whole schema learned from rows that were declared public."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from understudy.data.guess import guess
from understudy.data.spelling import plain_numbers
from understudy.data.typical import why_left_out
from understudy.errors import DataError
from understudy.records.written import moment_from
from understudy.schema import (
    GRID_LIMIT,
    Binary,
    Categorical,
    CellType,
    Continuous,
    Datetime,
    FileFormat,
    Integer,
    TableSchema,
    TimeUnit,
)

if TYPE_CHECKING:
    from understudy.data.guess import Guess
    from understudy.schema import Column

__all__ = ["learned_from_cells", "learned_from_frame", "spelling_of"]

_MOST_CATEGORIES = 200
_MOST_DECIMALS = 6
_USUAL_MISSING: tuple[str, ...] = TableSchema.missing_text


def spelling_of(guesses: list[Guess], file: FileFormat) -> tuple[FileFormat, tuple[str, ...]]:
    """Return what the guesses about all columns say together about how a file writes cells and empty ones."""
    decimal = "," if any(found.decimal == "," for found in guesses) else file.decimal
    grouped = [found.thousands for found in guesses if found.thousands is not None]
    forms = [found.form for found in guesses if found.form is not None]
    completed = replace(
        file,
        decimal=decimal,
        thousands=file.thousands or next((mark for mark in grouped if mark != decimal), None),
        dates=file.dates or tuple(dict.fromkeys(forms)),
    )
    marks = dict.fromkeys(mark for found in guesses for mark in found.marks)
    return completed, tuple(dict.fromkeys((*marks, *_USUAL_MISSING))) if marks else _USUAL_MISSING


def learned_from_cells(cells: pd.DataFrame, file: FileFormat) -> tuple[TableSchema, dict[str, str]]:
    """Return the schema that texts of a file fit, and why other columns are left out."""
    guesses = {name: guess(cells[name].fillna("")) for name in cells.columns}
    file, missing_text = spelling_of(list(guesses.values()), file)
    frame = pd.DataFrame(
        {name: _converted(cells[name], guesses[name], file, missing_text) for name in cells.columns}
    )
    return _learned(frame, TableSchema((Integer("none", 0, 1),), missing_text=missing_text, file=file))


def learned_from_frame(frame: pd.DataFrame) -> tuple[TableSchema, dict[str, str]]:
    """Return the schema that the rows of a frame fit, and why other columns are left out."""
    return _learned(frame, TableSchema((Integer("none", 0, 1),)))


def _learned(frame: pd.DataFrame, empty: TableSchema) -> tuple[TableSchema, dict[str, str]]:
    columns: list[Column] = []
    left_out: dict[str, str] = {}
    for name in frame.columns:
        found = why_left_out(name) or _column(name, frame[name])
        if isinstance(found, str):
            left_out[name] = found
        else:
            columns.append(found)
    if not columns:
        raise DataError("no column can be described; write the schema by hand")
    return replace(empty, columns=tuple(columns)), left_out


def _converted(series: Any, found: Guess, file: FileFormat, missing_text: tuple[str, ...]) -> Any:
    present = series.where(~series.isin(missing_text), None)
    if found.kind in (Integer, Continuous) or (found.kind is Binary and found.truths is None):
        numbers = pd.to_numeric(plain_numbers(present, file.decimal, file.thousands), errors="coerce")
        return numbers if found.kind is Continuous else numbers.astype("Int64")
    if found.kind is Datetime:
        moments = [
            None if text is None else _without_zone(moment_from(text, file.dates))
            for text in present.astype(object).where(present.notna(), None)
        ]
        return pd.Series(moments, dtype="datetime64[s]")
    return present


def _without_zone(moment: dt.datetime | str) -> dt.datetime:
    found = moment if isinstance(moment, dt.datetime) else dt.datetime.fromisoformat(moment)
    return found if found.tzinfo is None else found.astimezone(dt.UTC).replace(tzinfo=None)


def _column(name: str, series: Any) -> Column | str:
    """Return the column that holds these values in the type they have, or the reason why there is none."""
    found = _kind(name, series)
    if isinstance(found, str):
        return found
    if isinstance(found, Datetime):
        zone = getattr(series.dtype, "tz", None)
        return found if zone is None else replace(found, timezone=str(zone))
    if isinstance(series.dtype, pd.CategoricalDtype):
        return (
            found if isinstance(found, Continuous | Integer) else replace(found, stored_as=CellType.CATEGORY)
        )
    stated = str(series.dtype).lower().replace("boolean", "bool").removesuffix("[pyarrow]")
    usual = {Continuous: "float64", Integer: "int64"}.get(type(found))
    if stated == usual or stated not in {kind.value for kind in CellType}:
        return found
    if isinstance(found, Continuous) and not stated.startswith("float"):
        return found
    return replace(found, stored_as=CellType(stated))


def _kind(name: str, series: Any) -> Column | str:
    missing = bool(series.isna().any())
    present = series.dropna()
    distinct = present.nunique()
    if distinct < 2:
        return f"it holds {'one value' if distinct else 'no value'} only"
    if present.dtype.kind == "b" or pd.api.types.is_bool_dtype(present):
        return Binary(name, ("False", "True"), missing)
    if present.dtype.kind == "M" or isinstance(present.iloc[0], dt.date):
        return _datetime(name, pd.to_datetime(present), missing)
    if pd.api.types.is_numeric_dtype(present):
        return _number(name, present.to_numpy(dtype=np.float64), missing)
    return _text(name, present, missing)


def _text(name: str, present: Any, missing: bool) -> Column | str:
    values = tuple(sorted(present.astype(str).unique()))
    if len(values) > _MOST_CATEGORIES:
        return f"it holds {len(values)} different texts, more than {_MOST_CATEGORIES}"
    truths = guess(values).truths
    return Categorical(name, values, missing) if truths is None else Binary(name, truths, missing)


def _number(name: str, values: Any, missing: bool) -> Column | str:
    values = values[np.isfinite(values)]
    lower, upper = float(values.min()), float(values.max())
    if set(np.unique(values)) == {0.0, 1.0}:
        return Binary(name, missing=missing)
    if (values == np.floor(values)).all() and upper - lower <= GRID_LIMIT:
        return Integer(name, int(lower), int(upper), missing)
    if lower == upper:
        return "it holds one finite value only"
    places = range(_MOST_DECIMALS + 1)
    decimals = next((n for n in places if (np.round(values, n) == values).all()), None)
    return Continuous(name, lower, upper, missing, decimals)


def _datetime(name: str, values: Any, missing: bool) -> Column | str:
    if values.dt.tz is not None:
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    values = values.dt.floor("s")
    lower, upper = values.min().to_pydatetime(), values.max().to_pydatetime()
    midnight = bool((values == values.dt.normalize()).all())
    units = (TimeUnit.DAY,) if midnight else (TimeUnit.SECOND, TimeUnit.MINUTE, TimeUnit.HOUR)
    span = (upper - lower).total_seconds()
    unit = next((unit for unit in units if span / unit.seconds <= GRID_LIMIT), TimeUnit.DAY)
    if span < unit.seconds:
        return "its moments lie too close together"
    return Datetime(name, lower, upper, unit, missing)
