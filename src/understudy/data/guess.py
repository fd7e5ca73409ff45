"""What the texts of a column seem to mean. A guess is taken from private cells, and is marked so wherever it goes."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.records.written import moment_from
from understudy.schema import Binary, Categorical, CellType, Continuous, Datetime, Integer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from understudy.schema import Column

__all__ = ["MISSING_MARKS", "Guess", "guess"]

MISSING_MARKS = ("", "NA", "NaN", "nan", "null", "?", "N/A", "n/a", "na", "NULL", "None", "-", ".", "*")
"""What may stand for an empty cell between numbers or dates."""
_TEXT_MARKS = MISSING_MARKS[:7]
"""What stands for an empty cell between texts, too: the others may be words."""

_FORMS = (
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%d.%m.%y",
    "%m/%d/%y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%Y/%m/%d %H:%M:%S",
    "%m/%d/%Y %I:%M:%S %p",
)
_NUMBERS: tuple[tuple[str, str, str | None], ...] = (
    (r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", ".", None),
    (r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?|[-+]?\d{1,3}(\.\d+)?", ".", ","),
    (r"[-+]?\d+(,\d+)?", ",", None),
    (r"[-+]?\d{1,3}(\.\d{3})*(,\d+)?", ",", "."),
    (r"[-+]?\d{1,3}([ '’\u00a0\u202f]\d{3})*(,\d+)?", ",", " "),
)
_TRUTHS = (("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("nein", "ja"), ("non", "oui"))
_FREE_TEXT = 40
"""Texts longer than this on average are no categories."""


@dataclass(frozen=True)
class Guess:
    """PRIVATE: what a column seems to hold.

    Args:
        kind: the kind of column.
        marks: texts that seem to stand for empty cells.
        decimal: how its numbers are written.
        thousands: how its numbers are grouped.
        form: how its dates are written; None for ISO 8601.
        truths: the texts for false and true.
        stored_as: the type that the source states for it, where it is not the usual one of its kind.
        timezone: the zone that the source states for its moments.
        text: whether it seems to be free text or identifiers, of which no list of categories can be made.
    """

    kind: type[Column]
    marks: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str | None = None
    form: str | None = None
    truths: tuple[str, str] | None = None
    text: bool = False
    stored_as: CellType | None = None
    timezone: str | None = None


def guess(cells: Iterable[str]) -> Guess:
    """Guess from all texts of a column what it holds; one text that does not fit makes it a category."""
    counted = list(cells)
    distinct = set(counted)
    marks = tuple(mark for mark in MISSING_MARKS if mark in distinct)
    values = distinct - set(marks)
    if values:
        for pattern, decimal, thousands in _NUMBERS:
            if all(re.fullmatch(pattern, value) for value in values):
                mark = next((m for m in " '’\u00a0\u202f" if any(m in v for v in values)), None)
                return _number(values, marks, decimal, mark if thousands == " " else thousands)
        if all(map(_is_iso, values)):
            return Guess(Datetime, marks)
        for form in _FORMS:
            if all(isinstance(moment_from(value, (form,)), dt.datetime) for value in values):
                return Guess(Datetime, marks, form=form)
    return _words(counted, distinct)


def _number(values: set[str], marks: tuple[str, ...], decimal: str, thousands: str | None) -> Guess:
    plain = {value.replace(thousands or "\0", "").replace(decimal, ".") for value in values}
    numbers = {float(value) for value in plain}
    if numbers <= {0.0, 1.0}:
        return Guess(Binary, marks)
    whole = all(number.is_integer() for number in numbers)
    return Guess(Integer if whole else Continuous, marks, decimal, thousands)


def _is_iso(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return len(text) >= 8


def _words(cells: list[str], values: set[str]) -> Guess:
    marks = tuple(mark for mark in _TEXT_MARKS if mark in values)
    values = values - set(marks)
    lower = {value.casefold(): value for value in values}
    for no, yes in _TRUTHS:
        if set(lower) == {no, yes} and len(values) == 2:
            return Guess(Binary, marks, truths=(lower[no], lower[yes]))
    present = [cell for cell in cells if cell]
    many = len(values) > 20 and len(values) > len(present) / 2
    long = bool(values) and sum(map(len, values)) / len(values) > _FREE_TEXT
    return Guess(Categorical, marks, text=many or long)
