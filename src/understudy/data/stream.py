"""PRIVATE: tables that memory cannot hold, read batch by batch from Parquet, Arrow and text files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from understudy.data.codes import wide_batches
from understudy.data.formats import arrow_batches, column_types, row_groups
from understudy.data.places import TableKind, places_of
from understudy.data.read import read_long
from understudy.data.spelling import understood
from understudy.data.tables import check_columns, from_arrow, wanted_columns
from understudy.data.text import text_batches
from understudy.errors import DataError
from understudy.schema import CodeSchema, TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from understudy.data.places import Place
    from understudy.data.tables import Tabular
    from understudy.schema import Schema

__all__ = ["LongStream", "Stream", "stream_of"]

_ROW_BYTES = 8
"""A row of a long table takes at least so many bytes in its file."""
_PERSONS_AT_ONCE = 2**12
_TYPED = (*TableKind.PARQUET, *TableKind.ARROW)


@dataclass(frozen=True)
class Stream:
    """The files of one table, each read in batches.

    Args:
        places: the files.
        schema: what their rows look like.
    """

    places: tuple[Place, ...]
    schema: Tabular

    @property
    def bytes(self) -> int:
        """How large the files are together, as they are packed."""
        return sum(place.size for place in self.places)

    def pieces(self, least: int) -> tuple[Place, ...]:
        """The files; where they are fewer than so many, Parquet files by their groups of rows."""
        if len(self.places) >= least:
            return self.places
        return tuple(piece for place in self.places for piece in row_groups(place))

    def batches(self, place: Place) -> Iterator[pd.DataFrame]:
        """The rows of one file or piece, some at a time.

        Raises:
            DataError: it cannot be read, lacks what the schema names, or has no rows.
        """
        some = False
        for table in _tables(place, self.schema):
            if not table.num_rows:
                continue
            some = True
            for name, value in place.partitions:
                table = table.append_column(name, pa.array([value] * len(table), pa.string()))  # noqa: PLW2901
            frame = from_arrow(table, self.schema, str(place)).frame
            yield understood(frame, self.schema) if isinstance(self.schema, TableSchema) else frame
        if not some and place.group is None:
            raise DataError(f"{place} has columns but no rows; there is nothing to learn from")


@dataclass(frozen=True)
class LongStream:
    """A long table of codes: its rows are read whole, and become code sets some persons at a time.

    Args:
        places: the files.
        source: which name them.
        schema: with the columns of persons and codes.
    """

    places: tuple[Place, ...]
    source: str | Path
    schema: CodeSchema

    @property
    def bytes(self) -> int:
        """How large a matrix of persons and codes might be: every person has a row, which takes some bytes."""
        return sum(place.size for place in self.places) * len(self.schema.codes) // _ROW_BYTES

    def pieces(self, least: int) -> tuple[Place, ...]:
        """One, because the rows of a person may lie in any file."""
        del least
        return self.places[:1]

    def batches(self, place: Place) -> Iterator[pd.DataFrame]:
        """All code sets, some at a time; the cells of codes in text tell their types only when all are seen."""
        del place
        long, frame = self.schema.long, read_long(self.source, self.schema)
        assert long is not None
        if not {long.person, long.code} <= set(frame.columns):
            yield frame
            return
        yield from wide_batches(
            frame, self.schema, person=long.person, code=long.code, at_once=_PERSONS_AT_ONCE
        )


def stream_of(source: Any, schema: Schema) -> Stream | LongStream | None:
    """The stream of a path, pattern or address; None if rows must be seen together, or are in no such file.

    The cells of codes as text tell their types only when all of them are seen.
    """
    if not isinstance(source, str | Path) or not isinstance(schema, TableSchema | CodeSchema):
        return None
    if isinstance(schema, CodeSchema) and (schema.person_columns or schema.code_columns):
        return None
    if isinstance(schema, CodeSchema) and schema.long is not None:
        found = places_of(source)
        return LongStream(tuple(found), source, schema) if found else None
    kinds = (*TableKind.TEXT, *_TYPED) if isinstance(schema, TableSchema) else _TYPED
    places = places_of(source)
    if not places or any(place.ending not in kinds for place in places):
        return None
    return Stream(tuple(places), schema)


def _tables(place: Place, schema: Tabular) -> Iterator[Any]:
    if place.ending in TableKind.TEXT:
        assert isinstance(schema, TableSchema)
        return text_batches(place, schema)
    names = column_types(place).names
    check_columns(str(place), [*names, *(name for name, _ in place.partitions)], schema)
    return arrow_batches(place, wanted_columns(schema, names))
