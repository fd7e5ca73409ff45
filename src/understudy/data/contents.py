"""What a source holds before anybody has described it: names and types, or cells as text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from understudy.data.databases import Database
from understudy.data.dialect import dialect_of
from understudy.data.formats import arrow_table, column_types, read_excel, read_json
from understudy.data.places import Place, TableKind, places_of
from understudy.data.tables import as_arrow, to_frame
from understudy.data.text import read_cells
from understudy.errors import DataError

if TYPE_CHECKING:
    from understudy.schema import FileFormat

__all__ = ["Contents", "contents_of", "names_of"]

_ROWS = 20_000
"""Rows that a guess looks at."""


@dataclass(frozen=True, eq=False)
class Contents:
    """PRIVATE but for name, basis, types and file, and the names of columns where they are public.

    Args:
        name: what to call the source.
        basis: the public part that names and types are from.
        file: how it is written: as declared, completed by the header line.
        types: the pyarrow schema that the source states, or None where it states none.
        cells: all cells as text, where types are not stated.
        frame: the rows, where types are stated and all rows were asked for.
        named_by_rows: whether the names of columns are keys that stand in single records.
    """

    name: str
    basis: str
    file: FileFormat
    types: Any = None
    cells: pd.DataFrame | None = None
    frame: pd.DataFrame | None = None
    named_by_rows: bool = False

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return list(self.types.names) if self.cells is None else list(self.cells.columns)


def contents_of(source: Any, file: FileFormat, *, whole: bool) -> Contents:
    """Look into a table.

    Args:
        source: a path, pattern, address, frame or table.
        file: how text files are written, as far as it was declared.
        whole: whether all rows are needed, because they are public, or only what tells names and types.
    """
    if isinstance(source, pd.DataFrame):
        named = source.rename(columns=str)
        return Contents("the frame", "the types of its columns", file, _frame_types(named), frame=named)
    if isinstance(source, Database) and not source.states_types:
        cells = source.frame().map(_as_text)
        return Contents(
            str(source), "the names of the query's answer", file, cells=cells if whole else cells.head(_ROWS)
        )
    if isinstance(source, Database):
        frame = to_frame(source.table()) if whole else None
        return Contents(str(source), "the types of the query's answer", file, source.types, frame=frame)
    if not isinstance(source, str | Path):
        table = as_arrow(source)
        frame = to_frame(table) if whole else None
        return Contents("the table", "the types of its columns", file, table.schema, frame=frame)
    places = places_of(source)
    if not places:
        raise DataError(
            f"cannot draft a schema for {source}: give a table (.csv, .tsv, .txt, .data, .jsonl, .parquet, .arrow, "
            ".xlsx), .npz, IDX or a folder of images"
        )
    name = Path(str(source)).name
    if places[0].ending in (*TableKind.PARQUET, *TableKind.ARROW):
        frame = pd.concat([to_frame(arrow_table(place)) for place in places]) if whole else None
        return Contents(name, "the types that it states", file, column_types(places[0]), frame=frame)
    cells, file = _cells(places[0], file)
    if whole and len(places) > 1:
        cells = pd.concat([cells, *(_cells(place, file)[0] for place in places[1:])], ignore_index=True)
    keys = places[0].ending in TableKind.JSON
    basis = "the keys of its records" if keys else "its header"
    return Contents(name, basis, file, cells=cells if whole else cells.head(_ROWS), named_by_rows=keys)


def names_of(source: Any, file: FileFormat) -> list[str] | None:
    """The names of all columns of a source, also of those that a schema does not name; None if it is no table."""
    if isinstance(source, pd.DataFrame):
        return [str(name) for name in source.columns]
    if isinstance(source, Database):
        return list(source.types.names if source.states_types else source.frame().columns)
    places = places_of(source) if isinstance(source, str | Path) else None
    if not places:
        return None
    place = places[0]
    partitions = [name for name, _ in place.partitions]
    if place.ending in TableKind.TEXT:
        return [*dialect_of(place, file).names, *partitions]
    if place.ending in (*TableKind.PARQUET, *TableKind.ARROW):
        return [*column_types(place).names, *partitions]
    return [*_cells(place, file)[0].columns, *partitions]


def _cells(place: Place, file: FileFormat) -> tuple[pd.DataFrame, FileFormat]:
    if place.ending in TableKind.TEXT:
        cells, dialect = read_cells(place, file)
        usual = "\t" if place.ending in (".tsv", ".tab") else ","
        separator = dialect.separator if dialect.separator != usual else file.separator
        encoding = file.encoding if dialect.encoding in ("utf-8", "utf-8-sig") else dialect.encoding
        return _with_partitions(cells, place), replace(file, separator=separator, encoding=encoding)
    frame = read_json(place) if place.ending in TableKind.JSON else read_excel(place, file)
    return _with_partitions(frame.map(_as_text), place), file


def _with_partitions(cells: pd.DataFrame, place: Place) -> pd.DataFrame:
    return cells.assign(**{name: value or "" for name, value in place.partitions})


def _as_text(value: object) -> str:
    if value is None or value != value:  # noqa: PLR0124 - NaN is the one value that differs from itself
        return ""
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def _frame_types(frame: pd.DataFrame) -> Any:
    """The types that pandas states, without a look at the values of columns that hold any object."""
    return pa.schema([pa.field(str(name), _arrow_type(dtype)) for name, dtype in frame.dtypes.items()])


def _arrow_type(dtype: Any) -> Any:
    if isinstance(dtype, pd.ArrowDtype):
        return dtype.pyarrow_dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return pa.dictionary(pa.int32(), pa.string())
    if isinstance(dtype, pd.DatetimeTZDtype):
        return pa.timestamp("s", tz=str(dtype.tz))
    if dtype.kind == "M":
        return pa.timestamp("s")
    plain = getattr(dtype, "numpy_dtype", dtype)
    return pa.from_numpy_dtype(plain) if plain.kind in "biuf" else pa.string()
