"""Tables from CSV and Parquet files, pandas frames and pyarrow tables.

With a schema, only its columns are read; discrete columns and dates stay text, so that "01" is not 1, and
numbers are parsed by pyarrow at its speed. Without a schema, numbers and dates are guessed from the
text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from understudy.data.records import Records
from understudy.errors import DataError
from understudy.records.columns import as_number
from understudy.schema import CodeSchema, Continuous, Integer, TableSchema

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

__all__ = ["CSV_SUFFIXES", "from_arrow", "from_frame", "header", "read_csv", "read_parquet"]

CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_Tabular = TableSchema | CodeSchema
_UNREADABLE = (pa.ArrowException, OSError, ValueError)


def from_frame(frame: pd.DataFrame, schema: _Tabular | None = None) -> Records:
    """Take a pandas frame as it is, after checking that it has rows and the columns of the schema."""
    names = [str(name) for name in frame.columns]
    _check_columns("the frame", names, schema)
    if len(frame) == 0:
        raise DataError("the frame has no rows; there is nothing to learn from")
    return Records(frame.set_axis(names, axis=1) if names != list(frame.columns) else frame)


def from_arrow(table: Any, schema: _Tabular | None = None, place: str = "the table") -> Records:
    """Take a pyarrow table; decimals become floats, and columns of lists or structs are refused."""
    _check_columns(place, table.column_names, schema)
    if table.num_rows == 0:
        raise DataError(f"{place} has columns but no rows; there is nothing to learn from")
    if isinstance(schema, TableSchema):
        table = table.select([column.name for column in schema.columns])
    for i, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            raise DataError(
                f"column {field.name!r} of {place} holds {field.type}; a cell must be one value. "
                "Unfold it, or leave it out of the schema."
            )
        if pa.types.is_decimal(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
    try:
        plain = table.replace_schema_metadata(
            None
        )  # what pandas noted there may be damaged, and is not needed
        return Records(plain.to_pandas(timestamp_as_object=False))
    except _UNREADABLE as cause:
        raise DataError(f"cannot read {place}: {cause}") from cause


def read_parquet(path: Path, schema: _Tabular | None = None) -> Records:
    """Read a Parquet file; only the columns of the schema when one is given."""
    _check_not_empty(path)
    try:
        with pa_parquet.ParquetFile(path) as file:
            _check_columns(str(path), file.schema_arrow.names, schema)
            wanted = [c.name for c in schema.columns] if isinstance(schema, TableSchema) else None
            table = file.read(columns=wanted)
    except _UNREADABLE as cause:
        raise DataError(f"cannot read {path} as Parquet: {cause}") from cause
    return from_arrow(table, schema, str(path))


def header(path: Path) -> list[tuple[str, Any]]:
    """Return the names and the pyarrow types of the columns of a CSV or Parquet file, and no value."""
    _check_not_empty(path)
    try:
        if path.suffix == ".parquet":
            found = pa_parquet.read_schema(path)
        else:
            with pa_csv.open_csv(path, parse_options=_parsing(path)) as reader:
                found = reader.schema
        names = found.names
    except UnicodeDecodeError as cause:
        raise DataError(f"the header of {path} is not UTF-8 text: {cause}. Save it as UTF-8.") from cause
    except _UNREADABLE as cause:
        raise DataError(f"cannot read {path}: {cause}") from cause
    _check_columns(str(path), names, None)
    return list(zip(names, found.types, strict=True))


def read_csv(path: Path, schema: _Tabular | None = None) -> Records:
    """Read a CSV file with a header (tabs between the cells if its name ends in .tsv; .gz is unpacked)."""
    _check_columns(str(path), [name for name, _ in header(path)], schema)
    try:
        table = _parse(path, schema, numbers=True)
    except _UNREADABLE as cause:
        if not isinstance(schema, TableSchema):
            raise DataError(f"cannot read {path} as CSV: {cause}") from cause
        return _explain(path, schema, cause)
    return from_arrow(table, schema, str(path))


def _explain(path: Path, schema: TableSchema, cause: Exception) -> Records:
    """Read every cell as text: either a cell that is not a number is found and named, or all can be used."""
    try:
        records = from_arrow(_parse(path, schema, numbers=False), schema, str(path))
    except _UNREADABLE:
        raise DataError(f"cannot read {path} as CSV: {cause}") from cause
    for column in schema.columns:
        if isinstance(column, Continuous | Integer):
            as_number(records.frame[column.name], column, schema.missing_text)
    return records


def _parse(path: Path, schema: _Tabular | None, *, numbers: bool) -> Any:
    options: dict[str, Any] = {}
    if isinstance(schema, TableSchema):
        types = {
            column.name: pa.float64() if numbers and isinstance(column, Continuous | Integer) else pa.string()
            for column in schema.columns
        }
        options = {
            "column_types": types,
            "include_columns": list(types),
            "null_values": list(schema.missing_text),
        }
    if isinstance(schema, CodeSchema) and schema.long is not None:  # so that "008" is not 8
        options = {"column_types": dict.fromkeys((schema.long.person, schema.long.code), pa.string())}
    convert = pa_csv.ConvertOptions(strings_can_be_null=True, true_values=[], false_values=[], **options)
    return pa_csv.read_csv(path, parse_options=_parsing(path), convert_options=convert)


def _parsing(path: Path) -> Any:
    return pa_csv.ParseOptions(delimiter="\t" if ".tsv" in path.name else ",", newlines_in_values=True)


def _check_not_empty(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as cause:
        raise DataError(
            f"cannot read {path}: {cause.strerror}. Check the path and its permissions."
        ) from cause
    if size == 0:
        raise DataError(f"{path} is empty; expected a header and rows")


def _check_columns(place: str, names: list[str], schema: _Tabular | None) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"{place} has {names.count(repeated[0])} columns named {repeated[0]!r}; rename them")
    if schema is None:
        return
    if isinstance(schema, CodeSchema):
        wanted = [schema.label.name] if schema.label else []
        label = schema.label.name if schema.label else None
    else:
        wanted, label = [column.name for column in schema.columns], schema.label
    for name in wanted:
        if name not in names:
            what = "label column" if name == label else "column"
            hint = " It seems to be separated by semicolons." if len(names) == 1 and ";" in names[0] else ""
            shown = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
            raise DataError(
                f"{place} has no {what} {name!r}, which the schema names; it has {shown}.{hint} "
                "Correct the header or the schema."
            )
