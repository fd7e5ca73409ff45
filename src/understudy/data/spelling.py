"""Texts that mean numbers, moments and truth values, turned into these as the table `[file]` of a schema declares."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pandas as pd

from understudy.records.written import moment_from
from understudy.schema import Binary, Continuous, Datetime, Integer

if TYPE_CHECKING:
    from understudy.schema import Column, FileFormat, TableSchema

__all__ = ["plain_numbers", "understood"]


def understood(frame: pd.DataFrame, schema: TableSchema) -> pd.DataFrame:
    """Return the frame with cells in the forms that the encoder reads; what is not understood stays as it is."""
    changed = {}
    for column in schema.columns:
        series = frame[column.name]
        if series.dtype == object or isinstance(series.dtype, pd.StringDtype):
            read = _read(series, column, schema.file)
            if read is not None:
                changed[column.name] = read
    return frame.assign(**changed) if changed else frame


def _read(series: Any, column: Column, file: FileFormat) -> Any:
    if isinstance(column, Continuous | Integer) and (file.decimal != "." or file.thousands is not None):
        return plain_numbers(series, file.decimal, file.thousands)
    if isinstance(column, Datetime) and file.dates:
        return _by_text(series, lambda text: moment_from(text, file.dates))
    if isinstance(column, Binary) and (file.true_words or file.false_words):
        words = {word.casefold(): column.values[0] for word in file.false_words}
        words |= {word.casefold(): column.values[1] for word in file.true_words}
        return _by_text(series, lambda text: words.get(text.casefold(), text))
    return None


def _by_text(series: Any, change: Any) -> Any:
    """Change each distinct text once; other values stay."""
    table = {text: change(text) for text in series.dropna().unique() if isinstance(text, str)}
    return series.astype(object).map(
        lambda value: table.get(value, value) if isinstance(value, str) else value
    )


def plain_numbers(series: Any, decimal: str, thousands: str | None) -> Any:
    """Return texts such as "1.234,5" as "1234.5"; groups of other than three digits stay and are no numbers."""
    mark = re.escape(thousands) if thousands is not None else ""
    grouped = re.compile(rf"[-+]?\d{{1,3}}({mark}\d{{3}})+({re.escape(decimal)}\d*)?") if mark else None
    point = str.maketrans({decimal: ".", ".": ","} if decimal == "," else {})

    def plain(text: str) -> str:
        if grouped is not None and thousands is not None and grouped.fullmatch(text):
            text = text.replace(thousands, "")
        return text.translate(point)

    return _by_text(series, plain)
