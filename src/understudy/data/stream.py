"""PRIVATE: tables that memory cannot hold, read batch by batch from Parquet, Arrow and text files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from understudy.data.formats import arrow_batches, column_types, row_groups
from understudy.data.places import TableKind, places_of
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

__all__ = ["Stream", "stream_of"]

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

    @property
    def pieces(self) -> tuple[Place, ...]:
        """The files in pieces that can be read apart: Parquet files by their groups of rows."""
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


def stream_of(source: Any, schema: Schema) -> Stream | None:
    """The stream of a path, pattern or address; None if rows must be seen together, or are in no such file.

    Long tables of codes, and tables whose schema names persons, are put together from rows that may lie anywhere. The
    cells of codes as text tell their types only when all of them are seen.
    """
    if not isinstance(source, str | Path) or not isinstance(schema, TableSchema | CodeSchema):
        return None
    if schema.person_columns or (isinstance(schema, CodeSchema) and schema.long is not None):
        return None
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
