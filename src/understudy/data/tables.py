"""Tables in memory: pandas frames, pyarrow tables, and whatever else speaks Arrow, such as polars."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa

from understudy.data.records import Records
from understudy.errors import DataError
from understudy.records.names import shown
from understudy.schema import CodeSchema, TableSchema

__all__ = [
    "UNREADABLE",
    "Tabular",
    "as_arrow",
    "check_columns",
    "from_arrow",
    "from_frame",
    "to_frame",
    "wanted_columns",
]

Tabular: TypeAlias = TableSchema | CodeSchema
UNREADABLE = (pa.ArrowException, OSError, ValueError)
"""What pyarrow raises when a file or a table is not what it should be. Its messages may hold cells."""


def from_frame(frame: pd.DataFrame, schema: Tabular | None = None) -> Records:
    """Take a pandas frame as it is, after checking that it has rows and the columns of the schema."""
    names = [str(name) for name in frame.columns]
    check_columns("the frame", names, schema)
    if len(frame) == 0:
        raise DataError("the frame has no rows; there is nothing to learn from")
    return Records(frame.set_axis(names, axis=1) if names != list(frame.columns) else frame)


def from_arrow(table: Any, schema: Tabular | None = None, place: str = "the table") -> Records:
    """Take a pyarrow table; decimals become floats, and columns of lists or structs are refused."""
    check_columns(place, table.column_names, schema)
    if table.num_rows == 0:
        raise DataError(f"{place} has columns but no rows; there is nothing to learn from")
    table = table.select(wanted_columns(schema, table.column_names))
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
        return Records(to_frame(plain))
    except UNREADABLE as cause:
        raise DataError(f"cannot read {place}", str(cause)) from None


_WHOLE: dict[Any, Any] = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}


def to_frame(table: Any) -> pd.DataFrame:
    """A pyarrow table as a frame in which one empty cell changes nothing about the others.

    As pandas would have it, a column of whole numbers with an empty cell becomes one of floats, and numbers beyond 2^53
    lose digits: one row would decide how all others are read.
    """
    frame: pd.DataFrame = table.to_pandas(types_mapper=_WHOLE.get, timestamp_as_object=False)
    return frame


def as_arrow(source: Any) -> Any:
    """A pyarrow table of whatever speaks Arrow; views of text become plain text."""
    if not hasattr(source, "__arrow_c_stream__"):
        raise DataError(
            f"cannot read records from a {type(source).__name__}; give a path, a frame, a table or a list of these"
        )
    table = source if isinstance(source, pa.Table) else pa.RecordBatchReader.from_stream(source).read_all()
    for i, field in enumerate(table.schema):
        if field.type == pa.string_view():
            table = table.set_column(i, field.name, table.column(i).cast(pa.string()))
    return table


def wanted_columns(schema: Tabular | None, names: list[str]) -> list[str]:
    """Which of these columns are read: those that the schema names, or all where it does not tell."""
    if isinstance(schema, TableSchema):
        present = set(names)
        declared = (*schema.person_columns, *(column.name for column in schema.columns))
        return [name for name in declared if name in present]
    if isinstance(schema, CodeSchema) and schema.long is not None:
        pair = [schema.long.person, schema.long.code]
        label = [schema.label.name] if schema.label else []
        persons = [name for name in schema.person_columns if name in names]
        return list(dict.fromkeys([*persons, *pair, *label])) if set(pair) <= set(names) else names
    if isinstance(schema, CodeSchema) and set(schema.code_columns) & set(names):
        label = [schema.label.name] if schema.label else []
        persons = [name for name in schema.person_columns if name in names]
        return list(dict.fromkeys([*persons, *schema.code_columns, *label]))
    return names


def check_columns(place: str, names: list[str], schema: Tabular | None, *, public: bool = True) -> None:
    """Refuse names that occur twice, and a table without what the schema names.

    Args:
        place: where the table is from.
        names: of its columns.
        schema: what it should have.
        public: whether names are those of a header; keys of JSON objects are part of private records.
    """
    present = Counter(name for name in names if name)
    repeated = next((name for name, count in present.items() if count > 1), None)
    if repeated is not None:
        first, second = [i for i, name in enumerate(names, 1) if name == repeated][:2]
        raise DataError(f"columns {first} and {second} of {place} have the same name; rename one")
    if schema is None:
        return
    if isinstance(schema, CodeSchema):
        listed = schema.code_columns if set(schema.code_columns) & set(names) else ()
        wanted = [*listed, *([schema.label.name] if schema.label else [])]
        label = schema.label.name if schema.label else None
    else:
        wanted, label = [column.name for column in schema.columns], schema.label
    for name in wanted:
        if name not in present:
            what = "label column" if name == label else "column"
            found = f"it has {shown(names)}"
            raise DataError(
                f"{place} has no {what} {name!r}, which the schema names{f'; {found}' if public else ''}. "
                "Correct the header or the schema; for a file without header set header = false and names = [...] in "
                "its table [file].",
                None if public else found,
            )
