"""Sets of codes per person, from long tables with one row per (person, code) or from columns such as DX1 to DX20."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from understudy.data.records import Records
from understudy.errors import DataError
from understudy.records.names import shown
from understudy.records.persons import person_numbers
from understudy.schema import UnknownCodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from understudy.schema import CodeSchema

__all__ = ["code_texts", "from_columns", "from_long", "icd9_category", "wide_batches"]


def from_long(frame: pd.DataFrame, schema: CodeSchema, *, person: str, code: str) -> Records:
    """Count the codes of each person: one row per person, one column per code of the schema.

    Where the schema names `person` columns, `person` here tells records of one person apart, such as visits, and the
    columns of the schema are kept beside the codes.

    Args:
        frame: one row per (person, code); rows without a code are kept as persons without codes.
        schema: which codes are told apart, and what to do with others. Its label, if any, is taken from the
            column of that name in the person's first row.
        person: the column that identifies persons; it is not kept.
        code: the column with the codes.
    """
    (wide,) = wide_batches(frame, schema, person=person, code=code, at_once=max(1, len(frame)))
    return Records(wide)


def wide_batches(
    frame: pd.DataFrame, schema: CodeSchema, *, person: str, code: str, at_once: int
) -> Iterator[pd.DataFrame]:
    """The rows of `from_long`, some persons at a time, so that there is never one matrix of all persons and codes."""
    for name in (person, code, *([schema.label.name] if schema.label else [])):
        if name not in frame.columns:
            raise DataError(f"the table has no column {name!r}; it has {shown(list(frame.columns))}")
    persons = [name for name in schema.person_columns if name in frame.columns]
    rows = person_numbers(frame, tuple(dict.fromkeys((*persons, person))))
    assert rows is not None
    columns = _places_of_codes(frame[code], schema)
    kept = {
        name: frame.groupby(rows, sort=True)[name].first().to_numpy()
        for name in (*persons, *([schema.label.name] if schema.label else []))
    }
    order = np.argsort(rows, kind="stable")
    rows, columns = rows[order], columns[order]
    count = int(rows[-1]) + 1
    for start in range(0, count, at_once):
        stop = min(start + at_once, count)
        own = slice(*np.searchsorted(rows, [start, stop]))
        counts = np.zeros((stop - start, len(schema.codes)), dtype=np.uint16)
        listed = columns[own] >= 0
        np.add.at(counts, (rows[own][listed] - start, columns[own][listed]), 1)
        wide = pd.DataFrame(np.minimum(counts, schema.max_count), columns=list(schema.codes))
        for name, values in kept.items():
            wide[name] = values[start:stop]
        yield wide


def from_columns(frame: pd.DataFrame, schema: CodeSchema) -> Records:
    """Count the codes of each row, which stand in the cells of several columns, in any order; empty cells are none.

    Args:
        frame: one row per record.
        schema: which columns hold codes, which codes are told apart, and what to do with others.
    """
    counts = np.zeros((len(frame), len(schema.codes)), dtype=np.uint16)
    for name in schema.code_columns:
        texts = code_texts(frame[name])
        columns = _places_of_codes(texts.mask(texts.str.strip() == "").rename(name), schema)
        rows = np.flatnonzero(columns >= 0)
        counts[rows, columns[rows]] += 1  # a row has one cell in a column
    wide = pd.DataFrame(np.minimum(counts, schema.max_count), columns=list(schema.codes))
    for name in (*schema.person_columns, *([schema.label.name] if schema.label else [])):
        if name in frame.columns:
            wide[name] = frame[name].to_numpy()
    return Records(wide)


def _places_of_codes(codes: pd.Series[Any], schema: CodeSchema) -> NDArray[np.int64]:
    """For each cell the place of its code in the schema; -1 for none, and for those that are dropped."""
    texts = code_texts(codes)
    columns = pd.Index(schema.codes).get_indexer(pd.Index(texts.fillna("")))
    strangers = np.flatnonzero((columns < 0) & texts.notna().to_numpy(dtype=bool))
    if len(strangers) and schema.unknown is UnknownCodes.REFUSE:
        place = f"column {codes.name!r}, row {strangers[0] + 1}: the code"
        raise DataError(
            f'{place} is not in the schema. Add it, or set unknown = "drop".',
            f"{place} is {texts.iloc[strangers[0]]!r}; {len(strangers)} rows hold such codes.",
        )
    return columns


def code_texts(codes: Any) -> Any:
    """Return codes as text: whole numbers without a fraction, as in OMOP's concept ids, and what is missing as such.

    Each cell by itself: how one is written does not depend on the others.
    """
    if codes.dtype.kind != "f" and codes.dtype != object:
        return codes.astype("string")
    return pd.Series([_code_text(one) for one in codes], index=codes.index, dtype="string")


def _code_text(code: Any) -> str | None:
    if pd.isna(code):
        return None
    if isinstance(code, float | np.floating) and float(code).is_integer():
        return str(int(code))
    return str(code)


def icd9_category(codes: pd.Series[Any]) -> pd.Series[Any]:
    """Return the three-digit ICD-9 category of each code ("250.83" → "250", "8" → "008", "V27.1" → "V27")."""
    stem = codes.astype("string").str.replace(r"\..*", "", regex=True)
    return stem.mask(stem.str.isdigit().fillna(False), stem.str.zfill(3))
