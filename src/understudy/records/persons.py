"""PRIVATE: which records belong to one person, as numbers that mean nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from understudy.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["person_numbers"]


def person_numbers(
    columns: pd.DataFrame | Mapping[str, Any], names: Sequence[str], missing: Sequence[str] = ("",)
) -> NDArray[np.int64] | None:
    """A number for each record, equal where all the named columns are; None if there is nothing to tell persons apart.

    Texts are compared without spaces around them and whole numbers without their fraction, so that one person is
    rather taken for another than split in two, which would weaken the promise.

    Args:
        columns: columns or arrays by name.
        names: those that tell persons apart.
        missing: texts that mean an empty cell.

    Raises:
        DataError: a record belongs to nobody.
    """
    if not names or not set(names) <= set(columns):
        return None
    numbers: NDArray[np.int64] | None = None
    for name in names:
        codes, found = _told_apart(pd.Series(columns[name]), missing)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0)) + 1
            raise DataError(
                f"column {name!r}, row {row}: the cell is empty; every record must belong to a person"
            )
        numbers = codes if numbers is None else pd.factorize(numbers * found + codes)[0].astype(np.int64)
    return numbers


def _told_apart(column: pd.Series[Any], missing: Sequence[str]) -> tuple[NDArray[np.int64], int]:
    """For each cell the number of its value, -1 for none, and how many values there are."""
    codes, values = pd.factorize(column)
    if column.dtype.kind in "iub":
        return codes.astype(np.int64), len(values)
    texts = [_plain(value) for value in values]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    known = np.array([-1 if text in missing else numbers[text] for text in texts] + [-1], dtype=np.int64)
    return known[codes], len(numbers)


def _plain(value: object) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()
