"""Decoded rows as the files of the schema are written, so that what comes out can be read like what went in."""

from __future__ import annotations

import csv
import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.schema import Binary, CellType, Datetime, TableSchema, TimeUnit

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema import Schema

__all__ = ["as_written", "csv_options", "moment_from", "text_encoding"]


def csv_options(schema: Schema | None) -> dict[str, Any]:
    """Return what `DataFrame.to_csv` needs to write files as the schema declares them."""
    if not isinstance(schema, TableSchema):
        return {"header": True}
    file = schema.file
    blanks = file.separator == " "
    empty = next((text for text in schema.missing_text if text or not blanks), "")
    return {
        "sep": file.separator or ",",
        "decimal": file.decimal,
        "quotechar": file.quote,
        "na_rep": empty,
        "header": file.header is not False,
        "quoting": csv.QUOTE_MINIMAL if file.comment is None else csv.QUOTE_ALL,
    }


def text_encoding(schema: Schema | None) -> str:
    """Return the encoding of the schema's files."""
    return (schema.file.encoding if isinstance(schema, TableSchema) else None) or "utf-8"


def as_written(frame: pd.DataFrame, schema: Schema | None) -> pd.DataFrame:
    """Return decoded rows with truth values and moments as the texts that files of the schema hold."""
    if not isinstance(schema, TableSchema):
        return frame
    changed: dict[str, Any] = {}
    for column in schema.columns:
        series = frame[column.name]
        if isinstance(column, Binary) and column.stored_as is CellType.BOOL:
            changed[column.name] = series.map({False: column.values[0], True: column.values[1]})
        elif isinstance(column, Datetime) and column.timezone is None:
            form = _form(column, schema.file.dates)
            changed[column.name] = series.dt.strftime(form).where(series.notna(), None)
    return frame.assign(**changed)


def moment_from(text: str, forms: tuple[str, ...]) -> dt.datetime | str:
    """Return the moment that the first fitting form tells, or the text itself."""
    for form in forms:
        try:
            return dt.datetime.strptime(text, form)
        except ValueError:
            continue
    return text


def _form(column: Datetime, forms: tuple[str, ...]) -> str:
    """The first declared form that tells the moments of the column in full, else ISO 8601."""
    last = np.datetime64(column.lower, "s") + np.timedelta64(column.steps * column.unit.seconds, "s")
    ends = (column.lower, column.lower + dt.timedelta(seconds=column.unit.seconds), last.astype(dt.datetime))
    for form in forms:
        if all(moment_from(end.strftime(form), forms) == end for end in ends):
            return form
    midnight = column.unit is TimeUnit.DAY and column.lower.time() == dt.time()
    return "%Y-%m-%d" if midnight else "%Y-%m-%dT%H:%M:%S"
