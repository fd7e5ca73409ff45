"""Tables from text files: cells between separators, as spreadsheets, statistics packages and registers write them.

With a schema only its columns are read; discrete columns and dates stay text, so that "01" is not 1, and numbers
are parsed by pyarrow at its speed. No message shows a cell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from understudy.data.dialect import Dialect, check_header, dialect_of
from understudy.data.tables import UNREADABLE, check_columns
from understudy.errors import DataError
from understudy.schema import CodeSchema, Continuous, FileFormat, Integer, TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from understudy.data.places import Place
    from understudy.data.tables import Tabular

__all__ = ["read_cells", "read_text", "text_batches"]

_BLOCK = 2**23
"""Bytes of text that are parsed at a time where a table is not read whole."""


def read_text(place: Place, schema: Tabular) -> tuple[Any, tuple[str, ...]]:
    """Return the schema's columns of a text file as a pyarrow table, and what was taken from its header."""
    dialect, types = _asked(place, schema)
    if isinstance(schema, CodeSchema):
        return _parsed(place, dialect, schema.file, types, None, None), dialect.notes
    try:
        table = _parsed(place, dialect, schema.file, types, list(types), schema.missing_text)
    except DataError as problem:
        if not isinstance(problem.__context__, pa.ArrowInvalid):
            raise
        table = _parsed(place, dialect, schema.file, _as_text(types), list(types), schema.missing_text)
    return _trimmed(table, schema), dialect.notes


def text_batches(place: Place, schema: TableSchema) -> Iterator[Any]:
    """The schema's columns of a text file as pyarrow tables of some rows each."""
    dialect, types = _asked(place, schema)
    done = 0
    try:
        for table in _parsed_batches(place, dialect, schema, types):
            yield _trimmed(table, schema)
            done += len(table)
    except DataError as problem:
        if not isinstance(problem.__context__, pa.ArrowInvalid):
            raise
        for table in _parsed_batches(place, dialect, schema, _as_text(types)):
            fresh = table.slice(min(done, len(table)))
            done -= len(table) - len(fresh)
            yield _trimmed(fresh, schema)


def _as_text(types: dict[str, str]) -> dict[str, str]:
    """All as text: where pyarrow cannot read a number, the encoder knows its row, or can read it."""
    return dict.fromkeys(types, "text")


def _asked(place: Place, schema: Tabular) -> tuple[Dialect, dict[str, str]]:
    """How a file is written, and the types of the columns that are named in the schema."""
    file = schema.file
    dialect = dialect_of(place, file)
    if isinstance(schema, TableSchema):
        check_header(place, dialect, file, [column.name for column in schema.columns])
    partitions = [name for name, _ in place.partitions]
    check_columns(str(place), [*dialect.names, *partitions], schema)
    if isinstance(schema, CodeSchema):
        long = () if schema.long is None else (schema.long.person, schema.long.code)
        return dialect, dict.fromkeys((*long, *schema.code_columns, *schema.person_columns), "text")
    types = {
        column.name: "number"
        if isinstance(column, Continuous | Integer) and file.thousands is None
        else "text"
        for column in schema.columns
        if column.name not in partitions
    }
    types |= {name: "text" for name in schema.person_columns if name in dialect.names}
    return dialect, types


def read_cells(place: Place, file: FileFormat) -> tuple[pd.DataFrame, Dialect]:
    """Return all cells as text without spaces around them, and how the file is written."""
    dialect = dialect_of(place, file)
    check_header(place, dialect, file, dialect.names)
    table = _parsed(place, dialect, file, dict.fromkeys(_columns(dialect), "text"), None, ())
    return _trimmed(table, None).to_pandas(), dialect


def _columns(dialect: Dialect) -> list[str]:
    """The names, with a stand-in for those that are empty."""
    return [name or f"(column {position})" for position, name in enumerate(dialect.names, 1)]


def _parsed(
    place: Place,
    dialect: Dialect,
    file: FileFormat,
    types: dict[str, str],
    include: list[str] | None,
    empty: tuple[str, ...] | None,
) -> Any:
    convert = _converting(file, types, include, empty)
    try:
        return _read_csv(place, dialect, file, convert, skip_rows_after_names=_header_rows(file))
    except UNREADABLE as cause:
        _refuse(place, dialect, file, cause)


def _parsed_batches(
    place: Place, dialect: Dialect, schema: TableSchema, types: dict[str, str]
) -> Iterator[Any]:
    file = schema.file
    convert = _converting(file, types, list(types), schema.missing_text)
    source, encoding, separator = _source(place, dialect, file)
    try:
        with source as stream:
            reading, parsing = _written(
                dialect,
                file,
                encoding,
                separator,
                skip_rows_after_names=_header_rows(file),
                block_size=_BLOCK,
            )
            for batch in pa_csv.open_csv(stream, reading, parsing, convert):
                yield pa.Table.from_batches([batch])
    except UNREADABLE as cause:
        _refuse(place, dialect, file, cause)


def _converting(
    file: FileFormat, types: dict[str, str], include: list[str] | None, empty: tuple[str, ...] | None
) -> Any:
    arrow = {"text": pa.string(), "number": pa.float64()}
    nulls = {} if empty is None else {"null_values": list(empty)}
    return pa_csv.ConvertOptions(
        column_types={name: arrow[kind] for name, kind in types.items()},
        include_columns=include or [],
        strings_can_be_null=True,
        true_values=[],
        false_values=[],
        decimal_point=file.decimal,
        **nulls,
    )


def _header_rows(file: FileFormat) -> int:
    return 0 if file.header is False else 1


def _written(
    dialect: Dialect, file: FileFormat, encoding: str, separator: str, **reading: Any
) -> tuple[Any, Any]:
    """How pyarrow is told that a file is written so."""
    return (
        pa_csv.ReadOptions(column_names=_columns(dialect), encoding=encoding, **reading),
        pa_csv.ParseOptions(delimiter=separator, quote_char=file.quote, newlines_in_values=True),
    )


def _read_csv(place: Place, dialect: Dialect, file: FileFormat, convert: Any = None, **reading: Any) -> Any:
    source, encoding, separator = _source(place, dialect, file)
    with source as stream:
        return pa_csv.read_csv(stream, *_written(dialect, file, encoding, separator, **reading), convert)


def _refuse(place: Place, dialect: Dialect, file: FileFormat, cause: Exception) -> NoReturn:
    """Say in public what is wrong with the file, and keep what pyarrow says of its cells apart."""
    text = str(cause)
    if isinstance(cause, UnicodeError) or "invalid UTF8" in text:
        raise DataError(
            f"{place} is not {dialect.encoding} text throughout. Say how it is written in the table [file] of the "
            'schema (or by --encoding), for instance encoding = "latin-1".',
            text,
        ) from None
    row = _ragged_row(place, dialect, file) if "Expected" in text else None
    if row is not None:
        raise DataError(
            f"{place}, row {row}: it has more or fewer cells than the {len(dialect.names)} columns of the file. Check "
            "separator and quotes.",
            text,
        ) from None
    raise DataError(f"cannot read {place} as text with separators", text) from None


def _ragged_row(place: Place, dialect: Dialect, file: FileFormat) -> int | None:
    """The first row with another number of cells; pyarrow names it when it reads in one thread."""
    try:
        _read_csv(place, dialect, file, use_threads=False)
    except UNREADABLE as cause:
        row = re.search(r"Row #(\d+): Expected", str(cause))
        return None if row is None else int(row[1]) - (file.header is not False)
    return None


def _source(place: Place, dialect: Dialect, file: FileFormat) -> tuple[Any, str, str]:
    """The bytes, their encoding and separator; comments and runs of blanks are dealt with beforehand."""
    if file.comment is None and dialect.separator != " ":
        return place.stream(), dialect.encoding, dialect.separator
    text = place.content().decode(dialect.encoding)
    if file.comment is not None:
        text = re.sub(rf"^{re.escape(file.comment)}.*(\r?\n|$)", "", text, flags=re.MULTILINE)
    if dialect.separator != " ":
        return pa.BufferReader(text.encode()), "utf-8", dialect.separator
    blanks = re.compile(f"{file.quote}[^{file.quote}]*{file.quote}|[ \t]+")
    lines = [blanks.sub(_tab, line.strip()) for line in text.splitlines()]
    return pa.BufferReader("\n".join(lines).encode()), "utf-8", "\t"


def _tab(match: re.Match[str]) -> str:
    return "\t" if match[0].isspace() else match[0]


def _trimmed(table: Any, schema: TableSchema | None) -> Any:
    """Texts without spaces around them, unless the schema declares values with such spaces."""
    spaced = {
        column.name
        for column in (schema.columns if schema else ())
        if any(value != value.strip() for value in getattr(column, "values", ()))
    }
    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type) and field.name not in spaced:
            table = table.set_column(i, field.name, pc.utf8_trim_whitespace(table.column(i)))
    return table
