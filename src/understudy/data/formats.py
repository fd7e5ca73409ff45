"""Tables from Parquet, Arrow, JSON lines and Excel files, and the choice between all kinds by the ending."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from understudy.data.bounds import CELL_WEIGHT, refuse_swollen, with_plain_texts
from understudy.data.dialect import refuse_data_like
from understudy.data.places import TableKind
from understudy.data.records import Records
from understudy.data.tables import UNREADABLE, check_columns, from_arrow, from_frame, wanted_columns
from understudy.data.text import read_text
from understudy.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from understudy.data.places import Place
    from understudy.data.tables import Tabular
    from understudy.schema import FileFormat

__all__ = [
    "arrow_batches",
    "arrow_table",
    "column_types",
    "read_excel",
    "read_json",
    "read_table_file",
    "row_groups",
]

BATCH_ROWS = 2**16
"""Rows that are read at a time where a table is not read whole."""


def read_table_file(place: Place, schema: Tabular) -> Records:
    """Read one file; only the columns of the schema, and those that the names of its folders tell."""
    notes: tuple[str, ...] = ()
    frame: pd.DataFrame | None = None
    if place.ending in TableKind.TEXT:
        table, notes = read_text(place, schema)
    elif place.ending in TableKind.JSON:
        frame = read_json(place)
    elif place.ending in TableKind.EXCEL:
        frame = read_excel(place, schema.file)
    else:
        table = _columnar(place, schema)
    if frame is not None:
        for name, value in place.partitions:
            frame[name] = value
        check_columns(str(place), list(frame.columns), schema, public=place.ending not in TableKind.JSON)
        return from_frame(frame[wanted_columns(schema, list(frame.columns))], schema)
    for name, value in place.partitions:
        table = table.append_column(name, pa.array([value] * len(table), pa.string()))
    return Records(from_arrow(table, schema, str(place)).frame, notes)


def column_types(place: Place) -> Any:
    """Return the pyarrow schema that a Parquet or Arrow file states: its metadata, and no value."""
    try:
        if place.ending in TableKind.PARQUET:
            import pyarrow.parquet as pa_parquet

            with place.random() as file:
                return pa_parquet.read_schema(file)
        with _arrow(place) as reader:
            return reader.schema
    except UNREADABLE as cause:
        raise DataError(f"cannot read {place}", str(cause)) from None


def _columnar(place: Place, schema: Tabular) -> Any:
    names = column_types(place).names
    check_columns(str(place), [*names, *(name for name, _ in place.partitions)], schema)
    return arrow_table(place, wanted_columns(schema, names))


def arrow_table(place: Place, columns: list[str] | None = None) -> Any:
    """Read these columns, or all, of a Parquet or Arrow file."""
    try:
        if place.ending in TableKind.PARQUET:
            import pyarrow.parquet as pa_parquet

            kinds = (pa.string(), pa.large_string())
            texts = [field.name for field in column_types(place) if field.type in kinds]
            with place.random() as source, pa_parquet.ParquetFile(source, read_dictionary=texts) as file:
                return with_plain_texts(file.read(columns=columns), set(texts), place.size, str(place))
        with _arrow(place) as reader:
            table = reader.read_all()
            return table if columns is None else table.select(columns)
    except UNREADABLE as cause:
        kind = "Parquet" if place.ending in TableKind.PARQUET else "Arrow"
        raise DataError(f"cannot read {place} as {kind}", str(cause)) from None


def arrow_batches(place: Place, columns: list[str]) -> Iterator[Any]:
    """These columns of a Parquet or Arrow file as tables of some rows each."""
    try:
        if place.ending in TableKind.PARQUET:
            import pyarrow.parquet as pa_parquet

            with place.random() as source, pa_parquet.ParquetFile(source, pre_buffer=False) as file:
                groups = None if place.group is None else [place.group]
                for batch in file.iter_batches(BATCH_ROWS, groups, columns):
                    yield pa.Table.from_batches([batch])
            return
        with _arrow(place) as reader:
            whole = isinstance(reader, pa.ipc.RecordBatchFileReader)
            found = map(reader.get_batch, range(reader.num_record_batches)) if whole else iter(reader)
            for batch in found:
                table = pa.Table.from_batches([batch]).select(columns)
                for start in range(0, len(table), BATCH_ROWS):
                    yield table.slice(start, BATCH_ROWS)
    except UNREADABLE as cause:
        raise DataError(f"cannot read {place}", str(cause)) from None


def row_groups(place: Place) -> list[Place]:
    """The groups of rows of a Parquet file; any other file, and one without groups, as it is."""
    if place.ending not in TableKind.PARQUET:
        return [place]
    import pyarrow.parquet as pa_parquet

    try:
        with place.random() as source:
            count = pa_parquet.read_metadata(source).num_row_groups
    except UNREADABLE as cause:
        raise DataError(f"cannot read {place}", str(cause)) from None
    return [replace(place, group=number) for number in range(count)] or [place]


def _arrow(place: Place) -> Any:
    """A reader of an Arrow file, or of an Arrow stream that was written to a file."""
    from pyarrow import ipc

    try:
        return ipc.open_file(place.random())
    except pa.ArrowInvalid:
        return ipc.open_stream(place.random())


def read_json(place: Place) -> pd.DataFrame:
    """Read a file with one JSON object per line; keys that a line lacks are empty cells."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    try:
        text = place.content().decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise DataError(f"cannot read {place} as JSON lines in UTF-8", str(cause)) from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise DataError(f"{place}, line {number} is not a JSON object; expected one per line", line[:200])
        rows.append(row)
    if not rows:
        raise DataError(f"{place} has no rows; there is nothing to learn from")
    names = list(dict.fromkeys(name for row in rows for name in row))
    refuse_swollen(len(names) * len(rows) * CELL_WEIGHT, place.size, str(place))
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names})


def read_excel(place: Place, file: FileFormat) -> pd.DataFrame:
    """Read one sheet of an Excel file, its first row as names unless declared otherwise."""
    import pandas as pd

    try:
        import openpyxl
    except ImportError:
        raise DataError(
            f"{place}: Excel files need openpyxl; install understudy[excel], or save the sheet as CSV"
        ) from None
    try:
        with place.random() as source:
            book = openpyxl.load_workbook(source, read_only=True, data_only=True)
            sheet = book.worksheets[0] if file.sheet is None else book[file.sheet]
            rows, cells = [], 0
            for row in sheet.iter_rows(values_only=True):
                if any(cell is not None for cell in row):
                    rows.append(list(row))
                    cells += len(row)
                    refuse_swollen(cells * CELL_WEIGHT, place.size, str(place))
    except DataError:
        raise
    except Exception as cause:  # noqa: BLE001 - openpyxl raises whatever its XML and zip readers raise
        sheet = "" if file.sheet is None else f" with a sheet {file.sheet!r}"
        raise DataError(f"cannot read {place} as an Excel file{sheet}", str(cause)) from None
    if not rows:
        raise DataError(f"{place} is empty; expected a header and rows")
    names = list(file.names)
    if file.header is not False:
        names = ["" if cell is None else str(cell).strip() for cell in rows.pop(0)]
        if file.header is None:
            refuse_data_like(place, names)
    if any(len(row) > len(names) for row in rows):
        raise DataError(f"{place} has cells beyond its {len(names)} named columns; name them or remove them")
    named = {
        name or f"(column {i + 1})": [row[i] if i < len(row) else None for row in rows]
        for i, name in enumerate(names)
    }
    return pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in named.items()})
